"""Certificates for tests: an authority of one's own, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """file: its own certificate, PEM."""

    def __init__(self, folder: Path, name: str = "Test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        made = self._signed(self._name, self._key, days=30)
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        made = made.add_extension(constraint, critical=True).add_extension(SIGNS, critical=True)
        self.file = folder / "ca.pem"
        self.file.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def sign(self, *names: str, days: int = 30) -> tuple[Path, Path]:
        """Certificate and key for these names or addresses. days: below nought, it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._signed(_named(names[0]), key, days=days)
        also = x509.SubjectAlternativeName([_alternative(name) for name in names])
        made = made.add_extension(also, critical=False)
        file = self._folder / f"{names[0]}.{days}.pem"
        secret = file.with_suffix(".key")
        file.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return file, secret

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 60 * DAY)
            .not_valid_after(now + days * DAY)
            # Python 3.13 takes none without these.
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(made: x509.Certificate) -> bytes:
    return made.public_bytes(serialization.Encoding.PEM)

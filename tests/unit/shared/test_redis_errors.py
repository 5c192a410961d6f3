"""What TLS fails by is told in words, however deep the client has wrapped it; and files are named."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis.asyncio.connection import SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_shared import connect
from adsum_shared.redis_errors import WayError, describe, explained


def test_a_cause_that_the_client_has_wrapped_is_told() -> None:
    wrapped = RedisConnectionError("connecting")
    wrapped.__cause__ = WayError("no Sentinel answers. Start them.")

    assert describe(wrapped, "redis://h:1", "Kept.") == (
        "Redis at redis://h:1 is not reached: no Sentinel answers. Start them. Kept."
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("certificate verify failed: certificate has expired", "Renew it"),
        ("certificate verify failed: certificate is not yet valid", "clocks"),
        ("certificate verify failed: Hostname mismatch, certificate is", "subjectAltName"),
        ("certificate verify failed: IP address mismatch", "subjectAltName"),
        ("certificate verify failed: unable to get local issuer", "ADSUM_REDIS_CA"),
        ("certificate verify failed: self-signed certificate", "ADSUM_REDIS_CA"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "speaks no TLS"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED]", "ssl_certfile"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] something new", "something new"),
    ],
)
def test_what_tls_fails_by_is_told_with_its_next_step(text: str, told: str) -> None:
    error = RedisConnectionError(f"Error 1 connecting to h:1. {text} (_ssl.c:1006).")

    assert told in (explained(error) or "")


def test_any_other_error_is_none_of_these() -> None:
    assert explained(RedisConnectionError("Error 111 connecting to h:1.")) is None
    assert explained(None) is None


class Slow(SSLConnection):
    """Connects to what never answers."""

    async def _connect(self) -> None:
        raise TimeoutError


async def test_a_port_that_answers_no_tls_is_told() -> None:
    connection: Any = connect.honest(Slow)()

    with pytest.raises(RedisConnectionError) as failed:
        await connection.connect_check_health(retry_socket_connect=False)

    assert "whether that port speaks TLS" in (explained(failed.value) or "")


def described(**options: Any) -> Any:
    """As the library describes what is wanted of TLS."""
    preset = dict.fromkeys(
        ("ca_certs", "certfile", "keyfile", "password", "min_version", "ciphers")
    )
    checks = {"check_hostname": True, "cert_reqs": ssl.CERT_REQUIRED}
    return SimpleNamespace(**{**preset, **checks, **options})


def test_what_is_wanted_of_tls_holds_beside_ones_own_authority(tmp_path: Path) -> None:
    from tests.authorities import Authority

    authority = Authority(tmp_path)
    pem, key = authority.sign("localhost")
    more = {"min_version": ssl.TLSVersion.TLSv1_3, "ciphers": "ECDHE+AESGCM"}

    context = connect._context(
        described(ca_certs=authority.file, certfile=pem, keyfile=key, **more)
    )

    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("name", ["ca_certs", "certfile"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    from tests.authorities import Authority

    files = {"ca_certs": Authority(tmp_path).file, name: tmp_path / "missing.pem"}

    with pytest.raises(WayError, match=r"missing\.pem.*No such file.*ADSUM_REDIS_CA"):
        connect._context(described(**files))

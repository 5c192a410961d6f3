"""Who this machine is: a minted id, a label for people, and a fingerprint that tells copies apart."""

from __future__ import annotations

import hashlib
import secrets
import socket
import uuid
from pathlib import Path

import msgspec

from adsum_collector.errors import StartError
from adsum_shared.private_files import require_own_folder, write_private

FILE = "host.json"
_MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


class Identity(msgspec.Struct, frozen=True):
    """fingerprint: of the machine we run on now. salt: key of the marks redaction leaves.

    moved: minted, or last confirmed, on a machine with another fingerprint. See `arrival`.
    """

    host_id: str
    label: str
    fingerprint: str
    salt: str
    moved: bool = False


class _Stored(msgspec.Struct):
    host_id: uuid.UUID
    fingerprint: str
    salt: str


def load_identity(
    state_dir: Path, label: str | None = None, *, fingerprint: str | None = None
) -> Identity:
    """Who we are, minted at the first call. Raises StartError; never mints a second.

    The id names the machine's stream and everything a hub knows of it: losing it would orphan all
    of that, so a damaged file is reported instead of replaced.
    """
    make_private(state_dir)
    here = fingerprint or machine_fingerprint()
    file = state_dir / FILE
    if not file.exists():
        _mint(file, here)
    try:
        stored = msgspec.json.decode(file.read_bytes(), type=_Stored)
    except (msgspec.DecodeError, OSError) as error:
        raise StartError(
            f"{file} holds no usable identity ({error}). Restore it from a backup; or join as a new "
            "machine, which leaves this machine's sessions so far under its old id: "
            "adsum collector new-identity"
        ) from error
    return Identity(
        host_id=str(stored.host_id),
        label=label or socket.gethostname(),
        fingerprint=here,
        salt=stored.salt,
        moved=stored.fingerprint != here,
    )


def renew_identity(
    state_dir: Path, label: str | None = None, *, fingerprint: str | None = None
) -> Identity:
    """Another machine from now on. Only for who holds the directory's lock."""
    make_private(state_dir)
    here = fingerprint or machine_fingerprint()
    _mint(state_dir / FILE, here)
    return load_identity(state_dir, label, fingerprint=here)


def confirm_identity(state_dir: Path, identity: Identity) -> Identity:
    """The same machine still, with the fingerprint it has now."""
    host_id = uuid.UUID(identity.host_id)
    stored = _Stored(host_id, identity.fingerprint, identity.salt)
    write_private(state_dir / FILE, msgspec.json.encode(stored))
    return msgspec.structs.replace(identity, moved=False)


def _mint(file: Path, fingerprint: str) -> None:
    minted = _Stored(uuid.uuid4(), fingerprint, secrets.token_hex(16))
    try:
        write_private(file, msgspec.json.encode(minted))
    except OSError as error:
        raise StartError(
            f"{file} cannot be written ({error}). Free some space on its disk, or name another "
            "directory with ADSUM_STATE_DIR."
        ) from error


def machine_fingerprint() -> str:
    """A hash, so that the machine id itself never leaves the machine."""
    for file in _MACHINE_ID_FILES:
        if file.is_file():
            machine = file.read_text().strip()
            break
    else:
        machine = f"{uuid.getnode():x}"
    return hashlib.sha256(b"adsum:" + machine.encode()).hexdigest()[:16]


def make_private(directory: Path) -> None:
    """Makes the directory, for its owner alone. Raises StartError if it is not ours."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_own_folder(directory)
        directory.chmod(0o700)
    except OSError as error:
        raise StartError(
            f"The state directory {directory} cannot be used ({error}). "
            "Make it yours and writable, or name another one with ADSUM_STATE_DIR."
        ) from error

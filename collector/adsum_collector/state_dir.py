"""Keeps who this machine is: its minted id, its label, and what tells copies of it apart."""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from adsum_collector.errors import StartError
from adsum_shared.private_files import open_private, require_own_folder, write_private

HOST_FILE = "host.json"
_MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


class HasHostId(Protocol):
    """The machine by the id that it has now: one that turns out to be a copy gets another."""

    @property
    def host_id(self) -> str: ...


class Identity(msgspec.Struct, frozen=True):
    """fingerprint: of the machine we run on now. salt: key of the marks redaction leaves.

    moved: minted, or last confirmed, on a machine with another fingerprint. See `publisher.Arrival`.
    """

    host_id: str
    label: str
    fingerprint: str
    salt: str
    moved: bool = False


class _StoredIdentity(msgspec.Struct):
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
    file = state_dir / HOST_FILE
    if not file.exists():
        _mint(file, here)
    try:
        stored = msgspec.json.decode(file.read_bytes(), type=_StoredIdentity)
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
    _mint(state_dir / HOST_FILE, here)
    return load_identity(state_dir, label, fingerprint=here)


def confirm_identity(state_dir: Path, identity: Identity) -> Identity:
    """The same machine still, with the fingerprint it has now."""
    host_id = uuid.UUID(identity.host_id)
    stored = _StoredIdentity(host_id, identity.fingerprint, identity.salt)
    write_private(state_dir / HOST_FILE, msgspec.json.encode(stored))
    return msgspec.structs.replace(identity, moved=False)


def _mint(file: Path, fingerprint: str) -> None:
    minted = _StoredIdentity(uuid.uuid4(), fingerprint, secrets.token_hex(16))
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


LOCK_FILE = "collector.lock"


@contextlib.contextmanager
def hold_lock(state_dir: Path, port: int = 0) -> Iterator[None]:
    """Raises StartError naming the process that holds it."""
    try:
        descriptor = open_private(state_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StartError(
            f"{state_dir / LOCK_FILE} cannot be used ({error}). Remove it, or run this as the user whose "
            "state directory it is."
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = (_read_lock(descriptor) or ["unknown"])[0]
            raise StartError(
                f"A collector already uses {state_dir} (process {holder}). "
                f"Stop it first (kill {holder}), or give this one its own ADSUM_STATE_DIR."
            ) from error
        # in this order, which needs no room on a full disk
        os.ftruncate(descriptor, os.pwrite(descriptor, b"%d %d\n" % (os.getpid(), port), 0))
        yield
    finally:
        os.close(descriptor)


class Holder(NamedTuple):
    """port: where it takes hooks; 0 if it has not said."""

    pid: str
    port: int


def holder_of(state_dir: Path) -> Holder | None:
    """Who runs on this state directory; None if nobody does. Changes nothing."""
    try:
        descriptor = os.open(state_dir / LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid, port, *_ = [*_read_lock(descriptor), "unknown", "0"]
        return Holder(pid, int(port) if port.isdigit() else 0)
    finally:
        os.close(descriptor)
    return None  # nobody holds it: what it says is of the past


def running_port(state_dir: Path) -> int | None:
    """The port of the collector that runs on this state directory, if one does and says so."""
    holder = holder_of(state_dir)
    return (holder.port or None) if holder else None


def _read_lock(descriptor: int) -> list[str]:
    return os.pread(descriptor, 40, 0).decode(errors="replace").split()


def token_of(state_dir: Path) -> str:
    """The token in `state_dir`/token (0600), made at the first call. Two first calls agree."""
    path = state_dir / "token"
    while True:
        token = _read_token(path)
        if token:
            return token
        _offer(path, secrets.token_urlsafe(32))


def held_token(state_dir: Path) -> str:
    """As it stands, empty if there is none: unlike `token_of` this makes nothing."""
    return _read_token(state_dir / "token")


def renew_token(state_dir: Path) -> None:
    """What was handed to whoever listened in the collector's place opens nothing any more."""
    write_private(state_dir / "token", f"{secrets.token_urlsafe(32)}\n".encode())


def _read_token(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return ""  # a link: what somebody else knows is no secret


def _offer(path: Path, token: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Of two processes that start at once one wins, and both read the winner's. An empty file (a
    # crash of long ago, or a hand) and a link are nobody's token.
    with contextlib.suppress(FileExistsError):
        spoilt = os.path.lexists(path) and not _read_token(path)
        write_private(path, f"{token}\n".encode(), replace=spoilt)

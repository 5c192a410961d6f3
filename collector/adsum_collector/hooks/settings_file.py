"""Claude Code's settings file on disk: read strictly, replaced atomically, backed up, undone."""

from __future__ import annotations

import base64
import binascii
import contextlib
import difflib
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from adsum_collector.line_reader import open_plain
from adsum_shared.errors import AdsumError
from adsum_shared.private_files import write_private

BACKUPS_KEPT = 3
#: What a mode lets anybody but the owner do.
OTHERS = 0o077
#: Above this a file is nobody's settings.
MOST_BYTES = 4 << 20
_BEARER = re.compile(r"Bearer [^\"]+")
_BOM = "\ufeff"


class SettingsError(AdsumError):
    """The settings file cannot be read or written as it is. The text says what to do next."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What stood in a settings file before our hooks did, and what we left there.

    Brackets that were empty, or a file that was not there, cannot be told from the edited text
    alone: with the receipt, removing restores every byte. mode: as it was before a token closed it.
    """

    before: bytes | None
    after: str
    made_folder: bool = False
    mode: int | None = None

    def matches(self, raw: bytes | None) -> bool:
        return raw is not None and _digest(raw) == self.after


@dataclass(frozen=True, slots=True)
class Change:
    """What an install or a removal did, or would do. None: no file.

    closes: others can read the file until then, and not the token that it will hold.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    backup: Path | None = None
    closes: bool = False

    @property
    def needed(self) -> bool:
        return self.before != self.after or self.closes

    def diff(self) -> str:
        """A unified diff with the token masked: it may end up in a terminal's scrollback."""
        before, after = (
            _BEARER.sub("Bearer …", (raw or b"").decode("utf-8", "replace")).splitlines()
            for raw in (self.before, self.after)
        )
        name = str(self.path)
        return "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))


def read_settings(path: Path) -> bytes | None:
    """The file's bytes; None when there is no file."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}.") from error
    if len(raw) > MOST_BYTES:
        raise SettingsError(f"{path} is larger than {MOST_BYTES >> 20} MB. It is left as it is.")
    return raw


def decode_settings(raw: bytes | None, path: Path) -> tuple[str, str]:
    """(byte order mark or nothing, text). Line endings stay as they are."""
    try:
        text = (raw or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        line = (raw or b"")[: error.start].count(b"\n") + 1
        raise SettingsError(
            f"{path}, line {line}: not UTF-8. It is left as it is: save it as UTF-8, then try again."
        ) from error
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


@contextlib.contextmanager
def locked(path: Path, state_dir: Path, timeout_s: float = 10.0) -> Iterator[None]:
    """One installer at a time per settings file. The lock lies in our own folder, not beside it."""
    folder = _own_folder(state_dir)
    try:
        with FileLock(folder / f"{_name(path)}.lock", timeout=timeout_s, mode=0o600):
            yield
    except Timeout as error:
        raise SettingsError(f"Another adsum is changing {path}. Try again in a moment.") from error


def load_receipt(path: Path, state_dir: Path) -> Receipt | None:
    """None when there is none, or when it cannot be understood: then the text alone decides."""
    try:
        kept = json.loads((_own_folder(state_dir) / f"{_name(path)}.json").read_bytes())
        before = None if kept["before"] is None else base64.b64decode(kept["before"])
        mode = kept.get("mode")
        made = bool(kept.get("made_folder"))
        return Receipt(before, str(kept["after"]), made, mode if isinstance(mode, int) else None)
    except (FileNotFoundError, ValueError, KeyError, TypeError, binascii.Error):
        return None


def save_receipt(
    path: Path,
    state_dir: Path,
    *,
    before: bytes | None,
    after: bytes,
    made_folder: bool,
    mode: int | None = None,
) -> None:
    kept = {
        "path": str(path),
        "before": None if before is None else base64.b64encode(before).decode(),
        "after": _digest(after),
        "made_folder": made_folder,
        "mode": mode,
    }
    target = _own_folder(state_dir) / f"{_name(path)}.json"
    write_private(target, json.dumps(kept).encode())


def drop_receipt(path: Path, state_dir: Path) -> None:
    (_own_folder(state_dir) / f"{_name(path)}.json").unlink(missing_ok=True)


def is_shared(path: Path) -> bool:
    """Whether others than its owner may read the file."""
    return bool((mode_of(path) or 0) & 0o044)


def mode_of(path: Path) -> int | None:
    """Through links; None where there is no file."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def require_writable(path: Path) -> None:
    """Read-only is a statement of the owner (or of a tool that owns the file): it is respected."""
    real = Path(os.path.realpath(path))
    if real.exists() and not real.stat().st_mode & 0o222:
        raise SettingsError(
            f"{path} is read-only. Allow writing with `chmod u+w {real}`, or see what would be "
            "written with `adsum hooks install --dry-run` and add it where the file is made."
        )


def write_settings(path: Path, raw: bytes, mode: int | None = None) -> None:
    """Replaces the file behind `path` (through links) in one step. mode: None for the one it has."""
    real = Path(os.path.realpath(path))
    try:
        if mode is None:
            mode = mode_of(real) or 0o600
        write_private(real, raw, mode=mode)
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be written: {error.strerror}. Nothing was changed."
        ) from error


def back_up(path: Path, raw: bytes, now: float) -> Path:
    """Keeps `raw` beside the file, for its owner alone.

    The first stays for ever: it is the file as it was before any of ours touched it. With it go
    the newest, BACKUPS_KEPT in all.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    backup = path.with_name(f"{path.name}.adsum-backup-{stamp}-{int(now * 1e6) % 1_000_000:06d}")
    try:
        write_private(backup, raw)
    except OSError as error:
        raise SettingsError(
            f"No backup can be written beside {path}: {error.strerror}. Nothing was changed."
        ) from error
    for old in sorted(path.parent.glob(f"{path.name}.adsum-backup-*"))[1 : 1 - BACKUPS_KEPT]:
        old.unlink(missing_ok=True)
    return backup


def _own_folder(state_dir: Path) -> Path:
    folder = state_dir / "hooks"
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The state folder {state_dir} cannot be used: {error.strerror}. "
            "Choose another with ADSUM_STATE_DIR."
        ) from error
    return folder


def _name(path: Path) -> str:
    return _digest(os.path.realpath(path).encode())[:16]


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()

"""Edits an agent's settings file: read strictly, replaced in one step, backed up and undone."""

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from adsum_collector.agents.installer import Change, SettingsError
from adsum_collector.line_reader import open_plain
from adsum_shared.private_files import write_private

BACKUPS_KEPT = 3
#: What a mode lets anybody but the owner do.
OTHERS = 0o077
#: Above this a file is nobody's settings.
MOST_BYTES = 4 << 20
_BOM = "\ufeff"


class Receipt(msgspec.Struct, frozen=True):
    """What stood in a settings file before our hooks did, and a digest of what we left there.

    Brackets that were empty, or a file that was not there, cannot be told from the edited text
    alone: with the receipt, removing restores every byte. mode: as it was before a token closed it.
    path: for people.
    """

    before: bytes | None
    after: str
    made_folder: bool = False
    mode: int | None = None
    path: str = ""


def read_settings(path: Path, most: int = MOST_BYTES) -> bytes | None:
    """The file's bytes; None when there is no file."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            raw = file.read(most + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}.") from error
    if len(raw) > most:
        raise SettingsError(f"{path} is larger than {most >> 20} MB. It is left as it is.")
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
    from filelock import FileLock, Timeout  # not where usage alone is read

    folder = _own_folder(state_dir)
    try:
        with FileLock(folder / f"{_name(path)}.lock", timeout=timeout_s, mode=0o600):
            yield
    except Timeout as error:
        raise SettingsError(f"Another adsum is changing {path}. Try again in a moment.") from error


def load_receipt(path: Path, state_dir: Path) -> Receipt | None:
    """None when there is none, or when it cannot be understood: then the text alone decides."""
    try:
        return msgspec.json.decode(_receipt_file(path, state_dir).read_bytes(), type=Receipt)
    except (FileNotFoundError, ValueError):
        return None


def keep_receipt(path: Path, state_dir: Path, before: bytes | None) -> None:
    """Of a file that the agent itself has edited for us, so that removing restores it."""
    if (after := read_settings(path)) is not None:
        kept = Receipt(before, _digest(after), path=str(path))
        write_private(_receipt_file(path, state_dir), msgspec.json.encode(kept))


def drop_receipt(path: Path, state_dir: Path) -> None:
    _receipt_file(path, state_dir).unlink(missing_ok=True)


@contextlib.contextmanager
def restored_on_failure(state_dir: Path, *paths: Path) -> Iterator[None]:
    """Whatever ends the block early, Ctrl-C too, these files and their receipts are as before it."""
    with contextlib.ExitStack() as undoing:
        for each in (*paths, *(_receipt_file(path, state_dir) for path in paths)):
            # A receipt holds the whole file, a third longer.
            undoing.callback(_put_back, each, read_settings(each, 2 * MOST_BYTES))
        yield
        undoing.pop_all()


def _put_back(path: Path, raw: bytes | None) -> None:
    real = Path(os.path.realpath(path))
    try:
        if raw is None:
            real.unlink(missing_ok=True)
        elif read_settings(path, 2 * MOST_BYTES) != raw:
            write_private(real, raw, mode=mode_of(real) or 0o600)
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be put back as it was: {error.strerror}. Run `adsum hooks install` again."
        ) from error


def _receipt_file(path: Path, state_dir: Path) -> Path:
    return _own_folder(state_dir) / f"{_name(path)}.json"


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


def edit_settings(
    path: Path,
    state_dir: Path,
    edited: Callable[[str | None], str | None],
    *,
    stripped: Callable[[str], str],
    tokens: Callable[[str], frozenset[str]],
    dry_run: bool,
    clock: Callable[[], float] = time.time,
) -> Change:
    """edited: of the text without ours. stripped: that text, where no receipt tells it.

    A text that holds nothing of ours is to be left by `stripped` as it is.
    tokens: of ours in a text. It raises SettingsError for what the agent would not read.
    """
    with locked(path, state_dir):
        raw = read_settings(path)
        mark, text = decode_settings(raw, path)
        held = tokens(text)  # first of all, since it refuses what the agent would not read
        receipt = load_receipt(path, state_dir)
        if receipt is not None and raw is not None and receipt.after == _digest(raw):
            base, made_folder = receipt.before, receipt.made_folder
        else:
            base = None if raw is None else (mark + stripped(text)).encode()
            made_folder = not path.parent.exists()
        result = edited(None if base is None else base.decode().removeprefix(mark))
        after = None if result is None else (mark + result).encode()
        has_token = after is not None and bool(tokens(result or "") - {""})
        mode, was = _mode_for(path, receipt.mode if receipt else None, has_token=has_token)
        change = Change(path, raw, after, closes=mode is not None and has_token)
        if dry_run or not change.needed:
            return change
        require_writable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file that goes was wholly ours: there is nothing of the user's to keep.
        backup = None
        if raw is not None and after is not None:
            backup = back_up(path, _without_tokens(raw, held), clock())
        if read_settings(path) != raw:
            raise SettingsError(f"{path} was changed by another program just now. Try again.")
        kept = Receipt(base, _digest(after or b""), made_folder, was, str(path))
        _carry_out(path, state_dir, after, mode, kept)
        return replace(change, backup=backup)


def _carry_out(
    path: Path, state_dir: Path, after: bytes | None, mode: int | None, kept: Receipt
) -> None:
    """Write the file or, if it was wholly ours, remove it. kept: as long as it differs from before."""
    with restored_on_failure(state_dir, path):
        if after is not None and after != kept.before:
            write_private(_receipt_file(path, state_dir), msgspec.json.encode(kept))
        if after is not None:
            write_settings(path, after, mode)
        else:
            Path(os.path.realpath(path)).unlink()
            if kept.made_folder and not any(path.parent.iterdir()):
                path.parent.rmdir()
        if after == kept.before:
            drop_receipt(path, state_dir)


def _without_tokens(raw: bytes, tokens: frozenset[str]) -> bytes:
    """A backup outlives the hooks, and is copied about: it keeps no token of ours."""
    for token in filter(None, tokens):
        raw = raw.replace(json.dumps(token).encode(), b'"Bearer (left out)"')
    return raw


def _mode_for(path: Path, was: int | None, *, has_token: bool) -> tuple[int | None, int | None]:
    """(the mode to give the file, None for its own; the mode to give it back with the token out)."""
    now = mode_of(path)
    if has_token and now is not None and now & OTHERS:
        return now & ~OTHERS, now
    if has_token or was is None:
        return None, was
    # Whoever has changed it since meant what they did.
    return (was if now == was & ~OTHERS else None), None

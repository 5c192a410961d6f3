"""Our hooks in Claude Code's settings: merged beside the user's own, and removed without a trace."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from adsum_collector.claude_dirs import config_dirs
from adsum_collector.hooks.events import (
    FIRST_WITH_HTTP,
    Target,
    Version,
    events_for,
    is_ours,
)
from adsum_collector.hooks.json_text import JsonTextError
from adsum_collector.hooks.settings_file import (
    OTHERS,
    Change,
    SettingsError,
    back_up,
    decode_settings,
    drop_receipt,
    is_shared,
    load_receipt,
    locked,
    mode_of,
    read_settings,
    require_writable,
    save_receipt,
    write_settings,
)
from adsum_collector.hooks.statusline_text import (
    Mode,
    StatusLine,
    statusline_in,
    unwrapped,
    wrapped,
)
from adsum_collector.hooks.text import (
    ALLOWED_URLS,
    ShapeError,
    added,
    hooks_in,
    parse_settings,
    permits,
    sockets_in,
    stripped,
    tokens_in,
    users_own,
)


@dataclass(frozen=True, slots=True)
class Report:
    """What a settings file holds of ours. counts: event -> how many of our hooks.

    posted: the events that go to a port. sockets: where those go that the shim hands on.
    shared: others on this machine may read the file, and so the token in it.
    """

    path: Path
    exists: bool
    counts: dict[str, int]
    ports: frozenset[int]
    posted: frozenset[str]
    sockets: frozenset[str]
    tokens: frozenset[str]
    disabled: bool
    blocked: bool
    users_own: frozenset[str]
    shared: bool
    statusline: StatusLine

    @property
    def doubled(self) -> list[str]:
        return [event for event, count in self.counts.items() if count > 1]

    def missing(self, version: Version) -> list[str]:
        return [e for e in events_for(version, self.users_own) if e not in self.counts]

    def unwanted(self, version: Version) -> list[str]:
        wanted = events_for(version, self.users_own)
        return [event for event in self.counts if event not in wanted]


def settings_path(scope: str, env: Mapping[str, str], home: Path, cwd: Path) -> Path:
    """user: every session of this user; project: the repository around `cwd`, for this user.

    Of several directories that `CLAUDE_CONFIG_DIR` names it is the first one's.
    """
    if scope == "user":
        return config_dirs(env.get("CLAUDE_CONFIG_DIR"), home)[0] / "settings.json"
    around = (folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists())
    return next(around, cwd) / ".claude" / "settings.local.json"


def install_hooks(
    path: Path,
    state_dir: Path,
    target: Target,
    version: Version,
    *,
    statusline: Mode = "leave",
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
) -> Change:
    """Idempotent: hooks of an earlier install are replaced. Raises SettingsError, file untouched."""
    if version < FIRST_WITH_HTTP:
        raise SettingsError(
            f"Claude Code {_dotted(version)} cannot post hooks; "
            f"{_dotted(FIRST_WITH_HTTP)} and newer can. Upgrade it, then try again."
        )

    def edited(base: str | None) -> str:
        return wrapped(added(base, target, version), target, statusline)

    return _apply(path, state_dir, edited, dry_run=dry_run, clock=clock)


def remove_hooks(
    path: Path,
    state_dir: Path,
    *,
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
) -> Change:
    return _apply(path, state_dir, lambda base: base, dry_run=dry_run, clock=clock)


def inspect_hooks(path: Path) -> Report:
    raw = read_settings(path)
    _, text = decode_settings(raw, path)
    settings = _parsed(text, path)
    ours = [(event, hook) for event, hook in hooks_in(settings) if is_ours(hook)]
    counts: dict[str, int] = {}
    for event, _ in ours:
        counts[event] = counts.get(event, 0) + 1
    posted = [(event, hook) for event, hook in ours if hook.get("type") == "http"]
    urls = {hook["url"] for _, hook in posted}
    allowed = settings.get(ALLOWED_URLS)
    return Report(
        path=path,
        exists=raw is not None,
        counts=counts,
        ports=frozenset(urlsplit(url).port or 80 for url in urls),
        posted=frozenset(event for event, _ in posted),
        sockets=sockets_in(settings),
        tokens=tokens_in(settings),
        disabled=settings.get("disableAllHooks") is True,
        blocked=isinstance(allowed, list) and not all(permits(allowed, url) for url in urls),
        users_own=users_own(settings),
        shared=is_shared(path),
        statusline=statusline_in(settings),
    )


def _apply(
    path: Path,
    state_dir: Path,
    edited: Callable[[str | None], str | None],
    *,
    dry_run: bool,
    clock: Callable[[], float],
) -> Change:
    with locked(path, state_dir):
        raw = read_settings(path)
        mark, text = decode_settings(raw, path)
        settings = _parsed(text, path)
        base, made_folder = _without_ours(path, state_dir, raw, mark + stripped(unwrapped(text)))
        result = edited(None if base is None else base.decode().removeprefix(mark))
        after = None if result is None else (mark + result).encode()
        receipt = load_receipt(path, state_dir)
        was = receipt.mode if receipt is not None else None
        has_token = after is not None and bool(tokens_in(_parsed(result or "", path)) - {""})
        mode, was = _mode_for(path, was, has_token=has_token)
        change = Change(path, raw, after, closes=mode is not None and has_token)
        if dry_run or not change.needed:
            return change
        require_writable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file that goes was wholly ours: there is nothing of the user's to keep.
        backup = None
        if raw is not None and after is not None:
            backup = back_up(path, _without_tokens(raw, settings), clock())
        if read_settings(path) != raw:
            raise SettingsError(f"{path} was changed by another program just now. Try again.")
        if after is not None and after != base:
            save_receipt(
                path, state_dir, before=base, after=after, made_folder=made_folder, mode=was
            )
        _write_or_unlink(path, after, mode, made_folder=made_folder)
        if after == base:
            drop_receipt(path, state_dir)
        return replace(change, backup=backup)


def _without_tokens(raw: bytes, settings: dict[str, Any]) -> bytes:
    """A backup outlives the hooks, and is copied about: it keeps no token of ours."""
    for token in filter(None, tokens_in(settings)):
        raw = raw.replace(json.dumps(token).encode(), b'"Bearer (left out)"')
    return raw


def _without_ours(
    path: Path, state_dir: Path, raw: bytes | None, shorter: str
) -> tuple[bytes | None, bool]:
    """(the file as it was before any install, whether we made its folder)."""
    receipt = load_receipt(path, state_dir)
    if receipt is not None and receipt.matches(raw):
        return receipt.before, receipt.made_folder
    return (None if raw is None else shorter.encode()), not path.parent.exists()


def _mode_for(path: Path, was: int | None, *, has_token: bool) -> tuple[int | None, int | None]:
    """(the mode to give the file, None for its own; the mode to give it back with the token out)."""
    now = mode_of(path)
    if has_token and now is not None and now & OTHERS:
        return now & ~OTHERS, now
    if has_token or was is None:
        return None, was
    # Whoever has changed it since meant what they did.
    return (was if now == was & ~OTHERS else None), None


def _write_or_unlink(
    path: Path, after: bytes | None, mode: int | None, *, made_folder: bool
) -> None:
    if after is not None:
        write_settings(path, after, mode)
        return
    Path(os.path.realpath(path)).unlink()
    if made_folder and not any(path.parent.iterdir()):
        path.parent.rmdir()


def _parsed(text: str, path: Path) -> dict[str, Any]:
    """Raises SettingsError naming file, line and column."""
    try:
        return parse_settings(text)
    except JsonTextError as error:
        raise SettingsError(
            f"{path}, {error}. The file is left as it is: correct it, then try again."
        ) from error
    except ShapeError as error:
        raise SettingsError(
            f"{path} is not a settings file of Claude Code: {error}. "
            "The file is left as it is: correct it, then try again."
        ) from error


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))

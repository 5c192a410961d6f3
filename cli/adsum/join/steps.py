"""The steps of `adsum join`, each checked by itself."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from adsum.hooks import Setup, note_closed
from adsum.join.undo import Undo, uninterrupted, without_backups
from adsum.join_hub import Hub
from adsum.offer import asks
from adsum.outcome import CommandError
from adsum.text.saying import say
from adsum.verify import Taken, send_probe
from adsum_collector.agents.claude_code.install import (
    SettingsError,
    drop_receipt,
    inspect_hooks,
    load_receipt,
    require_writable,
)
from adsum_collector.agents.claude_code.program import ClaudeNotFoundError
from adsum_collector.agents.claude_code.settings_text import HOOK_PATH
from adsum_collector.state_dir import LOCK_FILE as LOCK
from adsum_collector.state_dir import token_of
from adsum_shared import __version__
from adsum_shared.envelope import VERSION

WITHOUT = "Or join without hooks: --no-hooks."
CLOCK_MOST_MS = 5_000
LISTENS_WITHIN_S = 20.0
APPLIED_WITHIN_S = 15.0
LOOK_S = 0.05


def check_settings(setup: Setup, *, wanted: bool) -> None:
    """Before a token is used up. Raises CommandError: hooks could not be installed."""
    if not wanted:
        return
    try:
        inspect_hooks(setup.path)
        require_writable(setup.path)
        _require_folder(setup.path)
        _ = setup.version
    except (SettingsError, ClaudeNotFoundError) as error:
        raise CommandError(f"{error}\n{WITHOUT} Nothing has changed.") from error


def _require_folder(path: Path) -> None:
    """For the file's next version and, beside the link if it is one, its backup. Raises SettingsError."""
    real = Path(os.path.realpath(path))
    # A folder that is wanting is made, but not behind a link.
    if (path.is_symlink() or path.parent.is_symlink()) and not real.parent.is_dir():
        raise SettingsError(f"{path} leads to {real}, and {real.parent} is no folder. Make it one.")
    for folder in (path.parent, real.parent):
        there = next(each for each in (folder, *folder.parents) if each.exists())
        if not os.access(there, os.W_OK | os.X_OK):
            raise SettingsError(
                f"{path} and its backup need a folder that may be written to. Allow it with "
                f"`chmod u+w {there}`."
            )


def check_hub(hub: Hub, token: str) -> str:
    """Reachable, of a version that fits, and the token good. Raises CommandError."""
    before = time.time()
    found = hub.ask("/api/v1/join/check", {"token": token})
    middle_ms = (before + time.time()) * 500
    if found["wire"] != VERSION:
        older = "this machine" if found["wire"] > VERSION else "the hub"
        raise CommandError(
            f"The hub is Adsum {found['version']}, this is {__version__}, and they do not understand "
            f"each other (batch formats {found['wire']} and {VERSION}). Upgrade {older}."
        )
    said = f"hub        {hub.url}, Adsum {found['version']}"
    off = middle_ms - found["now"]
    if abs(off) > CLOCK_MOST_MS:
        way = "ahead of" if off > 0 else "behind"
        said += (
            f"\nclock      this machine's is {abs(off) / 1000:.0f} s {way} the hub's. Ages are "
            "corrected for it; yet let both keep network time: timedatectl set-ntp true"
        )
    return said


def agree(setup: Setup, *, yes: bool) -> bool:
    """Whether to install hooks: asked on a terminal, else only where --yes says so."""
    if yes:
        return True
    if not sys.stdin.isatty():
        return False
    say(
        f"Claude Code reports to Adsum through hooks in {setup.path}.\n"
        "Your own hooks stay; `adsum leave` restores the file."
    )
    return asks("Install them? [Y/n] ")


def until_listening(setup: Setup, has_ended: Callable[[], bool]) -> int:
    """The collector's port, once it takes hooks. Raises CommandError."""
    until, wrong = time.monotonic() + LISTENS_WITHIN_S, ""
    # Made here if the collector has not yet: its port opens before it has read one, and a probe
    # without one would be counted as refused, and be told of this machine from its first minute.
    token = token_of(setup.state_dir)
    while True:
        if has_ended():
            words = _last_words(setup.state_dir)
            raise CommandError(f"The collector has ended. Its log ends: {words}")
        if port := _said_port(setup.state_dir):
            try:
                send_probe(f"http://127.0.0.1:{port}{HOOK_PATH}", token)
            except CommandError as error:
                wrong = f" {error}"
            else:
                return port
        if time.monotonic() > until:
            words = f"{_last_words(setup.state_dir)}{wrong}"
            raise CommandError(f"The collector takes no hooks. Its log ends: {words}")
        time.sleep(LOOK_S)


def _said_port(state_dir: Path) -> int:
    """As its holder wrote it into the lock, and listens there; 0: nothing yet, or of one that is gone.

    The lock itself is not asked whether it is held: that takes it for a moment, and a collector
    that starts in this very moment would find it taken, and end.
    """
    try:
        pid, port = (int(each) for each in (state_dir / LOCK).read_text().split())
    except (OSError, ValueError):
        return 0
    return port if _listens(pid, port) else 0


def _listens(pid: int, port: int) -> bool:
    """Whoever else has the port would count a refused hook for every probe."""
    import psutil

    try:
        sockets = psutil.Process(pid).net_connections("tcp")
    except (psutil.NoSuchProcess, ValueError):  # no process id anywhere
        return False
    except psutil.Error:  # the system keeps it to itself
        return True
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in sockets)


def _last_words(state_dir: Path) -> str:
    log = state_dir / "logs" / "collector.log"
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "its log: adsum service logs"
    return lines[-1][:500] if lines else f"nothing stands in {log}"


def put_hooks(setup: Setup, port: int, undo: Undo) -> str:
    """Where they stand now. Raises CommandError."""
    here = Setup(setup.path, setup.state_dir, port, setup.claude, setup.slot)
    take_away = without_backups(setup.path)
    before = setup.path.read_bytes() if setup.path.exists() else None
    with uninterrupted():
        held = load_receipt(setup.path, setup.state_dir)
        try:
            change = here.install(dry_run=False)
        except (SettingsError, ClaudeNotFoundError, OSError) as error:
            take_away()
            if held is None:  # of what stood there before hooks that are not there now
                drop_receipt(setup.path, setup.state_dir)
            raise CommandError(f"{error}\n{WITHOUT}") from error

        def remove() -> None:
            try:
                if change.needed:
                    here.remove(dry_run=False)
            except SettingsError as error:
                raise CommandError(str(error)) from error
            after = setup.path.read_bytes() if setup.path.exists() else None
            if after == before:
                take_away()

        undo.add("take out the hooks: adsum hooks remove", remove)
    note_closed(change)
    return f"in {setup.path}" if change.needed else f"in {setup.path} already"


def first_signal(hub: Hub, setup: Setup, port: int) -> str:
    """A probe goes the way of every hook; how long until the hub had it. Raises CommandError."""
    here = Setup(setup.path, setup.state_dir, port, setup.claude, setup.slot)
    taken: Taken = send_probe(here.target.url, token_of(here.state_dir))
    while True:
        seen = hub.ask("/api/v1/machine")
        took_s = time.perf_counter() - taken.sent
        if seen["applied"] >= taken.seq and seen["reachability"] == "live":
            return f"applied by the hub for {seen['label']} after {took_s * 1000:.0f} ms"
        if took_s > APPLIED_WITHIN_S:
            raise CommandError(
                f"The hub has not seen this machine's signal within {APPLIED_WITHIN_S:g} s: it is at "
                f"number {seen['applied']}, the signal is {taken.seq}. "
                f"The collector says: {_last_words(setup.state_dir)}"
            )
        time.sleep(LOOK_S)

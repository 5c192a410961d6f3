"""Undoes a joining: what a failed one has done so far, or all of it, as `adsum leave` does."""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from adsum.config import read_settings
from adsum.hooks import Setup, setups_for
from adsum.machine import FILE as JOINED
from adsum.machine import Hub, LostError, Membership, RefusedError, membership
from adsum.outcome import CommandError, Exit, say
from adsum.service.job import NoServiceManagerError
from adsum.service.service import remove_service
from adsum_collector.agents import known_agents
from adsum_collector.control.consent import FILE as CONSENT
from adsum_collector.intake import KEY_FILE as REPORT_KEY
from adsum_collector.listening.sockets import SOCKET_FILE as SOCKET
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import HOST_FILE as IDENTITY
from adsum_collector.state_dir import LOCK_FILE as LOCK
from adsum_collector.state_dir import holder_of
from adsum_collector.usage.ledger import NAME as LEDGER
from adsum_shared import AdsumError
from adsum_shared.private_files import write_private

#: What joining rewrites.
_KEPT = (IDENTITY, JOINED, CONSENT, "token")
#: Where the collector keeps a ledger of usage: one agent's in the state directory itself.
_LEDGERS = ("", *(f"{agent.name}/" for agent in known_agents()))
#: What the collector that it starts makes besides. Other processes have files here too.
_RUNNING = (
    *(LOCK, SOCKET, "logs/collector.log", "spool", REPORT_KEY),
    *(f"{at}{LEDGER}{tail}" for at in _LEDGERS for tail in ("", "-wal", "-shm")),
)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Undo:
    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object]]] = []
        self._beyond: list[str] = []

    def add(self, what: str, step: Callable[[], object]) -> None:
        """what: how to do it by hand, should it fail."""
        self._steps.append((what, step))

    def beyond(self, what: str) -> None:
        """what: to be done by hand, for nothing here can undo it."""
        self._beyond.append(what)

    def run(self) -> list[str]:
        """What is left to do by hand."""
        left = self._beyond
        while self._steps:
            what, step = self._steps.pop()
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the steps before it must be undone as well
                left.append(f"{what} ({str(error) or type(error).__name__})")
        return left


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: between a thing and the note of how to undo it.

    By a handler: what is started meanwhile would inherit a blocked signal.
    """
    came: list[int] = []
    with _answered_by(lambda number, _: came.append(number), *_ENDING):
        yield
    for number in came[:1]:
        signal.raise_signal(number)


def heedless() -> contextlib.AbstractContextManager[None]:
    """Ctrl-C does nothing. By a handler, as above."""
    return _answered_by(lambda *_: None, *_ENDING)


def interruptible() -> contextlib.AbstractContextManager[None]:
    """A service manager's stop, or a terminal that closes, undoes as Ctrl-C does."""
    return _answered_by(signal.default_int_handler, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _answered_by(
    handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


class Folder:
    """A state directory as it is now, for what joining makes and rewrites in it.

    in_use: a collector was started on it, and is not known to have stopped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.in_use = False
        of_agents = (path / at for at in _LEDGERS if at)
        folders = (path / "logs", path / "hooks", *of_agents, path, *path.parents)
        self._missing = [each for each in folders if not each.exists()]
        self._new = {name for name in (*_KEPT, *_RUNNING) if not (path / name).exists()}
        files = [path / name for name in _KEPT if name not in self._new]
        self._held = {file: file.read_bytes() for file in files}

    def restore(self) -> None:
        """Only by name: a hub or a broker may have come to live here. Raises CommandError."""
        running = self.in_use or holder_of(self._path) is not None
        names = self._new & {JOINED, CONSENT} if running else self._new
        wrong = [f"a collector may still run, so its files stay in {self._path}"] if running else []
        for each in (*(self._path / name for name in sorted(names)), *self._locks(), *self._held):
            try:
                if (content := self._held.get(each)) is None:
                    _remove(each)
                elif not each.exists() or each.read_bytes() != content:
                    write_private(each, content)
            except OSError as error:
                wrong.append(str(error))
        for each in self._missing:
            with contextlib.suppress(OSError):  # somebody else has something in it
                each.rmdir()
        if wrong:
            raise CommandError("; ".join(wrong))

    def _locks(self) -> list[Path]:
        """Of installing hooks. What stood in the settings before lies beside them, and stays."""
        folder = self._path / "hooks"
        return list(folder.glob("*.lock")) if folder in self._missing else []


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


#: What is in the spool gets there within three seconds, or goes at the next start.
STOP_S = 12.0
LOOK_S = 0.05
#: Within this time running sessions have read settings that changed (measured: 0.5 to 2 s).
NOTICED_S = 1.5
#: Within this time a collector that something starts again holds the lock: a service manager and
#: `adsum up` wait a tenth of a second, and it takes one to begin.
RESTARTED_S = 2.0
#: Between tries: in all longer than a hub whose Redis failed keeps others from this machine's record.
AGAIN_S = (1.0, 3.0, 7.0)


def leave(state_dir: Path | None) -> int:
    """What is left to do is said; the exit code tells of it."""
    home = read_settings(CollectorSettings, state_dir=state_dir).state_dir
    was = membership(home)
    if was is None:
        say("This machine has not joined a hub: there is nothing to leave.")
        return Exit.OK
    left: list[str] = []
    for setup in setups_for("user", home):
        _take_out_hooks(setup, left)
    _stop(home, left)
    told = _tell(was, left)
    with uninterrupted():
        (home / JOINED).unlink(missing_ok=True)
        (home / CONSENT).unlink(missing_ok=True)
    say("credential removed")
    if not left:
        say(f"Left {was.hub}.")
        return Exit.OK
    say("What is left to do:")
    for each in left:
        say(f"  {each}")
    return Exit.ERROR if told else Exit.PARTIAL


def _take_out_hooks(setup: Setup, left: list[str]) -> None:
    """Before anything stops: a hook that nobody answers paints a red line."""
    try:
        change = setup.remove(dry_run=False)
    except (AdsumError, OSError) as error:
        left.append(f"Take the hooks out of {setup.path}, adsum hooks remove: {error}")
        return
    setup.parked.unlink(missing_ok=True)
    if change.needed:
        say(f"hooks      taken out of {setup.path}")
        time.sleep(NOTICED_S)


def _stop(home: Path, left: list[str]) -> None:
    """While there is a credential still: without one, what starts again may end before it is seen."""
    try:
        if not stop_collector(home):
            return
    except CommandError as error:
        left.append(str(error))
        return
    until = time.monotonic() + RESTARTED_S
    while (holder := holder_of(home)) is None:
        if time.monotonic() > until:
            say("collector  stopped, and starts no more")
            return
        time.sleep(LOOK_S)
    left.append(
        f"The collector was started again (process {holder.pid}). End whatever does that: a service "
        "of the whole machine by `sudo adsum service remove --system`, `adsum up` by Ctrl-C, a "
        "container or another supervisor by its own command."
    )


def _tell(was: Membership, left: list[str]) -> bool:
    """Whether the hub knows that this machine has left."""
    try:
        if let_go(was.open_hub(), {}):
            say("hub        has let it go")
    except CommandError as error:
        left.append(f"Tell the hub, on its machine: adsum hosts forget {was.host_id} ({error})")
        return False
    return True


def let_go(hub: Hub, told: dict[str, Any]) -> bool:
    """Asked several times where it may go better: afterwards there is no credential to ask by.

    False: the hub knows this machine no more, which is said. Raises CommandError.
    """
    for pause_s in (*AGAIN_S, None):
        try:
            hub.ask("/api/v1/machine/leave", told)
        except CommandError as error:
            if isinstance(error, RefusedError) and error.status == 401:
                _say("had shut this machine out, or forgotten it, already")
                return False
            if pause_s is None or not _may_pass(error):
                raise
            _say(f"is asked again in {pause_s:.0f} s: {error}")
            time.sleep(pause_s)
        else:
            return True
    return False


def _say(text: str) -> None:
    # The terminal may be gone, by which a joining is undone: the hub is asked all the same.
    with contextlib.suppress(OSError):
        say(f"hub        {text}")


def _may_pass(error: CommandError) -> bool:
    """A lost answer as well: the next one says whether it was done."""
    return isinstance(error, LostError) or (
        isinstance(error, RefusedError) and error.status in (409, 503)
    )


def stop_collector(state_dir: Path) -> bool:
    """Its service, if there is one, and whoever runs on this directory. Whether anybody did.

    A hub's service on the same machine goes on. Raises CommandError.
    """
    gone: object = ()
    with contextlib.suppress(NoServiceManagerError):
        gone = remove_service(("collector",))
    holder = holder_of(state_dir)
    if holder is None or not holder.pid.isdecimal():
        return bool(gone)
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(holder.pid), signal.SIGTERM)
    until = time.monotonic() + STOP_S
    while holder_of(state_dir) is not None:
        if time.monotonic() > until:
            raise CommandError(f"The collector (process {holder.pid}) does not stop. Kill it.")
        time.sleep(LOOK_S)
    return True

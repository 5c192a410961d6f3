"""`adsum leave` ends this machine's reports, and undoes what joining made."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from adsum.config import read_settings
from adsum.hooks import Setup, setup_for
from adsum.join.undo import uninterrupted
from adsum.machine import FILE, Hub, LostError, Membership, RefusedError, membership
from adsum.outcome import CommandError, Exit
from adsum.service.job import NoServiceManagerError
from adsum.service.service import remove_service
from adsum.text.saying import say
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import holder_of
from adsum_shared.errors import AdsumError

#: What is in the spool gets there within three seconds, or goes at the next start.
STOP_S = 12.0
LOOK_S = 0.05
#: Within this time running sessions have read settings that changed (measured: 0.5 to 2 s).
NOTICED_S = 1.5
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
    _take_out_hooks(setup_for("user", home), left)
    try:
        if stop_collector(home):
            say("collector  stopped, and starts no more")
    except CommandError as error:
        left.append(str(error))
    told = _tell(was, left)
    with uninterrupted():
        (home / FILE).unlink(missing_ok=True)
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

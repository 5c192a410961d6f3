"""Keeps the messages that wait for sessions of this machine, and which commands were obeyed, on disk.

One file of the state directory, which its owner alone may read. What it holds is small, so it is
written whole: a change is on disk before anything is done by it, or it has not happened.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from adsum_shared.commands import NotObeyedError
from adsum_shared.private_files import open_private, write_private

log = logging.getLogger(__name__)

FILE: Final = "queue.json"
#: Of one session, which hubs show whole; of the machine.
MOST_OF_ONE: Final = 20
MOST_OF_ALL: Final = 200
LASTS_MS: Final = 24 * 3600 * 1000
#: Ids of commands that are never obeyed again: more than a stream keeps.
MOST_USED: Final = 2_000
MOST_BYTES: Final = 16 << 20


class Queued(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message; see `signals.QueuedItem`. id: of the command that queued it."""

    id: str
    session_id: str
    text: str
    by: str
    at: int
    until: int
    state: str = "waiting"


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    items: tuple[Queued, ...] = ()
    used: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


class PromptQueue:
    """Every method that changes something raises OSError, and then nothing has changed.

    It may run in a thread, one at a time.
    """

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / FILE
        self._kept = self._read()
        self._used = set(self._kept.used)

    @property
    def sessions(self) -> list[str]:
        return list(dict.fromkeys(each.session_id for each in self._kept.items))

    @property
    def told(self) -> frozenset[str]:
        """The sessions of which hubs were told that a prompt reaches them, or that something waits."""
        return frozenset(self._kept.told)

    def of(self, session_id: str) -> list[Queued]:
        """The next first."""
        return [each for each in self._kept.items if each.session_id == session_id]

    def use(self, command_id: str) -> None:
        """Raises NotObeyedError: it was used before."""
        if command_id in self._used:
            raise NotObeyedError("this command was given before")
        self._save(used=(*self._kept.used, command_id)[-MOST_USED:])
        self._used = set(self._kept.used)

    def add(self, item: Queued, place: int | None = None) -> None:
        """Raises NotObeyedError: too many wait."""
        mine = self.of(item.session_id)
        if len(mine) >= MOST_OF_ONE or len(self._kept.items) >= MOST_OF_ALL:
            whose = "this session" if len(mine) >= MOST_OF_ONE else "the sessions of this machine"
            raise NotObeyedError(f"{whose} has no room for more: take something back first")
        self._place(mine, item, place)

    def take_out(self, session_id: str, item_id: str) -> Queued:
        """Raises NotObeyedError: it does not wait there."""
        item = self._find(session_id, item_id)
        self.remove(item_id)
        return item

    def remove(self, item_id: str) -> None:
        """Whatever its state."""
        self._save(items=tuple(each for each in self._kept.items if each.id != item_id))

    def move(self, session_id: str, item_id: str, place: int) -> None:
        """Raises NotObeyedError."""
        item = self._find(session_id, item_id)
        self._place([each for each in self.of(session_id) if each.id != item_id], item, place)

    def mark(self, item_id: str, state: str) -> None:
        self._change(
            lambda each: msgspec.structs.replace(each, state=state) if each.id == item_id else each
        )

    def expire(self, now: int) -> list[Queued]:
        """Those that waited too long, which are taken out. now: ms."""
        over = [each for each in self._kept.items if now >= each.until and each.state == "waiting"]
        if over:
            self._save(items=tuple(each for each in self._kept.items if each not in over))
        return over

    def note_told(self, sessions: frozenset[str]) -> None:
        if sessions != self.told:
            self._save(told=tuple(sorted(sessions)))

    def _find(self, session_id: str, item_id: str) -> Queued:
        found = [each for each in self.of(session_id) if each.id == item_id]
        if not found:
            raise NotObeyedError("it does not wait any more: it was handed over, or taken back")
        if found[0].state != "waiting":
            raise NotObeyedError("it was handed over already")
        return found[0]

    def _place(self, others: Sequence[Queued], item: Queued, place: int | None) -> None:
        """What is being handed over stays first, whatever place somebody names."""
        fixed = sum(each.state != "waiting" for each in others)
        at = len(others) if place is None else max(fixed, place)
        mine = [*others[:at], item, *others[at:]]
        rest = [each for each in self._kept.items if each.session_id != item.session_id]
        self._save(items=(*rest, *mine))

    def _change(self, change: Callable[[Queued], Queued]) -> None:
        self._save(items=tuple(map(change, self._kept.items)))

    def _save(self, **changes: tuple[object, ...]) -> None:
        kept = msgspec.structs.replace(self._kept, **changes)
        write_private(self._file, msgspec.json.encode(kept))
        self._kept = kept

    def _read(self) -> _Kept:
        """What is damaged is put aside: whoever queued something can look what it was."""
        try:
            with os.fdopen(open_private(self._file, os.O_RDONLY), "rb") as file:
                raw = file.read(MOST_BYTES)
            return msgspec.json.decode(raw, type=_Kept)
        except FileNotFoundError:
            return _Kept()
        except (OSError, ValueError, RecursionError) as error:
            aside = self._file.with_suffix(".damaged")
            log.warning("%s cannot be read (%s), so nothing waits; it is kept as %s",
                        self._file, error, aside)  # fmt: skip
            try:
                self._file.replace(aside)
            except OSError as gone:
                log.warning("it could not be put aside: %s", gone)
            return _Kept()

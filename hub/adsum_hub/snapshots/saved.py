"""What of one machine Redis holds already, what is to be written next, and whether it may be. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from adsum_hub.inbox.sequence import covers
from adsum_hub.snapshots.fields import Keep, Snapshot
from adsum_shared import streams


class Saved:
    """version: of the snapshot last seen. applied, cursor: what it holds. newer: see Snapshot.

    dirty: sessions that have changed since, gone: sessions that are to leave it. unreadable, aside:
    sessions whose facts in it cannot be read, and those that have begun anew for that reason.
    highest: the highest version ever seen; Redis may have lost some.
    """

    def __init__(self) -> None:
        self.highest = 0
        self.dirty: set[str] = set()
        self.gone: set[str] = set()
        self.unreadable: set[str] = set()
        self.aside: set[str] = set()
        self._see(Snapshot())

    def adopt(self, snapshot: Snapshot) -> None:
        self._see(snapshot)
        self.unreadable = set(snapshot.unreadable)
        self.aside = set(snapshot.aside)
        self.dirty.clear()
        self.gone.clear()

    def is_due(self, applied: Mapping[str, int], cursor: str) -> bool:
        """A hub that is behind the stored snapshot never writes.

        Entries it has not read may be trimmed already, so its older cursor would lose them for
        everyone. The cursor alone is worth writing: what was set aside is not to be read again, and
        a collector waits for it to know what became of its entries.
        """
        if self.newer or not covers(applied, self.applied):
            return False
        return bool(self.dirty or self.gone) or applied != self.applied or cursor != self.cursor

    def change(self, changed: Collection[str]) -> None:
        self.dirty |= set(changed)
        self.gone -= set(changed)

    def drop(self, sessions: Collection[str]) -> None:
        self.gone |= set(sessions)
        self.dirty -= set(sessions)
        self.unreadable -= set(sessions)
        self.aside -= set(sessions)

    def take(self) -> tuple[set[str], set[str]]:
        """What the next save writes and what it removes. Given back with `refused`, if it fails."""
        dirty, self.dirty = self.dirty, set()
        gone, self.gone = self.gone, set()
        return dirty, gone

    def keep(self, dirty: Collection[str]) -> Keep:
        aside = self.unreadable & set(dirty)
        fields = [streams.SESSION + key for key in self.unreadable - aside]
        fields += [streams.ASIDE + key for key in self.aside]
        return Keep(sorted(aside), sorted(fields), self.highest)

    def written(self, version: int, header: Snapshot, kept: Collection[str]) -> None:
        self.version = version
        self.highest = max(self.highest, version)
        self.applied = header.applied
        self.cursor = header.cursor
        self.unreadable -= set(kept)
        self.aside |= set(kept)

    def refused(
        self, dirty: Collection[str], gone: Collection[str], present: Collection[str]
    ) -> None:
        self.dirty |= set(dirty)
        self.gone |= {key for key in gone if key not in present}

    def overtaken(
        self, stored: Snapshot, applied: Mapping[str, int], present: Collection[str]
    ) -> None:
        """Another hub has written, or Redis was set back. Its fold is ours: who is ahead matters."""
        rolled_back = not covers(stored.applied, self.applied)
        self._see(stored)
        if rolled_back:
            # Redis has lost its tail: what we wrote since is gone there, so write it all again.
            self.dirty = set(present)
        elif covers(stored.applied, applied):
            self.dirty.clear()

    def _see(self, stored: Snapshot) -> None:
        self.version = stored.version
        self.highest = max(self.highest, stored.version)
        self.applied = dict(stored.applied)
        self.cursor = stored.cursor
        self.newer = stored.newer

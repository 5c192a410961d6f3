"""What is wrong with one machine's keys, in sentences for people. Pure."""

from collections import deque
from typing import NamedTuple

from adsum_shared.envelope import VERSION
from adsum_shared.streams import SCHEMA_NUMBER

#: How long something that was met once is told of after its last time.
SHOWN_MS = 600_000
#: Whatever is told, the most important first; what is not named here comes last.
_RANKS = (
    *("access", "schema", "stream", "room", "version", "snapshot", "copy", "poison", "entry"),
    *("signal", "clock", "sessions", "many", "save", "heartbeat"),
)


class Troubles(dict[str, str]):
    """Name -> sentences. Set one like an item while it lasts, or `note` what happened."""

    def __init__(self) -> None:
        super().__init__()
        self._until: dict[str, int] = {}

    def note(self, name: str, sentences: str, now: int) -> bool:
        """Whether it is new."""
        is_news = name not in self
        self[name] = sentences
        self._until[name] = now + SHOWN_MS
        return is_news

    def expire(self, now: int) -> None:
        for name in [name for name, until in self._until.items() if until <= now]:
            del self._until[name]
            self.pop(name, None)

    def sentences(self, own: str | None) -> str | None:
        """All of them. own: what its collector says of itself, which goes first."""
        ranked = sorted(
            self, key=lambda name: _RANKS.index(name) if name in _RANKS else len(_RANKS)
        )
        return " ".join([*([own] if own else []), *(self[name] for name in ranked)]) or None


REVOKED = (
    "Its access was revoked, so nothing new of it comes in. It may join again after "
    "`adsum hosts reset`, or is forgotten by `adsum hosts forget`."
)
RESET = (
    "It has to join anew, with a new token: `adsum join … --again` on the machine itself, "
    "`adsum join … --new-identity` on a copy of it."
)


def newer_schema(schema: int) -> str:
    return (
        f"Saved by a newer Adsum (schema {schema}, this hub reads {SCHEMA_NUMBER}): "
        "upgrade this hub; it saves nothing of this host."
    )


def foreign_version(version: int) -> str:
    older = version < VERSION
    return (
        f"Its collector speaks batch format {version}, this hub reads {VERSION}: "
        f"upgrade {'that collector' if older else 'this hub'}. "
        "Nothing is lost: signals wait on that machine's disk."
    )


def unreadable_header(cause: str) -> str:
    return (
        f"Its saved state could not be read ({cause}): it is made anew from what its collector "
        "still holds."
    )


def unreadable_sessions(count: int, example: str) -> str:
    several = f"The saved facts of {count} of its sessions" if count > 1 else "Saved facts"
    return (
        f"{several} cannot be read ({example[:40]}) and are set aside: "
        "such a session shows again, incomplete, with its next signal."
    )


def strangers(count: int) -> str:
    entries = f"{count} entries" if count > 1 else "An entry"
    return (
        f"{entries} of an earlier run of its collector came after a later run's and "
        f"{'were' if count > 1 else 'was'} left out: this looks like a copy of a machine. "
        "Stop the collector on the copy, remove its host.json, and start it again."
    )


def too_many_sessions(most: int) -> str:
    return (
        f"It has {most:,} sessions that are not over, and further ones are left out until some of them "
        "are. If that many are meant to be, set ADSUM_MACHINE_SESSIONS at the hub; if not, look what "
        "runs there."
    )


def bad_entry(count: int, entry_id: str, cause: str) -> str:
    entries = f"{count} entries" if count > 1 else "An entry"
    return f"{entries} of its stream could not be read and {'were' if count > 1 else 'was'} left out (latest {entry_id}: {cause})."


def bad_signal(count: int, cause: str) -> str:
    signals = f"{count} signals" if count > 1 else "A signal"
    return f"{signals} could not be used and {'were' if count > 1 else 'was'} left out (latest: {cause})."


def filled(what: str, size: int, paused_ms: int) -> str:
    """size: bytes. paused_ms: for how long it is kept out of Redis; 0: not at all."""
    took = f"{size >> 20} MB" if size >> 20 else f"{size >> 10} kB"
    then = (
        f"It may write there again in {paused_ms // 60_000} minutes; `adsum hosts revoke` shuts it "
        "out for good."
        if paused_ms
        else "Its collector sends again what it holds."
    )
    cause = "more than one machine may" if size >> 18 else "and would have stayed there"
    return (
        f"Its {what} took {took} of Redis, {cause}, and was deleted. {then} "
        "Look who else has its login."
    )


def dated_ahead(count: int) -> str:
    signals = f"{count} signals were" if count > 1 else "A signal was"
    return (
        f"{signals} dated over an hour later than sent: they count as of when they were sent. "
        "Look at the clock of that machine, and who else has its login."
    )


def poisoned_stream(entry_id: str) -> str:
    return (
        f"Its stream had reached an id that nothing can follow ({entry_id}) and was deleted: "
        "its collector sends again what it holds. Look who else may write to Redis."
    )


# How long it will take until a machine's news is new, from how fast it has been coming.

#: A burst of work is here within a second; this many on the way for STEADY_MS are worth a word.
MANY = 500
STEADY_MS = 3_000
#: What the pace is measured over. Between two looks at least EVERY_MS, so that a sentence that
#: goes to every client does not change with each batch.
WINDOW_MS = 15_000
EVERY_MS = 3_000


class BacklogSample(NamedTuple):
    """left: signals that are on its disk and not here."""

    at: int
    left: int
    applied: int


class Backlog:
    """One machine's. Its sentence stands until the next look."""

    def __init__(self) -> None:
        self.told: str | None = None
        self._spool_id = ""
        self._looks: deque[BacklogSample] = deque()

    def look(self, now: int, spool_id: str, seq: int, applied: int) -> str | None:
        """now: ms. seq: the highest number in its spool. None: nothing worth telling."""
        if spool_id != self._spool_id:
            self._spool_id = spool_id
            self._looks.clear()
        looks = self._looks
        if looks and now - looks[-1].at < EVERY_MS:
            return self.told
        looks.append(BacklogSample(now, max(0, seq - applied), applied))
        while now - looks[0].at > WINDOW_MS:
            looks.popleft()
        steady = [each for each in looks if now - each.at <= STEADY_MS]
        lasting = looks[0].at <= now - STEADY_MS and all(each.left >= MANY for each in steady)
        self.told = _backlog(looks[0], looks[-1]) if lasting else None
        return self.told


def _backlog(first: BacklogSample, last: BacklogSample) -> str:
    what = f"About {_rounded(last.left):,} of its signals are still on their way"
    if last.applied <= first.applied:
        return f"{what}, and none has come for {_duration(last.at - first.at)}."
    if last.left >= first.left:
        return f"{what}, and their number grows."
    rest = (last.at - first.at) * last.left // (first.left - last.left)
    return f"{what}: {_duration(rest)} more at this pace."


def _rounded(count: int) -> int:
    """To two digits: nobody reads more, and each change is told to every client."""
    return int(float(f"{count:.1e}"))


def _duration(ms: int) -> str:
    seconds = ms // 1000
    for most, size, unit in ((90, 1, "s"), (90 * 60, 60, "min"), (36 * 3600, 3600, "h")):
        if seconds < most:
            return f"{max(1, seconds // size)} {unit}"
    return f"{seconds // 86_400} days"

"""Decides what calls for a human, which rules notify people of it, and what is due when. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from adsum_shared.commands import EXTEND, STATUSES
from adsum_shared.settings import EntryError, entries_of, read_entry
from adsum_shared.state import GROUP_OF, LEAST_URGENT, UNKNOWN_URGENCY, Group, HostView, SessionView

On = Literal["needs_you", "delivered", "review", "report", "host_offline"]
#: Less urgent than anything that needs a human.
NOT_URGENT = 9
#: A question that is guessed from the last words of an answer is told as what it is for certain.
GUESS = 0.7


class Case(msgspec.Struct, frozen=True):
    """key: the session's view id, or the host's.

    stamp: when its state began, by the host's own clock, so that it is the same in every hub; 0
    where a host is the case. since: the same by this hub's clock. agent: its name; called: what
    a message calls it, "" where it needs no name.
    """

    on: On
    key: str
    state: str
    stamp: int
    since: int
    host: str
    host_id: str
    urgency: int = NOT_URGENT
    label: str = ""
    title: str | None = None
    project: str | None = None
    #: nobody at its terminal can answer it, and it is held from there for seconds
    at_once: bool = False
    #: it is told by the same message, and so once
    review: bool = False
    agent: str = ""
    called: str = ""

    @property
    def identity(self) -> tuple[str, str, int]:
        return self.on, self.state, self.stamp

    def mark(self, channel: str) -> str:
        """The name of its mark on this channel: the same in every hub and every run."""
        parts = "\n".join((channel, self.key, self.on, self.state, str(self.stamp)))
        return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


class Sent(NamedTuple):
    """What was sent of a state: how urgent it was, and when by the hub's clock."""

    urgency: int
    at: int


def case_of_session(view: SessionView, stamp: int, called: str = "") -> Case | None:
    """None: nobody has to be told. called: see Case. What an unreachable machine said last is no present need."""
    if view.reachability == "offline" or view.urgency == LEAST_URGENT:
        return None
    state, on = view.state, _ON.get(view.state.group)
    if on is None:
        return None
    guessed = state.state == "awaiting_input" and state.confidence < GUESS
    needs_you = on == "needs_you"
    return Case(
        on=on,
        key=view.id,
        state="idle" if guessed else state.state,
        stamp=stamp,
        since=state.since,
        host=view.host,
        host_id=view.host_id,
        urgency=(view.urgency or UNKNOWN_URGENCY) if needs_you else NOT_URGENT,
        label=f"Awaiting review: {view.review.label}" if view.review else state.label,
        title=view.title,
        project=view.project,
        at_once=any(each.hold and EXTEND in each.hold.verbs for each in view.requests),
        review=view.review is not None,
        agent=view.agent,
        called=called,
    )


#: Behind the view id of the session whose report is the case.
REPORTED = "#report"
#: Of one that says that it is stuck or has failed; as urgent as a plan that waits.
REPORTED_URGENCY = 4


def case_of_report(view: SessionView, stamp: int, called: str = "") -> Case | None:
    """A case of its own beside what the session's state calls for. None: nothing is reported."""
    told = view.report
    if told is None or view.reachability == "offline":
        return None
    about = f" {told.issue}" if told.issue else ""
    return Case(
        on="report",
        key=view.id + REPORTED,
        state=told.status,
        stamp=stamp,
        since=told.at,
        host=view.host,
        host_id=view.host_id,
        urgency=NOT_URGENT if told.status == "passed" else REPORTED_URGENCY,
        label=f"Reported: {told.status}{about}",
        title=view.title,
        project=view.project,
        agent=view.agent,
        called=called,
    )


def case_of_host(view: HostView, since: int) -> Case | None:
    """since: when this hub has first seen it so; what it missed itself is no fault of the host's."""
    if view.reachability != "offline":
        return None
    return Case("host_offline", view.id, "offline", 0, since, view.label, view.id)


_ON: dict[Group, On] = {Group.NEEDS_YOU: "needs_you", Group.DELIVERED: "delivered"}


class Quiet(msgspec.Struct, frozen=True):
    """from_ may lie after to: then they last over midnight. Both are what a clock there shows."""

    from_: time
    to: time
    zone: ZoneInfo

    def end(self, now: int) -> int | None:
        """When they end, if it is quiet at `now`; both in ms since the epoch."""
        today = datetime.fromtimestamp(now / 1000, UTC).astimezone(self.zone).date()
        for day in (today - timedelta(days=1), today):
            begun, ended = self._of(day)
            if begun <= now < ended:
                return ended
        return None

    def _of(self, day: date) -> tuple[int, int]:
        """Instants, not times of day: an hour that comes twice neither ends nor begins them twice.

        In that hour they begin with its first coming and end with its second; a time that is
        skipped is read by the clock as it was before.
        """
        last = day if self.from_ < self.to else day + timedelta(days=1)
        return self._instant(day, self.from_, fold=0), self._instant(last, self.to, fold=1)

    def _instant(self, day: date, at: time, *, fold: int) -> int:
        local = datetime.combine(day, at, tzinfo=self.zone)
        skipped = local.astimezone(UTC).astimezone(self.zone).replace(tzinfo=None) != local.replace(
            tzinfo=None
        )
        return int(local.replace(fold=0 if skipped else fold).timestamp() * 1000)


#: The channel that everybody has: the browsers that asked for it.
PUSH = "push"
#: A need that has passed within this is not told: a state flickers, a person's screen must not.
LEAST_AFTER_MS = 1_000
#: What is older than this is nobody's news, whatever was told of it.
STALE_MS = 7 * 24 * 3_600_000

Content = Literal["none", "title"]


class Channel(msgspec.Struct, frozen=True):
    """url: apprise's, a secret as a whole; None for push. content: what of a session is told."""

    name: str
    content: Content = "none"
    url: str | None = None

    def __repr__(self) -> str:
        return f"Channel({self.name!r})"  # a traceback would show the URL


class Rule(msgspec.Struct, frozen=True):
    """states, hosts, projects, agents: patterns, none = any. digest_ms: one message in such a time."""

    on: On
    channels: tuple[str, ...]
    after_ms: int
    states: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    digest_ms: int = 0
    quiet: Quiet | None = None

    @property
    def id(self) -> str:
        """Another rule is another id, so that what stood before it is not told by it."""
        parts: tuple[object, ...] = (self.on, self.channels, self.states, self.hosts, self.projects)
        if self.agents:  # a rule of before there were several keeps its id
            parts += (self.agents,)
        return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()

    def matches(self, case: Case) -> bool:
        return (
            (case.on == self.on or (case.review and self.on == "review"))
            and _fits(self.states, case.state)
            and _fits(self.hosts, case.host, case.host_id)
            and _fits(self.projects, case.project)
            and _fits(self.agents, case.agent, case.called)
        )

    def due_at(self, since: int, now: int, *, at_once: bool = False) -> int:
        """When a case that began at `since` is told, if it still stands."""
        at = since if at_once else since + max(LEAST_AFTER_MS, self.after_ms)
        if self.digest_ms:
            # By the clock on the wall: every hub, and a hub started anew, comes to the same moment.
            at = max(at, now)
            at += -at % self.digest_ms
        return self.after_quiet(max(at, now)) if self.quiet else at

    def after_quiet(self, at: int) -> int:
        end = self.quiet.end(at) if self.quiet is not None else None
        return at if end is None else end


class Config(msgspec.Struct, frozen=True):
    """All rules and channels that are in force."""

    rules: tuple[Rule, ...]
    channels: tuple[Channel, ...]


def _fits(patterns: tuple[str, ...], *names: str | None) -> bool:
    if not patterns:
        return True
    words = [name.casefold() for name in names if name]
    return any(fnmatchcase(word, each.casefold()) for word in words for each in patterns)


MOST = 50
DAY_S = 24 * 3600
#: Without a word about it: a need that is met at the desk is not told; a machine may be restarted.
AFTER_S: dict[On, int] = {
    "needs_you": 60,
    "delivered": 1,
    "review": 60,
    "report": 1,
    "host_offline": 300,
}
#: A session that was closed or put away delivers nothing new.
STATES: dict[On, tuple[str, ...]] = {"delivered": ("task_complete",)}
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,39}")
#: What a pattern may look like if an error is to show it.
_PATTERN = re.compile(r"[\w*?!\[\]-]{1,40}", re.ASCII)
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _QuietEntry(_Entry, rename={"from_": "from"}):
    from_: str
    to: str
    zone: str


class _NotifyEntry(_Entry):
    channels: list[str]
    on: On = "needs_you"
    state: str | list[str] = []
    host: str | list[str] = []
    project: str | list[str] = []
    agent: str | list[str] = []
    after: int | None = None
    digest: int = 0
    quiet: _QuietEntry | None = None


class _ChannelEntry(_Entry):
    name: str
    url: str | None = None
    content: Content = "none"


def read_config(notify: Any, channel: Any) -> Config:
    """Both as TOML has them, or as JSON text. Without any rule: all channels, after a minute.

    Raises EntryError, which holds nothing of a URL: any part of it may be a secret.
    """
    channels: list[Channel] = []
    for where, raw in _entries("channel", channel):
        each = _channel(where, raw)
        if any(each.name == other.name for other in channels):
            step = "Give each channel a name of its own."
            raise EntryError(f"{where} ({each.name})", "the name is taken", step)
        channels.append(each)
    if all(each.name != PUSH for each in channels):
        channels.insert(0, Channel(PUSH))
    known = tuple(each.name for each in channels)
    rules = [_rule(where, raw, known) for where, raw in _entries("notify", notify)]
    default = Rule("needs_you", known, AFTER_S["needs_you"] * 1000)
    return Config(tuple(rules or [default]), tuple(channels))


def _entries(setting: str, given: Any) -> list[tuple[str, Any]]:
    entries = entries_of(setting, given)
    if len(entries) > MOST:
        where, step = entries[MOST][0], "Join some of them by patterns."
        raise EntryError(where, f"there are more than {MOST}", step)
    return entries


def _channel(where: str, raw: Any) -> Channel:
    name = _plain(raw.get("name")) if isinstance(raw, dict) else ""
    where += f" ({name})" if name else ""
    entry = read_entry(where, raw, _ChannelEntry)
    wrong = partial(EntryError, where)
    if not _NAME.fullmatch(entry.name):
        raise wrong("`name` is no plain word", "Use up to 40 letters, digits and . _ -")
    if entry.name == PUSH:
        if entry.url is not None:
            step = "Leave it out, or choose another name: `push` is the browsers' own."
            raise wrong("`push` has no `url`", step)
    elif not entry.url or not re.match(r"[A-Za-z][\w+.-]*://\S", entry.url):
        step = "Give it the apprise URL of a service, which looks like ntfy://host/topic."
        raise wrong("`url` is no apprise URL" if entry.url else "`url` is missing", step)
    return Channel(entry.name, entry.content, entry.url)


def _rule(where: str, raw: Any, known: tuple[str, ...]) -> Rule:
    entry = read_entry(where, raw, _NotifyEntry)
    wrong = partial(EntryError, where)
    strange = [name for name in entry.channels if name not in known]
    if strange or not entry.channels:
        cause = f"there is no channel {_plain(strange[0])!r}" if strange else "`channels` is empty"
        raise wrong(cause, f"Name one of {', '.join(known)}, or add a [[channel]].")
    after = AFTER_S[entry.on] if entry.after is None else entry.after
    for name, seconds in (("after", after), ("digest", entry.digest)):
        if not 0 <= seconds <= DAY_S:
            raise wrong(f"`{name}` is {seconds}", "Give seconds, from 0 to 86400.")
    if entry.on == "host_offline" and (entry.state or entry.project or entry.agent):
        step = "Leave them out, or write a rule of its own."
        raise wrong("a machine has no `state`, no `project` and no `agent`", step)
    # States are an open set, but whoever resolves them is this very hub: it knows all it makes.
    states = _patterns(entry.state)
    possible = [state for state, group in GROUP_OF.items() if group == entry.on]
    possible = list(STATUSES) if entry.on == "report" else possible
    for pattern in states:
        if not any(fnmatchcase(state, pattern.casefold()) for state in possible):
            shown = f" {pattern!r}" if _PATTERN.fullmatch(pattern) else ""
            cause = f"`state`{shown} fits no state of `{entry.on}`, so nobody would ever be told"
            step = f"Name one of {', '.join(possible)}; a pattern may stand for several."
            raise wrong(cause, step)
    return Rule(
        on=entry.on,
        channels=tuple(dict.fromkeys(entry.channels)),
        after_ms=after * 1000,
        states=states or STATES.get(entry.on, ()),
        hosts=_patterns(entry.host),
        projects=_patterns(entry.project),
        agents=_patterns(entry.agent),
        digest_ms=entry.digest * 1000,
        quiet=_quiet(where, entry.quiet),
    )


def _plain(name: Any) -> str:
    """For an error: what is no plain word may be a URL that came into the wrong place."""
    return name if isinstance(name, str) and _NAME.fullmatch(name) else ""


def _patterns(given: str | list[str]) -> tuple[str, ...]:
    return tuple([given] if isinstance(given, str) else given)


def _quiet(where: str, entry: _QuietEntry | None) -> Quiet | None:
    if entry is None:
        return None
    wrong = partial(EntryError, f"{where} (quiet)")
    for text in (entry.from_, entry.to):
        if not _TIME.fullmatch(text):
            raise wrong(f"{text[:20]!r} is no time of day", 'Write it as "22:00".')
    if entry.from_ == entry.to:
        raise wrong("`from` and `to` are the same", "Give them an end, or remove the rule.")
    try:
        zone = ZoneInfo(entry.zone)
    except (ValueError, OSError, LookupError):
        cause = f"there is no zone {entry.zone[:40]!r} on this machine"
        raise wrong(cause, 'Name one such as "Europe/Berlin" or "UTC".') from None
    return Quiet(time.fromisoformat(entry.from_), time.fromisoformat(entry.to), zone)


#: Nothing new is asked of whoever was told of the session before.
RESTING = frozenset({"idle", "stuck"})
#: It is the same need that has grown.
LASTING = frozenset({"budget_exceeded"})


class Decision(msgspec.Struct, frozen=True):
    """pending: channel -> when it is due, if the case still stands then.

    cancelled: what was pending for the case before is dropped. covered: channels to which this is
    no news after what they have been told in the same stretch of time; they count as told.
    """

    pending: dict[str, int] = {}
    cancelled: bool = False
    covered: tuple[str, ...] = ()


NOTHING = Decision()


def decide(
    rules: Sequence[Rule],
    before: Case | None,
    after: Case | None,
    now: int,
    *,
    told: Mapping[str, Mapping[str, Sent]],
    begun: Mapping[str, int],
) -> Decision:
    """told: channel -> state -> what it was told, since the session began to need somebody.

    begun: rule id -> since when there is such a rule; it tells nothing that was so before.
    """
    if after is None:
        return Decision(cancelled=before is not None)
    if before is not None and before.identity == after.identity:
        return NOTHING
    # What a more urgent need has hidden gets its whole time once it shows: whoever met that is there.
    hidden = before is not None and before.on == after.on and before.urgency < after.urgency
    since = now if hidden else after.since
    pending: dict[str, int] = {}
    for rule in rules:
        if not rule.matches(after) or after.since < max(begun.get(rule.id, now), now - STALE_MS):
            continue
        at = rule.due_at(max(since, after.since), now, at_once=after.at_once)
        for channel in rule.channels:
            pending[channel] = min(at, pending.get(channel, at))
    covered = tuple(each for each in pending if _is_covered(after, told.get(each, {})))
    for channel in covered:
        del pending[channel]
    return Decision(pending, before is not None, covered)


def _is_covered(case: Case, told: Mapping[str, Sent]) -> bool:
    """Whether whoever was told that knows this too, or need not: a session that only rests, say.

    Another need, which met a human's eye never, is not covered by a more urgent one that is met.
    """
    least = min((each.urgency for each in told.values()), default=NOT_URGENT)
    if not least <= case.urgency < NOT_URGENT:
        return False
    if case.state in RESTING:
        return True
    same = told.get(case.state)
    return same is not None and (case.since <= same.at or case.state in LASTING)


BURST = 5
#: Ten thousand agents that stop in one hour are so many messages to each person, and no more.
EVERY_MS = 12_000
FIRST_AGAIN_MS = 5_000
MOST_AGAIN_MS = 600_000


class Throttle:
    """How often one channel is sent to: a few messages at once, then one in a while.

    failures: in a row. What waits meanwhile stays pending, and is told together if it stands.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._filled_at = 0  # when the last of the burst is saved up again
        self._not_before = 0

    def free_at(self, now: int) -> int:
        """When the next message may go; now, if at once."""
        return max(now, self._not_before, self._filled_at - (BURST - 1) * EVERY_MS)

    def spent(self, now: int) -> None:
        self.failures = 0
        self._filled_at = max(now, self._filled_at) + EVERY_MS

    def failed(self, now: int, again_s: float | None) -> int:
        """When to try again: later each time, and no sooner than the other side wishes."""
        usual = min(MOST_AGAIN_MS, FIRST_AGAIN_MS * 2 ** min(self.failures, 10))
        self.failures += 1
        self._not_before = now + max(usual, int((again_s or 0.0) * 1000))
        return self._not_before


class OpenCase(msgspec.Struct):
    """told: channel -> state -> what it was told last."""

    case: Case
    told: dict[str, dict[str, Sent]]


class Pending:
    """The cases that are open, and which channel is due to hear of which and when.

    It is as large as the cases that stand, whatever happens: what has passed leaves nothing behind.
    """

    def __init__(self) -> None:
        self.standing: dict[str, OpenCase] = {}
        #: channel -> key of a case -> when it is due
        self._due: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._due.values()))

    @property
    def needing(self) -> int:
        """Sessions that need a human, whether anybody is to be told of them or not."""
        return sum(each.case.on == "needs_you" for each in self.standing.values())

    def enter(self, case: Case, decision: Decision) -> None:
        """Its latest words are kept also where nothing else has changed."""
        known = self.standing.setdefault(case.key, OpenCase(case, {}))
        if decision.cancelled:
            self._cancel(case.key)
        if known.case.on != case.on:
            known.told.clear()
        known.case = case
        for channel, at in decision.pending.items():
            self.put(case, channel, at)

    def leave(self, key: str) -> None:
        self.standing.pop(key, None)
        self._cancel(key)

    def _cancel(self, key: str) -> None:
        for due in self._due.values():
            due.pop(key, None)

    def put(self, case: Case, channel: str, at: int) -> None:
        """Also to put off. Nothing if the case does not stand any more."""
        if self.stands(case):
            self._due.setdefault(channel, {})[case.key] = at

    def take(self, channel: str, now: int) -> list[Case]:
        """Those due on a channel, the earliest first, no longer pending; `put` puts one back."""
        due = self._due.get(channel, {})
        keys = sorted((at, key) for key, at in due.items() if at <= now)
        for _, key in keys:
            del due[key]
        return [self.standing[key].case for _, key in keys]

    def mark_sent(self, case: Case, channel: str, now: int) -> None:
        standing = self.standing.get(case.key)
        if standing is not None and standing.case.on == case.on:
            standing.told.setdefault(channel, {})[case.state] = Sent(case.urgency, now)

    def stands(self, case: Case) -> bool:
        standing = self.standing.get(case.key)
        return standing is not None and standing.case.identity == case.identity

    def waiting(self, channel: str) -> int:
        return len(self._due.get(channel, ()))

    def next(self, channel: str) -> int | None:
        return min(self._due.get(channel, {}).values(), default=None)

"""Finds, chooses and asks the domains that word a session; leaves out what is slow or at fault."""

from __future__ import annotations

import fnmatch
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import PurePath
from typing import Annotated, Any, NamedTuple

import msgspec
import pluggy
from msgspec.structs import replace

from adsum_hub.domains.built_in import BUILT_IN
from adsum_hub.domains.contract import (
    API_VERSION,
    CHIPS_MAX,
    GROUP,
    BadDisplayError,
    Display,
    DomainSpec,
    check,
)
from adsum_hub.facts import Facts
from adsum_hub.verdict.ground import ground_of
from adsum_hub.views import with_display
from adsum_shared import Timer
from adsum_shared.settings import EntryError, entries_of, read_entry
from adsum_shared.state import DisplayView, SessionView

log = logging.getLogger(__name__)

Interpret = Callable[[SessionView], object]

NOTHING = Display()

#: What one answer may take, in seconds.
LIMIT_S = 0.005
#: A domain that was too slow for so many sessions, and took so long together, is asked no more:
#: else one that waits for a network would stop the hub for every session there is.
SLOW_MOST = 3
SLOW_MOST_S = 1.0
#: (domain, session) pairs remembered as left out; then the oldest is tried again.
LEFT_OUT_MAX = 20_000
#: What nobody can change.
PLAIN = frozenset({str, int, float, bool, type(None)})


class Domains:
    """timer: seconds, of any start. Without domains every session is shown as the core has it.

    notes: for people, what is wrong with domains.
    """

    def __init__(
        self,
        domains: Mapping[str, Interpret] | None = None,
        choice: DomainChoice | None = None,
        timer: Timer = lambda: 0.0,
    ) -> None:
        self.notes: list[str] = []
        self._domains = dict(domains or {})
        self._choice = choice or DomainChoice()
        self._timer = timer
        self._left_out: dict[tuple[str, str], None] = {}
        self._slow: dict[str, tuple[int, float]] = {}
        self._failed: set[str] = set()
        #: by view, of sessions at rest: what `tools_used` was made of when domains were asked last
        self._used: dict[str, tuple[object, ...]] = {}

    def shown(self, view: SessionView, before: SessionView | None, facts: Facts) -> SessionView:
        """The view with its display. `before` itself if nothing else than that has changed."""
        if not self._domains:
            return view
        # Not in the view, and a call that is heard of late changes nothing else.
        used = (facts.turns, facts.tools, facts.done) if view.state.state in RESTING else ()
        if before is not None and self._used.get(view.id, ()) == used and _is_alike(before, view):
            return before
        self.forget(view.id)
        if used:
            self._used[view.id] = used
        names = [
            name
            for name in self._choice.names(view.project, view.cwd)
            if name in self._domains and (name, view.id) not in self._left_out
        ]
        if not names:
            return view
        asked = _apart(view, facts)
        answers = [(name, answer) for name in names if (answer := self._ask(name, asked))]
        return with_display(view, _merged(answers)) if answers else view

    def forget(self, view_id: str) -> None:
        """The session is listed no more."""
        self._used.pop(view_id, None)

    def _ask(self, name: str, asked: SessionView) -> Display | None:
        interpret = self._domains[name]
        try:
            answer, took = self._timed(interpret, asked)
            if took > LIMIT_S:
                # A pause of the machine or of the garbage collector is no fault of the domain's.
                answer, took = self._timed(interpret, asked)
            if took > LIMIT_S:
                self._too_slow(name, asked, took)
                return None
            if answer is not None and (display := check(answer)) != NOTHING:
                return display
        except BadDisplayError as error:
            self._leave_out(name, asked, str(error))
        # A plugin may raise anything, and sys.exit() is no way to end a hub. Its text is not shown:
        # it may hold what the session is about.
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            self._leave_out(name, asked, f"it raised {type(error).__name__}{_place(error)}")
        return None

    def note(self, note: str) -> None:
        log.warning("%s", note)
        self.notes.append(note)

    def _timed(self, interpret: Interpret, asked: SessionView) -> tuple[object, float]:
        began = self._timer()
        answer = interpret(asked)
        return answer, self._timer() - began

    def _too_slow(self, name: str, asked: SessionView, took: float) -> None:
        times, total = self._slow.get(name, (0, 0.0))
        times, total = self._slow[name] = times + 1, total + took
        self._leave_out(
            name, asked, f"it took {took * 1000:.0f} ms, {LIMIT_S * 1000:.0f} are allowed"
        )
        if times >= SLOW_MOST and total >= SLOW_MOST_S:
            self._domains.pop(name, None)
            self.note(
                f"Domain {name} is switched off: it was too slow for {times} sessions. Repair the "
                "package that brings it and restart the hub."
            )

    def _leave_out(self, name: str, asked: SessionView, why: str) -> None:
        """For this session, until the hub restarts; noted the first time only."""
        if len(self._left_out) >= LEFT_OUT_MAX:
            del self._left_out[next(iter(self._left_out))]
        self._left_out[name, asked.id] = None
        if name not in self._failed:
            self._failed.add(name)
            self.note(
                f"Domain {name} fails for some sessions, which keep the core's label: {why} "
                f"(session {asked.id}). Repair the package that brings it and restart the hub."
            )


def _is_alike(before: SessionView, view: SessionView) -> bool:
    """Whether nothing differs but what domains said. A hint has changed the rank as well."""
    hinted = before.display is not None and before.display.urgency_hint is not None
    if before.rank != view.rank and not (hinted and view.urgency is not None):
        return False
    return replace(before, display=None, rank=view.rank) == view


def _apart(view: SessionView, facts: Facts) -> SessionView:
    """What a domain is given: with the turn's finished calls, and nothing that is still ours to be changed.

    Structs are frozen, but a context and a payload are dicts, the very ones that states are made of.
    """
    state = view.state
    context = _copied(state.context)
    if state.state in RESTING and (used := tools_used(facts)):
        context = {**(context or {}), "tools_used": used}
    requests = view.requests
    if requests:
        requests = tuple(replace(each, payload=deepcopy(each.payload)) for each in requests)
    return replace(view, state=replace(state, context=context), requests=requests)


def _copied(context: dict[str, Any] | None) -> dict[str, Any] | None:
    """Nearly always of texts alone, and to look into each of them took as long as the domains do."""
    if context is None or all(type(each) in PLAIN for each in context.values()):
        return None if context is None else dict(context)
    return deepcopy(context)


def _merged(answers: list[tuple[str, Display]]) -> DisplayView:
    """Of several domains the first that says a thing is heard; chips come from all."""
    said = [answer for _, answer in answers]
    return DisplayView(
        label=next((each.label for each in said if each.label is not None), None),
        icon=next((each.icon for each in said if each.icon is not None), None),
        urgency_hint=next((x.urgency_hint for x in said if x.urgency_hint is not None), None),
        chips=tuple(chip for each in said for chip in each.chips)[:CHIPS_MAX],
        domains=tuple(name for name, _ in answers),
    )


def _place(error: BaseException) -> str:
    """Where it was raised: file and line, the innermost."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


# What the main agent did in the turn that has ended: `tools_used` in the context of plugins.

#: The states of a turn that came to its own end. An interrupted one shows as `idle` too.
RESTING = frozenset({"idle", "task_complete"})
#: The latest so many, oldest first.
DEEDS_MAX = 16


def tools_used(facts: Facts) -> list[dict[str, Any]]:
    """Finished calls, each with tool, role, summary and, if it failed, its error.

    Not those in the background, which finish when they start, and none of subagents. They are not
    part of the state: clients have no use for them, and they would double what is sent to them.
    """
    if not facts.tools:
        return []
    ground = ground_of(facts)
    stand = ground.stand
    if not stand.closed or stand.how != "ended":
        return []
    done = [
        (tool.first, key, tool)
        for key, tool in facts.calls.items()
        if tool.finished
        and tool.agent_id is None
        and not (tool.background or tool.denied or tool.is_interrupt)
        and tool.first >= max(stand.began, ground.run)
    ]
    return [
        {
            "tool": tool.tool,
            "role": tool.role,
            "summary": tool.summary,
            **({} if tool.ok else {"error": tool.error or "failed"}),
        }
        for _, _, tool in sorted(done, key=lambda each: each[:2])[-DEEDS_MAX:]
    ]


# Finding domains: those built in, and those that installed packages bring by entry point.

NEXT = "Repair or remove that package and restart the hub; it runs without this domain."


class Found(NamedTuple):
    """faults: for people, one sentence or two for each domain that cannot be used."""

    domains: dict[str, Interpret]
    broken: frozenset[str]
    faults: tuple[str, ...]


class UnusableError(Exception):
    """A domain cannot be used; says why."""


def find(installed: Iterable[EntryPoint] | None = None) -> Found:
    """installed: the entry points; by default those of this environment. Imports what they name."""
    points = entry_points(group=GROUP) if installed is None else installed
    domains: dict[str, Interpret] = dict(BUILT_IN)
    origins = dict.fromkeys(BUILT_IN, "Adsum")
    broken, faults = set(), []
    # By package, so that all hubs of one installation choose alike.
    for point in sorted(points, key=lambda each: (each.name, _package(each), each.value)):
        package = _package(point)
        if point.name in origins:
            cause = f"is already brought by {origins[point.name]}"
            faults.append(f"Domain {point.name} of {package} {cause}, which stays. {NEXT}")
            continue
        origins[point.name] = package
        try:
            domains[point.name] = _checked(point.name, _load(point))
        except UnusableError as error:
            broken.add(point.name)
            faults.append(f"Domain {point.name} of {package} cannot be used: {error}. {NEXT}")
    return Found(domains, frozenset(broken), tuple(faults))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unnamed package"


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    # Whatever somebody else's module does when it is imported, sys.exit() too, must not end a hub.
    except (Exception, SystemExit) as error:
        said = str(error).partition("\n")[0][:200]
        raise UnusableError(f"its import fails with {type(error).__name__} ({said})") from error


def _checked(name: str, plugin: Any) -> Interpret:
    """A plugin manager for each: a fault of one stays its own."""
    version = getattr(plugin, "adsum_domain_api", None)
    if version != API_VERSION:
        version_words = (
            "names no version" if version is None else f"is written for version {version!r:.20}"
        )
        raise UnusableError(
            f"it {version_words} of the contract (adsum_domain_api), this is {API_VERSION}"
        )
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(DomainSpec)
    try:
        manager.register(plugin, name)
    except pluggy.PluginValidationError as error:
        raise UnusableError("its interpret takes other arguments than session") from error
    except Exception as error:  # every attribute of the plugin is looked at, and may be code
        raise UnusableError(f"looking at it fails with {type(error).__name__}") from error
    hook = manager.hook.interpret
    if not hook.get_hookimpls():
        raise UnusableError("it has no function interpret marked with hookimpl")
    return lambda session: hook(session=session)


# Which of them speak for which project: the setting `domains`.

#: Where no entry matches.
DEFAULT = ("sdlc",)


class _DomainEntry(msgspec.Struct, forbid_unknown_fields=True):
    """project: a glob. use: names of domains."""

    project: Annotated[str, msgspec.Meta(min_length=1)]
    use: list[str]


class DomainChoice:
    """The first entry whose glob matches the project's name decides; with a slash, its directory."""

    def __init__(self, entries: Sequence[tuple[str, tuple[str, ...]]] = ()) -> None:
        self._entries = [
            ("/" in glob, re.compile(fnmatch.translate(glob)), names) for glob, names in entries
        ]
        # A hub meets the same few projects again and again.
        self.names = lru_cache(maxsize=4096)(self._names)

    def _names(self, project: str | None, cwd: str | None) -> tuple[str, ...]:
        for by_directory, glob, names in self._entries:
            if glob.match((cwd if by_directory else project) or ""):
                return names
        return DEFAULT


def read_choice(entries: Sequence[Any], known: Collection[str]) -> DomainChoice:
    """entries: tables with `project`, a glob, and `use`, names of domains. Raises EntryError."""
    choices: list[tuple[str, tuple[str, ...]]] = []
    for where, raw in entries_of("domains", entries):
        entry = read_entry(where, raw, _DomainEntry)
        for name in entry.use:
            if name not in known:
                there = ", ".join(sorted(known))
                step = f"There are {there}. Install the package that brings it."
                raise EntryError(where, f"no domain is called {name!r}", step)
        choices.append((entry.project, tuple(dict.fromkeys(entry.use))))
    return DomainChoice(choices)


def open_domains(entries: Sequence[Any], timer: Timer) -> Domains:
    """All there are, chosen by the setting `domains`. Raises EntryError if that cannot be used."""
    found = find()
    domains = Domains(
        found.domains, read_choice(entries, found.domains.keys() | found.broken), timer
    )
    for fault in found.faults:
        domains.note(fault)
    return domains

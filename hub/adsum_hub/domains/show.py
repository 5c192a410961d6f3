"""Asking the domains how to show a session: held to their time, checked, and left out if at fault."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from adsum_hub.domains.choice import Choice, read_choice
from adsum_hub.domains.contract import CHIPS_MAX, BadDisplayError, Display, check
from adsum_hub.domains.deeds import RESTING, tools_used
from adsum_hub.domains.registry import Interpret, find
from adsum_hub.facts import Facts
from adsum_hub.order import with_display
from adsum_shared.display import DisplayView
from adsum_shared.state import SessionView

log = logging.getLogger(__name__)

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
        choice: Choice | None = None,
        timer: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.notes: list[str] = []
        self._domains = dict(domains or {})
        self._choice = choice or Choice()
        self._timer = timer
        self._left_out: dict[tuple[str, str], None] = {}
        self._slow: dict[str, tuple[int, float]] = {}
        self._failed: set[str] = set()

    def shown(self, view: SessionView, before: SessionView | None, facts: Facts) -> SessionView:
        """The view with its display. `before` itself if nothing else than that has changed."""
        if not self._domains:
            return view
        if before is not None and _is_alike(before, view):
            return before
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
        # A plugin may raise anything, and sys.exit() is no way to end a hub. Its text is not told:
        # it may hold what the session is about.
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            self._leave_out(name, asked, f"it raised {type(error).__name__}{_place(error)}")
        return None

    def tell(self, note: str) -> None:
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
            self.tell(
                f"Domain {name} is switched off: it was too slow for {times} sessions. Repair the "
                "package that brings it and restart the hub."
            )

    def _leave_out(self, name: str, asked: SessionView, why: str) -> None:
        """For this session, until the hub restarts; told the first time only."""
        if len(self._left_out) >= LEFT_OUT_MAX:
            del self._left_out[next(iter(self._left_out))]
        self._left_out[name, asked.id] = None
        if name not in self._failed:
            self._failed.add(name)
            self.tell(
                f"Domain {name} fails for some sessions, which keep the core's label: {why} "
                f"(session {asked.id}). Repair the package that brings it and restart the hub."
            )


def open_domains(entries: Sequence[Any], timer: Callable[[], float]) -> Domains:
    """All there are, chosen by the setting `domains`. Raises DomainsError if that cannot be used."""
    found = find()
    domains = Domains(
        found.domains, read_choice(entries, found.domains.keys() | found.broken), timer
    )
    for fault in found.faults:
        domains.tell(fault)
    return domains


def _is_alike(before: SessionView, view: SessionView) -> bool:
    """Whether nothing differs but what domains said. A hint has changed the rank as well."""
    hinted = before.display is not None and before.display.urgency_hint is not None
    if before.rank != view.rank and not (hinted and view.urgency is not None):
        return False
    return replace(before, display=None, rank=view.rank) == view


def _apart(view: SessionView, facts: Facts) -> SessionView:
    """What a domain is given: with the turn's deeds, and nothing that is still ours to be changed.

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

"""Keeps and searches the history: sessions that are over, and those put away by hand. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from adsum_hub.facts import Ended, Facts
from adsum_hub.fold.fold import OLD_STEPS, thinned
from adsum_hub.inbox import MOST_MS
from adsum_hub.verdict.judge import Verdict
from adsum_shared import MOST_DAYS
from adsum_shared.state import AgentState, Group

#: Kept per host: the newest so many, and none that is older.
MOST_PAST = 20_000
PAST_MS = MOST_DAYS * 24 * 3_600_000


class Dismissal(msgspec.Struct, frozen=True):
    """What somebody decided about a session. kind: `restored` takes an earlier one back.

    at: when, by the session's host's clock; of two the later holds. seen: the last that had
    happened in the session as the hub knew it, by the same clock.
    """

    kind: Literal["dismissed", "archived", "restored"]
    at: Annotated[int, msgspec.Meta(ge=0, le=MOST_MS)]
    seen: Annotated[int, msgspec.Meta(ge=0, le=MOST_MS)]


def happened(facts: Facts) -> int:
    """When something last happened there.

    The registry's word that it is busy or waits counts as well: of a dialog without a hook there is
    no other. A sign of life does not, nor what was used, nor that a title has changed.
    """
    return max(facts.moved, facts.engaged)


def stands(told: Dismissal, facts: Facts) -> bool:
    """Whether nothing has happened since somebody decided this; an archived session may have ended.

    It is compared with the last event that the hub had, and not with the time of the decision: what
    happened in between, and is still on its way, nobody has seen. (Rejected: the time. A permission
    that was asked while somebody dismissed the session would stay hidden.) Whoever archives a session
    and then closes its terminal does not want it back on the list. (Rejected: the same for a dismissed
    one. That it has ended is news, and it stays among what is delivered.)
    """
    if happened(facts) <= told.seen:
        return True
    if told.kind != "archived" or facts.engaged > told.seen:
        return False
    ends = [end.at for end in (facts.ended, facts.left, facts.closing) if end is not None]
    gone = facts.process.gone if facts.process is not None else 0
    doings = [max(turn.first, turn.closed) for turn in facts.turns.values()]
    doings += [max(call.first, call.finished) for call in facts.calls.values()]
    return max(ends, default=gone) > told.seen >= max(doings, default=0)


def stripped(facts: Facts, state: AgentState | None) -> Facts:
    """What remains of a session a week after it was delivered.

    Nothing of it can call for a human: no turn, request or process is kept, nor when any witness
    but the transcript spoke, so it counts as never seen alive until one speaks again.
    """
    ended = facts.ended
    if state is not None and state.state in ("session_ended", "suspended", "archived"):
        # By a process that was gone, say, which is forgotten.
        reason = str((state.context or {}).get("reason", "other"))
        ended = Ended(state.since, reason, "process")
    meta = dict(facts.meta)
    answer, prompt = facts.last_answer, facts.last_prompt
    if answer is not None and "last_answer" not in meta:
        meta["last_answer"] = (facts.updated_at, answer)
    return Facts(
        facts.session_id,
        agent=facts.agent,
        first_prompt=facts.first_prompt,
        last_prompt=prompt,
        born=facts.born,
        known=facts.known,
        ended=ended,
        left=facts.left,
        closing=facts.closing,
        transcript_at=facts.updated_at,
        moved=facts.moved,
        dismissed=facts.dismissed,
        report=facts.standing_report,
        meta=meta,
        usage=facts.usage,
        costs=facts.costs,
        # Budgets look back further than a week.
        trail={day: thinned(steps, OLD_STEPS) for day, steps in facts.trail.items()},
        used_at=facts.used_at,
        activity=facts.activity,
    )


_NOTHING: dict[str, Any] = {}
_MAPS = tuple(name for name, kind in Facts.__annotations__.items() if kind.startswith("dict["))
#: Said by many sessions in the same words.
_COMMON = ("cwd", "project", "branch", "model", "mode", "version", "worktree")


def packed(facts: Facts) -> Facts:
    """The same in less memory, for there may be 20,000: what is equal is one object.

    Facts are never changed in place, so they can share what they are made of.
    """
    times: dict[int, int] = {}
    meta = {
        intern(name): (times.setdefault(at, at), intern(text) if name in _COMMON else text)
        for name, (at, text) in facts.meta.items()
    }
    usage = {intern(key): group for key, group in facts.usage.items()}
    maps = {name: getattr(facts, name) or _NOTHING for name in _MAPS}
    trail = {intern(day): steps for day, steps in facts.trail.items()} or _NOTHING
    maps |= {"meta": meta or _NOTHING, "usage": usage or _NOTHING}
    return replace(facts, **maps, trail=trail)


def surplus(past: Mapping[str, int], now: int) -> set[str]:
    """Those that are not kept any longer. past: when each ended. now: their host's clock."""
    if not past:
        return set()
    oldest = now - PAST_MS
    gone = {key for key, ended_at in past.items() if ended_at < oldest}
    kept = len(past) - len(gone)
    if kept > MOST_PAST:
        newest_last = sorted((at, key) for key, at in past.items() if key not in gone)
        gone |= {key for _, key in newest_last[: kept - MOST_PAST]}
    return gone


def past_verdict(facts: Facts, archived: Dismissal | None = None) -> Verdict:
    """Of history there is nothing to judge: it is over."""
    state = past_state(facts)
    if archived is not None:
        since = max(archived.at, archived.seen)
        state = AgentState(Group.DELIVERED, "archived", "Archived", 1.0, "fallback", since)
    return Verdict(state, [], frozenset(), None, False, 0, facts.updated_at, None)  # noqa: FBT003 - a record


def past_state(facts: Facts) -> AgentState:
    ends = [end for end in (facts.ended, facts.left, facts.closing) if end is not None]
    latest = max(ends, key=lambda end: end.at, default=None)
    return AgentState(
        group=Group.DELIVERED,
        state="session_ended",
        label="Session closed",
        confidence=1.0,
        source="hook" if latest is not None and latest.source == "hook" else "transcript",
        since=facts.ended_at,
    )


class HistorySearch(msgspec.Struct, frozen=True):
    """words: casefolded; all of them must occur. host: label or id."""

    words: tuple[str, ...] = ()
    host: str | None = None
    project: str | None = None
    agent: str | None = None

    def finds(self, facts: Facts, host: str) -> bool:
        if self.project is not None and self.project != (facts.project or ""):
            return False
        if self.agent not in (None, facts.agent):
            return False
        if not self.words:
            return True
        text = _text(facts, host)
        return all(word in text for word in self.words)


_SEARCHED = ("title", "ai_title", "project", "cwd", "branch", "pr", "worktree")


def _text(facts: Facts, host: str) -> str:
    """Whatever a person would remember a session by."""
    meta = facts.meta
    words = [meta[name][1] for name in _SEARCHED if name in meta]
    return "\n".join([*words, facts.title or "", host, facts.session_id, facts.agent]).casefold()


def search(
    q: str | None, host: str | None = None, project: str | None = None, agent: str | None = None
) -> HistorySearch:
    return HistorySearch(tuple((q or "").casefold().split()), host, project, agent)

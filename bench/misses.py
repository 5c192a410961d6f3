"""Why a span did not settle: what the witnesses heard could not know, or a true miss."""

from __future__ import annotations

from collections.abc import Collection

from bench.score import Miss

#: A transcript is written 0.1 to 0.25 s after the fact, so it cannot settle a span this short.
TOO_SHORT = 500


def explained(miss: Miss, witnesses: Collection[str], *, by_left_out: bool = False) -> str:
    """by_left_out: with the hooks that our installer leaves out it would have settled."""
    known = " and ".join(miss.known_to) or "nobody"
    fact = blind_spot(miss, set(witnesses))
    if fact is not None:
        verdict = f"could not know: {fact}"
    elif by_left_out:
        verdict = "could not know: only a hook that is not installed told of it in time"
    elif miss.reach:
        verdict = f"TRUE MISS: known to {known}"
    else:
        verdict = f"could not know: told to {known} only"
    return (
        f"  {miss.scenario} {miss.session_id[:8]} {miss.from_ms}-{miss.to_ms} ({miss.why}):"
        f" want {miss.want}, got {miss.got}; {verdict}"
    )


def blind_spot(miss: Miss, witnesses: set[str]) -> str | None:
    """What these witnesses never tell. `known_to` cannot say it: it names who said *anything*."""
    ended, idle = miss.want == "session_ended", miss.want.startswith("idle")
    if witnesses == {"hooks"} and idle:
        if miss.got.startswith("waiting_for_agent"):
            return "no hook fires when a subagent is killed"
        return "no hook fires on Esc or No"
    if witnesses == {"transcript"}:
        if miss.want == "needs_permission":
            return "a transcript shows no open permission dialog"
        if ended:
            return "a transcript need not say that its session was closed"
        if miss.to_ms - miss.from_ms < TOO_SHORT:
            return "over before the transcript was written"
    if witnesses <= {"hooks", "transcript"} and ended and not miss.known_to:
        return "only the process table sees a process killed"
    return None

"""How well a session's witnesses are heard, and what is wrong with its hooks. Pure; host's times."""

from __future__ import annotations

from adsum_hub.facts import Facts
from adsum_hub.parts import LATENESS
from adsum_shared.state import WitnessView

#: How long a prompt's own hook may keep us waiting beyond LATENESS: the latest of 78 recorded ones
#: came 2.1 s after its line's stamp.
GRACE = 5_000


def witnesses(facts: Facts, now: int, *, over: bool, offset_ms: int = 0) -> tuple[WitnessView, ...]:
    """Who has been heard, in a fixed order, and hooks that should have been (heard_at 0: never).

    over: the session has ended, so nothing of it is missing any more. offset_ms: the host's clock
    minus the one that the views go by.
    """
    problem = hook_problem(facts, now, over=over)
    found: list[WitnessView] = []
    if facts.hook_at or problem:
        heard_at = facts.hook_at - offset_ms if facts.hook_at else 0
        found.append(WitnessView("hook", heard_at, problem))
    if facts.transcript_at:
        found.append(WitnessView("transcript", facts.transcript_at - offset_ms))
    if facts.registry_at:
        found.append(WitnessView("registry", facts.registry_at - offset_ms))
    # Whoever names a process, it is the process table that has been asked when it began.
    process_at = max(facts.process_at, facts.process.seen if facts.process is not None else 0)
    if process_at:
        found.append(WitnessView("process", process_at - offset_ms))
    if facts.statusline_at:
        found.append(WitnessView("statusline", facts.statusline_at - offset_ms))
    return tuple(found)


def hook_problem(facts: Facts, now: int, *, over: bool) -> str | None:
    missing = None if over else missing_from(facts)
    if missing is not None and now >= missing:
        return "missing"
    return "doubled" if is_doubled(facts) else None


def missing_from(facts: Facts) -> int | None:
    """From when on the session's hooks count as missing; None while nothing speaks for that.

    A deadline like those of resolve(): a session whose hooks are gone may have nothing else to say
    for minutes. Counted from the *earliest* prompt that no hook told of, since in a session of
    short turns the latest is always within its grace.
    """
    # Of what happened before a collector looked no hook could tell; a line is 0.2 s old when read.
    heard = max(facts.hook_at + LATENESS if facts.hook_at else 0, facts.known - LATENESS)
    prompts = [
        turn.prompt
        for turn in facts.turns.values()
        if turn.prompt > heard and turn.typed and not _may_have_waited(facts, turn.prompt)
    ]
    # The registry is believed only where no hook was ever heard. (Rejected: any `busy` later than
    # the last hook; an approval at the terminal and a typed /compact make one too.)
    if facts.engaged > heard and not facts.hook_at:
        prompts.append(facts.engaged)
    return min(prompts) + LATENESS + GRACE if prompts else None


def _may_have_waited(facts: Facts, prompt: int) -> bool:
    """A queued prompt's hook fires when it is typed, long before its turn begins."""
    began = prompt - LATENESS
    return 0 < facts.queued < began and not facts.queued <= facts.dequeued < began


def is_doubled(facts: Facts) -> bool:
    """A hook came twice, and no call of a later prompt has come once since.

    A call counts as come once when later hooks have come and its second delivery has not.
    """
    if not facts.doubled:
        return False
    later = [turn.prompt for turn in facts.turns.values() if turn.prompt > facts.doubled]
    return not later or not any(
        tool.hooked >= min(later) and tool.hooked + LATENESS <= facts.hook_at
        for tool in facts.tools.values()
    )

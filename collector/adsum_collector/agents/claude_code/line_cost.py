"""Transcript lines that count: what the session has cost by its own books, how full its context is."""

from __future__ import annotations

from typing import Final

from adsum_collector.agents.claude_code.amounts import (
    SYNTHETIC,
    Dollars,
    ModelUsage,
    costs_of,
    prompt_size,
)
from adsum_collector.agents.claude_code.line import Context, Line
from adsum_collector.agents.claude_code.tool_hooks import Common
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal

ODD: Final = "odd cost"
AHEAD: Final = "date in the future"


def cost_state(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    """The books are closed: the last thing written before the process lets go of the session.

    A headless run does that a little before it is over.
    """
    over = s.SessionEnded(**common, reason="run_over" if known.headless else "closed")
    return [*_cost(line, known, common), over]


def _cost(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    """A total that is none is not told; models of which one is odd are left out, all of them.

    Nor what was spent on days that have not come: the tokens of these days are not counted either.
    """
    if known.ahead:
        line.faults.append(AHEAD)
        return []
    total = line.get("totalCostUSD", Dollars)
    untold = line.raw("modelUsage") in (None, b"null")
    models = {} if untold else line.get("modelUsage", dict[str, ModelUsage])
    if total is None or models is None:
        line.faults.append(ODD)
    costs = costs_of(models or {})
    if total is None or not (total or costs):
        return []
    if not known.news({"cost": repr((total, costs))}):
        return []
    return [s.CostReported(**common, cost_usd=total, models=costs or None)]


def context_used(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    """By the last answer of the main agent. Answers of others have a context of their own."""
    if line.type != "assistant" or line.flag("isSidechain") or line.flag("isApiErrorMessage"):
        return []
    used = None if line.message("model") == SYNTHETIC else prompt_size(line.message("usage"))
    if used is None or used == known.used:
        return []
    known.used = used
    return [s.GaugesReported(**common, context_tokens=used)]

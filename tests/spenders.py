"""Sessions that spend, for tests: facts as signals make them, and prices that are easy to add up."""

from __future__ import annotations

from typing import Any

from adsum_hub.facts import Facts, Usage
from adsum_hub.fold.fold import fold
from adsum_hub.usage.spending import Spending
from adsum_shared import signals as s

#: Noon of 2026-11-20, UTC.
NOON = 1_795_176_000_000
TODAY = "2026-11-20"
MINUTE = 60_000
HOUR = 3_600_000


class FlatPrices:
    """Dollars per token of whatever kind; a model that is not there has no price."""

    def __init__(self, **rates: float) -> None:
        self.rates = {"m": 0.01, **rates}
        self.asked = 0

    def cost(self, model: str, day: str, usage: Usage, **marks: object) -> float | None:
        del day, marks
        self.asked += 1
        rate = self.rates.get(model)
        if rate is None:
            return None
        tokens = usage.input_tokens + usage.output_tokens + usage.cache_read_tokens
        return rate * (tokens + usage.cache_5m_tokens + usage.cache_1h_tokens) + usage.web_searches

    def context(self, model: str) -> int | None:
        return 200_000 if model in self.rates else None


def utc_day(ms: int) -> str:
    return TODAY if ms >= NOON - 12 * HOUR else "2026-11-19"


def spending(prices: FlatPrices | None = None) -> Spending:
    return Spending(prices or FlatPrices(), utc_day)


class Spender:
    """One session, told signal by signal. Times: ms since NOON."""

    def __init__(self, session_id: str = "s", facts: Facts | None = None) -> None:
        self.session_id = session_id
        self.facts = facts or Facts(session_id)

    def tell(self, kind: type, at: int = 0, **data: Any) -> Spender:
        data.setdefault("source", "transcript")
        when = NOON + at
        data.setdefault("seen", when)
        self.facts = fold(self.facts, kind(session_id=self.session_id, at=when, **data))
        return self

    def use(
        self, tokens: int, at: int = 0, model: str = "m", day: str = TODAY, **more: Any
    ) -> Spender:
        """So many input tokens in all by then."""
        return self.tell(
            s.UsageTotalled, at, day=day, model=model, input_tokens=tokens, messages=1, **more
        )

    def cost_report(self, usd: float, at: int = 0, **models: s.ModelCost) -> Spender:
        return self.tell(s.CostReported, at, cost_usd=usd, models=models or None)

    def tick(self, usd: float, at: int = 0) -> Spender:
        return self.tell(s.CostReported, at, source="statusline", cost_usd=usd)

    def about(self, at: int = -HOUR, **meta: str) -> Spender:
        return self.tell(s.MetaChanged, at, seen=NOON + HOUR, **meta)

    def prompt(self, at: int, prompt_id: str = "p") -> Spender:
        return self.tell(
            s.PromptSubmitted, at, source="hook", prompt_id=f"{prompt_id}{at}", text="go on"
        )

    def end(self, at: int = 0) -> Spender:
        return self.tell(s.SessionEnded, at, reason="process")

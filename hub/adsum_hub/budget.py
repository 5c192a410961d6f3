"""A budget as it is written down: whose dollars it limits, in which time. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import msgspec

Scope = Literal["session", "project", "host", "team"]
Per = Literal["session", "day", "7 days", "30 days"]

MOST_USD = 1e9

_DAYS: dict[str, int] = {"day": 1, "7 days": 7, "30 days": 30}
_FIELDS = ("scope", "name", "usd", "per")
_EXAMPLE = 'An entry looks like { scope = "project", name = "web*", usd = 50, per = "day" }.'


class Budget(msgspec.Struct, frozen=True):
    """name: a pattern; None: each session, project or host has such a budget of its own."""

    scope: Scope
    usd: float
    per: Per
    name: str | None = None

    def days(self, today: str) -> list[str] | None:
        """Those it looks at, the earliest first; None: the whole session, however long it was."""
        count = _DAYS.get(self.per)
        if count is None:
            return None
        last = date.fromisoformat(today)
        return [(last - timedelta(days=back)).isoformat() for back in range(count)][::-1]

    def fits(self, *names: str | None) -> bool:
        if self.name is None:
            return True
        pattern = self.name.casefold()
        return any(fnmatchcase(name.casefold(), pattern) for name in names if name)

    def words(self, name: str | None) -> str:
        """For people, in brackets behind the sums."""
        whose = {"session": "a session", "team": "team"}.get(self.scope)
        when = "" if self.per == "session" and self.scope == "session" else f", {_WHEN[self.per]}"
        return f"{whose or f'{self.scope} {name}'}{when}"


_WHEN = {"session": "a session", "day": "a day", "7 days": "7 days", "30 days": "30 days"}


def read_budgets(entries: Sequence[Any]) -> tuple[Budget, ...]:
    """Raises ValueError with a sentence for people: which entry, what is wrong, what to do."""
    return tuple(_read(number, entry) for number, entry in enumerate(entries, 1))


def _read(number: int, entry: Any) -> Budget:
    if isinstance(entry, Budget):
        return entry
    wrong = _wrong_with(entry)
    if wrong is not None:
        what = repr(entry)
        shown = what if len(what) <= 120 else f"{what[:119]}…"
        raise ValueError(f"budget {number}, {shown}: {wrong}. {_EXAMPLE}")
    return Budget(entry["scope"], float(entry["usd"]), entry["per"], entry.get("name"))


def _is_dollars(usd: object) -> bool:
    # In TOML `true` is no number; in Python it is 1. A whole number may be too long for a float.
    if isinstance(usd, bool) or not isinstance(usd, int | float):
        return False
    return 0 < usd <= MOST_USD and math.isfinite(usd)


def _wrong_with(entry: Any) -> str | None:
    if not isinstance(entry, dict):
        return "it is no table"
    strange = sorted(set(map(str, entry)) - set(_FIELDS))
    if strange:
        return f"{strange[0]!r} is none of {', '.join(_FIELDS)}"
    for name, known in (("scope", get_args(Scope)), ("per", get_args(Per))):
        if entry.get(name) not in known:
            return f"{name} must be one of {', '.join(known)}"
    usd, pattern = entry.get("usd"), entry.get("name")
    if not _is_dollars(usd):
        return f"usd must be a number of dollars above 0, at most {MOST_USD:,.0f}"
    if pattern is not None and (not isinstance(pattern, str) or not pattern):
        return "name must be a text, and may have * in it"
    if pattern is not None and entry["scope"] == "team":
        return "the team is everybody and has no name"
    return None

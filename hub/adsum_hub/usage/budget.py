"""A budget as it is written down: whose dollars it limits, in which time. Pure."""

from __future__ import annotations

import json
import math
from datetime import date, timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import msgspec

from adsum_shared.settings import SettingsError

Scope = Literal["session", "project", "host", "team"]
Per = Literal["session", "day", "7 days", "30 days"]

MOST_USD = 1e9

_DAYS: dict[str, int] = {"day": 1, "7 days": 7, "30 days": 30}
_FIELDS = ("scope", "name", "usd", "per")
_EXAMPLE = 'An entry looks like { scope = "project", name = "web*", usd = 50, per = "day" }.'


class BudgetsError(SettingsError):
    """The setting `budgets` cannot be used; says where it stands, which entry, why, what to do."""


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

    @property
    def when(self) -> str:
        """For people, behind the sums."""
        return "" if self.scope == self.per == "session" else _WHEN[self.per]


_WHEN = {"session": "a session", "day": "a day", "7 days": "in 7 days", "30 days": "in 30 days"}


def read_budgets(given: Any, *, variable: bool = False) -> tuple[Budget, ...]:
    """given: entries as TOML has them, or as JSON text. Raises BudgetsError.

    variable: they come from the environment.
    """
    where = "ADSUM_BUDGETS" if variable else "[[budgets]]"
    if isinstance(given, str) and given:
        try:
            given = json.loads(given)
        except ValueError:
            step = "Write a JSON list, or the entries into config.toml."
            raise BudgetsError(f"{where}: it is no JSON. {step}") from None
    entries = given or ()
    if not isinstance(entries, list | tuple):
        step = "Begin every entry with a line [[budgets]]; a variable takes a JSON list."
        raise BudgetsError(f"{where}: it is not a list of entries. {step}")
    where += ", entry" * variable
    return tuple(_read(f"{where} {number}", entry) for number, entry in enumerate(entries, 1))


def _read(where: str, entry: Any) -> Budget:
    wrong = _wrong_with(entry)
    if wrong is not None:
        raise BudgetsError(f"{where}: {wrong}. {_EXAMPLE}")
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
        known = ", ".join(f"`{name}`" for name in _FIELDS)
        return f"`{strange[0][:40]}` is not known; there are {known}"
    for name, choice in (("scope", get_args(Scope)), ("per", get_args(Per))):
        if entry.get(name) not in choice:
            is_ = f"is {str(entry[name])[:40]!r}" if name in entry else "is missing"
            return f"`{name}` {is_}; it can be {', '.join(choice[:-1])} or {choice[-1]}"
    usd, pattern = entry.get("usd"), entry.get("name")
    if not _is_dollars(usd):
        is_ = f"is {str(usd)[:40]!r}" if "usd" in entry else "is missing"
        return f"`usd` {is_}; it must be a number of dollars above 0, at most {MOST_USD:,.0f}"
    if pattern is not None and (not isinstance(pattern, str) or not pattern):
        return "`name` must be a text, and may have * in it"
    if pattern is not None and entry["scope"] == "team":
        return "the team is everybody and has no `name`"
    return None

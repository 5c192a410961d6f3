"""Which domains speak for which project: the setting `domains`, read and held against what there is."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from adsum_shared.errors import AdsumError

#: Where no entry matches.
DEFAULT = ("sdlc",)
_KEYS = {"project", "use"}


class DomainsError(AdsumError):
    """The setting `domains` cannot be used; says which entry, why, and what to do."""


class Choice:
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


def read_choice(entries: Sequence[Any], known: Collection[str]) -> Choice:
    """entries: tables with `project`, a glob, and `use`, names of domains. Raises DomainsError."""
    return Choice([_read(number, entry, known) for number, entry in enumerate(entries, start=1)])


def _read(number: int, entry: Any, known: Collection[str]) -> tuple[str, tuple[str, ...]]:
    if not isinstance(entry, dict):
        raise _wrong(number, "it is no table", 'Write [[domains]], project = "blog-*", use = [].')
    if other := sorted(map(str, entry.keys() - _KEYS)):
        raise _wrong(number, f"it has {', '.join(other)}", "Only project and use are known.")
    glob, use = entry.get("project"), entry.get("use")
    if not isinstance(glob, str) or not glob:
        raise _wrong(number, "project is no glob", 'Name projects, such as project = "blog-*".')
    if not isinstance(use, list) or not all(isinstance(name, str) for name in use):
        cause = f"use of {glob!r} is no list of names"
        raise _wrong(number, cause, 'List domains, such as use = ["sdlc"]; [] for none.')
    for name in use:
        if name not in known:
            cause = f"no domain is called {name!r}"
            there = ", ".join(sorted(known))
            raise _wrong(number, cause, f"There are {there}. Install the package that brings it.")
    return glob, tuple(dict.fromkeys(use))


def _wrong(number: int, cause: str, advice: str) -> DomainsError:
    return DomainsError(f"Setting domains, entry {number}: {cause}. {advice}")

"""The rules of `[[notify]]` and the channels of `[[channel]]`, as they are used. Pure."""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from adsum_hub.notify.cases import Case, On
from adsum_hub.notify.quiet import Quiet

#: The channel that everybody has: the browsers that asked for it.
PUSH = "push"
#: A need that has passed within this is not told: a state flickers, a person's screen must not.
LEAST_AFTER_MS = 1_000
#: What is older than this is nobody's news, whatever was told of it.
STALE_MS = 7 * 24 * 3_600_000

Content = Literal["none", "title"]


class Channel(msgspec.Struct, frozen=True):
    """url: apprise's, a secret as a whole; None for push. content: what of a session is told."""

    name: str
    content: Content = "none"
    url: str | None = None

    def __repr__(self) -> str:
        return f"Channel({self.name!r})"  # a traceback would show the URL


class Rule(msgspec.Struct, frozen=True):
    """states, hosts, projects: patterns, none = any. digest_ms: one message in such a time."""

    on: On
    channels: tuple[str, ...]
    after_ms: int
    states: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    digest_ms: int = 0
    quiet: Quiet | None = None

    @property
    def id(self) -> str:
        """Another rule is another id, so that what stood before it is not told by it."""
        parts = (self.on, self.channels, self.states, self.hosts, self.projects)
        return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()

    def matches(self, case: Case) -> bool:
        return (
            case.on == self.on
            and _fits(self.states, case.state)
            and _fits(self.hosts, case.host, case.host_id)
            and _fits(self.projects, case.project)
        )

    def due_at(self, since: int, now: int) -> int:
        """When a case that began at `since` is told, if it still stands."""
        at = since + max(LEAST_AFTER_MS, self.after_ms)
        if self.digest_ms:
            # By the clock on the wall: every hub, and a hub started anew, comes to the same moment.
            at = max(at, now)
            at += -at % self.digest_ms
        return self.after_quiet(max(at, now)) if self.quiet else at

    def after_quiet(self, at: int) -> int:
        end = self.quiet.end(at) if self.quiet is not None else None
        return at if end is None else end


class Config(msgspec.Struct, frozen=True):
    rules: tuple[Rule, ...]
    channels: tuple[Channel, ...]


def _fits(patterns: tuple[str, ...], *names: str | None) -> bool:
    if not patterns:
        return True
    words = [name.casefold() for name in names if name]
    return any(fnmatchcase(word, each.casefold()) for word in words for each in patterns)

"""What is turned away at the hub's doors, in its log: once a minute for each address and reason."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adsum_hub.clock import Clock

if TYPE_CHECKING:
    from starlette.types import Scope

log = logging.getLogger(__name__)

#: In a scope: the hub's Refusals. The doors put it there, for all that stands behind them.
REFUSALS = "adsum.refusals"
SAID_MS = 60_000
#: So many of what was said are known; then the oldest may be said again.
MOST_SAID = 500


class Refusals:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str], int] = {}

    def note(self, scope: Scope, why: str, kind: str = "") -> None:
        """kind: what makes a reason another one, if whoever asks could word it anew each time."""
        address, now = (scope.get("client") or ("?",))[0], self._clock()
        said = (address, kind or why)
        if now - self._said.get(said, -SAID_MS) < SAID_MS:
            return
        self._said.pop(said, None)
        self._said[said] = now
        if len(self._said) > MOST_SAID:
            del self._said[next(iter(self._said))]
        # Not "PATH: WHY": behind a path such as /tokens the first word passes for a secret.
        log.info("refused %s at %.100r, because: %s", address, scope["path"], why)


def note(scope: Scope, why: str, kind: str = "") -> None:
    refusals: Refusals | None = scope.get(REFUSALS)
    if refusals is not None:
        refusals.note(scope, why, kind)

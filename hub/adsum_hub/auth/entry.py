"""A pass: who may enter as what, and until when. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from adsum_hub.auth.roles import Role

Kind = Literal["sign-in", "token"]

DAY_MS = 24 * 3_600_000
#: A sign-in ends when it was not used for so long, and in any case after SIGN_IN_MOST_MS.
SIGN_IN_IDLE_MS = 30 * DAY_MS
SIGN_IN_MOST_MS = 90 * DAY_MS


class Pass(msgspec.Struct, frozen=True):
    """since, until, seen: ms. idle: it ends when unused for so long; None: at `until` alone.

    where: what a browser says it is.
    """

    id: str
    name: str
    role: Role
    since: int
    until: int
    seen: int
    idle: int | None = None
    where: str = ""

    @property
    def ends(self) -> int:
        return self.until if self.idle is None else min(self.until, self.seen + self.idle)

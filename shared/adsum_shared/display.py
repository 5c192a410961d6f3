"""How a session is shown, where a domain has a better word for it."""

from __future__ import annotations

from typing import Literal

import msgspec

Tone = Literal["plain", "good", "warning", "bad"]


class Chip(msgspec.Struct, frozen=True, omit_defaults=True):
    """A few words beside the label. tone: `plain`, `good`, `warning` or `bad`."""

    text: str
    tone: Tone = "plain"


class DisplayView(msgspec.Struct, frozen=True, omit_defaults=True):
    """How domains would show a session; what is absent stays as state and group have it.

    icon: by name; unknown ones change nothing. urgency_hint: sorts it instead of urgency, where
    there is one; 1 is attended to first. domains: whose word this is.
    """

    label: str | None = None
    icon: str | None = None
    urgency_hint: int | None = None
    chips: tuple[Chip, ...] = ()
    domains: tuple[str, ...] = ()

"""Rich's console, through which no text reaches a terminal that it would obey."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from adsum_shared.redact import safe


class SafeConsole(Console):
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Its own colours and movements come after this, or as what it calls control."""
        for part in super().render(renderable, options):
            text, style, control = part
            yield part if control else Segment(safe(text), style)

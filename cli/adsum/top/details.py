"""One session in full over the list of `adsum top`. Needs Textual."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from adsum.outcome import CommandError
from adsum.show import fetch_activity
from adsum.text.details import activity_table, facts_table, family_tree
from adsum.text.render import ICONS
from adsum_shared.state import ActivityEntry, SessionView


class Details(ModalScreen[None]):
    """One session in full, as `adsum show` has it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Back"),
        Binding("j,down", "scroll('down')", show=False),
        Binding("k,up", "scroll('up')", show=False),
    ]
    CSS = "Details > VerticalScroll { background: $surface; padding: 1 2; margin: 1 3; }"

    def __init__(self, url: str, view: SessionView, now: int) -> None:
        super().__init__()
        self.url, self.view, self.now = url, view, now

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self.drawn(()), id="told")

    def on_mount(self) -> None:
        self.ask()

    @work(thread=True)
    def ask(self) -> None:
        try:
            entries = fetch_activity(self.url, self.view.id)
        except CommandError:
            return  # the list says already that the hub is away
        self.app.call_from_thread(
            lambda: self.query_one("#told", Static).update(self.drawn(entries))
        )

    def drawn(self, entries: tuple[ActivityEntry, ...]) -> RenderableType:
        view = self.view
        told: list[RenderableType] = [facts_table(view, self.now, ICONS[view.state.group], ())]
        if view.children:
            told += [Text(), family_tree(view, self.now)]
        if entries:
            told += [Text("\nactivity", "dim"), activity_table(view, entries, self.now)]
        return Stack(*told)

    def action_scroll(self, way: str) -> None:
        area = self.query_one(VerticalScroll)
        (area.scroll_down if way == "down" else area.scroll_up)(animate=False)

"""`adsum top` shows a live list on the full screen, with details and a filter. Imports Textual."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from adsum.client import ACTIVITY_SHOWN, Filter, activity_path, fetch, put_aside, typed
from adsum.decide import (
    DecisionAsked,
    OpenRequest,
    awaited,
    decision_of,
    extent_of,
    give,
    in_words,
    is_doubtful,
    request_text,
    takes,
    why_not,
)
from adsum.outcome import CommandError, require
from adsum.reach import has_browser, opened, page_of
from adsum.text.details import session_details
from adsum.text.tables import WORDS, counts_line, session_lines
from adsum.text.words import advice, unknown_in
from adsum.watch import FollowedRoster, follow
from adsum_shared.characters import escape_code
from adsum_shared.redact import clean
from adsum_shared.state import ActivityEntry, Group, SessionView


def run_top(url: str, chosen: Filter) -> None:
    drawable = sys.stdin.isatty() and sys.stdout.isatty()
    require(drawable, "adsum top draws on a terminal, and this is none.")
    app = Top(url, chosen)
    app.run()
    if app.failed is not None:
        raise app.failed


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
            yield Static(session_details(self.view, (), self.now), id="facts")

    def on_mount(self) -> None:
        self.ask()

    @work(thread=True)
    def ask(self) -> None:
        try:
            last = fetch(self.url, activity_path(self.view))["entries"][-ACTIVITY_SHOWN:]
            entries = typed(self.url, last, list[ActivityEntry])
        except CommandError:
            return  # the list says already that the hub is away
        drawn: RenderableType = session_details(self.view, entries, self.now)
        self.app.call_from_thread(self.query_one("#facts", Static).update, drawn)

    def action_scroll(self, way: str) -> None:
        area = self.query_one(VerticalScroll)
        (area.scroll_down if way == "down" else area.scroll_up)(animate=False)


class Confirm(ModalScreen[str | None]):
    """The whole of what would be done. Its result is what is said with it; None: nothing is done.

    asks: what may be typed; None: it takes a `y`, since nobody decides by a key too many. must: an
    empty text does nothing. doubtful: a person may misread it, so it takes two.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave it", priority=True),
        Binding("y", "agree"),
        Binding("j,down", "scroll('down')", show=False),
        Binding("k,up", "scroll('up')", show=False),
    ]
    AUTO_FOCUS = "Input"
    CSS = """
    Confirm > Vertical { background: $surface; padding: 1 2; margin: 1 3; }
    Confirm VerticalScroll { height: 1fr; }
    Confirm .does { height: auto; color: $text-muted; }
    """

    def __init__(
        self,
        whole: str,
        does: str,
        asks: str | None = None,
        *,
        must: bool = False,
        doubtful: bool = False,
    ) -> None:
        super().__init__()
        self.doubtful = doubtful
        self.whole, self.does, self.asks, self.must = whole, does, asks, must

    def compose(self) -> ComposeResult:
        key = "y" if self.asks is None else "Enter"
        with Vertical():
            with VerticalScroll():
                yield Static(Text(self.whole), id="whole")
            if self.asks is not None:
                yield Input(placeholder=self.asks)
            yield Static(Text(f"{key}: {self.does}   Esc: leave it"), classes="does")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()  # it would filter the list below

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        said = event.value.strip()
        if said or not self.must:
            self.dismiss(said)

    def action_agree(self) -> None:
        if self.asks is not None:
            return
        if self.doubtful:
            self.doubtful = False
            self.query_one(".does", Static).update(Text(f"y again: {self.does}   Esc: leave it"))
        else:
            self.dismiss("")

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_scroll(self, way: str) -> None:
        area = self.query_one(VerticalScroll)
        (area.scroll_down if way == "down" else area.scroll_up)(animate=False)


#: Ages grow without news; and no number of changes draws more often than so.
REDRAW_S, AT_MOST_S = 1.0, 0.2
#: Cells that the list itself needs at its sides.
EDGES = 4
KEYS = (
    "j k move   Enter details   / filter   o open in the browser   "
    "i dismiss   e archive   z undo   q quit\n"
    "a allow   d deny   1-9 option   r reply or prompt   s suspend   u resume"
)
#: For what a decision, or a prompt, comes to.
WAIT_S = 12.0


class Top(App[None]):
    CSS = """
    #heads, #foot, #keys { height: auto; padding: 0 1; }
    #keys { color: $text-muted; }
    OptionList { height: 1fr; border: none; padding: 0 1; background: $background; }
    #filter { display: none; height: 3; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move('down')"),
        Binding("k", "move('up')"),
        Binding("slash", "filter"),
        Binding("o", "open"),
        Binding("i", "put_aside('dismiss')"),
        Binding("e", "put_aside('archive')"),
        Binding("z", "undo"),
        Binding("a", "decide('approve')"),
        Binding("d", "decide('deny')"),
        *(Binding(str(number), f"option({number})") for number in range(1, 10)),
        Binding("r", "reply"),
        Binding("s", "order('suspend')"),
        Binding("u", "order('resume')"),
        Binding("q", "quit"),
        Binding("escape", "clear"),
        # As every other command of ours ends.
        Binding("ctrl+c", "quit", priority=True),
    ]

    def __init__(self, url: str, chosen: Filter) -> None:
        super().__init__()
        self.url, self.chosen = url, chosen
        self.roster = FollowedRoster()
        self.words = ""
        self.met = False
        self.news = asyncio.Event()
        self.shown: dict[str, SessionView] = {}
        self.failed: CommandError | None = None
        #: what was dismissed or archived here, the latest last
        self.aside: list[SessionView] = []
        self.heads, self.foot = Static(id="heads"), Static("Asking the hub …", id="foot")
        self.listed = OptionList(markup=False)
        self.field = Input(
            placeholder="words of a title, project, machine, state or id", id="filter"
        )

    def compose(self) -> ComposeResult:
        yield self.heads
        yield self.listed
        yield self.foot
        yield Static(KEYS, id="keys")
        yield self.field

    def on_mount(self) -> None:
        self.listed.focus()
        self.listen()
        self.redraw()

    @work
    async def listen(self) -> None:
        try:
            async for _ in follow(self.url, self.roster):
                self.met = True
                self.news.set()
        except CommandError as error:
            self.failed = error
            self.exit()

    @work
    async def redraw(self) -> None:
        while True:
            self.news.clear()
            # It goes on for a moment after the end has taken the list away.
            if self.met and self.listed.is_attached:
                self.draw()
            await asyncio.sleep(AT_MOST_S)
            try:
                await asyncio.wait_for(self.news.wait(), REDRAW_S - AT_MOST_S)
            except TimeoutError:
                continue

    def on_resize(self, event: Resize) -> None:
        del event
        self.news.set()

    def draw(self) -> None:
        views = [view for view in self.roster.views(self.chosen) if matches(view, self.words)]
        self.shown = {view.id: view for view in views}
        heads, lines = session_lines(views, self.roster.as_of, self.size.width - EDGES)
        self.heads.update(heads)
        self._fill(options_of(views, lines))
        self.foot.update(self._foot(views))

    def _foot(self, views: list[SessionView]) -> Text:
        hosts = self.roster.host_views()
        if warning := self.roster.warning():
            return warning
        filtered = bool(self.words or self.chosen.query)
        if not views:
            said = unknown_in(self.chosen.host, self.chosen.agent, hosts)
            said = said or advice(filtered=filtered, hosts=hosts)
            return Text(said)
        return counts_line(views, hosts, self.roster.as_of, part=filtered)

    def _fill(self, wanted: list[Option]) -> None:
        """Without moving what somebody looks at: the highlight stays with its session."""
        there = self.listed
        if [option.id for option in there.options] == [option.id for option in wanted]:
            pairs = zip(there.options, wanted, strict=True)
            fresh = [(n, new) for n, (old, new) in enumerate(pairs) if old.prompt != new.prompt]
            for index, option in fresh:
                there.replace_option_prompt_at_index(index, option.prompt)
            return
        chosen, top = self.highlighted, there.scroll_offset.y
        ids = [option.id for option in wanted]
        there.clear_options()
        there.add_options(wanted)
        there.scroll_to(y=top, animate=False)
        first = next((index for index, option in enumerate(wanted) if not option.disabled), None)
        there.highlighted = ids.index(chosen) if chosen in ids else first

    @property
    def highlighted(self) -> str | None:
        option = self.listed.highlighted_option
        return option.id if option else None

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        view = self.shown.get(event.option.id or "")
        if view is not None:
            self.push_screen(Details(self.url, view, self.roster.as_of))

    def action_move(self, way: str) -> None:
        there = self.listed
        (there.action_cursor_down if way == "down" else there.action_cursor_up)()

    def action_filter(self) -> None:
        self.field.display = True
        self.field.focus()

    def action_clear(self) -> None:
        self.field.value = ""
        self.field.display = False
        self.listed.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.words = event.value
        self.news.set()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.display = bool(event.value)
        self.listed.focus()

    def action_open(self) -> None:
        view = self.shown.get(self.highlighted or "")
        if view is None:
            return
        address = f"{self.url}/{page_of(view)}"
        if not has_browser(os.environ, sys.platform) or not opened(address):
            self.notify(address, title="No browser here; open this in one")

    def action_put_aside(self, verb: str) -> None:
        if (view := self.shown.get(self.highlighted or "")) is not None:
            self.decide(view, verb)

    def action_undo(self) -> None:
        if self.aside:
            self.decide(self.aside.pop(), "restore")

    def action_decide(self, name: str) -> None:
        """name: of decide.VERBS."""
        if (wanted := self._asked(name)) is None:
            return
        does, body = DOES[wanted.verb], decision_of(wanted)
        does += extent_of(wanted.request)
        if name == "approve":
            confirm = Confirm(request_text(wanted), does, doubtful=is_doubtful(wanted))
        else:
            confirm = Confirm(request_text(wanted), does, "why, if you like")
        self._confirm(wanted.view, confirm, lambda said: body | ({"text": said} if said else {}))

    def action_option(self, number: int) -> None:
        """Of the one question that the session asks."""
        if (wanted := self._asked("answer")) is None:
            return
        question = _question(wanted)
        options = (question or {}).get("options") or []
        if question is None or number > len(options):
            self._refuse(f"It has no option {number} here. On its page, or: adsum answer")
            return
        label = str(options[number - 1].get("label"))
        answers = {str(question["question"]): [label]}
        confirm = Confirm(request_text(wanted), f"answer {escape_code(label)}")
        self._confirm(wanted.view, confirm, lambda _: decision_of(wanted) | {"answers": answers})

    def action_reply(self) -> None:
        """An answer in words where it asks a question; else a prompt."""
        view = self.shown.get(self.highlighted or "")
        if view is None:
            return
        wanted = next(takes("answer", view), None)
        question = None if wanted is None else _question(wanted)
        if wanted is not None and question is not None:
            answer = wanted
            confirm = Confirm(request_text(wanted), "answer so", "in words", must=True)
            key = str(question["question"])
            make = lambda said: decision_of(answer) | {"answers": {key: [said]}}  # noqa: E731 - as the others
            self._confirm(view, confirm, make)
        elif view.requests:
            self._refuse("It asks something else first: a or d, or answer it on its page.")
        else:
            confirm = Confirm(_named(view), "prompt it so", "a prompt", must=True)
            self._confirm(view, confirm, lambda said: {"verb": "prompt", "text": said})

    def action_order(self, verb: str) -> None:
        """suspend, or resume, which takes a message along."""
        if (view := self.shown.get(self.highlighted or "")) is None:
            return
        asks = "a message, if you like" if verb == "resume" else None
        confirm = Confirm(_named(view), f"{verb} it", asks)
        self._confirm(
            view, confirm, lambda said: {"verb": verb, **({"text": said} if said else {})}
        )

    def _asked(self, name: str) -> OpenRequest | None:
        view = self.shown.get(self.highlighted or "")
        if view is None:
            return None
        kinds = ("approve", "plan") if name == "approve" else (name,)
        wanted = next((it for kind in kinds for it in takes(kind, view)), None)
        if wanted is None:
            self._refuse(why_not(DecisionAsked(name), view))
        return wanted

    def _refuse(self, why: str) -> None:
        self.notify(why, severity="warning", markup=False)

    def _confirm(
        self, view: SessionView, confirm: Confirm, body: Callable[[str], dict[str, Any]]
    ) -> None:
        def answered(said: str | None) -> None:
            if said is not None:
                self.give(view, body(said))

        self.push_screen(confirm, answered)

    @work(thread=True)
    def give(self, view: SessionView, body: dict[str, Any]) -> None:
        until = time.monotonic() + WAIT_S
        try:
            told = in_words(awaited(self.url, view, give(self.url, view, body), until))
        except CommandError as error:
            told = str(error)
        self.call_from_thread(self.notify, told, title=view.session_id[:8], markup=False)

    @work(thread=True)
    def decide(self, view: SessionView, verb: str) -> None:
        try:
            put_aside(self.url, view, verb)
        except CommandError as error:
            self.call_from_thread(self.notify, str(error), severity="error")
            return
        if verb != "restore":
            self.aside.append(view)


#: What a key does, by the decision's verb.
DOES = {"allow": "allow it", "plan": "have this plan carried out", "deny": "deny it"}


def _question(wanted: OpenRequest) -> dict[str, Any] | None:
    """The only one, which takes one answer; several are answered on the page."""
    questions = (wanted.request.payload or {}).get("questions") or []
    single = len(questions) == 1 and questions[0].get("multiSelect") is not True
    return questions[0] if wanted.verb == "answer" and single else None


def _named(view: SessionView) -> str:
    title = clean(view.title) or "(untitled)"
    where = f"on {clean(view.host)}, in {escape_code(view.cwd or '?')}"
    return f"{clean(view.session_id)[:8]}  {title}\n{where}\n{clean(view.state.label)}"


def options_of(views: list[SessionView], lines: list[Text]) -> list[Option]:
    """A heading before each group; sessions of offline hosts come last, under their own."""
    options: list[Option] = []
    above = ""
    for view, line in zip(views, lines, strict=True):
        heading = heading_of(view)
        if heading != above:
            above = heading
            options.append(
                Option(Text(heading.upper(), "bold dim"), f"group:{heading}", disabled=True)
            )
        options.append(Option(line, view.id))
    return options


def heading_of(view: SessionView) -> str:
    if view.reachability == "offline":
        return "offline"
    return "needs you" if view.state.group is Group.NEEDS_YOU else WORDS[view.state.group]


def matches(view: SessionView, words: str) -> bool:
    """Every word somewhere in what its row says, whole or in part."""
    said = (view.title, view.project, view.host, view.state.label, view.state.state, view.id)
    text = "\n".join(part or "" for part in said).casefold()
    return all(word in text for word in words.casefold().split())

"""What is done in a session that runs in tmux: what is typed there, and when it is typed again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum_collector.agents.base import Keyboard
from adsum_collector.agents.claude_code.agent import ClaudeCode
from adsum_collector.control import actions
from adsum_collector.control.queue import PromptQueue, Queued
from adsum_collector.control.terminal import KeysPressedError, TmuxPane
from adsum_shared.commands import NotObeyedError
from tests.acting import Machine
from tests.control import consent_to
from tests.support import wait_until

KEY = Ed25519PrivateKey.generate()


class Terminal:
    """What is typed into the session's pane. fails: how. before: what happens once the pane is found."""

    def __init__(self) -> None:
        self.typed: list[str] = []
        self.looks = 0
        self.blind: NotObeyedError | None = None
        self.fails: NotObeyedError | None = None
        self.seen = True
        self.before: Callable[[], None] = lambda: None

    def pane_of(self, pid: int) -> TmuxPane:
        self.before()
        return TmuxPane("nowhere", "%0")

    def draft_in(self, pane: TmuxPane, keyboard: Keyboard, rests: Callable[[], bool]) -> str:
        self.looks += 1
        if self.blind:
            raise self.blind
        return ""

    def type_prompt(
        self,
        pane: TmuxPane,
        keyboard: Keyboard,
        text: str,
        draft: str,
        rests: Callable[[], bool],
        *,
        vim: bool,
    ) -> bool:
        self.typed.append(text)
        if self.fails:
            raise self.fails
        return self.seen

    def interrupt(self, pane: TmuxPane, keyboard: Keyboard, works: Callable[[], bool]) -> None:
        if not works():
            raise NotObeyedError("it works no more")
        self.typed.append(keyboard.interrupt)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    for name in ("pane_of", "draft_in", "type_prompt", "interrupt"):
        monkeypatch.setattr(actions, name, getattr(terminal, name))
    monkeypatch.setattr(actions, "is_in_front", lambda pane, pid: True)
    return terminal


@pytest.fixture
async def seated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> AsyncIterator[Machine]:
    """One that runs in tmux."""
    monkeypatch.setattr(actions, "LOOK_S", 0.01)
    monkeypatch.setattr(actions, "INTERRUPTED_S", 0.2)
    consent_to(tmp_path, KEY, "full")
    machine = Machine(tmp_path, ClaudeCode())
    server = await asyncio.start_unix_server(machine.receive, tmp_path / "inbox.sock")
    async with server:
        machine.start()
        yield machine
        await machine.stop()


async def test_what_is_said_before_the_prompt_box_is_there_is_typed_once_it_is(
    seated: Machine, terminal: Terminal
) -> None:
    seated.is_so(status=None)
    await seated.give("prompt", "p1", text="go")
    terminal.before = seated.rests  # before its process is looked at anew
    await wait_until(lambda: terminal.typed == ["go"])

    seated.says("go")
    assert seated.told("p1")[-1] == "took_effect"


async def test_what_never_shows_a_prompt_box_is_given_nothing(
    seated: Machine, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "BEGINS_S", 0.05)
    seated.is_so(status=None)
    await seated.give("prompt", "p1", text="go")
    await seated.until("p1", "refused")

    assert seated.why("p1") == "its registry does not say idle"
    assert terminal.typed == []


async def test_what_may_have_been_submitted_is_not_typed_again(
    seated: Machine, terminal: Terminal
) -> None:
    terminal.seen = False
    await seated.give("prompt", "p", text="now")
    await seated.until("p", "sent")
    assert "not seen to be taken" in seated.why("p")
    seated.clock += 100
    seated.rests()
    await seated.give("queue", "a", text="say a")
    await seated.until("a", "sent")
    assert PromptQueue(seated.state_dir).of("s")[0].state == "sent"

    seated.clock += actions.MOST_AGAIN_MS
    seated.rests()
    await wait_until(lambda: seated.shown[-1].items == [], 20)

    assert terminal.typed == ["now", "say a"]


async def test_what_was_typed_in_vain_is_not_typed_again(
    seated: Machine, terminal: Terminal
) -> None:
    terminal.fails = KeysPressedError("the text did not arrive")
    await seated.give("queue", "a", text="say a")
    await seated.until("a", "refused")
    terminal.fails = None
    await seated.give("queue", "b", text="say b")
    await seated.until("b", "sent")

    assert terminal.typed == ["say a", "say b"]


async def test_what_meets_somebody_typing_waits_and_is_tried_ever_less_often(
    seated: Machine, terminal: Terminal
) -> None:
    terminal.blind = NotObeyedError("somebody is typing in its terminal")
    await seated.give("queue", "a", text="say a")
    for looks, pause in enumerate((5_000, 10_000, 20_000, 40_000, 60_000, 60_000), 1):
        await wait_until(lambda looks=looks: terminal.looks == looks, 20)
        await wait_until(lambda pause=pause: seated.actions._again["s"][1] == pause, 20)
        seated.clock += pause - 1
        await asyncio.sleep(0.03)
        assert terminal.looks == looks
        seated.clock += 1
    terminal.blind = None
    seated.clock += 60_000
    await seated.until("a", "sent")

    assert {each.state for shown in seated.shown for each in shown.items[:-1]} <= {"waiting"}
    assert seated.told("a") == ["queued", "sent"]
    assert sum(bool(each.items) for each in seated.shown) <= 3  # no news of what is tried in vain


@pytest.mark.parametrize("keyboard", [ClaudeCode.keyboard, None])
async def test_what_can_never_be_said_is_not_queued(
    seated: Machine, terminal: Terminal, keyboard: Keyboard | None
) -> None:
    seated.agent.keyboard = keyboard
    seated.works()
    await seated.give("queue", "a", text="/compact")
    await seated.until("a", "refused")

    assert "as a command" in seated.why("a")
    assert PromptQueue(seated.state_dir).of("s") == []


async def test_what_an_older_collector_queued_and_can_never_be_said_blocks_nothing(
    seated: Machine, terminal: Terminal
) -> None:
    await seated.stop()
    queue = PromptQueue(seated.state_dir)
    queue.add(Queued("a", "s", "/compact", "ann", 0, seated.clock + 1))
    seated.actions = seated.collector()
    seated.start()

    await seated.until("a", "refused")

    assert terminal.typed == []


async def test_what_works_in_the_background_is_told_as_by_another_session(
    seated: Machine, terminal: Terminal
) -> None:
    seated.agent.keyboard = ClaudeCode.keyboard
    seated.is_so(status="shell")
    seated.takes = False
    await seated.give("prompt", "c1", text="x")
    await seated.until("c1", "sent")

    assert seated.why("c1") == "it was told as a message of another session"
    assert terminal.typed == []


async def test_escape_is_not_pressed_at_a_dialog_that_came_while_the_pane_was_looked_for(
    seated: Machine, terminal: Terminal
) -> None:
    seated.works()
    await wait_until(lambda: seated.shown, 20)
    terminal.before = lambda: seated.is_so(status="waiting")
    await seated.give("interrupt", "c1")
    await seated.until("c1", "refused")

    assert terminal.typed == []


async def test_a_message_that_fails_ends_no_other(seated: Machine, terminal: Terminal) -> None:
    def fails() -> None:
        raise ValueError("embedded null byte")

    await wait_until(lambda: seated.shown, 20)
    terminal.before = fails
    await seated.give("queue", "a", text="say a")
    await seated.until("a", "refused")
    terminal.before = lambda: None
    await seated.give("queue", "b", text="say b")

    await seated.until("b", "sent")
    assert "unexpected fault" in seated.why("a")

"""Prompts, the queue and interrupts from elsewhere, into the real CLI in a terminal and beside one."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_cli.conftest import Figure, new_fleet
from tests.real_cli.fleet import Fleet, until
from tests.real_cli.session import ASKS, FREE, READY, Session
from tests.real_cli.test_control import control, fleet_keys, levels
from tests.real_cli.timeline import Watcher

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(180)]

BOX = "\u276f"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    pytest.importorskip("cryptography")
    with new_fleet(tmp_path_factory.mktemp("prompting"), "anvil") as fleet:
        until(lambda: fleet_keys(fleet), "the hub to show its key")
        control(fleet, "full", "--yes")
        until(lambda: "full" in levels(fleet), "the hub to know of the consent")
        yield fleet


class Remote:
    """Somebody elsewhere, for one session."""

    def __init__(self, fleet: Fleet, session_id: str) -> None:
        self.fleet, self.id = fleet, session_id
        host = fleet.machines[0].host_id
        self._url = f"{fleet.hub_url}/api/v1/sessions/{host}:{session_id}/commands"

    def view(self) -> dict[str, Any]:
        return self.fleet.session(self.id) or {}

    def reached(self, way: str) -> Remote:
        until(
            lambda: self.view().get("prompt_way") == way,
            f"the way {way}",
            timeout=60,
            more=lambda: str(self.view()),
        )
        return self

    def give(self, verb: str, **more: Any) -> str:
        answer = httpx.post(self._url, json={"verb": verb} | more, timeout=20)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["command"]["id"])

    def told(self, command_id: str) -> tuple[str, str]:
        """Its outcome, once that is final or the wait is over, and the reason."""
        answer = httpx.get(f"{self._url}/{command_id}?wait=25", timeout=40).json()["command"]
        return str(answer["outcome"]), str(answer.get("reason"))

    def prompts(self) -> list[str]:
        """What the session was told, as its own transcript has it."""
        found: list[str] = []
        for line in self.fleet.machines[0].home.told_in(self.id):
            content = (line.get("message") or {}).get("content")
            if line.get("type") == "user" and isinstance(content, str):
                found.append(content)
        return found

    def said(self, count: int) -> list[str]:
        """The same, once so many are there: the transcript is written later than the hook fires."""
        return until(
            lambda: found if len(found := self.prompts()) >= count else [], "its transcript"
        )


Seated = tuple[Remote, Session]


@pytest.fixture
def seated(full: Fleet) -> Iterator[Callable[..., Seated]]:
    with contextlib.ExitStack() as open_until, Watcher(full.hub_url) as watcher:

        def start(*flags: str, mode: str = FREE) -> Seated:
            session = Session(full.machines[0], watcher, *flags, mode=mode)
            open_until.enter_context(session.terminal)
            return Remote(full, session.id).reached("terminal"), session

        yield start


@pytest.mark.core
def test_a_prompt_is_typed_into_an_idle_session(
    seated: Callable[..., Seated], figure: Figure
) -> None:
    remote, session = seated()
    began = time.monotonic()

    given = remote.give("prompt", text='do play:text; it\'s a "prompt" $HOME;')

    assert remote.told(given) == ("took_effect", "None")
    figure("prompt: given to taken", time.monotonic() - began)
    session.terminal.wait_for("All is well.")
    assert remote.said(1) == ['do play:text; it\'s a "prompt" $HOME;']


def test_several_lines_and_a_long_text_arrive_as_they_were_written(
    seated: Callable[..., Seated],
) -> None:
    remote, session = seated()
    text = "do play:text\n\n- one\n  - two: @nobody\n" + "word " * 300 + "end"

    given = remote.give("prompt", text=text)

    assert remote.told(given) == ("took_effect", "None")
    session.terminal.wait_for("All is well.")
    assert [each.strip() for each in remote.said(1)] == [text]


def test_in_vims_normal_mode_a_prompt_arrives_whole(
    full: Fleet, seated: Callable[..., Seated], figure: Figure
) -> None:
    home = full.machines[0].home
    before = home.settings.read_text()
    home.settings.write_text(json.dumps(json.loads(before) | {"editorMode": "vim"}))
    try:
        remote, session = seated()
        session.terminal.wait_for("-- INSERT --")
        session.terminal.press("Escape")
        until(lambda: "-- INSERT --" not in session.terminal.screen(), "NORMAL mode")
        began = time.monotonic()

        given = remote.give("prompt", text="Add tests for it, do play:text")

        assert remote.told(given) == ("took_effect", "None")
        figure("prompt in vim's NORMAL mode: given to taken", time.monotonic() - began)
        session.terminal.wait_for("All is well.")
        assert remote.said(1) == ["Add tests for it, do play:text"]
    finally:
        home.settings.write_text(before)


@pytest.mark.parametrize("columns", [58, 100, 200])
def test_prompts_of_any_length_arrive_whole_at_any_width(
    seated: Callable[..., Seated], columns: int
) -> None:
    remote, session = seated()
    session.terminal._tmux("resize-window", "-x", str(columns))
    texts = ["x", *(("Ümlaut, wörd: ok? " * 600)[:most].strip() for most in (200, 2_000, 9_900))]
    for number, text in enumerate(texts, 1):
        given = remote.give("prompt", text=f"{text} do play:text")

        assert remote.told(given) == ("took_effect", "None")
        assert remote.said(number)[-1] == f"{text} do play:text"
        until(lambda: remote.view()["state"]["group"] != "autonomous", "its turn to end")


def test_a_half_typed_draft_is_back_afterwards_and_was_not_sent(
    seated: Callable[..., Seated],
) -> None:
    remote, session = seated()
    session.terminal._tmux("send-keys", "-l", "half a thought")
    session.terminal.wait_for("half a thought")

    given = remote.give("prompt", text="do play:text")

    assert remote.told(given) == ("took_effect", "None")
    session.terminal.wait_for("All is well.")
    session.terminal.wait_for(f"{BOX}\u00a0half a thought")
    assert remote.said(1) == ["do play:text"]


@pytest.mark.core
def test_no_key_is_pressed_at_a_dialog(seated: Callable[..., Seated]) -> None:
    remote, session = seated(mode="manual")
    session.terminal.type("do play:perm")
    session.terminal.wait_for(ASKS)
    until(lambda: remote.view().get("requests"), "the request to be listed", timeout=20)
    # Until its registry tells of the dialog it is busy, and the prompt would wait for its turn.
    entry = session.machine.home.settings.parent / "sessions" / f"{session.terminal.pid}.json"
    until(lambda: b'"waiting"' in entry.read_bytes(), "the dialog to be registered")

    outcome, why = remote.told(remote.give("prompt", text="1"))

    assert (outcome, why) == (
        "refused",
        "a dialog stands at its terminal: answer that first, or queue it",
    )
    assert ASKS in session.terminal.screen()
    assert not (session.machine.home.work / "made/here").exists()


@pytest.mark.parametrize("text", ["/clear", "!rm -rf x", "# remember"])
def test_commands_of_the_terminal_are_not_sent(seated: Callable[..., Seated], text: str) -> None:
    remote, session = seated()
    before, _, _ = session.terminal.screen().partition(READY[FREE])  # what follows comes and goes

    outcome, why = remote.told(remote.give("prompt", text=text))

    assert outcome == "refused"
    assert "commands are not sent" in why
    assert session.terminal.screen().partition(READY[FREE])[0] == before


def test_three_that_wait_are_said_in_their_order_each_after_a_turn(
    seated: Callable[..., Seated],
) -> None:
    remote, session = seated()
    session.terminal.type("do play:nap")
    ids = [remote.give("queue", text=f"do play:text number {n}") for n in (2, 3, 1)]
    moved = remote.give("move", item=ids[2], place=0) if _waits(remote, 3) else ""
    assert remote.told(moved)[0] == "took_effect"

    for each in (ids[2], ids[0], ids[1]):
        until(lambda each=each: remote.told(each)[0] == "took_effect", "it to be said", timeout=60)

    def said() -> list[str]:
        return [each for each in remote.prompts() if "number" in each]

    until(lambda: len(said()) == 3, "the transcript to have them", timeout=20)
    assert said() == [f"do play:text number {n}" for n in (1, 2, 3)]
    until(lambda: not remote.view().get("queue"), "the queue to be empty", timeout=10)


def _waits(remote: Remote, count: int) -> bool:
    until(lambda: len(remote.view().get("queue", [])) == count, f"{count} to wait", timeout=20)
    return True


def test_what_is_taken_back_is_never_said(seated: Callable[..., Seated]) -> None:
    remote, session = seated()
    session.terminal.type("do play:slowtool")
    until(lambda: remote.view().get("prompt_way") == "queue", "the turn to be seen", timeout=20)
    kept = remote.give("prompt", text="do play:text")  # the turn runs: it waits for its end
    assert _waits(remote, 1)

    assert remote.told(remote.give("withdraw", item=kept))[0] == "took_effect"

    assert remote.told(kept)[0] == "withdrawn"
    assert remote.told(remote.give("interrupt"))[0] == "took_effect"
    assert "All is well." not in session.terminal.screen()


def test_an_interrupt_ends_the_turn_and_is_refused_where_nothing_runs(
    seated: Callable[..., Seated], figure: Figure
) -> None:
    remote, session = seated()
    assert remote.told(remote.give("interrupt")) == ("refused", "nothing runs in it")
    session.terminal.type("do play:slowtool")
    until(lambda: remote.view().get("prompt_way") == "queue", "the turn to be seen", timeout=20)
    session.terminal.wait_for("time.sleep(30)")
    began = time.monotonic()

    given = remote.give("interrupt")

    assert remote.told(given)[0] == "took_effect"
    figure("interrupt: given to idle", time.monotonic() - began)
    session.terminal.wait_for("Interrupted")


class Beside:
    """The CLI in a terminal that is no tmux's."""

    def __init__(self, home: Any, session_id: str) -> None:
        words = [str(home.program), "--session-id", session_id, "--permission-mode", "manual"]
        self.pid, self._screen = pty.fork()
        if self.pid == 0:
            os.chdir(home.work)
            os.execve(words[0], words, home.env)  # noqa: S606 - a terminal of its own needs a fork
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(self._screen, 65536):
                pass

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def test_without_tmux_it_comes_as_a_message_of_another_session(full: Fleet) -> None:
    session_id = str(uuid.uuid4())
    beside = Beside(full.machines[0].home, session_id)
    try:
        remote = Remote(full, session_id).reached("inbox")
        refused = remote.told(remote.give("interrupt"))
        given = remote.give("prompt", text="do play:text")

        assert remote.told(given)[0] == "took_effect"
        assert refused[0] == "refused"
        # on the screen a busy machine draws it in pieces
        files = full.machines[0].home.transcripts
        until(
            lambda: any("All is well." in f.read_text() for f in files() if f.stem == session_id),
            "the answer",
            timeout=20,
        )
        queued = remote.give("queue", text="do play:text again")
        assert remote.told(queued)[0] == "took_effect"
    finally:
        beside.end()
    assert Path(full.machines[0].home.path / "adsum" / "queue.json").stat().st_mode & 0o077 == 0

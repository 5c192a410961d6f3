"""Hooks in the real Codex: trusted without a question, heard by the collector, seen by nobody."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adsum_collector.agents.codex.agent import active_plugin
from adsum_collector.agents.codex.trust import app_server, listed, trust
from tests.real_cli.cli_rig import CliMissingError, Terminal
from tests.real_cli.codex_rig import CodexHome, MockResponses, codex_binary
from tests.real_cli.conftest import require
from tests.real_cli.fleet import adsum, until
from tests.real_cli.hook_sink import HookSink

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(120)]

ROOT = Path(__file__).resolve().parents[2]
MINE = {"Stop": [{"hooks": [{"type": "command", "command": "cat >> stopped"}]}]}
#: Of one turn with an approval.
TURN = {
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse"),
    *("PostModelRequest", "Stop"),
}
ASKED = "Would you like to run the following command?"
#: What differs from one session to the next: the time, and how long it took.
_CLOCK = re.compile(r"Worked for .*|\b\d\d:\d\d\b|\d+(ms|s)\b")
_COUNTED = re.compile(rb"(?m)^\"[a-z0-9.-]+\" = \d+$")


MODES = ("a terminal of its own", "the background server")


@pytest.fixture(scope="module", params=MODES)
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CodexHome]:
    """A user with a hook of their own, which they trust."""
    require("tmux")
    try:
        codex_binary()
    except CliMissingError as error:
        pytest.skip(str(error))
    folder, shared = tmp_path_factory.mktemp("codex"), request.param == MODES[1]
    with MockResponses() as model:
        home = CodexHome(folder, model.url, shared=shared).seed()
        hooks = home.directory / "hooks.json"
        hooks.write_text(json.dumps({"hooks": MINE}))
        with app_server(home.program, home.directory) as app:
            trust(app, listed(app, hooks)[0].values())
        with home.server():
            yield home


@pytest.fixture
def collector(home: CodexHome) -> Iterator[HookSink]:
    """What listens where the collector of this user would."""
    path = home.path / "adsum" / "collector.sock"
    path.unlink(missing_ok=True)
    with HookSink() as sink:
        sink.hear_shims(path)
        yield sink


def hooks(home: CodexHome, *words: str) -> None:
    """By the command that a user types."""
    env = {**home.env, "ADSUM_STATE_DIR": str(home.path / "adsum")}
    done = subprocess.run(
        adsum("hooks", *words, "--agent", "codex"), env=env, capture_output=True, check=False
    )
    assert not done.returncode, done.stderr.decode()


def files(home: CodexHome) -> list[bytes]:
    """Both in which hooks leave something, without what Codex counts there at each start."""
    names = ("hooks.json", "config.toml")
    return [_COUNTED.sub(b"", (home.directory / name).read_bytes()) for name in names]


def turn(terminal: Terminal, while_asked: Callable[[], object] = lambda: None) -> str:
    """One with an approval, which is given; the screen at its end."""
    terminal.type("do play:perm")
    terminal.wait_for(ASKED)
    while_asked()
    terminal.press_until_gone("Enter", ASKED)
    terminal.wait_for("The folder stands.")
    terminal.wait_for("Worked for")
    return _CLOCK.sub("…", terminal.screen())


def session(
    home: CodexHome, while_asked: Callable[[], object] = lambda: None
) -> tuple[str, Counter[str]]:
    """What the user saw of a turn, and the kinds of lines that its rollout holds."""
    before = set(home.rollouts())
    with Terminal(home, ()) as terminal:
        terminal.wait_for("~/project")
        screen = turn(terminal, while_asked)
    (rollout,) = set(home.rollouts()) - before
    lines = map(json.loads, rollout.read_text().splitlines())
    return screen, Counter(f"{each['type']} {each['payload'].get('type')}" for each in lines)


@pytest.mark.core
def test_a_turn_is_heard_and_looks_the_same_to_its_user(
    home: CodexHome, collector: HookSink
) -> None:
    plain, before = session(home), files(home)
    hooks(home, "install", "--yes", "--program", str(home.program))
    hooks(home, "status", "--program", str(home.program))

    hooked = session(home)

    until(lambda: collector.events >= TURN, "the hooks", more=lambda: str(collector.events))
    assert hooked == plain
    assert "hook" not in hooked[0].lower()
    assert len((home.work / "stopped").read_text().split('"Stop"')) == 3  # theirs ran both times
    hooks(home, "remove")
    assert files(home) == before


@pytest.mark.parametrize("home", MODES[:1], indirect=True)
def test_the_end_of_a_session_of_its_own_is_heard_with_its_process(
    home: CodexHome, collector: HookSink
) -> None:
    hooks(home, "install", "--yes", "--program", str(home.program))
    with Terminal(home, ()) as terminal:
        pid = terminal.pid
        turn(terminal)
        terminal.type("/quit")
        until(lambda: "SessionEnd" in collector.events, "the end")

    hooks(home, "remove")
    assert {each["_pid"] for each in collector.heard} == {pid}


@pytest.mark.parametrize("home", MODES[1:], indirect=True)
def test_sessions_of_the_background_server_take_up_hooks_and_drop_them_at_once(
    home: CodexHome, collector: HookSink
) -> None:
    with Terminal(home, ()) as terminal:
        turn(terminal)
        hooks(home, "install", "--yes", "--program", str(home.program))
        terminal.type("again play:text")
        until(lambda: "Stop" in collector.events, "the hooks")
        hooks(home, "remove")
        heard = len(collector.heard)
        terminal.type("once more play:text")
        until(lambda: terminal.screen().count("All is well.") == 2, "the answer")

    assert len(collector.heard) == heard


@pytest.mark.parametrize("home", MODES[:1], indirect=True)
def test_the_plugin_reports_once_its_user_has_trusted_it(home: CodexHome) -> None:
    market = home.path / "market"
    for folder in (".claude-plugin", "plugin"):
        shutil.copytree(ROOT / folder, market / folder)
    for words in (("marketplace", "add", str(market)), ("add", "adsum@adsum")):
        subprocess.run([home.program, "plugin", *words], env=home.env, check=True, timeout=30)
    with HookSink() as sink:
        sink.hear_shims(home.path / ".local" / "state" / "adsum" / "collector.sock")
        with Terminal(home, (), ready="Trust all") as terminal:
            assert " 13 hooks" in terminal.screen()
            # It takes keys only a moment after it is drawn.
            terminal.press_until_gone("2", "\u203a 1.")
            terminal.press_until_gone("Enter", "Trust all")
            terminal.wait_for("? for shortcuts")
            turn(terminal)
            until(lambda: sink.events >= TURN, "the hooks", more=lambda: str(sink.events))
    plugin = active_plugin(home.directory)
    assert plugin is not None
    major, minor, _ = map(int, home.version.split("."))
    assert plugin.fault((major, minor)) is None

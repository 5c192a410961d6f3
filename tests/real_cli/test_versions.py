"""Ten things that every session does, in both versions of Claude Code that tests/clis.toml names.

What a version writes that tests/data/claude_words.json does not hold is listed at the end of the run.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_cli.cli_rig import CLIS, VERSION, CliMissingError, Home, claude_binary
from tests.real_cli.conftest import OpenSession, new_fleet, require, unknown_words
from tests.real_cli.fleet import Fleet
from tests.real_cli.session import ASKS, IDLE, LINE
from tests.real_cli.timeline import Watcher

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(120)]

OLDEST = CLIS["claude_code"]["oldest"]
KNOWN = Path(__file__).parents[1] / "data" / "claude_words.json"
#: Where the program lists its hooks.
HOOKS = re.compile(rb'\["PreToolUse"(?:,"\w+")+\]')
ONE_RETRY = {"CLAUDE_CODE_MAX_RETRIES": "1"}


@pytest.fixture(scope="module", params=[VERSION, OLDEST])
def version(request: pytest.FixtureRequest) -> str:
    require("tmux")
    name: str = request.param
    try:
        claude_binary(name)
    except CliMissingError as error:
        pytest.skip(str(error))
    return name


@pytest.fixture(scope="module")
def fleet(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with new_fleet(tmp_path_factory.mktemp("versions"), "anvil", version=version) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def watcher(fleet: Fleet) -> Iterator[Watcher]:
    with Watcher(fleet.hub_url) as watcher:
        yield watcher


def test_a_session_that_may_do_all(open_session: OpenSession) -> None:
    """Prompt, tool, question, subagent, background shell, Esc, error, /clear."""
    session = open_session(extra=ONE_RETRY)
    hub = session.hub
    session.play("text")
    hub.works()
    hub.shows("idle", label=IDLE)

    session.play("nap")
    hub.shows("acting", label="Running Bash")
    hub.shows("idle", label=IDLE)

    session.play("ask")
    hub.shows("awaiting_input")
    session.answer("Enter", "Enter to select")
    hub.shows("idle", label=IDLE)

    session.play("agentbg")
    hub.shows("waiting_for_agent", label="Look around")
    hub.shows("idle", label=IDLE, within=15)

    session.play("bashbg")
    hub.shows("waiting_for_agent")
    hub.shows("idle", label=IDLE, within=15)

    session.play("slow")
    session.sees(LINE)
    session.press("Escape")
    hub.shows("idle", label="Interrupted")

    session.play("error")
    hub.shows("error", within=20)

    session.type("/clear")
    hub.shows("session_ended", label="cleared")
    if session.machine.home.tells_at_once:
        session.successor().shows("idle", label="Ready")


def test_a_session_that_asks_before_it_acts(open_session: OpenSession) -> None:
    session = open_session(mode="manual")
    session.play("perm")
    session.hub.shows("needs_permission", label="Bash")
    session.answer("Enter", ASKS)
    session.hub.works()
    session.hub.shows("idle", label=IDLE)


def test_a_session_that_plans(open_session: OpenSession) -> None:
    plan = "Would you like to proceed?"
    session = open_session(mode="plan")
    session.play("plan")
    session.hub.shows("awaiting_approval")
    session.answer("Enter", plan)
    session.hub.shows("idle", label=IDLE)


def test_what_is_new_is_listed(fleet: Fleet, version: str, news: list[str]) -> None:
    """List unknown words without failing. They change no state, but a maintainer should see them."""
    news += unknown_words(f"Claude Code {version}", KNOWN, words_of(fleet.machines[0].home))


def words_of(home: Home) -> dict[str, set[str]]:
    """Hook events in the program; what the lines of its sessions held."""
    with (
        claude_binary(home.version).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program,
    ):
        lists = {found.group() for found in HOOKS.finditer(program)}
    lines: set[str] = set()
    fields: set[str] = set()
    for transcript in home.transcripts():
        for raw in transcript.read_text().splitlines():
            line = json.loads(raw)
            more = line.get("subtype") or line.get("attachment", {}).get("type")
            lines.add(" ".join(filter(None, (line["type"], more))))
            fields |= line.keys()
    return {
        "hook events": set(json.loads(max(lists, key=len, default=b"[]"))),
        "transcript lines": lines,
        "fields of lines": fields,
    }

"""Names of ill will through every command that shows what a hub tells: no terminal obeys them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from adsum_shared.characters import escape_code
from adsum_shared.redact import clean
from adsum_shared.state import ActivityEntry, Group, HostWitness, HubTrouble, UsageRow, UsageView
from tests.hostile import NAME, is_plain
from tests.hubs import NOW, StandIn, host, report, session, stand_in_hub
from tests.integration.conftest import Run

#: No hub's answer holds half a surrogate pair.
EVIL = NAME.encode(errors="ignore").decode()
COMMANDS = [
    ("agents",),
    ("agents", "--json"),
    ("agents", "--jsonl"),
    ("hosts",),
    ("hosts", "--json"),
    ("show", "0a1b2c3d"),
    ("show", "0a1b2c3d", "--json"),
    ("usage", "--by", "host"),
    ("usage", "--by", "host", "--csv"),
    ("usage", "--by", "host", "--json"),
    ("history",),
    ("history", "--json"),
]


@pytest.fixture
def hub() -> Iterator[StandIn]:
    with stand_in_hub() as hub:
        yield hub


def tell(hub: StandIn, name: str, code: str) -> None:
    """Give everything that somebody can name this name, and each path and address this text."""
    told = {
        "title": name,
        "label": name,
        "cwd": f"/{code}",
        "branch": name,
        "model": name,
        "mode": name,
    }
    told |= {"last_prompt": name, "last_answer": name, "worktree": code, "pr": code}
    told = {
        key: value
        for key, value in told.items()
        if key in (*session("s").__struct_fields__, "label")
    }
    hub.sessions = [session("0a1b2c3d", Group.NEEDS_YOU, "needs_permission", host=name, **told)]
    hub.over = [session("0a1b2c3e", Group.DELIVERED, "session_ended", host=name, **told)]
    hub.hosts = [
        host(
            name,
            "offline",
            problem=name,
            witnesses=(HostWitness("hook", "trouble", 1, {name: 2}, name),),
        )
    ]
    hub.activity = [ActivityEntry(NOW, "tool", name)]
    hub.usage = report("host", UsageRow(name, name, UsageView(input_tokens=5), 1))
    hub.usage_csv = f'by,key\r\nhost,"{name}"\r\n'.encode()
    hub.trouble = HubTrouble(name, NOW - 1000)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_name_reaches_a_terminal_as_more_than_a_name(
    hub: StandIn, run: Run, command: tuple[str, ...]
) -> None:
    tell(hub, clean(EVIL), escape_code(EVIL))
    lines = [each.count("\n") for each in run(*command, "--hub", hub.url)[1:]]
    tell(hub, EVIL, EVIL)

    _, out, err = run(*command, "--hub", hub.url)

    assert out, err
    assert is_plain(out)
    assert is_plain(err)
    if "--csv" not in command:
        assert [out.count("\n"), err.count("\n")] == lines
    assert len(out.splitlines()) == out.count("\n")
    if "--json" in command:
        assert EVIL in _texts(json.loads(out))


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.items() for one in each for text in _texts(one)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


def test_a_refusal_in_a_hubs_words_is_plain(hub: StandIn, run: Run) -> None:
    hub.refusal, hub.problem = 401, EVIL

    assert is_plain(run("agents", "--hub", hub.url)[2])

"""`adsum prompt`, `queue` and `interrupt`: what is sent, what is shown, how each outcome is told apart."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adsum_shared.signals import PromptSubmitted, QueuedItem, QueueReported
from tests.brokers import running_broker
from tests.deciding import FakeMachine, wall_ms
from tests.hub_processes import HubProcess, started
from tests.integration.conftest import Run
from tests.support import wait_until

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def standing(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[HubProcess, FakeMachine]]:
    """One hub and one machine for all: no test here changes what the session is."""
    root = tmp_path_factory.mktemp("standing")
    with running_broker(root / "broker") as broker:
        hub = HubProcess(root / "hub", broker.url, demo="on")
        with started(hub):
            machine = FakeMachine(broker.url, control="full")
            machine.start()
            machine.tell("s", PromptSubmitted, prompt_id="p", text="work")
            now = wall_ms()
            items = [
                QueuedItem(name * 16, f"say {name}\n" + "x" * 100, "ann", now, now + 1000)
                for name in ("a1", "b2")
            ]
            machine.tell("s", QueueReported, items=items, way="terminal")
            yield hub, machine
            machine.stop()


@pytest.fixture
def hub(
    home: Path, standing: tuple[HubProcess, FakeMachine], monkeypatch: pytest.MonkeyPatch
) -> HubProcess:
    monkeypatch.setenv("ADSUM_HUB_URL", standing[0].url)
    return standing[0]


@pytest.fixture
def machine(standing: tuple[HubProcess, FakeMachine], hub: HubProcess) -> FakeMachine:
    """It has obeyed nothing, and the hub knows what it lets be done."""
    machine = standing[1]
    machine.outcomes, machine.reason, machine.obeyed = ("sent", "took_effect"), None, []
    machine.control = "full"

    def known() -> bool:
        [host] = hub.get("/api/v1/hosts")["hosts"] or [{}]
        views = hub.get("/api/v1/sessions")["sessions"]
        return host.get("control") == "full" and any(each.get("queue") for each in views)

    asyncio.run(wait_until(known))
    return machine


def test_each_sends_what_it_is_for_and_tells_its_effect(
    run: Run, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin: Any = io.TextIOWrapper(io.BytesIO(b"one\ntwo\n"))
    assert run("prompt", "s", "go on")[:2] == (0, "s on lab: prompt: took effect\n")
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("prompt", "s", "-")[0] == 0
    assert run("queue", "s", "later")[0] == 0
    assert run("queue", "s", "--withdraw", "2")[0] == 0
    assert run("queue", "s", "--move", "b2", "1")[0] == 0
    code, out, _ = run("interrupt", "s", "--json")

    assert (code, json.loads(out)["commands"][0]["outcome"]) == (0, "took_effect")
    given = [(each.verb, each.text, each.item, each.place) for each in machine.obeyed]
    assert given == [
        ("prompt", "go on", None, None),
        ("prompt", "one\ntwo", None, None),
        ("queue", "later", None, None),
        ("withdraw", None, "b2" * 16, None),
        ("move", None, "b2" * 16, 0),
        ("interrupt", None, None, None),
    ]


def test_what_became_of_it_is_told_apart(run: Run, machine: FakeMachine) -> None:
    for outcome, code, said in (
        ("queued", 0, "prompt: waits, and is said when its turn is over"),
        ("sent", 5, "prompt: sent, but what came of it is not known yet"),
        ("refused", 1, "prompt: refused by its machine"),
    ):
        machine.outcomes = (outcome,)

        found = run("prompt", "s", "go on", "--wait", "2")

        assert found[:2] == (code, f"s on lab: {said}\n")


def test_what_waits_is_listed_in_80_columns(run: Run, machine: FakeMachine) -> None:
    assert machine.obeyed == []
    code, out, _ = run("queue", "s")

    assert code == 0
    assert [line[:32] for line in out.splitlines()] == [
        " 1  a1a1a1a1  ann  say a1 xxxxxx",
        " 2  b2b2b2b2  ann  say b2 xxxxxx",
    ]
    assert all(len(line) <= 80 for line in out.splitlines())
    _, out, _ = run("queue", "s", "--list", "--json")
    assert [each["id"] for each in json.loads(out)["queue"]] == ["a1" * 16, "b2" * 16]


def test_each_bad_input_has_an_answer_of_its_own(run: Run, machine: FakeMachine) -> None:
    for words, code, said in (
        (("queue", "s", "x", "--list"), 2, "one of them"),
        (("queue", "s", "--withdraw", "9"), 2, "No such item waits"),
        (("queue", "s", "--move", "1", "0"), 2, "counted from 1"),
        (("prompt", "s", "a\x1b[2J"), 2, "control characters"),
        (("prompt", "nobody", "x"), 1, "No session's id starts with"),
    ):
        found, _, err = run(*words)

        assert (found, said in err) == (code, True), err
    assert machine.obeyed == []


def test_why_its_machine_refused_is_said_as_plain_text(run: Run, machine: FakeMachine) -> None:
    machine.outcomes = ("refused",)
    for reason in ("there is a draft in its box", "a dialog is in the way\x1b[2J", "it is late"):
        machine.reason = reason

        code, out, _ = run("prompt", "s", "go on")

        assert code == 1
        assert f"prompt: refused by its machine ({reason.partition(chr(27))[0]}" in out
        assert "\x1b" not in out


def test_where_the_owner_lets_requests_be_answered_alone_it_says_how_to_change_that(
    run: Run, hub: HubProcess, machine: FakeMachine
) -> None:
    machine.control = "approve"
    asyncio.run(
        wait_until(lambda: hub.get("/api/v1/hosts")["hosts"][0].get("control") == "approve")
    )

    code, _, err = run("interrupt", "s")

    assert code == 1
    assert "adsum control full" in err

"""What is done in sessions: by which way, in which order, at most once, and only where that was agreed."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum_collector.control import actions
from adsum_collector.control.consent import Consent, keep_consent
from adsum_collector.control.queue import PromptQueue
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.processes import AgentProcess
from adsum_shared.commands import Command, NotObeyedError
from tests.acting import Machine
from tests.control import consent_to
from tests.support import wait_until

KEY = Ed25519PrivateKey.generate()


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    monkeypatch.setattr(actions, "LOOK_S", 0.01)
    monkeypatch.setattr(actions, "INTERRUPTED_S", 0.2)
    consent_to(tmp_path, KEY, "full")
    machine = Machine(tmp_path)
    server = await asyncio.start_unix_server(machine.receive, tmp_path / "inbox.sock")
    async with server:
        machine.start()
        yield machine
        await machine.stop()


async def test_who_may_not_prompt_alone_any_more_is_not_said(machine: Machine) -> None:
    machine.works()
    await machine.give("queue", "a", text="say a")
    await machine.until("a", "queued")
    machine.not_alone = "two persons decide in this session"
    machine.clock += 100
    machine.rests()
    await wait_until(lambda: machine.actions._again, 20)
    await machine.give("prompt", "b", text="say b")
    await machine.until("b", "refused")
    assert machine.messages == []
    machine.not_alone = None
    machine.clock += actions.AGAIN_MS

    await machine.until("a", "took_effect")


async def test_a_message_that_breaks_off_is_not_told_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.takes = False

    async def breaks(writer: asyncio.StreamWriter) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(asyncio.StreamWriter, "drain", breaks)
    await machine.give("queue", "a", text="say a")
    await machine.until("a", "sent")

    assert "may not have read it" in machine.why("a")


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (RuntimeError("x"), "an unexpected fault (RuntimeError)"),
        (SpoolUnavailable("the disk is full"), "the disk is full"),
    ],
)
async def test_a_command_that_fails_ends_no_other(
    machine: Machine, fault: Exception, why: str
) -> None:
    async def fails(command: Command) -> None:
        raise fault

    machine.actions.verbs["suspend"] = fails
    await machine.give("suspend", "c1")
    await machine.until("c1", "refused")
    assert why in machine.why("c1")
    await machine.give("prompt", "c2", text="x")

    await machine.until("c2", "took_effect")


@pytest.mark.parametrize(("verb", "said"), [("resume", ["under_way"]), ("interrupt", [])])
async def test_what_takes_long_is_said_to_be_under_way(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, verb: str, said: list[str]
) -> None:
    monkeypatch.setattr(actions, "SLOW_S", 0)

    async def takes_some_turns_of_the_loop(command: Command) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        machine.report(command, "took_effect")

    machine.actions.verbs[verb] = takes_some_turns_of_the_loop
    await machine.give(verb, "c")
    await machine.until("c", "took_effect")

    assert machine.told("c") == [*said, "took_effect"]


async def test_of_what_is_asked_at_once_no_more_is_taken_than_can_be_kept(
    machine: Machine,
) -> None:
    free = asyncio.Event()

    async def waits(command: Command) -> None:
        await free.wait()

    machine.actions.verbs["suspend"] = waits
    for number in range(actions.MOST_AT_ONCE):
        await machine.give("suspend", f"c{number}")
        await asyncio.sleep(0)
    with pytest.raises(NotObeyedError, match="too much"):
        await machine.give("suspend", "more")
    free.set()
    await wait_until(lambda: machine.actions._under_way == 0, 20)

    await machine.give("prompt", "p", text="x")
    await machine.until("p", "took_effect")


async def test_one_thing_at_a_time_is_done_in_a_session_whatever_is_forgotten(
    machine: Machine,
) -> None:
    inside, most = 0, 0

    async def counts(command: Command) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1

    machine.actions.verbs["suspend"] = counts
    command = Command(id="c", host_id="h", session_id="s", verb="suspend", by="ann")

    async def forgets() -> None:
        for _ in range(50):
            machine.actions._forget_others(set())
            await machine.actions.obey(command)

    await asyncio.gather(*(forgets() for _ in range(5)))

    assert most == 1


async def test_a_prompt_is_a_message_and_took_effect_once_the_session_says_so(
    machine: Machine,
) -> None:
    machine.takes = False
    await machine.give("prompt", "c1", text="go on\nplease")
    await machine.until("c1", "sent")

    assert machine.messages == ["From ann with Adsum: go on\nplease"]
    assert machine.why("c1") == "it was told as a message of another session"
    machine.says("go on please, and something else that somebody typed")
    assert machine.told("c1") == ["sent"]
    machine.says("From ann with Adsum: go on please")
    machine.says("From ann with Adsum: go on please")
    assert machine.told("c1") == ["sent", "took_effect"]


async def test_a_command_is_obeyed_once_also_across_a_restart(machine: Machine) -> None:
    await machine.give("prompt", "c1", text="x")
    await machine.until("c1", "took_effect")

    for each in (machine.actions, machine.collector()):
        machine.actions = each
        with pytest.raises(NotObeyedError, match="given before"):
            await machine.give("prompt", "c1", text="x")
    assert len(machine.messages) == 1


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"text": "a\x1b[201~"}, "control characters"),
        ({"text": "x" * 10_001}, "too long"),
        ({"verb": "reboot"}, "cannot `reboot` yet"),
    ],
)
async def test_what_is_not_sound_is_not_begun(machine: Machine, more: Any, why: str) -> None:
    with pytest.raises(NotObeyedError, match=why):
        await machine.give(more.pop("verb", "prompt"), "c1", **more)


async def test_consent_that_ends_meanwhile_counts(machine: Machine) -> None:
    keep_consent(machine.state_dir, Consent())
    await machine.give("prompt", "c1", text="x")
    await machine.until("c1", "refused")

    assert machine.messages == []
    await wait_until(lambda: True)
    assert "does not allow it" in machine.why("c1")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"sessionId": "other"}, "no process of it"),
        ({"pid": 1}, "no process of it"),
        ({"messagingSocketPath": None}, "nothing can be said to it"),
    ],
)
async def test_nothing_is_said_to_whoever_it_is_not(machine: Machine, entry: Any, why: str) -> None:
    machine.is_so(**entry)
    await machine.give("prompt", "c1", text="x")
    await machine.until("c1", "refused")

    assert why in machine.why("c1")
    assert machine.messages == []


async def test_a_process_id_that_another_program_bears_by_now_is_not_the_sessions(
    machine: Machine,
) -> None:
    machine.process = AgentProcess(os.getpid(), machine.process.started - 3_600_000)
    await machine.give("prompt", "c1", text="x")
    await machine.until("c1", "refused")

    assert machine.messages == []


async def test_what_is_known_only_by_a_registry_that_is_gone_is_not_reached(
    machine: Machine,
) -> None:
    (machine.registry / f"{os.getpid()}.json").write_bytes(b"[")
    await machine.give("prompt", "c1", text="x")
    await machine.until("c1", "refused")

    assert "no process of it" in machine.why("c1")


async def test_an_inbox_that_is_no_socket_of_ours_takes_nothing(machine: Machine) -> None:
    (machine.state_dir / "file").touch()
    machine.is_so(messagingSocketPath=str(machine.state_dir / "file"))
    await machine.give("prompt", "c1", text="x")
    await machine.until("c1", "refused")

    assert (machine.state_dir / "file").read_bytes() == b""


async def test_what_waits_is_said_in_order_each_after_a_turn_of_its_own(machine: Machine) -> None:
    machine.works()
    for name in ("a", "b", "c"):
        await machine.give("queue", name, text=f"say {name}")
        await machine.until(name, "queued")
    await machine.give("move", "m", item="c", place=0)
    await machine.until("m", "took_effect")
    assert [each.id for each in machine.shown[-1].items] == ["c", "a", "b"]
    assert machine.messages == []

    for number, name in enumerate(("c", "a", "b"), 1):
        machine.clock += 100
        machine.rests()
        await machine.until(name, "took_effect")
        assert len(machine.messages) == number
    await wait_until(lambda: machine.shown[-1].items == [])
    assert [each[-1] for each in machine.messages] == ["c", "a", "b"]


async def test_what_is_handed_over_is_marked_so_on_disk_before(machine: Machine) -> None:
    """Else a collector that is killed just then says it again."""
    await machine.give("queue", "a", text="say a")
    await machine.until("a", "took_effect")

    assert machine.on_disk == ["sent"]


async def test_while_it_rests_as_before_the_next_is_not_said(machine: Machine) -> None:
    """Its registry has not shown the turn of the first yet."""
    machine.takes = False
    await machine.give("queue", "a", text="say a")
    await machine.give("queue", "b", text="say b")
    await machine.until("a", "sent")
    machine.says("From ann with Adsum: say a")
    await machine.until("a", "took_effect")
    await wait_until(lambda: len(machine.shown[-1].items) == 1)
    await asyncio.sleep(0.1)
    assert len(machine.messages) == 1

    machine.clock += 100
    machine.rests()

    await machine.until("b", "sent")


async def test_what_is_taken_back_is_never_said(machine: Machine) -> None:
    machine.works()
    await machine.give("queue", "a", text="say a")
    await machine.until("a", "queued")
    await machine.give("withdraw", "w", item="a")
    await machine.until("w", "took_effect")
    machine.clock += 100
    machine.rests()
    await machine.give("withdraw", "w2", item="a")
    await machine.until("w2", "refused")

    assert machine.told("a") == ["queued", "withdrawn"]
    assert machine.messages == []


async def test_what_waits_outlives_a_restart_and_what_was_being_said_is_not_said_again(
    machine: Machine,
) -> None:
    machine.works()
    for name in ("a", "b"):
        await machine.give("queue", name, text=f"say {name}")
        await machine.until(name, "queued")
    await machine.stop()
    PromptQueue(machine.state_dir).mark("a", "sent")

    machine.actions = machine.collector()
    machine.start()
    await machine.until("a", "sent")
    machine.clock += 100
    machine.rests()
    await machine.until("b", "took_effect")

    assert machine.messages == ["From ann with Adsum: say b"]
    assert "restarted" in machine.why("a")


async def test_what_nobody_is_seen_to_take_is_given_up_and_not_said_twice(
    machine: Machine,
) -> None:
    machine.takes = False
    await machine.give("queue", "a", text="say a")
    await machine.until("a", "sent")
    machine.clock += actions.TAKEN_MS

    await wait_until(lambda: machine.shown[-1].items == [], 20)

    assert machine.messages == ["From ann with Adsum: say a"]
    assert "has not said" in machine.why("a")


async def test_what_waited_too_long_goes(machine: Machine) -> None:
    machine.works()
    await machine.give("queue", "a", text="say a")
    await machine.until("a", "queued")
    machine.clock += 24 * 3600 * 1000

    await machine.until("a", "expired")

    assert machine.messages == []


async def test_what_cannot_be_said_now_waits_and_is_tried_again(machine: Machine) -> None:
    inbox = machine.entry["messagingSocketPath"]
    machine.is_so(messagingSocketPath=str(machine.state_dir / "nowhere"))
    await machine.give("queue", "a", text="say a")
    await wait_until(lambda: machine.actions._again, 20)
    assert machine.told("a") == ["queued"]
    machine.is_so(messagingSocketPath=inbox)
    await asyncio.sleep(0.05)
    assert machine.messages == []

    machine.clock += actions.AGAIN_MS

    await machine.until("a", "took_effect")


async def test_hubs_are_told_how_a_prompt_reaches_it_and_when_it_no_longer_does(
    machine: Machine,
) -> None:
    await wait_until(lambda: machine.shown and machine.shown[-1].way == "inbox", 20)
    keep_consent(machine.state_dir, Consent())
    machine.clock += actions.WAYS_MS

    await wait_until(lambda: machine.shown[-1].way is None, 20)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("idle", "nothing runs in it"),
        ("waiting", "asks something"),
        ("busy", "no tmux"),
    ],
)
async def test_an_interrupt_is_refused_where_escape_would_do_something_else(
    machine: Machine, status: str, why: str
) -> None:
    machine.is_so(status=status)
    await machine.give("interrupt", "c1")
    await machine.until("c1", "refused")

    assert why in machine.why("c1")

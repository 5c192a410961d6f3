"""Whose consent counts, what is held and shown, and what keeps a decision from being carried out."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum_collector.agents import known_agents
from adsum_collector.control import trail
from adsum_collector.control.consent import FILE, Consent, LiveConsent, keep_consent, read_consent
from adsum_collector.control.holds import Held
from adsum_collector.control.policy import LivePolicy
from adsum_collector.control.remote import (
    HoldingHook,
    HoldTimes,
    OwnersWord,
    Parties,
    RemoteControl,
)
from adsum_collector.control.trail import FILE as TRAIL
from adsum_collector.control.trail import Trail, check_trail, read_trail
from adsum_collector.intake import Intake
from adsum_collector.spool.spool import Rows, Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_shared.commands import Command
from adsum_shared.privacy import private_as
from adsum_shared.signals import (
    CommandReported,
    HoldEnded,
    MetaChanged,
    RequestOpened,
    decode_signal,
)
from tests.control import RULES, command_for, consent_to, permission
from tests.support import wait_until

KEY = Ed25519PrivateKey.generate()
SECRET = {"command": "curl -H 'Authorization: Bearer abcdefgh12345678' https://x"}


class Machine:
    """A collector's control, without its doors. clock: seconds that never go back.

    begun: what it was to do that is no decision.
    """

    def __init__(self, state_dir: Path, spool: Spool) -> None:
        self.begun: list[Command] = []
        self.spool, self.state_dir, self.clock = spool, state_dir, 0.0
        self.agent = known_agents()[0]
        intake = Intake(spool, private_as("redacted", "salt"))
        self.control = RemoteControl(
            Parties({self.agent.name: self.agent}, {self.agent.name: intake}, actions=self),  # type: ignore[arg-type] # a fake
            OwnersWord(
                LiveConsent(state_dir, wall=time.time, timer=time.monotonic),
                LivePolicy(state_dir / "config.toml"),
            ),
            Trail(state_dir),
            HoldTimes(100, 60),
            now=lambda: time.time_ns() // 1_000_000,
            timer=lambda: self.clock,
        )
        self._ids = iter(f"{number:024x}" for number in range(1, 1000))

    async def accept(self, command: Command) -> None:
        pass

    def begin(self, command: Command) -> None:
        self.begun.append(command)

    def hear(self, signals: Any) -> None:
        pass

    def ask(
        self, body: bytes | None = None, name: str | None = None, *, attended: bool = True
    ) -> tuple[Held | None, Any]:
        body = body or permission(permission_suggestions=RULES)
        signals = list(self.agent.hook(body, 1_000))
        hook = HoldingHook(self.agent.name, name or next(self._ids), 1_000, attended)
        held = self.control.offer(hook, self.agent.asked(body), signals)
        return held, next(each for each in signals if isinstance(each, RequestOpened))

    async def said(self) -> list[Any]:
        found = await self.spool.read(0, 1000, 1 << 20)
        return [decode_signal(body) for body in found.bodies] if isinstance(found, Rows) else []

    async def until(self, kind: type[Any], *wanted: str) -> Any:
        """wanted: by whom, and the outcome."""

        def meant(each: Any) -> bool:
            return isinstance(each, kind) and (not wanted or (each.by, each.outcome) == wanted)

        async with asyncio.timeout(5):
            while not (found := list(filter(meant, await self.said()))):
                await self.spool.added.wait()
                self.spool.added.clear()
        return found[-1]


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    consent_to(tmp_path, KEY)
    spool = await Spool.open(tmp_path / "spool", SpoolLimits(min_free_bytes=0))
    machine = Machine(tmp_path, spool)
    running = asyncio.create_task(machine.control.run())
    yield machine
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await spool.close()


class Ends:
    """Both ends of a hook's connection."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        pass


async def waiting(machine: Machine, held: Held) -> tuple[Ends, asyncio.Task[None]]:
    ends: Any = Ends()
    task = asyncio.create_task(machine.control.wait(held, ends.reader, ends))
    await asyncio.sleep(0)
    return ends, task


def test_what_nobody_agreed_to_is_off(tmp_path: Path) -> None:
    assert read_consent(tmp_path) == Consent()
    consent_to(tmp_path, KEY)
    assert read_consent(tmp_path).at(time.time()) == "approve"

    (tmp_path / FILE).chmod(0o644)
    assert read_consent(tmp_path) == Consent()
    (tmp_path / FILE).chmod(0o600)
    (tmp_path / FILE).write_bytes(b'{"level": "approve"')
    assert read_consent(tmp_path) == Consent()
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    assert read_consent(tmp_path) == Consent()


@pytest.mark.parametrize(
    ("wall", "level"), [(99.0, "off"), (100.0, "approve"), (199.0, "approve"), (200.0, "off")]
)
def test_consent_has_an_end_and_a_clock_set_back_ends_it(wall: float, level: str) -> None:
    assert Consent("approve", 100.0, 200.0, {"k": "x"}).at(wall) == level


def test_it_ends_while_the_collector_runs_whatever_the_clock_on_the_wall_says(
    tmp_path: Path,
) -> None:
    now = {"wall": 100.0, "timer": 5.0}
    consent = LiveConsent(tmp_path, wall=lambda: now["wall"], timer=lambda: now["timer"])
    keep_consent(tmp_path, Consent("approve", 100.0, 160.0, {"k": "x"}))
    assert consent.level == "approve"

    now["timer"] = 65.0

    assert consent.level == "off"


def test_keys_count_under_their_own_ids_alone(tmp_path: Path) -> None:
    consent_to(tmp_path, KEY)
    (name,) = read_consent(tmp_path).public_keys()
    stranger = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()

    assert not Consent(keys={name: stranger}).public_keys()
    assert Consent("approve", keys={}).at(0.0) == "off"


async def test_a_request_is_shown_whole_and_can_be_decided(machine: Machine) -> None:
    long = {"command": "echo " + "x" * 20_000}

    held, opened = machine.ask(permission(given=long))

    assert held is not None
    assert opened.payload == long
    assert opened.request_id == held.id
    assert opened.hold.verbs == ["allow", "deny", "defer"]
    assert opened.hold.for_ms == 100_000


@pytest.mark.parametrize(
    "given",
    [
        SECRET,
        {"command": "token=$(rm${IFS}-rf${IFS}~)"},
        {"command": "x" * 70_000},
        {"edits": [{"a": n} for n in range(300)]},
    ],
)
async def test_what_is_not_shown_whole_cannot_be_allowed(machine: Machine, given: Any) -> None:
    held, opened = machine.ask(permission(given=given, permission_suggestions=RULES))

    assert held is not None
    assert opened.hold.verbs == ["deny", "defer"]
    assert opened.hold.always is None


@pytest.mark.parametrize(
    ("more", "attended", "lasts"), [({}, True, 100), ({}, False, 60), ({"agent_id": "A"}, True, 60)]
)
async def test_what_no_terminal_shows_is_not_held_for_long(
    machine: Machine, more: Any, attended: bool, lasts: int
) -> None:
    """A subagent waits for its hook before it asks, and a run without a terminal asks nobody."""
    _, opened = machine.ask(permission(**more), attended=attended)

    assert opened.hold.for_ms == lasts * 1000


async def test_nothing_is_held_where_control_is_off(machine: Machine) -> None:
    keep_consent(machine.state_dir, Consent())

    held, opened = machine.ask()

    assert held is None
    assert opened.hold is None


async def test_an_id_is_held_once(machine: Machine) -> None:
    held, _ = machine.ask(name="c" * 24)
    assert held is not None
    machine.control.withdraw(held)

    assert machine.ask(name="c" * 24)[0] is None
    assert machine.ask(name="no id")[0] is None


async def test_a_decision_is_written_into_the_trail_before_it_is_sent(machine: Machine) -> None:
    held, _ = machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    await machine.control.obey(command_for(held.asked, request_id=held.id))
    told = [json.loads(line) for line in read_trail(machine.state_dir)]
    await task

    assert any(each.get("outcome") == "decided" and each["by"] == "ann" for each in told)
    assert b'"allow"' in ends.written
    assert (await machine.until(CommandReported)).outcome == "sent"


async def test_without_a_trail_nothing_is_decided(machine: Machine) -> None:
    held, _ = machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)
    await wait_until(lambda: bool(list(read_trail(machine.state_dir))))
    (machine.state_dir / TRAIL).unlink()
    (machine.state_dir / TRAIL).mkdir()

    await machine.control.obey(command_for(held.asked, request_id=held.id))
    await task

    assert ends.written == b""
    told = await machine.until(CommandReported)
    assert told.outcome == "refused"
    assert "trail" in told.reason


async def test_a_command_that_comes_when_control_has_ended_is_refused(machine: Machine) -> None:
    held, _ = machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)
    keep_consent(machine.state_dir, Consent())

    await machine.control.obey(command_for(held.asked, request_id=held.id))
    await task

    assert ends.written == b""
    assert (await machine.until(CommandReported)).reason == "control is off on this machine"


def write_rules(machine: Machine, text: str) -> None:
    file = machine.state_dir / "config.toml"
    file.write_text(text)
    file.chmod(0o600)


RULE = '[[control.rule]]\nname = "tests"\ndecision = "allow"\ntool = "shell"\npattern = "make *"\n'


async def test_what_a_rule_decides_is_decided_at_once_and_marked_as_its_own(
    machine: Machine,
) -> None:
    write_rules(machine, f"{RULE}dry_run = false\n")
    held, _ = machine.ask()
    assert held is not None

    ends, task = await waiting(machine, held)
    await task

    assert b'"allow"' in ends.written
    told = await machine.until(CommandReported)
    assert (told.outcome, told.by, told.verb) == ("sent", "rule:tests", "allow")
    lines = [json.loads(line) for line in read_trail(machine.state_dir)]
    assert any(each.get("by") == "rule:tests" and each["what"] == "command" for each in lines)


async def test_a_rule_that_is_tried_decides_nothing_and_stands_in_the_trail(
    machine: Machine,
) -> None:
    write_rules(machine, RULE)
    held, _ = machine.ask()
    assert held is not None

    ends, task = await waiting(machine, held)
    await wait_until(lambda: b'"tried"' in b"".join(read_trail(machine.state_dir)))

    assert not task.done()
    assert ends.written == b""
    await machine.control.obey(command_for(held.asked, "deny", request_id=held.id))
    await task


@pytest.mark.parametrize("level", ["off", "approve"])
async def test_a_rule_is_held_to_what_a_person_is_held_to(machine: Machine, level: Any) -> None:
    write_rules(machine, f"{RULE}dry_run = false\n")
    secret = {"command": "make token=abcdefgh12345678"}
    held, _ = machine.ask(permission(given=secret))
    assert held is not None
    if level == "off":
        keep_consent(machine.state_dir, Consent())

    ends, task = await waiting(machine, held)
    await machine.control.obey(command_for(held.asked, "defer", request_id=held.id))
    await task

    assert ends.written == b""


TWO = '[control]\ntwo_persons = ["shop"]\n[[control.tag]]\nname = "shop"\n'


async def test_where_two_persons_are_needed_one_alone_allows_nothing(machine: Machine) -> None:
    write_rules(machine, f"{TWO}{RULE}dry_run = false\n")
    held, opened = machine.ask()
    assert held is not None
    assert opened.hold.persons == 2
    ends, task = await waiting(machine, held)
    first = command_for(held.asked, request_id=held.id, by="ann")

    await machine.control.obey(first)
    told = await machine.until(CommandReported)
    assert (told.outcome, told.reason) == ("awaits_second", "1 of 2: it takes another person")
    for by in ("ann", "Ann ", "ＡＮＮ"):  # noqa: RUF001 - what it would take for another
        await machine.control.obey(command_for(held.asked, request_id=held.id, by=by))
    await machine.control.obey(command_for(held.asked, "always", request_id=held.id, by="bob"))
    await wait_until(lambda: b"awaits_second" in b"".join(read_trail(machine.state_dir)))
    assert ends.written == b""
    assert not task.done()

    await machine.control.obey(command_for(held.asked, request_id=held.id, by="cat"))
    await task

    assert b'"allow"' in ends.written
    for wanted in (("ann", "seconded"), ("bob", "too_late"), ("cat", "sent")):
        await machine.until(CommandReported, *wanted)
    lines = [json.loads(line) for line in read_trail(machine.state_dir)]
    counted = [each["by"] for each in lines if each.get("outcome") == "counted"]
    assert counted == ["ann", "bob"]


@pytest.mark.parametrize(("cwd", "may"), [("/srv/x", False), ("/elsewhere", True), (None, False)])
async def test_nobody_alone_prompts_a_session_in_which_two_decide(
    machine: Machine, cwd: str | None, may: bool
) -> None:
    consent_to(machine.state_dir, KEY, "full")
    write_rules(machine, f'{TWO}directories = ["/srv"]\n')
    if cwd is not None:
        machine.control.hear([MetaChanged(session_id="s", at=1, seen=1, cwd=cwd)])

    prompt = Command(id="c1", host_id="h1", session_id="s", verb="prompt", by="ann", text="go")
    await machine.control.obey(prompt)

    assert [each.id for each in machine.begun] == (["c1"] if may else [])


async def test_one_person_can_deny_what_two_must_allow_and_what_is_over_counts_nobody(
    machine: Machine,
) -> None:
    write_rules(machine, TWO)
    held, _ = machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)
    await machine.control.obey(command_for(held.asked, request_id=held.id, by="ann"))

    await machine.control.obey(command_for(held.asked, "deny", request_id=held.id, by="bob"))
    await task

    assert b'"deny"' in ends.written
    await machine.until(CommandReported, "ann", "too_late")


async def test_what_was_given_to_a_collector_before_this_one_is_not_obeyed(
    machine: Machine,
) -> None:
    held, _ = machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    await machine.control.obey(command_for(held.asked, request_id=held.id, run="another"))
    assert "before this collector" in (await machine.until(CommandReported)).reason
    machine.clock = 100.0
    await task
    assert ends.written == b""


async def test_nobody_is_called_as_a_rule_is(machine: Machine) -> None:
    held, _ = machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    await machine.control.obey(command_for(held.asked, request_id=held.id, by="rule:tests"))
    assert "how a rule is named" in (await machine.until(CommandReported)).reason
    machine.clock = 100.0
    await task
    assert ends.written == b""


async def test_where_rules_cannot_be_read_nothing_is_allowed_but_may_be_denied(
    machine: Machine,
) -> None:
    write_rules(machine, '[control]\ntwo_persons = ["gone"]\n')
    held, _ = machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    await machine.control.obey(command_for(held.asked, request_id=held.id))
    assert "two_persons" in (await machine.until(CommandReported)).reason
    await machine.control.obey(command_for(held.asked, "deny", request_id=held.id))
    await task

    assert b'"deny"' in ends.written


async def test_a_hook_that_has_gone_takes_no_decision(machine: Machine) -> None:
    held, _ = machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    ends.reader.feed_eof()
    await task
    await machine.control.obey(command_for(held.asked, request_id=held.id))

    assert ends.written == b""
    assert (await machine.until(HoldEnded)).reason == "gone"
    assert (await machine.until(CommandReported)).outcome == "too_late"


async def test_a_collector_that_stops_decides_nothing(machine: Machine) -> None:
    held, _ = machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert ends.written == b""
    assert (await machine.until(HoldEnded)).reason == "restarted"


async def test_what_is_over_in_time_is_handed_back(machine: Machine) -> None:
    held, _ = machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    machine.clock = 100.0
    await task

    assert ends.written == b""
    assert (await machine.until(HoldEnded)).reason == "expired"


async def test_a_servers_form_is_known_by_our_name_when_it_is_answered(machine: Machine) -> None:
    form = {"hook_event_name": "Elicitation", "session_id": "s", "cwd": "/", "message": "Who?"}
    form |= {"requested_schema": {"properties": {"name": {"type": "string"}}}}
    held, opened = machine.ask(json.dumps(form | {"mcp_server_name": "rig"}).encode())
    assert held is not None
    assert opened.request_id == held.id

    result = form | {"hook_event_name": "ElicitationResult", "action": "accept"}
    body = json.dumps(result | {"mcp_server_name": "rig"}).encode()
    machine.control.hear(machine.agent.hook(body, 2_000))

    closed = await machine.until(type(machine.agent.hook(body, 2_000)[0]))
    assert closed.request_id == held.id
    assert closed.outcome == "accept"


def test_a_line_that_is_changed_or_taken_out_breaks_the_chain(tmp_path: Path) -> None:
    first = Trail(tmp_path)
    for number in range(3):
        first.add(number, "held", about=f"{number}")
    Trail(tmp_path).add(3, "ended")  # another run of the collector goes on
    whole = list(read_trail(tmp_path))

    assert check_trail(iter(whole)).lines == 4
    assert check_trail(iter(whole)).fault is None
    assert check_trail(iter([whole[0].replace(b'"0"', b'"9"'), *whole[1:]])).fault
    assert check_trail(iter([whole[0], *whole[2:]])).fault
    assert check_trail(iter([whole[1], whole[0], *whole[2:]])).fault
    assert (tmp_path / TRAIL).stat().st_mode & 0o077 == 0


def test_half_a_line_that_a_crash_left_swallows_none_that_follow(tmp_path: Path) -> None:
    Trail(tmp_path).add(1, "held")
    with os.fdopen(os.open(tmp_path / TRAIL, os.O_WRONLY | os.O_APPEND), "wb") as file:
        file.write(b'{"n":2,"at"')

    Trail(tmp_path).add(2, "ended")

    assert check_trail(read_trail(tmp_path)).fault is None
    assert check_trail(read_trail(tmp_path)).lines == 2


def test_a_trail_that_is_full_goes_on_in_a_new_file_and_stays_one_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "FILE_BYTES", 1_000)
    monkeypatch.setattr(trail, "MOST_ASIDE", 2)
    for number in range(9):
        Trail(tmp_path).add(number, "held", about=str(number))
    assert check_trail(read_trail(tmp_path)) == (9, *check_trail(read_trail(tmp_path))[1:])
    for number in range(9, 60):
        Trail(tmp_path).add(number, "held", about=str(number))

    whole = list(read_trail(tmp_path))
    checked = check_trail(iter(whole))
    assert checked.fault is None
    assert checked.dropped > 0
    assert checked.lines == len(whole)
    assert json.loads(whole[-1])["about"] == "59"
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 5_000
    assert "taken away" in (check_trail(iter(whole[1:])).fault or "")
    last = len((tmp_path / TRAIL).read_bytes().splitlines())
    assert "taken away" in (check_trail(iter(whole[-last:])).fault or "")


def test_a_trail_that_was_just_put_aside_goes_on_after_a_crash(tmp_path: Path) -> None:
    Trail(tmp_path).add(1, "held")
    (tmp_path / TRAIL).rename(tmp_path / f"{TRAIL}.1")

    Trail(tmp_path).add(2, "ended")

    assert check_trail(read_trail(tmp_path))[::2] == (2, None)

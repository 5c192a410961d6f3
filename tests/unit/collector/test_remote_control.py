"""Whose consent counts, what is held and shown, and what keeps a decision from being carried out."""

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum_collector.agents import known_agents
from adsum_collector.control.consent import TRAIL_FILE as TRAIL
from adsum_collector.control.consent import Consent, LiveConsent, Trail, keep_consent, read_trail
from adsum_collector.control.holds import Held
from adsum_collector.control.policy import LivePolicy, Policy
from adsum_collector.control.remote import (
    MOST_CWDS,
    HoldingHook,
    HoldTimes,
    OwnersWord,
    Parties,
    RemoteControl,
)
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
from tests.control import RULES, SESSION, command_for, consent_to, form, permission
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
            HoldTimes(100, 60, 5),
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

    async def ask(
        self, body: bytes | None = None, name: str | None = None, *, attended: bool = True
    ) -> tuple[Held | None, Any]:
        body = body or permission(permission_suggestions=RULES)
        signals = list(self.agent.hook(body, 1_000))
        hook = HoldingHook(self.agent.name, name or next(self._ids), 1_000, attended)
        held = await self.control.offer(hook, self.agent.asked(body), signals)
        return held, next(each for each in signals if isinstance(each, RequestOpened))

    async def said(self) -> list[Any]:
        found = await self.spool.read(0, 1000, 1 << 20)
        return [decode_signal(body) for body in found.bodies] if isinstance(found, Rows) else []

    async def until(self, kind: type[Any], *wanted: str) -> Any:
        """wanted: by whom, and the outcome."""

        def meant(each: Any) -> bool:
            return isinstance(each, kind) and (not wanted or (each.by, each.outcome) == wanted)

        found: list[Any] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                while not (found := list(filter(meant, await self.said()))):
                    await self.spool.added.wait()
                    self.spool.added.clear()
        assert found, f"nothing is told of {kind.__name__} {wanted}"
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


async def test_a_request_is_shown_whole_and_can_be_decided(machine: Machine) -> None:
    long = {"command": "echo " + "x" * 20_000}

    held, opened = await machine.ask(permission(given=long))

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
    held, opened = await machine.ask(permission(given=given, permission_suggestions=RULES))

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
    _, opened = await machine.ask(permission(**more), attended=attended)

    assert opened.hold.for_ms == lasts * 1000


async def test_nothing_is_held_where_control_is_off(machine: Machine) -> None:
    keep_consent(machine.state_dir, Consent())

    held, opened = await machine.ask()

    assert held is None
    assert opened.hold is None


async def test_an_id_is_held_once(machine: Machine) -> None:
    held, _ = await machine.ask(name="c" * 24)
    assert held is not None
    machine.control.withdraw(held)

    assert (await machine.ask(name="c" * 24))[0] is None
    assert (await machine.ask(name="no id"))[0] is None


async def test_a_decision_is_written_into_the_trail_before_it_is_sent(machine: Machine) -> None:
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    await machine.control.obey(command_for(held))
    told = [json.loads(line) for line in read_trail(machine.state_dir)]
    await task

    assert any(each.get("outcome") == "decided" and each["by"] == "ann" for each in told)
    assert b'"allow"' in ends.written
    assert (await machine.until(CommandReported)).outcome == "sent"


async def test_without_a_trail_nothing_is_decided(machine: Machine) -> None:
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)
    await wait_until(lambda: bool(list(read_trail(machine.state_dir))))
    (machine.state_dir / TRAIL).unlink()
    (machine.state_dir / TRAIL).mkdir()

    await machine.control.obey(command_for(held))
    await task

    assert ends.written == b""
    told = await machine.until(CommandReported)
    assert told.outcome == "refused"
    assert "trail" in (told.reason or "")


async def test_a_command_that_comes_when_control_has_ended_is_refused(machine: Machine) -> None:
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)
    keep_consent(machine.state_dir, Consent())

    await machine.control.obey(command_for(held))
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
    held, _ = await machine.ask()
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
    held, _ = await machine.ask()
    assert held is not None

    ends, task = await waiting(machine, held)
    await wait_until(lambda: b'"tried"' in b"".join(read_trail(machine.state_dir)))

    assert not task.done()
    assert ends.written == b""
    await machine.control.obey(command_for(held, "deny"))
    await task


@pytest.mark.parametrize("level", ["off", "approve"])
async def test_a_rule_is_held_to_what_a_person_is_held_to(machine: Machine, level: Any) -> None:
    write_rules(machine, f"{RULE}dry_run = false\n")
    secret = {"command": "make token=abcdefgh12345678"}
    held, _ = await machine.ask(permission(given=secret))
    assert held is not None
    if level == "off":
        keep_consent(machine.state_dir, Consent())

    ends, task = await waiting(machine, held)
    await machine.control.obey(command_for(held, "defer"))
    await task

    assert ends.written == b""


TWO = '[control]\ntwo_persons = ["shop"]\n[[control.tag]]\nname = "shop"\n'


async def test_where_two_persons_are_needed_one_alone_allows_nothing(machine: Machine) -> None:
    write_rules(machine, f"{TWO}{RULE}dry_run = false\n")
    held, opened = await machine.ask()
    assert held is not None
    assert opened.hold.persons == 2
    ends, task = await waiting(machine, held)
    first = command_for(held, by="ann")

    await machine.control.obey(first)
    told = await machine.until(CommandReported)
    assert (told.outcome, told.reason) == ("awaits_second", "1 of 2: it takes another person")
    for by in ("ann", "Ann ", "ＡＮＮ", "\u0251nn"):  # noqa: RUF001 - what it would take for another
        await machine.control.obey(command_for(held, by=by))
    await machine.control.obey(command_for(held, "always", by="bob"))
    await wait_until(lambda: b"awaits_second" in b"".join(read_trail(machine.state_dir)))
    assert ends.written == b""
    assert not task.done()

    await machine.control.obey(command_for(held, by="cat"))
    await task

    assert b'"allow"' in ends.written
    for wanted in (("ann", "seconded"), ("bob", "too_late"), ("cat", "sent")):
        await machine.until(CommandReported, *wanted)
    lines = [json.loads(line) for line in read_trail(machine.state_dir)]
    counted = [each["by"] for each in lines if each.get("outcome") == "counted"]
    assert counted == ["ann", "bob"]


@pytest.mark.parametrize(
    ("been", "body", "persons"),
    [
        (["/else"], permission(), 1),
        (["/srv/a", "/else"], permission(), 2),
        ([], permission(), 2),
        ([f"/else/{n}" for n in range(MOST_CWDS)], permission(), 2),
        (["/else"], permission("Write", {"file_path": "/srv/x", "content": ""}), 2),
        (["/else"], permission("Write", {"file_path": "../srv/x", "content": ""}), 2),
        (["/else"], permission("Write", {"file_path": "x", "content": ""}), 1),
        (["/else"], permission("Write", {"file_path": "x", "content": "", "new": 1}), 2),
        (["/else"], permission("Write", {"content": ""}), 2),
    ],
)
async def test_the_strictest_of_all_places_says_how_many_decide(
    machine: Machine, been: list[str], body: bytes, persons: int
) -> None:
    files = RULE.replace("tests", "files").replace("shell", "write").replace("make *", "/*")
    rules = f"{RULE}dry_run = false\n{files}dry_run = false\n"
    write_rules(machine, f'{TWO}directories = ["/srv"]\n{rules}')
    for each in been:
        machine.control.hear([MetaChanged(session_id=SESSION, at=1, seen=1, cwd=each)])

    held, opened = await machine.ask(body)
    assert held is not None
    assert (held.persons, opened.hold.persons) == (persons, persons)
    ends, task = await waiting(machine, held)
    if persons == 2:
        await machine.control.obey(command_for(held, by="ann"))
        await machine.until(CommandReported, "ann", "awaits_second")
        await machine.control.obey(command_for(held, by="bob"))
    await task

    assert b'"allow"' in ends.written
    assert (b"rule:" in b"".join(read_trail(machine.state_dir))) == (persons == 1)


async def test_a_file_is_where_its_links_lead_for_two_persons(
    machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "srv")
    write_rules(machine, f'{TWO}directories = ["{tmp_path}/srv"]\n')
    machine.control.hear([MetaChanged(session_id=SESSION, at=1, seen=1, cwd="/else")])

    _, opened = await machine.ask(
        permission("Write", {"file_path": f"{tmp_path}/link/x", "content": ""})
    )

    assert opened.hold.persons == 2


async def test_the_hubs_own_machine_is_no_second_person(machine: Machine) -> None:
    write_rules(machine, TWO)
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)
    for by in ("ann", "this machine"):
        await machine.control.obey(command_for(held, by=by))

    told = await machine.until(CommandReported, "this machine", "refused")
    assert "the hub's own machine is none" in (told.reason or "")
    await machine.control.obey(command_for(held, by="bob"))
    await task
    assert b'"allow"' in ends.written


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


@pytest.mark.parametrize("before", ["", '[control]\ntwo_persons = ["shop"]\n'])
async def test_what_is_written_while_it_is_held_counts_as_well(
    machine: Machine, before: str
) -> None:
    """Also where it could not be read when the request came."""
    write_rules(machine, before)
    held, opened = await machine.ask()
    assert held is not None
    assert opened.hold.persons == 1
    ends, task = await waiting(machine, held)
    write_rules(machine, TWO)

    await machine.control.obey(command_for(held, by="ann"))
    await machine.until(CommandReported, "ann", "awaits_second")
    assert ends.written == b""
    await machine.control.obey(command_for(held, by="bob"))
    await task

    assert b'"allow"' in ends.written


async def test_two_who_decide_at_the_same_moment_are_two(machine: Machine) -> None:
    write_rules(machine, TWO)
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)
    both = [command_for(held, by=by) for by in ("ann", "bob")]

    await asyncio.gather(*map(machine.control.obey, both))
    async with asyncio.timeout(5):
        await task

    assert b'"allow"' in ends.written


async def test_a_request_that_ends_while_it_is_counted_counts_nobody(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rules(machine, TWO)
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)
    written, loop = Trail.add, asyncio.get_running_loop()

    def add(self: Trail, at: int, what: str, **told: str) -> str:
        if told.get("outcome") == "counted":
            ends.reader.feed_eof()
            asyncio.run_coroutine_threadsafe(asyncio.wait([task]), loop).result(5)
        return written(self, at, what, **told)

    monkeypatch.setattr(Trail, "add", add)
    await machine.control.obey(command_for(held, by="ann"))

    await machine.until(CommandReported, "ann", "too_late")


async def test_links_are_followed_beside_the_loop(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory on a mount that hangs must not keep every hook of the machine waiting."""
    write_rules(machine, f'{TWO}directories = ["/srv"]\n')
    consent_to(machine.state_dir, KEY, "full")
    machine.control.hear([MetaChanged(session_id="s", at=1, seen=1, cwd="/x")])
    real, threads = os.path.realpath, set()

    def note(path: str, **how: Any) -> str:
        threads.add(threading.get_ident())
        return real(path, **how)

    tags_at = Policy.tags_at
    monkeypatch.setattr(Policy, "tags_at", lambda self, cwd, _real=None: tags_at(self, cwd, note))
    held, _ = await machine.ask()
    assert held is not None
    await machine.control.obey(command_for(held, by="ann"))
    prompt = Command(id="c1", host_id="h1", session_id="s", verb="prompt", by="ann", text="go")
    await machine.control.obey(prompt)

    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("many", [False, True])
async def test_nobody_alone_prompts_a_session_that_has_been_where_two_decide(
    machine: Machine, *, many: bool
) -> None:
    """Or in so many places that nobody knows."""
    consent_to(machine.state_dir, KEY, "full")
    write_rules(machine, f'{TWO}directories = ["/srv"]\n')
    places = [f"/else/{n}" for n in range(MOST_CWDS)] if many else ["/srv/x", "/else"]
    for each in places:
        machine.control.hear([MetaChanged(session_id="s", at=1, seen=1, cwd=each)])

    prompt = Command(id="c1", host_id="h1", session_id="s", verb="prompt", by="ann", text="go")
    await machine.control.obey(prompt)

    assert not machine.begun


async def test_odd_bytes_in_a_reason_are_replaced_and_end_nothing(machine: Machine) -> None:
    command = Command(id="c1", host_id="h1", session_id="s", verb="prompt", by="ann", text="go")
    odd = MetaChanged(session_id="s", at=1, seen=1, cwd="/\udce9")

    machine.control.tell(machine.agent.name, odd)
    machine.control.report(command, "refused", "it has the flag --\udce9")

    assert (await machine.until(CommandReported)).reason == "it has the flag --?"
    assert b"--?" in b"".join(read_trail(machine.state_dir))


async def test_a_hub_that_names_no_run_is_told_to_be_older(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    parties = machine.control._parties._replace(run="r1")
    monkeypatch.setattr(machine.control, "_parties", parties)
    command = Command(id="c1", host_id="h1", session_id="s", verb="deny", by="ann")

    await machine.control.obey(command)

    assert "upgrade the hub" in ((await machine.until(CommandReported)).reason or "")


async def test_a_command_that_was_read_in_time_is_not_reported_as_expired(machine: Machine) -> None:
    """Whoever may write to Redis could put it back there, dated as old."""
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)
    command, missed = command_for(held), command_for(held, "deny")
    await machine.control.obey(command)
    await task

    for each in (command, command_for(held, run="another"), missed):
        machine.control.expire(each)

    assert b'"allow"' in ends.written
    await machine.until(CommandReported, "ann", "expired")
    told = [each for each in await machine.said() if isinstance(each, CommandReported)]
    assert [(each.command_id, each.outcome) for each in told] == [
        (command.id, "sent"),
        (missed.id, "expired"),
    ]


async def test_one_person_can_deny_what_two_must_allow_and_what_is_over_counts_nobody(
    machine: Machine,
) -> None:
    write_rules(machine, TWO)
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)
    await machine.control.obey(command_for(held, by="ann"))

    await machine.control.obey(command_for(held, "deny", by="bob"))
    await task

    assert b'"deny"' in ends.written
    await machine.until(CommandReported, "ann", "too_late")


async def test_what_was_given_to_a_collector_before_this_one_is_not_obeyed(
    machine: Machine,
) -> None:
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    await machine.control.obey(command_for(held, run="another"))
    assert "before this collector" in ((await machine.until(CommandReported)).reason or "")
    machine.clock = 100.0
    await task
    assert ends.written == b""


@pytest.mark.parametrize(
    "by", ["rule:tests", "Rule:tests", "auto-suspend", "Auto-Suspend ", "This machine"]
)
async def test_nobody_is_called_as_what_decides_by_itself(machine: Machine, by: str) -> None:
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    await machine.control.obey(command_for(held, by=by))
    assert "no person is called so" in ((await machine.until(CommandReported)).reason or "")
    machine.clock = 100.0
    await task
    assert ends.written == b""


async def test_where_rules_cannot_be_read_nothing_is_allowed_but_may_be_denied(
    machine: Machine,
) -> None:
    write_rules(machine, '[control]\ntwo_persons = ["gone"]\n')
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    await machine.control.obey(command_for(held))
    assert "two_persons" in ((await machine.until(CommandReported)).reason or "")
    await machine.control.obey(command_for(held, "deny"))
    await task

    assert b'"deny"' in ends.written


async def test_a_hook_that_has_gone_takes_no_decision(machine: Machine) -> None:
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    ends.reader.feed_eof()
    await task
    await machine.control.obey(command_for(held))

    assert ends.written == b""
    assert (await machine.until(HoldEnded)).reason == "gone"
    assert (await machine.until(CommandReported)).outcome == "too_late"


async def test_a_collector_that_stops_decides_nothing(machine: Machine) -> None:
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert ends.written == b""
    assert (await machine.until(HoldEnded)).reason == "restarted"


async def test_what_is_over_in_time_is_handed_back(machine: Machine) -> None:
    held, _ = await machine.ask()
    assert held is not None
    ends, task = await waiting(machine, held)

    machine.clock = 100.0
    await task

    assert ends.written == b""
    assert (await machine.until(HoldEnded)).reason == "expired"


async def test_a_form_that_nobody_looks_at_is_given_back_to_its_terminal(machine: Machine) -> None:
    held, opened = await machine.ask(form())
    assert held is not None
    ends, task = await waiting(machine, held)
    assert opened.hold is not None
    assert (opened.hold.verbs, opened.hold.for_ms) == (
        ["elicit", "deny", "defer", "extend"],
        300_000,
    )

    machine.clock = 5.0
    await task

    assert ends.written == b""
    assert (await machine.until(HoldEnded)).reason == "expired"


async def test_a_form_is_held_for_whoever_has_it_before_them(machine: Machine) -> None:
    held, _ = await machine.ask(form())
    assert held is not None
    ends, task = await waiting(machine, held)
    for machine.clock in (4.0, 8.0, 12.0):
        await machine.control.obey(command_for(held, "extend"))
    machine.clock = 21.0
    await machine.control.obey(command_for(held, "elicit", content={"name": "Ada"}))
    await task

    assert b'"Ada"' in ends.written
    await machine.until(CommandReported, "ann", "sent")
    told = [
        (each.verb, each.outcome)
        for each in await machine.said()
        if isinstance(each, CommandReported)
    ]
    assert told == [("elicit", "sent")]
    lines = [
        json.loads(line) for file in read_trail(machine.state_dir) for line in file.splitlines()
    ]
    assert [each["by"] for each in lines if each.get("verb") == "extend"] == ["ann"]


async def test_how_long_a_form_is_held_is_its_owners_to_say(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, opened = await machine.ask(form(), attended=False)
    assert held is not None
    assert opened.hold.verbs == ["elicit", "deny", "defer"], "nobody sits at its terminal"
    assert opened.hold.for_ms == 60_000

    for seconds, found in ((0, None), (600, (["elicit", "deny", "defer"], 600_000))):
        monkeypatch.setattr(machine.control, "_limits", HoldTimes(1_000, 60, seconds))
        _, opened = await machine.ask(form())
        assert (opened.hold and (opened.hold.verbs, opened.hold.for_ms)) == found


async def test_a_servers_form_is_known_by_our_name_when_it_is_answered(machine: Machine) -> None:
    held, opened = await machine.ask(form())
    assert held is not None
    assert opened.request_id == held.id

    body = form(hook_event_name="ElicitationResult", action="accept")
    machine.control.hear(machine.agent.hook(body, 2_000))

    closed = await machine.until(type(machine.agent.hook(body, 2_000)[0]))
    assert closed.request_id == held.id
    assert closed.outcome == "accept"

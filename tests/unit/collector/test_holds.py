"""What may decide a request that is held, and what ends it: one by one, then ten thousand at random."""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum_collector.agents.base import Asked
from adsum_collector.agents.claude_code.decisions import answer_of
from adsum_collector.control.holds import MOST_OPEN, Held, Holds, TooLateError
from adsum_shared import signals as s
from adsum_shared.commands import (
    DECISION_TTL_MS,
    Command,
    NotObeyedError,
    binding_of,
    key_id,
    opened,
    signed,
)
from tests.control import RULES, SESSION, asked_by, command_for, permission

HERE, HUB, STRANGER = "h1", Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
KEYS = {key_id(HUB.public_key()): HUB.public_key()}
CALL = "toolu_1"


def told(kind: type[Any], at: int = 2_000, **fields: Any) -> Any:
    return kind(**{"session_id": SESSION, "at": at, "seen": at, **fields})


def held(
    asked: Asked | None = None, request_id: str = "a" * 24, until: float = 100.0, **more: Any
) -> Held:
    asked = asked or asked_by(permission(permission_suggestions=RULES))
    binding = binding_of(asked.session_id, asked.cwd, asked.tool, asked.given)
    fields = {"digest": "d1", "tool_use_id": CALL, **more}
    return Held(request_id, "claude_code", asked, binding, 1_000, until, **fields)


@pytest.fixture
def holds() -> Holds:
    holds = Holds()
    holds.hold(held())
    return holds


def test_a_decision_closes_what_it_decides(holds: Holds) -> None:
    decided, body = holds.decide(command_for(held().asked), 1.0, answer_of)

    assert decided.id == "a" * 24
    assert b"allow" in body
    assert not holds.open
    with pytest.raises(TooLateError, match="decided"):
        holds.decide(command_for(held().asked), 1.0, answer_of)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"binding": "0" * 64}, "not what is asked"),
        ({"binding": None}, "not what is asked"),
        ({"session_id": "other"}, "another session"),
        ({"request_id": "b" * 24}, "no longer open"),
        ({"request_id": None}, "no longer open"),
        ({"verb": "plan"}, "does not take"),
        ({"verb": "prompt"}, "does not take"),
        ({"verb": "deny", "text": "\x07"}, "control characters"),
    ],
)
def test_what_does_not_fit_leaves_it_open(holds: Holds, wrong: Any, why: str) -> None:
    command = msgspec.structs.replace(command_for(held().asked), **wrong)

    with pytest.raises(NotObeyedError, match=why):
        holds.decide(command, 1.0, answer_of)

    assert list(holds.open) == ["a" * 24]


def test_a_command_is_used_once_even_if_it_was_refused(holds: Holds) -> None:
    command = command_for(held().asked)
    with pytest.raises(NotObeyedError, match="not what is asked"):
        holds.decide(msgspec.structs.replace(command, binding="0" * 64), 1.0, answer_of)

    with pytest.raises(NotObeyedError, match="given before"):
        holds.decide(command, 1.0, answer_of)


def test_nothing_is_decided_after_its_time(holds: Holds) -> None:
    with pytest.raises(TooLateError, match="time was over"):
        holds.decide(command_for(held().asked), 100.0, answer_of)

    assert [each.reason for each in holds.expire(100.0)] == ["expired"]
    assert not holds.open


def test_what_is_changed_after_it_was_shown_is_not_decided(holds: Holds) -> None:
    command = command_for(held().asked)
    holds.open["a" * 24].asked.given["command"] = "rm -rf ~"

    with pytest.raises(NotObeyedError, match="not what is asked"):
        holds.decide(command, 1.0, answer_of)


def test_only_so_many_are_held(holds: Holds) -> None:
    for number in range(MOST_OPEN - 1):
        holds.hold(held(request_id=f"{number:024x}"))

    assert holds.is_full
    assert holds.knows("a" * 24)


MAIN, SUB = held().asked, asked_by(permission(agent_id="A"))


@pytest.mark.parametrize(
    ("asked", "signal", "reason"),
    [
        (MAIN, told(s.ToolFinished, tool="Bash", tool_use_id=CALL), "answered"),
        (MAIN, told(s.ToolFinished, tool="Bash", tool_use_id="other"), None),
        (MAIN, told(s.ToolFinished, tool="Bash", tool_use_id=CALL, session_id="other"), None),
        (MAIN, told(s.TurnEnded), "answered"),
        (MAIN, told(s.TurnEnded, at=1_000), None),
        (MAIN, told(s.TurnEnded, agent_id="A"), None),
        (MAIN, told(s.TurnInterrupted), "answered"),
        (MAIN, told(s.TurnFailed), "answered"),
        (MAIN, told(s.SessionEnded), "gone"),
        (MAIN, told(s.ProcessGone, pid=1), "gone"),
        (MAIN, told(s.PromptSubmitted), None),
        (MAIN, told(s.ChildFinished, child_id="A"), None),
        (MAIN, told(s.StatusReported, status="busy"), None),
        (SUB, told(s.TurnEnded), None),
        (SUB, told(s.TurnEnded, agent_id="A"), "answered"),
        (SUB, told(s.ChildFinished, child_id="A"), "gone"),
        (SUB, told(s.ChildFinished, child_id="B"), None),
        (SUB, told(s.PromptSubmitted), "handed back"),
        (SUB, told(s.PromptSubmitted, at=1_000), None),
        (SUB, told(s.PromptSubmitted, origin="system"), None),
        (SUB, told(s.SessionEnded), "gone"),
    ],
)
def test_what_ends_a_request_and_what_does_not(
    asked: Asked, signal: Any, reason: str | None
) -> None:
    holds = Holds()
    holds.hold(held(asked))

    over, _ = holds.hear([signal])

    assert [each.reason for each in over] == ([reason] if reason else [])
    assert bool(holds.open) == (reason is None)


def test_a_registry_that_no_longer_waits_ends_what_it_showed(holds: Holds) -> None:
    """A Yes leaves no other trace while its tool runs."""
    before, shown = (
        told(s.StatusReported, at=999, status="waiting"),
        told(s.StatusReported, status="waiting"),
    )
    left = told(s.StatusReported, at=3_000, status="busy")

    assert holds.hear([before, left]) == ([], [])
    over, _ = holds.hear([shown, left])

    assert [each.reason for each in over] == ["answered"]


def test_a_request_and_its_call_find_each_other_in_either_order() -> None:
    started = told(s.ToolStarted, tool="Bash", tool_use_id="t9", digest="d1")
    finished = told(s.ToolFinished, tool="Bash", tool_use_id="t9")
    first, second, third = Holds(), Holds(), Holds()

    first.hear([started])
    assert first.hold(held(tool_use_id=None)).tool_use_id == "t9"
    second.hold(held(tool_use_id=None))
    assert [each.reason for each in second.hear([started, finished])[0]] == ["answered"]
    # the call before this one looked the same, and is over
    third.hear([started, told(s.ToolFinished, tool="Bash", tool_use_id="t9", digest="d1")])
    assert third.hold(held(tool_use_id=None)).tool_use_id is None


@pytest.mark.parametrize(
    ("verb", "decided_by", "accepted", "outcome"),
    [
        ("allow", "hook", True, "took_effect"),
        ("deny", "hook", False, "took_effect"),
        ("deny", "user_temporary", True, "overruled"),
        ("allow", "user_reject", False, "overruled"),
        ("allow", "user_temporary", True, "overruled"),
        ("allow", "hook", False, "overruled"),
        ("deny", "hook", True, "overruled"),
        ("allow", None, None, None),
    ],
)
def test_what_came_of_a_decision_is_what_the_agent_wrote(
    holds: Holds, verb: str, decided_by: Any, accepted: Any, outcome: str | None
) -> None:
    command = command_for(held().asked, verb)
    holds.decide(command, 1.0, answer_of)
    finished = told(s.ToolFinished, tool="Bash", tool_use_id=CALL)

    _, effects = holds.hear(
        [msgspec.structs.replace(finished, decided_by=decided_by, accepted=accepted)]
    )

    assert [(e.outcome, e.command.id) for e in effects] == (
        [(outcome, command.id)] if outcome else []
    )


def test_a_denial_that_ends_the_turn_is_known_by_its_end(holds: Holds) -> None:
    """The CLI writes the same as for Esc."""
    holds.decide(command_for(held().asked, "deny", stop=True), 1.0, answer_of)

    assert not holds.hear([told(s.TurnInterrupted, at=999), told(s.TurnInterrupted, agent_id="A")])[
        1
    ]
    _, effects = holds.hear([told(s.TurnInterrupted)])

    assert [each.outcome for each in effects] == ["took_effect"]


@dataclass
class Chaos:
    """A hub, an attacker and time, at random; and a plain list of what may have an effect.

    genuine: (request id, verb) of commands that were signed for the very request. open: until when.
    """

    dice: random.Random
    holds: Holds = field(default_factory=Holds)
    now: float = 0.0
    open: dict[str, float] = field(default_factory=dict)
    every: list[Held] = field(default_factory=list)
    given: list[Command] = field(default_factory=list)
    spent: set[str] = field(default_factory=set)
    effects: int = 0

    def ask(self) -> None:
        """Often the same as before: of another session, another agent, or once more."""
        body = permission(
            given={"command": self.dice.choice(["make", "make test"])},
            session_id=self.dice.choice(["s1", "s2"]),
            **self.dice.choice([{}, {"agent_id": "A"}]),
        )
        number = len(self.every)
        new = held(
            asked_by(body),
            f"{number:024x}",
            self.now + self.dice.choice([5, 60]),
            tool_use_id=f"t{number}",
        )
        self.every.append(self.holds.hold(new))
        self.open[new.id] = new.until

    def wait(self) -> None:
        self.now += self.dice.choice([1, 4, 30])
        if self.dice.random() < 0.5:
            self._over(self.holds.expire(self.now))

    def answer_locally(self) -> None:
        if self.every:
            one = self.dice.choice(self.every)
            call = told(s.ToolFinished, tool="Bash", tool_use_id=one.tool_use_id or "")
            self._over(
                self.holds.hear([msgspec.structs.replace(call, session_id=one.asked.session_id)])[0]
            )
            assert one.id not in self.holds.open
            self.open.pop(one.id, None)

    def _over(self, over: Any) -> None:
        for each in over:
            self.open.pop(each.held.id, None)

    def decide(self) -> None:
        if not self.every:
            return
        one = self.dice.choice(self.every)
        verb = self.dice.choice(["allow", "deny"])
        command = command_for(one.asked, verb, request_id=one.id)
        self.given.append(command)
        self.send(command, fits=True)

    def forge(self) -> None:
        """One thing is wrong."""
        if not self.every:
            return
        one, other = self.dice.choice(self.every), self.dice.choice(self.every)
        good = command_for(one.asked, request_id=one.id)
        wrong: Callable[[], tuple[Command, dict[str, Any]]] = self.dice.choice(
            [
                lambda: (good, {"key": STRANGER}),
                lambda: (good, {"spoilt": True}),
                lambda: (good, {"age_ms": DECISION_TTL_MS + 1}),
                lambda: (good, {"to": "h2"}),
                lambda: (msgspec.structs.replace(good, host_id="h2"), {}),
                lambda: (msgspec.structs.replace(good, binding=os.urandom(32).hex()), {}),
                lambda: (msgspec.structs.replace(good, session_id="s3"), {}),
                lambda: (msgspec.structs.replace(good, request_id="f" * 24), {}),
                lambda: (msgspec.structs.replace(good, verb="always"), {}),
                lambda: (msgspec.structs.replace(good, verb="plan", mode="acceptEdits"), {}),
                lambda: (msgspec.structs.replace(good, verb="prompt", text="go"), {}),
                # for the other request, with this one's hash: right only if they ask the same
                lambda: (msgspec.structs.replace(good, request_id=other.id), {}),
            ]
        )
        command, how = wrong()
        meant = next((each for each in self.every if each.id == command.request_id), None)
        same = (
            not how
            and meant is not None
            and (meant.asked.session_id, meant.binding) == (command.session_id, command.binding)
            and (command.host_id, command.verb) == (HERE, "allow")
        )
        self.send(command, fits=same, **how)

    def replay(self) -> None:
        if self.given:
            self.send(self.dice.choice(self.given), fits=True)

    def send(
        self,
        command: Command,
        *,
        fits: bool,
        key: Ed25519PrivateKey = HUB,
        to: str = HERE,
        age_ms: int = 50,
        spoilt: bool = False,
    ) -> None:
        fields = signed(msgspec.structs.replace(command), key)
        if to != HERE:
            fields = signed(msgspec.structs.replace(command, host_id=to), key)
        if spoilt:
            fields[b"c"] = fields[b"c"].replace(b'"allow"', b'"deny"')
        until = self.open.get(command.request_id or "", -1.0)
        may = fits and command.id not in self.spent and self.now < until
        try:
            found = opened(fields, HERE, KEYS, age_ms)
            self.spent.add(found.id)
            decided, body = self.holds.decide(found, self.now, answer_of)
        except NotObeyedError:
            assert not may, "what was decided rightly had no effect"
            return
        assert may, f"an unwanted effect: {command}"
        assert decided.id == command.request_id
        assert (b'"allow"' in body) == (command.verb == "allow")
        del self.open[decided.id]
        self.effects += 1


def test_ten_thousand_sequences_have_no_unwanted_effect() -> None:
    """Decided, replayed, late, forged, crossed, twice, in any order, against the terminal and time."""
    effects = 0
    for seed in range(10_000):
        chaos = Chaos(random.Random(seed))
        steps = [
            chaos.ask,
            chaos.decide,
            chaos.forge,
            chaos.replay,
            chaos.wait,
            chaos.answer_locally,
        ]
        chaos.ask()
        for _ in range(8):
            chaos.dice.choices(steps, [3, 3, 4, 2, 1, 1])[0]()
        effects += chaos.effects
    assert effects > 5_000

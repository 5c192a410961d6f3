"""Thousands of random lives of a machine under control, and not one effect that nobody may have wanted.

An attacker who may write to Redis, people, rules, the terminal, time and faults act at random. Beside
them stands a plain list of what may have an effect; whatever a hook prints has to be on it.
"""

import asyncio
import contextlib
import os
import random
import time
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum_collector.agents import known_agents
from adsum_collector.control import remote
from adsum_collector.control.consent import Consent, LiveConsent
from adsum_collector.control.feed import CommandFeed
from adsum_collector.control.holds import Held
from adsum_collector.control.policy import LivePolicy, Policy, PolicyRule, Tag
from adsum_collector.control.remote import (
    HoldingHook,
    HoldTimes,
    OwnersWord,
    Parties,
    RemoteControl,
)
from adsum_collector.errors import DeliveryError
from adsum_shared import signals as s
from adsum_shared.commands import DECISION_TTL_MS, Command, key_id, signed
from adsum_shared.privacy import private_as
from tests.control import RULES, command_for, permission

HERE, HUB, STRANGER = "h1", Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
KEYS = {key_id(HUB.public_key()): HUB.public_key().public_bytes_raw().hex()}
AGENT = known_agents()[0]
PRIVATE = private_as("redacted", "salt")
SAFE, SECRET = "make test", "make token=abcdefgh12345678"
RULE = PolicyRule("safe", "allow", tool="shell", pattern="make *", dry_run=False)
POLICIES = (
    Policy(),
    Policy((RULE,)),
    Policy((msgspec.structs.replace(RULE, dry_run=True),)),
    Policy((RULE,), (Tag("shop"),), ("shop",)),
    Policy(fault="config.toml: it cannot be read"),
)


class MemoryConsent(LiveConsent):
    """Changed without a file."""

    given = Consent()

    def _renew(self) -> None:
        if self._consent is not self.given:
            self._consent, self._keys = self.given, self.given.public_keys()
            self._ends = self._timer() + max(0.0, (self.given.until or 0.0) - self._wall())


class MemoryPolicy(LivePolicy):
    def __init__(self, policy: Policy) -> None:
        self.given = policy

    @property
    def current(self) -> Policy:
        return self.given


class MemoryTrail:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.fails = False

    def add(self, at: int, what: str, **told: Any) -> str:
        if self.fails:
            raise OSError("no space")
        self.lines.append({"what": what, **told})
        return "0" * 64


class MemoryIntake:
    def __init__(self) -> None:
        self.spool, self.private = SimpleNamespace(state={}), PRIVATE
        self.hear: Any = None

    async def accept(self, signals: Any, state: Any = None) -> None:
        pass


class Ends:
    """Both ends of a hook's connection."""

    def __init__(self) -> None:
        self.reader, self.written = asyncio.StreamReader(), b""

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        pass


class Asking(NamedTuple):
    held: Held
    ends: Ends
    task: asyncio.Task[None]
    text: str
    until: float
    sub: bool


class Sent(NamedTuple):
    """A command on its way. genuine: a hub gave it for the very request, as it was shown."""

    command: Command
    genuine: bool
    run: str


class World:
    """One machine, its hub, its attacker and its clocks."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.timer, self.wall, self.redis_ms = 100.0, 1_000_000.0, 5_000_000_000
        self.trail, self.policy = MemoryTrail(), MemoryPolicy(self.dice.choice(POLICIES))
        self.consent = MemoryConsent(None, wall=lambda: self.wall, timer=lambda: self.timer)  # type: ignore[arg-type] # no file
        self.stream: list[Any] = []
        self.stirred = asyncio.Event()
        self.tasks: list[asyncio.Task[Any]] = []
        self.requests: list[Asking] = []
        self.over: set[str] = set()
        self.given: list[tuple[dict[bytes, bytes], Sent]] = []
        self.arrived: list[Sent] = []
        self.votes: dict[str, set[tuple[str, str]]] = {}
        self.used: set[str] = set()
        self.number = self.effects = self.runs = 0
        self.is_cut = False
        self.ends_at: float | None = None

    # What holds at the moment.

    @property
    def is_on(self) -> bool:
        over = self.ends_at is not None and self.timer >= self.ends_at
        given = self.consent.given
        behind = given.until is not None and not given.since <= self.wall < given.until
        return given.level != "off" and not over and not behind

    async def begin(self) -> None:
        self.agree()
        await self.start()

    async def start(self) -> None:
        self.runs += 1
        self.run = f"run{self.runs}"
        self.used.clear()
        self.votes.clear()
        parties = Parties({AGENT.name: AGENT}, {AGENT.name: MemoryIntake()}, run=self.run)  # type: ignore[dict-item] # a fake
        self.control = RemoteControl(
            parties,
            OwnersWord(self.consent, self.policy),
            self.trail,  # type: ignore[arg-type] # a fake
            HoldTimes(60, 20, 20),
            now=lambda: int(self.wall * 1000),
            timer=lambda: self.timer,
        )
        reports: Any = SimpleNamespace(public=b"x")  # so it reads with control off as well
        self.feed = CommandFeed(None, SimpleNamespace(host_id=HERE), self.control, reports)  # type: ignore[arg-type] # lines are opened here
        self.tasks = [asyncio.create_task(self.control.run())]
        await self.connect()

    async def connect(self) -> None:
        """As `CommandFeed.run` does: from the stream's end on."""
        self.is_cut = False
        self.tasks.append(asyncio.create_task(self._follow()))
        await self.settle()

    async def _follow(self) -> None:
        with contextlib.suppress(DeliveryError):
            await self.feed._follow(self)  # type: ignore[arg-type] # stands for the connection

    async def ask(self, _host: str, request: Any) -> Any:
        """As the transport's."""
        if request.commands == "":
            end = self.stream[-1].id if self.stream else "0-0"
            return SimpleNamespace(end=end, now_ms=self.redis_ms)
        while not (found := [e for e in self.stream if _place(e.id) > _place(request.commands)]):
            if self.is_cut:
                raise DeliveryError
            self.stirred.clear()
            await self.stirred.wait()
        if self.is_cut:
            raise DeliveryError
        return SimpleNamespace(commands=found, now_ms=self.redis_ms)

    async def settle(self, *, looks: bool = True) -> None:
        """looks: the collector looks at deadlines meanwhile, as it does twice a second."""
        for _ in range(3):
            if looks:
                self.control._wake.set()
            for _ in range(8):
                await asyncio.sleep(0)

    async def close(self) -> None:
        for task in (*self.tasks, *(each.task for each in self.requests)):
            task.cancel()
        await asyncio.gather(
            *self.tasks, *(each.task for each in self.requests), return_exceptions=True
        )

    # What happens.

    async def asks(self) -> None:
        text, self.number = self.dice.choice([SAFE, SAFE, "make x; rm y", SECRET]), self.number + 1
        more = self.dice.choice([{}, {}, {"agent_id": "A"}])
        body = permission(
            given={"command": text},
            session_id=self.dice.choice(["s1", "s2"]),
            permission_suggestions=RULES,
            **more,
        )
        told = [
            msgspec.structs.replace(each, tool_use_id=f"t{self.number}")
            if isinstance(each, s.RequestOpened)
            else each
            for each in AGENT.hook(body, 1_000)
        ]
        hook = HoldingHook(AGENT.name, f"{self.number:024x}", 1_000)
        held = await self.control.offer(hook, AGENT.asked(body), told)
        assert (held is not None) == self.is_on, "it is held where control is on, and nowhere else"
        if held is None:
            return
        ends: Any = Ends()
        task = asyncio.create_task(self.control.wait(held, ends.reader, ends))
        lasts = 20 if more else 60
        self.requests.append(Asking(held, ends, task, text, self.timer + lasts, bool(more)))

    def one(self) -> Asking | None:
        return self.dice.choice(self.requests) if self.requests else None

    async def decides(self) -> None:
        if (one := self.one()) is None:
            return
        verb = self.dice.choice(["allow", "allow", "deny", "always"])
        by = self.dice.choice(["ann", "bob", "Ann", "rule:safe"])
        command = command_for(one.held, verb, run=self.run, by=by)
        self.put(signed(command, HUB), Sent(command, genuine=True, run=self.run))

    async def forges(self) -> None:
        one, other = self.one(), self.one()
        if one is None or other is None:
            return
        good = command_for(one.held, run=self.run)
        wrong = self.dice.randrange(9)
        change: dict[str, Any] = [
            {},
            {},
            {"host_id": "h2"},
            {"binding": os.urandom(32).hex()},
            {"session_id": "s3"},
            {"request_id": "f" * 24},
            {"verb": "plan", "mode": "acceptEdits"},
            {"run": "run0"},
            # for the other request, with this one's hash: right only if they ask the very same
            {"request_id": other.held.id},
        ][wrong]
        command = msgspec.structs.replace(good, **change)
        fields = signed(command, STRANGER if wrong == 0 else HUB)
        if wrong == 1:
            fields[b"c"] = fields[b"c"].replace(b'"allow"', b'"always"')
        if wrong == 2:  # signed for the machine that it names, and put into this one's stream
            command = good
            fields = signed(msgspec.structs.replace(good, host_id="h2"), HUB)
        same = other.held.shown == one.held.shown and wrong == 8
        same = same and other.held.asked.session_id == one.held.asked.session_id
        self.put(fields, Sent(command, genuine=same, run=command.run))

    async def replays(self) -> None:
        if self.given:
            self.put(*self.dice.choice(self.given))

    async def comes_late(self) -> None:
        """A decision that was held back is read long after it was put there."""
        if (one := self.one()) is None:
            return
        command = command_for(one.held, run=self.run)
        self.redis_ms += 1
        fields = signed(command, HUB)
        self.stream.append(SimpleNamespace(id=f"{self.redis_ms}-0", fields=fields))
        self.redis_ms += DECISION_TTL_MS + 1
        self.stirred.set()

    def put(self, fields: dict[bytes, bytes], sent: Sent) -> None:
        self.redis_ms += 1
        self.stream.append(SimpleNamespace(id=f"{self.redis_ms}-0", fields=fields))
        self.given.append((fields, sent))
        if not self.is_cut:
            self.arrived.append(sent)
        self.stirred.set()

    async def waits(self) -> None:
        self.timer += (span := self.dice.choice([1, 4, 30]))
        self.wall += span
        self.redis_ms += int(span * 1000)

    async def is_answered_there(self) -> None:
        if (one := self.one()) is not None:
            call = one.held.tool_use_id or ""
            name = one.held.asked.session_id
            agent = one.held.asked.agent_id
            told = {"session_id": name, "agent_id": agent, "at": 9_000, "seen": 9_000}
            self.control.hear([s.ToolFinished(**told, tool="Bash", tool_use_id=call)])
            self.over.add(one.held.id)

    async def redis_is_wiped(self) -> None:
        self.stream.clear()
        self.redis_ms += 1

    async def link_is_cut(self) -> None:
        self.is_cut = True
        self.stirred.set()
        await self.settle()

    async def link_is_mended(self) -> None:
        if self.is_cut:
            await self.connect()

    async def is_restarted(self) -> None:
        for task in (*self.tasks, *(each.task for each in self.requests)):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.gather(*(each.task for each in self.requests), return_exceptions=True)
        self.over |= {each.held.id for each in self.requests}
        await self.start()

    async def clock_is_set_back(self) -> None:
        self.wall -= self.dice.choice([5, 5_000])

    async def trail_fails(self) -> None:
        self.trail.fails = not self.trail.fails

    async def is_switched_off(self) -> None:
        self.consent.given = Consent()
        self.ends_at = None

    async def is_switched_on(self) -> None:
        self.agree()
        await self.link_is_cut()
        await self.connect()

    def agree(self) -> None:
        lasts = self.dice.choice([None, 50])
        until = None if lasts is None else self.wall + lasts
        self.consent.given = Consent("approve", self.wall, until, KEYS)
        self.ends_at = None if lasts is None else self.timer + lasts

    # What may come of it.

    async def step(self) -> None:
        name = self.dice.choices(STEPS, WEIGHTS)[0]
        self.arrived = []
        written = {each.held.id: each.ends.written for each in self.requests}
        ran = self.run
        await getattr(self, name)()
        # what has just ended is not known to have until somebody looks
        unseen = ("waits", "is_switched_off", "clock_is_set_back")
        await self.settle(looks=name not in unseen)
        for each in self.requests:
            new = each.ends.written[len(written.get(each.held.id, b"")) :]
            if new:
                assert not written.get(each.held.id), f"decided twice, after {name}"
                self.judge(each, new, name)
        self.note_votes(ran)
        for each in self.requests:
            if each.ends.written or self.timer >= each.until or each.task.done():
                self.over.add(each.held.id)

    def judge(self, one: Asking, body: bytes, name: str) -> None:
        """Whether this effect is one that somebody wanted, who may, now."""
        verb = "deny" if b'"deny"' in body else "always" if b"addRules" in body else "allow"
        told = f"{name}: {verb} {one.text!r} {self.policy.given}"
        assert one.held.id not in self.over, f"its request was over: {told}"
        assert self.timer < one.until, f"its time was over: {told}"
        assert self.is_on, f"control was off: {told}"
        assert not self.trail.fails, f"nobody could account for it: {told}"
        lines = [e for e in self.trail.lines if e.get("request_id") == one.held.id]
        assert any(e.get("outcome") == "decided" for e in lines), f"not in the trail: {told}"
        if verb != "deny":
            assert one.text != SECRET, f"it was not shown whole: {told}"
            assert self.policy.given.fault is None, f"the owner's word was unknown: {told}"
        two = bool(self.policy.given.two_persons) and verb != "deny"
        by_rule = any(str(e.get("by")).startswith("rule:") for e in lines if e["what"] == "command")
        if name == "asks":
            assert by_rule, f"nobody has said so: {told}"
            assert RULE in self.policy.given.rules, f"no rule says so: {told}"
            assert (verb, one.text, two) == ("allow", SAFE, False), f"no rule may: {told}"
        else:
            fitting = [each for each in self.arrived if self.fits(each, one, verb)]
            assert fitting, f"nobody has said so: {told}"
            if two:
                others = {who for who, what in self.votes.get(one.held.id, ()) if what == verb}
                assert others - {each.command.by.casefold() for each in fitting}, (
                    f"one alone: {told}"
                )
        self.effects += 1

    def fits(self, sent: Sent, one: Asking, verb: str) -> bool:
        command = sent.command
        return (
            sent.genuine
            and not command.by.startswith("rule:")
            and sent.run == self.run
            and command.id not in self.used
            and (command.verb, command.request_id) == (verb, one.held.id)
        )

    def note_votes(self, ran: str) -> None:
        for sent in self.arrived:
            command = sent.command
            if self.run == ran and not self.is_cut:
                if self.is_on:
                    self.used.add(command.id)
                if sent.genuine and sent.run == ran:
                    said = command.by.casefold(), command.verb
                    self.votes.setdefault(command.request_id or "", set()).add(said)


def _place(entry: str) -> tuple[int, ...]:
    return tuple(map(int, entry.split("-")))


STEPS = (
    *("asks", "decides", "forges", "replays", "comes_late", "waits", "is_answered_there"),
    *("redis_is_wiped", "link_is_cut", "link_is_mended", "is_restarted", "clock_is_set_back"),
    *("trail_fails", "is_switched_off", "is_switched_on"),
)
WEIGHTS = (6, 9, 6, 4, 2, 2, 1, 1, 1, 2, 1, 1, 1, 1, 2)


async def live(seed: int, steps: int = 14) -> int:
    """The number of effects in one life."""
    world = World(seed)
    await world.begin()
    try:
        await world.asks()
        await world.settle()
        for each in world.requests:  # by a rule, at once
            if each.ends.written:
                world.judge(each, each.ends.written, "asks")
                world.over.add(each.held.id)
        for _ in range(steps):
            await world.step()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        await world.close()
    return world.effects


async def _inline(call: Any, *given: Any, **named: Any) -> Any:
    return call(*given, **named)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is written at once: a step has ended when the loop has nothing left."""
    loop = SimpleNamespace(**{name: getattr(asyncio, name) for name in dir(asyncio)})
    loop.to_thread = _inline
    monkeypatch.setattr(remote, "asyncio", loop)


async def test_some_random_lives_have_no_unwanted_effect() -> None:
    effects = sum([await live(seed) for seed in range(300)])

    assert effects > 150


@pytest.mark.slow
@pytest.mark.timeout(1_200)
async def test_thousands_of_random_lives_have_no_unwanted_effect() -> None:
    """Other ones each time, and as many as ADSUM_CHAOS_LIVES says."""
    first = int(os.environ.get("ADSUM_CHAOS_SEED", time.time_ns() % 1_000_000_000))
    lives = int(os.environ.get("ADSUM_CHAOS_LIVES", "2000"))
    print(f"seeds {first} to {first + lives - 1}")
    effects = sum([await live(seed) for seed in range(first, first + lives)])

    print(f"{effects} effects, none unwanted")
    assert effects > lives / 2

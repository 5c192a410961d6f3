"""`adsum up --demo` shows a made-up fleet, apart from all that is real, then deletes it.

Its machines run a real collector's intake, spool, publisher and control, which the story in demo.toml
feeds at human pace and without an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import shutil
import site
import socket
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from logging.handlers import RotatingFileHandler
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid5

import msgspec
from platformdirs import user_state_path

from adsum import outcome
from adsum.broker import BrokerPart, BrokerPlace, find_engine, prepare
from adsum.foreground import leaves
from adsum.outcome import CommandError
from adsum.supervise import ServerPart, supervise
from adsum.up import LOOPBACK, held, say
from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Asked, HeardRequest
from adsum_collector.control import consent, feed, policy, remote
from adsum_collector.delivery import publisher, transports
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.intake import Intake, ReportIntake
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_shared import AdsumError, WallClock, __version__, connect, signals, streams
from adsum_shared.envelope import Beat
from adsum_shared.privacy import private_as
from adsum_shared.signals import DEFAULT_AGENT, AnySignal, RequestClosed, RequestOpened
from adsum_shared.state import HostWitness, ScanProgress

#: The page of a real hub keeps things under its own address: the demo's is another.
PORT, MEMORY_MB = 47993, 128
#: Lies in the demo's directory, which is deleted whole. One that is not empty and lacks it is somebody's.
STAGE = "made-up-by-adsum"
#: How often the story goes on; between two looks at what sets no event; how long a disk keeps signals.
PACE_S, LOOK_S, KEPT_S = 1.0, 0.5, 600.0
#: For its machines to have sent what they begin with; a slow one takes five seconds.
PATIENCE_S, LOG_BYTES = 60.0, 1 << 20
HOUR, DAY = 3_600_000, 24 * 3_600_000
IDS = UUID("5f2d6c1e-9d0b-4b7e-8f63-ad50ad50ad50")
CONTEXT_SIZE, FIRST_CONTEXT = 200_000, 18_000

SCRIPT: dict[str, Any] = tomllib.loads(Path(__file__).with_name("demo.toml").read_text("utf-8"))
SCENES: dict[str, list[Any]] = SCRIPT["scenes"] | SCRIPT["plots"]
#: In a step, as JSON: what stands for something alone, or within a text.
WORD = re.compile(rb'"\{(\w+)\}"|\{(\w+)\}')

Role = SimpleNamespace
Waits = Iterator[float]
Scene = str | Sequence[Any]  # its name, or its steps


def run_demo(state_dir: Path | None) -> None:
    """state_dir: the real one's; the demo lies beside it, never in it."""
    real = state_dir or user_state_path("adsum")
    # Nor does any variable of theirs: a public address, say, or whom to notify.
    for name in [name for name in os.environ if name.startswith("ADSUM_")]:
        del os.environ[name]
    port = _free_port()
    with _stage(real.with_name(f"{real.name}-demo"), f"http://{LOOPBACK}:{port}") as stage:
        try:
            asyncio.run(_run(stage, port))
        except ExceptionGroup as group:
            if group.split((AdsumError, SpoolUnavailable, OSError))[1] is not None:
                raise  # with a fault of ours among them it is no message for people
            raise CommandError("\n".join(map(str, leaves(group)))) from group
    say("The demo is over, and nothing of it is left.")


async def _run(stage: Path, port: int) -> None:
    engine, place, ready = find_engine(), prepare(stage), asyncio.Event()
    log = RotatingFileHandler(stage / "logs" / "fleet.log", maxBytes=LOG_BYTES, backupCount=1)
    logging.basicConfig(handlers=[log], level="WARNING")
    hub = ServerPart("hub", (LOOPBACK, port), stage / "logs", _env(stage, place.url, port))

    async def started() -> None:
        try:
            await asyncio.wait_for(ready.wait(), PATIENCE_S)
        except TimeoutError:
            raise CommandError(SCRIPT["late"]) from None
        outcome.say(SCRIPT["opening"].format(url=f"http://{LOOPBACK}:{port}"), sys.stdout)

    async with asyncio.TaskGroup() as tasks:
        story = play(stage / "fleet", place.url, lambda: int(time.time() * 1000), ready.set)
        fleet = tasks.create_task(story)
        await supervise([[BrokerPart(engine, place, MEMORY_MB, say)], [hub]], say, started)
        fleet.cancel()


def _env(stage: Path, url: str, port: int) -> dict[str, str]:
    """With a home of its own no file of the user's says anything; PYTHONUSERBASE: their packages do."""
    home: dict[str, str] = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "ADSUM_STATE_DIR"), str(stage))
    home |= SCRIPT["env"] | {"PYTHONUSERBASE": site.getuserbase(), "ADSUM_REDIS_URL": url}
    budgets = msgspec.json.encode(SCRIPT["budgets"]).decode()
    return home | {"ADSUM_HUB_PORT": str(port), "ADSUM_BUDGETS": budgets}


def _free_port() -> int:
    """The demo's own; where that is taken, any."""
    for port in (PORT, 0):
        with contextlib.suppress(OSError), socket.create_server((LOOPBACK, port)) as trial:
            return int(trial.getsockname()[1])
    raise CommandError(f"No port on {LOOPBACK} is free. End some programs, then try again.")


@contextlib.contextmanager
def _stage(folder: Path, url: str) -> Iterator[Path]:
    """An empty directory in the demo's own, even where a killed demo left one; deleted at the end."""
    stage = folder / STAGE
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if found - {"up.lock"} and STAGE not in found:
        raise CommandError(
            f"{folder} is not empty and was not made by a demo. Move it away, or choose another "
            "state directory: the demo lies beside it (--state-dir)."
        )
    with held(folder, url):
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(mode=0o700)
        try:
            yield stage
        finally:
            for made in (BrokerPlace(stage).socket.parent, folder):  # the former may lie elsewhere
                shutil.rmtree(made, ignore_errors=True)


class Performer:
    """A machine as its collector is: intake, spool, publisher; and control where its owner agreed.

    now: true time, ms. sent: whether all until the beginning is in the broker.
    """

    def __init__(
        self, folder: Path, machine: Machine, spool: Spool, url: str, now: WallClock
    ) -> None:
        self._folder, self._machine, self._spool, self._url = folder, machine, spool, url
        self._now, self._start, self.sent = now, now(), False
        self._here: WallClock = lambda: now() + machine.skew_ms
        self._line, self._nonce = transports.RedisTransport(url), secrets.token_hex(8)
        self._intake = Intake(spool, private_as("redacted", secrets.token_hex(16)))
        self._asking: dict[str, RequestOpened] = {}
        live = consent.LiveConsent(folder, wall=time.time, timer=time.monotonic)
        agents, intakes = {DEFAULT_AGENT: known_agents()[0]}, {DEFAULT_AGENT: self._intake}
        parties = remote.Parties(agents, intakes, run=self._nonce)
        owner = remote.OwnersWord(live, policy.LivePolicy(folder / "no-policy"))
        about = (
            parties,
            owner,
            consent.Trail(folder),
            remote.HoldTimes(KEPT_S * 2, KEPT_S * 2, KEPT_S * 2),
        )
        self._control = remote.RemoteControl(*about, now=self._here, timer=time.monotonic)

    async def perform(self, cast: Mapping[str, Player], pace_s: float) -> None:
        """Until it is cancelled. cast: who plays there, by the session's id."""
        here, now = self._machine, self._here
        reports = ReportIntake(self._folder, {}, machine=here, lives=lambda _: False, now=now)
        commands = feed.CommandFeed(self._line, here, self._control, reports)
        await self._intake.accept(list(history(self._machine, self._start)))
        await self._tell(cast, self._start)
        async with asyncio.TaskGroup() as tasks:
            for part in (self._connect(), self._agree(), self._control.run(), commands.run()):
                tasks.create_task(part)
            while True:
                while self._asking and self._control.is_on():
                    session_id, opened = self._asking.popitem()
                    asking = self._asked(cast[session_id], opened)
                    tasks.create_task(self._control.hold(DEFAULT_AGENT, asking))
                await asyncio.sleep(pace_s)
                await self._tell(cast, self._now())

    async def _tell(self, cast: Mapping[str, Player], until: int) -> None:
        """What its sessions say, and which of them ask something that nobody has answered yet."""
        told = [each for _, _, said in play_on(cast.values(), until) for each in said]
        await self._intake.accept(told)
        for each in told:
            if isinstance(each, RequestOpened) and each.agent == DEFAULT_AGENT:
                self._asking[each.session_id] = each
            elif isinstance(each, RequestClosed):
                self._asking.pop(each.session_id, None)

    def _asked(self, player: Player, opened: RequestOpened) -> HeardRequest:
        """As if a hook asked it."""
        player.clock = self._now
        verbs = tuple(SCRIPT["verbs"][opened.request_kind])
        call = player.session_id, player.own["cwd"], opened.tool or "", opened.payload or {}
        asked = Asked("PermissionRequest", *call, verbs, opened.agent_id)
        return HeardRequest(asked, msgspec.structs.replace(opened, request_id=None), player)

    async def _agree(self) -> None:
        """Where its owner does: once there is a hub whose key can be pinned."""
        redis: Any = connect.open_redis(self._url)
        keys: dict[bytes, bytes] = {}
        while self._machine.control and not keys:
            await asyncio.sleep(LOOK_S)
            with contextlib.suppress(*connect.UNAVAILABLE):
                keys = await redis.hgetall(streams.COMMAND_KEYS)
        await redis.aclose()
        pinned = {name.decode(): msgspec.json.decode(raw)["key"] for name, raw in keys.items()}
        consent.keep_consent(self._folder, consent.Consent("approve", time.time(), None, pinned))

    def _beat(self, sent: int, stopping: bool) -> Beat:  # noqa: FBT001 - as publishers call it
        known: dict[str, Any] = {"spool_id": self._spool.spool_id, "seq": self._spool.last_seq}
        known |= {"nonce": self._nonce, "sent": sent, "stopping": stopping}
        now = self._now()
        return self._machine.beat(now, now - self._start, control=self._control.level, **known)

    async def _connect(self) -> None:
        """Publishes while the machine is connected, the first time until all is sent."""
        machine, spool, now = self._machine, self._spool, (lambda: self._here() / 1000)
        known = spool, self._line, machine.host_id
        while True:
            copies = publisher.Publisher(*known, nonce=self._nonce, beat=self._beat, now=now)
            await copies.join()
            async with asyncio.TaskGroup() as tasks:
                work = tasks.create_task(copies.run())
                while not self.sent or machine.is_connected(self._now() - self._start):
                    await asyncio.sleep(LOOK_S)
                    self.sent |= spool.last_seq == copies.sent
                copies.drain() if machine.says_goodbye else work.cancel()
            while not machine.is_connected(self._now() - self._start):  # noqa: ASYNC110 - no event
                await asyncio.sleep(LOOK_S)


async def play(
    folder: Path, url: str, now: WallClock, ready: Callable[[], None], pace_s: float = PACE_S
) -> None:
    """Until it is cancelled. ready: called once everything so far is in the broker.

    now: true time in ms, as the story has it. In a group it raises SpoolUnavailable, OSError where the disk is full.
    """
    everybody, cast = list(players(now())), list[Performer]()
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        for machine in MACHINES:
            where = folder / machine.label
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            spool = await Spool.open(where / "spool", SpoolLimits.of(32 << 20, KEPT_S))
            stack.push_async_callback(spool.close)
            cast.append(Performer(where, machine, spool, url, now))
            there = {each.session_id: each for each in everybody if each.machine is machine}
            tasks.create_task(cast[-1].perform(there, pace_s))
        while not all(each.sent for each in cast):  # noqa: ASYNC110 - looked at, as `_connect` does
            await asyncio.sleep(LOOK_S)
        ready()


class Machine(SimpleNamespace):
    """What demo.toml says of it."""

    @property
    def host_id(self) -> str:
        return str(uuid5(IDS, self.label))

    def is_connected(self, played_ms: int) -> bool:
        """played_ms: since the audience came, in true time."""
        start, end, period = (each * 1000 for each in self.up_s)
        return bool(start <= played_ms % period < end)

    def beat(self, now: int, played_ms: int, **delivery: Any) -> Beat:
        """now: true time, ms. delivery: the fields that only the one who publishes knows."""
        at, note = now + self.skew_ms, self.hooks_missing
        heard = [HostWitness(name, "ok", at - 1_700) for name in SCRIPT["witnesses"]]
        if note:
            heard[0] = HostWitness("hook", "missing", note=note)
        about: dict[str, Any] = {"version": __version__, "agent_version": SCRIPT["agent_version"]}
        about |= {"witnesses": tuple(heard), "scan": self._scan(played_ms) if self.reads else None}
        about["agents"] = tuple(agent.words for agent in known_agents())
        return Beat(self.host_id, self.label, at, **about, **delivery)

    def _scan(self, played_ms: int) -> ScanProgress | None:
        """It is done after a while, and some time later begins anew."""
        scan = SimpleNamespace(**SCRIPT["scan"])
        gone = (played_ms + scan.begun_ms) % scan.again_ms
        done, left_s = gone / scan.lasts_ms, round((scan.lasts_ms - gone) / 1000)
        read = scan.files, int(scan.files * done), scan.bytes, int(scan.bytes * done)
        return ScanProgress(*read, scan.bytes_per_s, left_s) if done < 1 else None


MACHINES = tuple(Machine(**SCRIPT["machine"] | each) for each in SCRIPT["machines"])
ROLES = tuple(Role(**(SCRIPT["role"] | each)) for each in SCRIPT["sessions"])


def players(start: int) -> Iterator[Player]:
    """Of all machines. start: true time, ms, at which the audience comes; the same: the same story."""
    machines = {machine.label: machine for machine in MACHINES}
    jobs: Counter[str] = Counter()
    for number, role in enumerate(ROLES):
        rng = Random(number)  # noqa: S311 - a story needs no secrets
        due = start - SCRIPT["warm_ms"] + rng.randrange(SCRIPT["spread_ms"])
        name, job = f"session {number}", jobs[role.project]
        yield Player(role, machines[role.machine], rng, name, job).opened(due)
        jobs[role.project] += 1


def play_on(cast: Collection[Player], until: int) -> Iterator[tuple[int, Machine, list[AnySignal]]]:
    """What happens until then: when in true time, and where, and what is said, by that machine's clock."""
    while (player := min(cast, key=lambda each: each.due)).due <= until:
        at, player.now = player.due, player.due + player.machine.skew_ms
        player.due += max(50, int(next(player.plot) * 1000))
        said, player.said = player.said, []
        if said:
            yield at, player.machine, said


def history(machine: Machine, start: int) -> Iterator[AnySignal]:
    """What reading its transcripts of sixty days would tell, oldest first. start: true time, ms."""
    rng, days = Random(machine.label), SCRIPT["days"]  # noqa: S311 - as above
    roles = [role for role in ROLES if role.machine == machine.label]
    for back in range(days, 0, -1):
        noon = start + machine.skew_ms - back * DAY
        weekday = date.fromtimestamp(noon / 1000).weekday()  # noqa: DTZ012 - where this runs
        share = len(roles) / len(ROLES) * SCRIPT["of_week"][weekday]
        grown = 0.6 + (days - back) / days  # more and more of it, as it goes with such tools
        for number in range(int(share * grown + rng.random())):
            role = rng.choice(roles)
            job = rng.randrange(len(SCRIPT["projects"][role.project]["jobs"]))
            player = Player(role, machine, rng, f"past {machine.label} {back} {number}", job)
            player.now = noon - rng.randrange(6 * HOUR)
            player.own["start"] = start + machine.skew_ms
            for wait in player.play("past"):
                player.now += int(wait * 1000)
            yield from player.said


class Player:
    """Plays one session. now: ms of its machine's clock. said: signals that wait to be taken.

    due: when it goes on, true time, ms. answer: what the audience has said to what it asks, allow or
    deny. own: its own words, beside those of its project. Its methods without an underscore are what
    a step of the script may call.
    """

    def __init__(self, role: Role, machine: Machine, rng: Random, name: str, job: int) -> None:
        self.machine, self.rng, self.session_id = machine, rng, str(uuid5(IDS, name))
        self.now = self.due = self._turns = 0
        self.clock: WallClock = lambda: self.due
        self.said: list[AnySignal] = []
        self.answer: str | None = None
        self.plot = self.forever(role.plot)
        self._used: dict[str, Counter[str]] = {}
        self._project = project = SCRIPT["projects"][role.project]
        self._role, self._job = role, project["jobs"][job]
        slug = "-".join(self._job["title"].lower().split()[:3])
        about = SCRIPT["agents"].get(role.agent, {})
        self._tools: dict[str, str] = about.get("tools", {})
        model = SCRIPT["models"][0] if role.plot == "spending" else rng.choice(SCRIPT["models"])
        self.own: dict[str, Any] = {
            "cwd": f"{machine.home}/src/{role.project}",
            "project": role.project,
            "branch": (*project["branches"][job : job + 1], f"feature/{slug}")[0],
            "model": about.get("model", model),
            "version": about.get("version", SCRIPT["agent_version"]),
            "context": FIRST_CONTEXT,
            "pays": machine.plan or None if about else None,
            **{f"helper{number}": words for number, words in enumerate(project["helpers"], 1)},
        }

    def opened(self, due: int) -> Player:
        """It was there before: it has used something up, unless it is fresh, and has a context."""
        self.due = due
        self.now = due + self.machine.skew_ms - self.rng.randrange(HOUR // 2, 3 * HOUR)
        list(self.play("begin"))
        if self._role.plot != "fresh":
            self.own["context"] = self.rng.randrange(FIRST_CONTEXT, 120_000)
            self.use(20, 90)
            list(self.play("usage"))
        return self

    async def read(self, _most: int, /) -> bytes:
        """Nothing: where the story's own human is first, its signals end the waiting."""
        await asyncio.Event().wait()
        return b""

    def write(self, body: bytes, /) -> None:
        """What a hook would print: it is answered, so it goes on at once."""
        self.answer = msgspec.json.decode(body)["hookSpecificOutput"]["decision"]["behavior"]
        self.due = self.clock()

    async def drain(self) -> None: ...

    def play(self, scene: Scene) -> Waits:
        for step in SCENES[scene] if isinstance(scene, str) else scene:
            if isinstance(step, str):
                yield from self.play(step)
            elif isinstance(step, dict):
                self._say(step)
            else:
                yield from getattr(self, step[0])(*step[1:]) or ()

    def forever(self, scene: Scene) -> Waits:
        while True:
            yield from self.play(scene)

    def times(self, low: int, high: int, scene: Scene) -> Waits:
        for _ in range(self.rng.randint(low, high)):
            yield from self.play(scene)

    def either(self, chance: float, scene: Scene, otherwise: Scene = ()) -> Waits:
        return self.play(scene if self.rng.random() < chance else otherwise)

    def answered(self, chance: float, allowed: Scene, denied: Scene) -> Waits:
        """What it asked is answered: by the audience, or else by its human, who says no by chance."""
        said, self.answer = self.answer, None
        self.own["decided_by"] = "hook" if said else None
        no = said == "deny" or (said is None and chance > 0 and self.rng.random() < chance)
        return self.play(denied if no else allowed)

    def if_full(self, scene: Scene) -> Waits:
        return self.play(scene if self.own["context"] > CONTEXT_SIZE * 0.9 else [])

    def wait(self, low: float, high: float) -> Waits:
        yield self.rng.uniform(low, high)

    def pause(self, low: float, high: float) -> Waits:
        """Until its human types the next prompt, which is about the next job."""
        yield from self.wait(low, high)
        self._turns += 1

    def call(self, calls: list[str], low: float, high: float, more: dict[str, Any] = {}) -> Waits:  # noqa: B006 - only read
        """One of these: a tool, and what it is called with. more: of its end; agent_id of both."""
        call, more = self._filled([self.rng.choice(calls), more])
        tool, _, summary = call.partition(" ")
        tool, _, summary = f"{self._tools.get(tool, tool)} {summary}".partition(" ")
        about = {"tool": tool, "tool_use_id": f"toolu_{self.rng.getrandbits(64):016x}"}
        start = {**about, "summary": summary, "timeout_ms": 600_000 if tool == "Bash" else None}
        self._say({"kind": "tool.started", **start, "agent_id": more.get("agent_id")})
        yield from self.wait(low, high)
        self._say({"kind": "tool.finished", **about, **more})

    def turn(self, begins: bool = True) -> None:  # noqa: FBT001, FBT002 - a step of the script
        self.own["turn"] = str(UUID(int=self.rng.getrandbits(128), version=4)) if begins else None

    def process(self) -> None:
        self.own |= {"pid": self.rng.randrange(2_000, 60_000), "started": self.now - 400}

    def let(self, words: dict[str, Any]) -> None:
        self.own |= words

    def use(self, low: int, high: int) -> None:
        """So many messages' worth."""
        messages, grown = self.rng.randint(low, high), self.rng.randrange(500, 2_600)
        self.own["context"] = context = min(self.own["context"] + grown, CONTEXT_SIZE - 4_000)
        day = date.fromtimestamp(self.now / 1000).isoformat()  # noqa: DTZ012 - as collectors do
        used = self._used.setdefault(day, Counter())
        self.own |= {"day": day, "used": used}
        used["input_tokens"] += messages * self.rng.randrange(4, 400)
        used["output_tokens"] += messages * self.rng.randrange(90, 900)
        used["cache_read_tokens"] += messages * int(context * self.rng.uniform(0.2, 0.5))
        used.update(messages=messages, cache_5m_tokens=messages * grown)

    def _say(self, step: dict[str, Any]) -> None:
        """By a hook, and now, where the step says nothing else. Through JSON, as over the wire."""
        about: dict[str, Any] = {"session_id": self.session_id, "at": self.now, "seen": self.now}
        about |= {"agent": self._role.agent, "prompt_id": self.own.get("turn")}
        about["source"] = "transcript" if self.machine.hooks_missing else "hook"
        about |= self._filled(step)
        about |= about.pop("*", {})
        if "tool" in about:
            about["role"] = SCRIPT["roles"].get(about["tool"], "mcp")
        self.said.append(signals.decode_signal(msgspec.json.encode(about)))

    def _filled(self, step: Any) -> Any:
        """A text that is nothing but {word} becomes what it stands for, text or not."""
        words = self._words()

        def put(found: re.Match[bytes]) -> bytes:
            text = msgspec.json.encode(words[(found[1] or found[2]).decode()])
            return text if found[1] else text[1:-1]

        return msgspec.json.decode(WORD.sub(put, msgspec.json.encode(step)))

    def _words(self) -> dict[str, Any]:
        project, job, turns = self._project, self._job, self._turns
        wish, done = SCRIPT["next"][(turns + len(job["title"])) % len(SCRIPT["next"])]
        file = self.rng.choice(project["files"]).rpartition("/")[2]
        command, why = project["risky"][turns % len(project["risky"])]
        asked = project["questions"][turns % len(project["questions"])]
        tasks = enumerate(job.get("tasks", SCRIPT["tasks"]), 1)
        own = {**self.own, **project, **{f"task{number}": task for number, task in tasks}}
        own |= {**job, **asked, "file": file, "command": command, "why": why, "asked": asked}
        own |= {"wish": wish, "done": done} if turns else {"wish": job["prompt"]}
        return own | {"limits": self._limits()}

    def _limits(self) -> list[dict[str, Any]]:
        """They fill up evenly and begin anew, as an account's do; in true time."""
        at, found = self.now - self.machine.skew_ms, []
        begun = len(self.machine.label) + 37 * (self._role.agent != DEFAULT_AGENT)
        for name, most in self.machine.limits.items():
            length = 5 * HOUR if name == "five_hour" else 7 * DAY
            gone = (at + begun * HOUR) % length
            used = round(most * (0.45 + 0.55 * gone / length), 1)
            found.append({"name": name, "used_percent": used, "resets_at": at - gone + length})
        return found

"""`adsum up --demo` shows a made-up fleet, apart from all that is real, then deletes it.

The fleet is a process of its own: machines that run a real collector's intake, spool and publisher,
which the story feeds at human pace and without an end.
"""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shutil
import signal
import site
import socket
import sys
import time
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from platformdirs import user_state_path

from adsum import outcome
from adsum.broker import BrokerPart, BrokerPlace, find_engine, prepare
from adsum.demo.story import MACHINES, SCRIPT, Fleet, Machine, history
from adsum.foreground import end_with_supervisor
from adsum.outcome import CommandError
from adsum.supervise import Part, PythonPart, ServerPart, supervise
from adsum.up import LOOPBACK, held, say
from adsum_collector.agents import known_agents
from adsum_collector.control.consent import Consent, LiveConsent, keep_consent
from adsum_collector.control.feed import CommandFeed
from adsum_collector.control.holds import Held
from adsum_collector.control.policy import LivePolicy
from adsum_collector.control.remote import (
    HoldingHook,
    HoldTimes,
    OwnersWord,
    Parties,
    RemoteControl,
)
from adsum_collector.control.trail import Trail
from adsum_collector.delivery.publisher import Publisher
from adsum_collector.delivery.transports import RedisTransport
from adsum_collector.errors import SpoolUnavailable, StartError
from adsum_collector.intake import Intake, ReportIntake
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_shared import WallClock, streams
from adsum_shared.connect import open_redis
from adsum_shared.envelope import Beat
from adsum_shared.privacy import private_as
from adsum_shared.signals import AnySignal, RequestClosed, RequestOpened

#: The page of a real hub keeps things under its own address: the demo's is another.
PORT = 47993
MEMORY_MB = 128
#: In the demo's directory: nothing without it is ever deleted.
MARK = "this-is-adsums-demo"
#: What a machine keeps on disk at most; it is deleted with the demo.
SPOOL_BYTES, KEPT_S = 32 << 20, 600.0
#: Signals that come this close to each other are accepted together: half as many wake-ups, for all.
#: LOOK_S: between two looks whether a machine is connected.
TOGETHER_S, LOOK_S = 1.0, 0.5
#: Of what a hook is to print: a plan that was edited is the longest.
MOST_PRINTED = 256 << 10


def run_demo(state_dir: Path | None) -> None:
    """state_dir: the real one's; the demo lies beside it, never in it."""
    real = state_dir or user_state_path("adsum")
    folder = real.with_name(f"{real.name}-demo")
    # Nor does any variable of theirs: a public address, say, or whom to notify.
    for name in [name for name in os.environ if name.startswith("ADSUM_")]:
        del os.environ[name]
    port = _free_port()
    _require_ours(folder)
    with held(folder, f"http://{LOOPBACK}:{port}"), _emptied(folder):
        asyncio.run(_run(folder, port))
    say("The demo is over, and nothing of it is left.")


async def _run(folder: Path, port: int) -> None:
    engine, place = find_engine(), prepare(folder)
    env, logs, url = _env(folder, place.url, port), folder / "logs", f"http://{LOOPBACK}:{port}"
    stages: list[list[Part]] = [
        [BrokerPart(engine, place, MEMORY_MB, say)],
        [
            ServerPart("hub", (LOOPBACK, port), logs, env),
            FleetPart("fleet", logs, env, "adsum.demo.run"),
        ],
    ]

    async def started() -> None:
        lines = (
            "DEMO: six machines and forty sessions, all made up. Your own are not touched.",
            f"  Dashboard  {url}",
            "  Sign in    nobody has to",
            f"  Commands   adsum agents --hub {url}",
            "  Hooks      yours stay as they are",
            "  Ctrl-C ends it, and deletes what it wrote.",
        )
        outcome.say("\n".join(lines), sys.stdout)

    await supervise(stages, say, started)


class FleetPart(PythonPart):
    @property
    def _ready(self) -> Path:
        return self.log.parent.parent / "fleet" / "ready"

    async def launch(self) -> Process:
        self._ready.unlink(missing_ok=True)
        return await super().launch()

    async def ready(self) -> bool:
        return self._ready.exists()


def _env(folder: Path, url: str, port: int) -> dict[str, str]:
    """All there is: with a home of its own, no file of the user's says anything in the demo.

    PYTHONUSERBASE: or what was installed for the user alone would be out of sight.
    """
    home = folder / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "PYTHONUSERBASE": site.getuserbase(),
        "ADSUM_STATE_DIR": str(folder),
        "ADSUM_REDIS_URL": url,
        "ADSUM_HUB_HOST": LOOPBACK,
        "ADSUM_HUB_PORT": str(port),
        "ADSUM_SIGN_IN": "off",
        "ADSUM_DEMO": "on",
        "ADSUM_BUDGETS": json.dumps(SCRIPT["budgets"]),
        "ADSUM_LOG_LEVEL": "warning",
    }


def _free_port() -> int:
    """The demo's own; where that is taken, any."""
    for port in (PORT, 0):
        with socket.socket() as trial, contextlib.suppress(OSError):
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((LOOPBACK, port))
            return int(trial.getsockname()[1])
    raise CommandError(f"No port on {LOOPBACK} is free. End some programs, then try again.")


def _require_ours(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise CommandError(
            f"{folder} is not empty and was not made by a demo. Move it away, or choose another "
            "state directory: the demo lies beside it (--state-dir)."
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / MARK).touch(mode=0o600)
    except OSError as error:
        raise CommandError(
            f"{folder}, where the demo would lie, cannot be used: {error.strerror}. "
            "Choose another state directory with --state-dir."
        ) from error


@contextlib.contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """Before, of what a killed demo left; and after."""
    _empty(folder)
    try:
        yield
    finally:
        socket_folder = BrokerPlace(folder).socket.parent
        shutil.rmtree(folder, ignore_errors=True)
        if not socket_folder.is_relative_to(folder):  # a short one elsewhere, made for it alone
            shutil.rmtree(socket_folder, ignore_errors=True)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name in (MARK, "up.lock"):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def story_clock(wall: Callable[[], float], speed: float = 1.0) -> Callable[[], int]:
    """True time in ms, as the story has it: at another speed it begins now and runs away."""
    start = wall()
    return lambda: int((start + (wall() - start) * speed) * 1000)


class Answerable:
    """A machine whose owner agreed to control: what its sessions ask is held as by any collector.

    A story has no hooks. Each one's end of the connection is here, and closed where the story's human
    is first; what the collector would have a hook print tells the story how to go on.
    """

    def __init__(
        self, folder: Path, machine: Machine, intake: Intake, url: str, fleet: Fleet, now: WallClock
    ) -> None:
        """now: true time, ms, as the story has it."""
        self._folder, self._intake, self._fleet, self._url = folder, intake, fleet, url
        self._agent, self._now = known_agents()[0], now
        #: of its heartbeats; commands are for one run of a collector
        self.nonce = secrets.token_hex(8)
        self._asking: dict[tuple[str, str | None], RequestOpened] = {}
        self._hooks: dict[tuple[str, str | None], socket.socket] = {}
        host_id, here = machine.host_id, lambda: now() + machine.skew_ms
        self.control = RemoteControl(
            Parties({self._agent.name: self._agent}, {self._agent.name: intake}, run=self.nonce),
            OwnersWord(
                LiveConsent(folder, wall=time.time, timer=time.monotonic),
                LivePolicy(folder / "no-policy.toml"),
            ),
            Trail(folder),
            HoldTimes(KEPT_S * 2, KEPT_S * 2),
            now=here,
            timer=time.monotonic,
        )
        reports = ReportIntake(
            folder, {}, host_id=lambda: host_id, lives=lambda _named: False, now=here
        )
        self.feed = CommandFeed(RedisTransport(url), lambda: host_id, self.control, reports)

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        for part in (self._agree(), self.control.run(), self.feed.run()):
            tasks.create_task(part)

    async def _agree(self) -> None:
        """Its owner does, once there is a hub whose key can be pinned."""
        redis: Any = open_redis(self._url)
        try:
            while not (keys := await redis.hgetall(streams.COMMAND_KEYS)):  # noqa: ASYNC110 - the hub sets no event
                await asyncio.sleep(LOOK_S)
        finally:
            await redis.aclose()
        pinned = {named.decode(): public.decode() for named, public in keys.items()}
        keep_consent(self._folder, Consent("approve", time.time(), None, pinned))

    def heard(self, signals: Sequence[AnySignal]) -> None:
        """What the story tells of who asks, and of what its own human has answered."""
        for each in signals:
            if isinstance(each, RequestOpened) and each.agent == self._agent.name:
                self._asking[each.session_id, each.tool_use_id] = each
            elif isinstance(each, RequestClosed):
                call = each.session_id, each.tool_use_id
                self._asking.pop(call, None)
                if (hook := self._hooks.pop(call, None)) is not None:
                    hook.close()

    async def hold(self, tasks: asyncio.TaskGroup, decided: asyncio.Event) -> None:
        """All that is asked and not held yet. decided: set when the audience has decided something."""
        if not self.control.is_on():
            return
        while self._asking:
            call, opened = self._asking.popitem()
            told: list[AnySignal] = [msgspec.structs.replace(opened, request_id=None)]
            hook = HoldingHook(self._agent.name, secrets.token_hex(12), opened.at)
            held = await self.control.offer(hook, self._agent.asked(self._body_of(opened)), told)
            if held is not None:
                await self._intake.accept(told, state=self.control.announced(held))
                tasks.create_task(self._wait(call, held, decided), name=f"hook {held.id}")

    def _body_of(self, opened: RequestOpened) -> bytes:
        return json.dumps(
            {
                "hook_event_name": "PermissionRequest",
                "session_id": opened.session_id,
                "cwd": self._fleet.directory_of(opened.session_id),
                "tool_name": opened.tool,
                "tool_input": opened.payload,
                **({"agent_id": opened.agent_id} if opened.agent_id else {}),
            }
        ).encode()

    async def _wait(self, call: tuple[str, str | None], held: Held, decided: asyncio.Event) -> None:
        ours, hook = socket.socketpair()
        hook.setblocking(False)  # noqa: FBT003 - the library's own signature
        self._hooks[call] = hook
        with hook:  # also where the demo ends meanwhile
            reader, writer = await asyncio.open_connection(sock=ours)
            try:
                await self.control.wait(held, reader, writer)
            finally:
                writer.close()
            if self._hooks.pop(call, None) is None:
                return  # the story's own human was first
            printed = await asyncio.get_running_loop().sock_recv(hook, MOST_PRINTED)
        if printed:
            behavior = json.loads(printed)["hookSpecificOutput"]["decision"]["behavior"]
            self._fleet.answer(held.asked.session_id, behavior, self._now())
            decided.set()


class Performing(NamedTuple):
    """A machine on the stage. sent: set once all until now is in the broker."""

    machine: Machine
    spool: Spool
    intake: Intake
    sent: asyncio.Event
    answers: Answerable | None


async def play(
    folder: Path, url: str, now: Callable[[], int], ready: Callable[[], None], speed: float = 1.0
) -> None:
    """Until it is cancelled. ready: called once everything so far is in the broker.

    now: see story_clock; speed: how many of its seconds pass in one. Raises StartError, and
    SpoolUnavailable where the disk is full.
    """
    start = now()
    fleet, decided = Fleet(start), asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        cast: list[Performing] = []
        for machine in MACHINES:
            where = folder / machine.label
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            spool = await Spool.open(where / "spool", SpoolLimits.of(SPOOL_BYTES, KEPT_S))
            stack.push_async_callback(spool.close)
            intake = Intake(spool, private_as("redacted", secrets.token_hex(16)))
            await intake.accept(list(history(machine, start)))
            answers = (
                Answerable(where, machine, intake, url, fleet, now) if machine.control else None
            )
            cast.append(Performing(machine, spool, intake, asyncio.Event(), answers))
        await _tell(fleet, cast, start)
        async with asyncio.TaskGroup() as tasks:
            answering = [each.answers for each in cast if each.answers is not None]
            for each in cast:
                work = _connect(each, RedisTransport(url), now, start)
                tasks.create_task(work, name=each.machine.label)
            for answers in answering:
                answers.begin(tasks)
            tasks.create_task(_report(ready, [each.sent for each in cast]), name="ready")
            while True:
                for answers in answering:
                    await answers.hold(tasks, decided)
                pause = max(TOGETHER_S, (fleet.due - now()) / 1000) / speed
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(decided.wait(), pause)
                decided.clear()
                await _tell(fleet, cast, now())


async def _tell(fleet: Fleet, cast: Sequence[Performing], until: int) -> None:
    signals: dict[str, list[AnySignal]] = defaultdict(list)
    for said in fleet.until(until):
        signals[said.machine.label] += said.signals
    for each in cast:
        told = signals[each.machine.label]
        await each.intake.accept(told)
        if each.answers is not None:
            each.answers.heard(told)


async def _report(ready: Callable[[], None], events: list[asyncio.Event]) -> None:
    for event in events:
        await event.wait()
    ready()


async def _connect(
    performing: Performing, line: RedisTransport, now: Callable[[], int], start: int
) -> None:
    """Publishes while the machine is connected, the first time until all is sent, which is set.

    Until it is cancelled. start: when the audience came, true time in ms, as now tells it.
    """
    machine, spool, sent = performing.machine, performing.spool, performing.sent
    control = performing.answers.control if performing.answers is not None else None

    def is_connected() -> bool:
        return machine.is_connected(now() - start)

    def beat(nonce: str, sent: int, stopping: bool) -> Beat:  # noqa: FBT001 - as publishers call it
        known: dict[str, Any] = {"control": control.level} if control is not None else {}
        known |= {"spool_id": spool.spool_id, "seq": spool.last_seq, "nonce": nonce, "sent": sent}
        return machine.beat(now(), now() - start, stopping=stopping, **known)

    while True:
        answers = performing.answers
        nonce = secrets.token_hex(8) if answers is None else answers.nonce
        publisher = Publisher(
            spool,
            line,
            machine.host_id,
            nonce=nonce,
            beat=partial(beat, nonce),
            now=lambda: (now() + machine.skew_ms) / 1000,
        )
        await publisher.join()
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(publisher.run(), name=machine.label)
            while not sent.is_set() or is_connected():
                await asyncio.sleep(LOOK_S)
                if spool.last_seq == publisher.sent:
                    sent.set()
            if machine.says_goodbye:
                publisher.drain()
            else:
                work.cancel()
        while not is_connected():  # noqa: ASYNC110 - time goes by, nobody sets an event
            await asyncio.sleep(LOOK_S)


async def _main(folder: Path, url: str) -> None:
    playing = asyncio.create_task(
        play(folder, url, story_clock(time.time), (folder / "ready").touch)
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    end_with_supervisor()
    await asyncio.wait([playing])
    if not playing.cancelled():
        playing.result()


if __name__ == "__main__":
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(
            _main(Path(os.environ["ADSUM_STATE_DIR"]) / "fleet", os.environ["ADSUM_REDIS_URL"])
        )
    except* (SpoolUnavailable, StartError) as group:
        # For people: without a traceback.
        outcome.put("\n".join(map(str, group.exceptions)))
        sys.exit(1)

"""Decisions from elsewhere, through a real Redis, a real collector and the hook as it is installed."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum.machine import Membership, keep
from adsum_collector.control.consent import Consent, check_trail, keep_consent, read_trail
from adsum_collector.state_dir import load_identity, make_private
from adsum_shared import streams
from adsum_shared.commands import Command, signed
from adsum_shared.connect import Redis
from adsum_shared.envelope import decode_beat
from adsum_shared.signals import (
    CommandReported,
    HoldEnded,
    QueueReported,
    RequestOpened,
    Signal,
)
from tests.brokers import free_port, machines_rules
from tests.collectors import batches
from tests.control import (
    RULES,
    SESSION,
    binding_shown,
    consent_to,
    form,
    give,
    permission,
    run_hook,
)
from tests.hub_processes import AgentCollector, HubProcess
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(60)]

T = TypeVar("T", bound=Signal)
ALLOWED = b'{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}\n'


class Scene:
    """A machine whose owner agreed, and a hub's key."""

    def __init__(
        self, state_dir: Path, redis: Redis, redis_url: str, env: dict[str, str] | None = None
    ) -> None:
        self.redis = redis
        self.key = Ed25519PrivateKey.generate()
        consent_to(state_dir, self.key)
        self.collector = AgentCollector(state_dir, redis_url)
        self.collector.env |= env or {}
        self.collector.start()
        self.hooks: list[asyncio.subprocess.Process] = []

    @property
    def state_dir(self) -> Path:
        return self.collector.state_dir

    async def said(self, kind: type[T]) -> list[T]:
        found = await batches(self.redis, self.collector.host_id)
        return [each for batch in found for each in batch.signals if isinstance(each, kind)]

    async def until(self, kind: type[T], holds: Callable[[T], Any], within_s: float = 15) -> T:
        async with asyncio.timeout(within_s):
            while True:
                for each in await self.said(kind):
                    if holds(each):
                        return each
                await asyncio.sleep(0.02)

    async def hook(self, body: bytes) -> asyncio.subprocess.Process:
        process = await run_hook(self.state_dir / "collector.sock", body)
        self.hooks.append(process)
        return process

    async def held(self, body: bytes) -> tuple[asyncio.subprocess.Process, RequestOpened]:
        before = {each.request_id for each in await self.said(RequestOpened)}
        process = await self.hook(body)
        opened = await self.until(
            RequestOpened, lambda each: each.hold and each.request_id not in before
        )
        return process, opened

    def command(self, opened: RequestOpened, verb: Any = "allow", **more: Any) -> Command:
        assert opened.hold is not None
        return Command(
            **{
                "id": os.urandom(16).hex(),
                "host_id": self.collector.host_id,
                "session_id": opened.session_id,
                "verb": verb,
                "by": "ann",
                "request_id": opened.request_id,
                "binding": binding_shown(opened),
                **more,
            }
        )

    async def give(self, command: Command) -> None:
        await give(self.redis, command, self.key)

    async def outcome(self, command: Command, outcome: str) -> CommandReported:
        return await self.until(
            CommandReported, lambda e: (e.command_id, e.outcome) == (command.id, outcome)
        )


@pytest.fixture
async def scene(tmp_path: Path, redis: Redis, redis_url: str) -> AsyncIterator[Scene]:
    scene = Scene(tmp_path / "state", redis, redis_url)
    yield scene
    for each in scene.hooks:
        with contextlib.suppress(ProcessLookupError):
            each.kill()
        await each.wait()
    scene.collector.kill()


async def printed(process: asyncio.subprocess.Process) -> bytes:
    async with asyncio.timeout(10):
        out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    return out


async def test_a_decision_reaches_the_hook_that_waits(scene: Scene) -> None:
    hook, opened = await scene.held(permission())
    command = scene.command(opened)
    assert opened.payload == {"command": "make test"}

    await scene.give(command)

    assert await printed(hook) == ALLOWED
    sent = await scene.outcome(command, "sent")
    assert sent.by == "ann"
    assert sent.trail
    ended = await scene.until(HoldEnded, lambda each: each.request_id == opened.request_id)
    assert ended.reason == "decided"
    assert check_trail(read_trail(scene.state_dir)).fault is None


async def test_what_was_said_before_it_listened_is_never_obeyed(scene: Scene) -> None:
    hook, opened = await scene.held(permission())
    command = scene.command(opened)
    scene.collector.stop()
    assert await printed(hook) == b""
    await scene.give(command)

    scene.collector.start()
    ended = await scene.until(HoldEnded, lambda each: each.reason == "restarted")

    assert ended.request_id == opened.request_id
    other, again = await scene.held(permission())
    await scene.give(scene.command(again, "deny"))
    assert b"deny" in await printed(other)
    assert not [each for each in await scene.said(CommandReported) if each.command_id == command.id]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"binding": "0" * 64}, "what was shown is not what is asked"),
        ({"session_id": "22222222-2222-4222-8222-222222222222"}, "another session's"),
        ({"request_id": "f" * 24}, "no longer open"),
        ({"verb": "plan"}, "does not take"),
        ({"verb": "prompt", "text": "go"}, "does not allow `prompt`"),
        ({"verb": "answer", "answers": {}}, "does not take"),
    ],
)
async def test_a_command_that_does_not_fit_leaves_it_open(
    scene: Scene, wrong: dict[str, Any], why: str
) -> None:
    hook, opened = await scene.held(permission())
    command = msgspec.structs.replace(scene.command(opened), **wrong)

    await scene.give(command)

    told = await scene.until(CommandReported, lambda each: each.command_id == command.id)
    assert told.outcome in ("refused", "too_late")
    assert why in (told.reason or "")
    await scene.give(scene.command(opened, "deny", text="no"))
    assert b"Denied by ann with Adsum: no" in await printed(hook)


@pytest.mark.parametrize(
    "planted",
    [
        {"payload": {"command": "git status"}},
        {"summary": "git status"},
        {"tool": "Read"},
        {"role": "read"},
        {"request_kind": "plan"},
        {"session_id": "22222222-2222-4222-8222-222222222222"},
        {"cwd": "/tmp/sandbox"},
        {"always": ["Bash(git status)"]},
    ],
)
async def test_a_decision_on_a_request_that_was_planted_in_the_stream_does_nothing(
    scene: Scene, planted: dict[str, Any]
) -> None:
    """Planted with the id and the hold of the real one; the hub signs what it displays."""
    hook, opened = await scene.held(permission(permission_suggestions=RULES))
    assert opened.hold is not None
    fields = opened.__struct_fields__
    hold = msgspec.structs.replace(
        opened.hold, **{name: it for name, it in planted.items() if name not in fields}
    )
    other = msgspec.structs.replace(
        opened, hold=hold, **{name: it for name, it in planted.items() if name in fields}
    )

    command = scene.command(opened, binding=binding_shown(other))
    await scene.give(command)

    told = await scene.until(CommandReported, lambda each: each.command_id == command.id)
    assert (told.outcome, told.reason) == ("refused", "what was shown is not what is asked")
    await scene.give(scene.command(opened))
    assert b'"allow"' in await printed(hook)


async def test_forged_foreign_and_late_commands_do_nothing(scene: Scene) -> None:
    hook, opened = await scene.held(permission())
    command = scene.command(opened)
    key = streams.commands(scene.collector.host_id)
    await give(scene.redis, command, Ed25519PrivateKey.generate())
    other: dict[Any, Any] = {b"c": b"{}", b"s": b"x", b"k": b"y"}
    await scene.redis.xadd(key, other)
    stale: dict[Any, Any] = signed(command, scene.key)
    seconds, _ = await scene.redis.time()
    await scene.redis.delete(key)
    await scene.redis.xadd(key, stale, id=f"{seconds * 1000 - 20_000}-0")

    hook.terminate()
    await hook.wait()

    ended = await scene.until(HoldEnded, lambda each: each.request_id == opened.request_id)
    assert ended.reason == "gone"
    assert not await scene.said(CommandReported)


async def test_an_entry_dated_ahead_ends_no_control(scene: Scene) -> None:
    """Whether the collector listens already, or comes to a stream that ends with it."""
    key = streams.commands(scene.collector.host_id)
    seconds, _ = await scene.redis.time()
    hook, opened = await scene.held(permission())
    await scene.redis.xadd(key, {"c": "{}"}, id=f"{(seconds + 86_400) * 1000}-0")
    await scene.give(scene.command(opened))
    assert await printed(hook) == ALLOWED

    await scene.redis.xadd(key, {"c": "{}"}, id=f"{(seconds + 86_400) * 1000}-0")
    scene.collector.kill()
    scene.collector.start()
    hook, opened = await scene.held(permission())
    await scene.give(scene.command(opened))
    assert await printed(hook) == ALLOWED


async def test_a_login_that_may_read_no_commands_is_told_of_in_the_heartbeat(
    tmp_path: Path, redis: Redis, redis_url: str
) -> None:
    """By the rights of `machines`, as deploy/redis/start.sh gives them."""
    await redis.execute_command("ACL", "SETUSER", "machines", "on", ">secret", *machines_rules())
    url = redis_url.replace("redis://", "redis://machines:secret@")
    scene = Scene(tmp_path / "state", redis, url)
    try:

        async def told() -> bool:
            beat = decode_beat(await redis.get(streams.beat(scene.collector.host_id)) or b"")
            return beat is not None and "no permissions" in (beat.commands_problem or "")

        await wait_until(told, 15)
    finally:
        scene.collector.kill()
        await redis.execute_command("ACL", "DELUSER", "machines")


async def test_one_decision_and_no_second(scene: Scene) -> None:
    hook, opened = await scene.held(permission())
    first, second = scene.command(opened), scene.command(opened, "deny")

    await scene.give(first)
    await scene.give(first)
    await scene.give(second)

    assert await printed(hook) == ALLOWED
    await scene.outcome(second, "too_late")
    told = [e.outcome for e in await scene.said(CommandReported) if e.command_id == first.id]
    assert told.count("sent") == 1
    assert "refused" in told


@pytest.mark.parametrize("cut", [False, True])
async def test_a_decision_that_the_collector_missed_is_reported_as_expired(
    scene: Scene, cut: bool
) -> None:
    """cut: Redis has closed its connections meanwhile, as when it is restarted."""
    hook, opened = await scene.held(permission())
    missed = scene.command(opened, ttl_ms=10_000 if cut else 300)
    assert scene.collector.process is not None
    pid = scene.collector.process.pid
    os.kill(pid, signal.SIGSTOP)
    if cut:
        await scene.redis.client_kill_filter(_type="normal", skipme=True)
    await scene.give(missed)
    ((entry, _),) = await scene.redis.xrevrange(streams.commands(scene.collector.host_id), count=1)

    async def is_over() -> bool:
        seconds, micros = await scene.redis.time()
        return seconds * 1000 + micros // 1000 > int(entry.split(b"-")[0]) + missed.ttl_ms

    await wait_until(lambda: is_over() if not cut else True)
    os.kill(pid, signal.SIGCONT)

    expired = await scene.outcome(missed, "expired")
    assert expired.trail
    await scene.give(scene.command(opened))
    assert await printed(hook) == ALLOWED
    outcomes = [e.outcome for e in await scene.said(CommandReported) if e.command_id == missed.id]
    assert outcomes == ["expired"]


@pytest.fixture
async def briefly(tmp_path: Path, redis: Redis, redis_url: str) -> AsyncIterator[Scene]:
    """Where a form is held for two seconds, unless somebody has it before them."""
    scene = Scene(tmp_path / "state", redis, redis_url, {"ADSUM_HOLD_FORM_S": "2"})
    yield scene
    scene.collector.kill()


async def test_a_form_is_given_back_unless_somebody_has_it_before_them(briefly: Scene) -> None:
    begun = time.monotonic()
    hook, _ = await briefly.held(form())
    assert await printed(hook) == b""
    assert time.monotonic() - begun < 5

    hook, opened = await briefly.held(form(message="And who?"))
    await briefly.give(briefly.command(opened, "extend"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hook.wait(), 3)  # what it does not do has no end to wait for
    filled = briefly.command(opened, "elicit", content={"name": "Ada"})
    await briefly.give(filled)

    assert b'"Ada"' in await printed(hook)
    await briefly.outcome(filled, "sent")
    assert {each.verb for each in await briefly.said(CommandReported)} == {"elicit"}
    assert check_trail(read_trail(briefly.state_dir)).fault is None


async def test_a_prompt_typed_in_the_terminal_brings_its_form_there(scene: Scene) -> None:
    hook, opened = await scene.held(form())
    await scene.give(scene.command(opened, "extend"))
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": "And then?"}

    await printed(await scene.hook(form(**prompt)))

    assert await printed(hook) == b""
    ended = await scene.until(HoldEnded, lambda each: each.request_id == opened.request_id)
    assert ended.reason == "handed back"


async def test_control_that_ends_hands_everything_back(scene: Scene) -> None:
    hook, opened = await scene.held(permission())

    keep_consent(scene.state_dir, Consent())

    assert await printed(hook) == b""
    ended = await scene.until(HoldEnded, lambda each: each.request_id == opened.request_id)
    assert ended.reason == "handed back"
    assert await printed(await scene.hook(permission())) == b""


async def test_a_killed_collector_has_decided_nothing(scene: Scene) -> None:
    hook, opened = await scene.held(permission())

    scene.collector.kill()

    assert await printed(hook) == b""
    scene.collector.start()
    ended = await scene.until(HoldEnded, lambda each: each.request_id == opened.request_id)
    assert ended.reason == "restarted"


async def test_several_requests_wait_at_once(scene: Scene) -> None:
    """Subagents ask at the same time; each is answered by its own."""
    one, first = await scene.held(permission(given={"command": "touch a"}, agent_id="A"))
    two, second = await scene.held(permission(given={"command": "touch b"}, agent_id="B"))
    assert first.hold is not None
    assert first.hold.for_ms == 60_000

    await scene.give(scene.command(second, "deny"))
    await scene.give(scene.command(first))

    assert await printed(one) == ALLOWED
    assert b"deny" in await printed(two)


async def test_a_prompt_at_the_terminal_hands_a_subagents_request_back(scene: Scene) -> None:
    hook, opened = await scene.held(permission(agent_id="A"))
    main, _ = await scene.held(permission(given={"command": "ls"}))

    prompt = b'{"hook_event_name":"UserPromptSubmit","prompt":"hi","cwd":"/work","session_id":"%s"}'
    await printed(await scene.hook(prompt % opened.session_id.encode()))

    assert await printed(hook) == b""
    ended = await scene.until(HoldEnded, lambda each: each.request_id == opened.request_id)
    assert ended.reason == "handed back"
    assert main.returncode is None


async def test_a_hook_that_does_not_wait_is_answered_as_before(scene: Scene) -> None:
    with socket.socket(socket.AF_UNIX) as plain:
        plain.connect(str(scene.state_dir / "collector.sock"))
        plain.sendall(
            b'{"v":1,"id":"%s","at":1,"pid":1,"agent":"claude_code","body":%s}\n'
            % (b"b" * 24, permission())
        )
        assert b"held" not in plain.recv(4096)


async def test_a_decision_reaches_a_machine_that_reaches_only_the_hub(
    tmp_path: Path, redis_url: str
) -> None:
    """Signed by a real hub, and awaited there."""
    away = f"redis://127.0.0.1:{free_port()}"
    hub = HubProcess(tmp_path / "hub", redis_url, machine_redis_url=away, demo="on")
    collector = AgentCollector(tmp_path / "oak", "")
    collector.env.pop("ADSUM_REDIS_URL")
    hook: asyncio.subprocess.Process | None = None
    async with httpx.AsyncClient(trust_env=False, base_url=hub.url, timeout=20) as http:
        try:
            hub.start()
            home = collector.state_dir
            make_private(home)
            identity = load_identity(home, "oak")
            token = (await http.post("/api/v1/join-tokens", json={})).json()["secret"]
            asked = {"token": token, "host_id": identity.host_id, "label": "oak", "via": "ingest"}
            answer = (await http.post("/api/v1/join", json=asked)).json()
            secret = answer["secret"]
            keep(home, Membership(hub.url, identity.host_id, "oak", "", secret, via="ingest"))
            keep_consent(home, Consent("approve", time.time(), None, answer["command_keys"]))
            collector.start()
            hook = await run_hook(home / "collector.sock", permission())

            def held() -> Any:
                views = httpx.get(f"{hub.url}/api/v1/sessions", trust_env=False).json()["sessions"]
                return [r for view in views for r in view["requests"] if r.get("hold")]

            (request,) = await wait_until(held)
            session = f"/api/v1/sessions/{identity.host_id}:{SESSION}/commands"
            given = {"request_id": request["id"], "binding": request["hold"]["binding"]}
            command = (await http.post(session, json={"verb": "allow", **given})).json()["command"]

            assert await printed(hook) == ALLOWED
            told = (await http.get(f"{session}/{command['id']}")).json()["command"]
            assert told["outcome"] in ("given", "sent")
        finally:
            if hook is not None and hook.returncode is None:
                hook.kill()
            collector.kill()
            hub.kill()


async def test_what_waits_outlives_a_collector_that_is_killed_and_can_be_taken_back(
    scene: Scene,
) -> None:
    consent_to(scene.state_dir, scene.key, "full")
    about = {"host_id": scene.collector.host_id, "session_id": SESSION, "by": "ann"}

    def command(name: str, verb: Any, **more: Any) -> Command:
        return Command(id=name, verb=verb, **about, **more)  # type: ignore[arg-type] # of strings

    async def is_listened_to(before: int) -> bool:
        """What is given before a collector follows the stream is never obeyed."""
        await scene.give(command(os.urandom(16).hex(), "withdraw", item="nothing"))
        await asyncio.sleep(0.2)
        return len(await scene.said(CommandReported)) > before

    first, second = (command(name * 16, "queue", text=f"say {name}") for name in ("a1", "b2"))
    await wait_until(lambda: is_listened_to(0), 20)
    for each in (first, second):
        await scene.give(each)
        await scene.outcome(each, "queued")
    scene.collector.kill()
    scene.collector.start()
    again = await scene.until(QueueReported, lambda each: len(each.items) == 2)
    assert [each.text for each in again.items] == ["say a1", "say b2"]

    known = len(await scene.said(CommandReported))
    await wait_until(lambda: is_listened_to(known), 20)
    moved = command("c3" * 16, "move", item=second.id, place=0)
    taken = command("d4" * 16, "withdraw", item=first.id)
    prompt = command("e5" * 16, "prompt", text="now")
    for each in (moved, taken, prompt):
        await scene.give(each)
    await scene.outcome(moved, "took_effect")
    await scene.outcome(first, "withdrawn")
    refused = await scene.outcome(prompt, "refused")
    await scene.give(taken)
    repeated = await scene.outcome(taken, "refused")

    await scene.until(QueueReported, lambda each: [it.id for it in each.items] == [second.id])
    assert "no process of it is registered" in (refused.reason or "")
    assert repeated.reason == "this command was given before"
    kept = [raw for raw in read_trail(scene.state_dir) if b"say a1" in raw]
    assert kept
    assert check_trail(read_trail(scene.state_dir)).fault is None

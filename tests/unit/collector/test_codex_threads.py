"""Which process runs which thread of Codex, by its locks; and that a command runs which was asked for."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adsum_collector.agents.base import Surroundings
from adsum_collector.agents.codex.agent import Codex
from adsum_collector.agents.codex.known_threads import AskedCommand, KnownThreads
from adsum_collector.agents.codex.live_threads import (
    LOCKS,
    LiveThreads,
    Lock,
    LockNews,
    began,
    begun_at,
    locks_in,
    resumed_by,
    rollout_of,
)
from adsum_collector.errors import SpoolUnavailable
from adsum_shared import signals as s
from adsum_shared.signals import AnySignal
from adsum_shared.state import COMPRESSED, COMPRESSED_MB
from tests.support import wait_until

#: Its first digits say when it was begun.
THREAD = "01a207c3-405f-77f2-940c-707984153015"
OTHER = "01a207c3-5000-77f2-940c-707984153015"
BEGUN = begun_at(THREAD, 0)
NOW = BEGUN + 600_000
RESUMED = [s.ProcessSeen, s.SessionStarted]
COMMAND = "sleep 4; mkdir -p sub/dir"

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc/locks")


@pytest.fixture
def known() -> KnownThreads:
    threads = KnownThreads()
    threads.learn(THREAD)
    return threads


def news(known: KnownThreads, *, from_begin: bool = True) -> LockNews:
    return LockNews(known, lambda pid: NOW - pid, from_begin=from_begin)


def kinds(signals: Sequence[AnySignal]) -> list[type]:
    return [type(each) for each in signals]


def test_a_lock_names_the_process_of_its_session_once(known: KnownThreads) -> None:
    locks = news(known)

    (seen,) = locks.read({THREAD: Lock(7, BEGUN)}, {THREAD}, NOW)

    assert isinstance(seen, s.ProcessSeen)
    assert (seen.session_id, seen.pid, seen.started, seen.moved) == (THREAD, 7, NOW - 7, False)
    assert locks.read({THREAD: Lock(7, BEGUN)}, {THREAD}, NOW) == []


def test_a_session_taken_up_again_begins_anew_before_its_first_prompt(known: KnownThreads) -> None:
    found = news(known).read({THREAD: Lock(7, NOW - 100)}, {THREAD}, NOW)

    assert kinds(found) == [s.ProcessSeen, s.SessionStarted]
    assert (found[1].reason, found[1].at) == ("resume", NOW - 100)


def test_what_is_found_at_the_first_look_was_not_taken_up_just_then(known: KnownThreads) -> None:
    found = news(known, from_begin=False).read({THREAD: Lock(7, NOW - 100)}, {THREAD}, NOW)

    assert [(type(each), each.moved) for each in found] == [(s.ProcessSeen, True)]
    assert found[0].at == NOW - 100  # the same at each start of ours: an end since then stands


def test_a_lock_that_is_given_back_is_the_end_and_one_of_the_dead_is_not(
    known: KnownThreads,
) -> None:
    given_back, killed = news(known), news(known)
    for locks in (given_back, killed):
        locks.read({THREAD: Lock(7, BEGUN)}, {THREAD}, NOW)

    assert kinds(given_back.read({}, set(), NOW)) == [s.SessionEnded]
    assert killed.read({}, {THREAD}, NOW) == []


@pytest.mark.parametrize("kind", ["child", "hidden"])
def test_a_subagents_lock_is_no_session(kind: str) -> None:
    threads = KnownThreads()
    threads.learn(THREAD, kind, OTHER)  # type: ignore[arg-type] # one of two

    assert news(threads).read({THREAD: Lock(7, BEGUN)}, {THREAD}, NOW) == []


def test_a_thread_without_a_prompt_is_told_with_its_first(known: KnownThreads) -> None:
    locks, held = news(known), {OTHER: Lock(7, begun_at(OTHER, 0))}
    known.learn(OTHER, begun=False)
    before = locks.read(held, set(held), NOW)
    known.learn(OTHER)

    assert before == []
    assert kinds(locks.read(held, set(held), NOW)) == [s.ProcessSeen]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["/opt/codex", "resume", THREAD, "--no-daemon"], THREAD),
        (["codex", "--model", "m", "resume", THREAD], THREAD),
        (["codex", "resume", "--last"], None),
        (["codex"], None),
        (["vim", "resume", THREAD], None),
    ],
)
def test_a_command_line_names_the_thread_that_it_resumes(
    words: list[str], found: str | None
) -> None:
    assert resumed_by(words) == found


# A command that was asked for, and runs.


def asked(call: str | None = "call-1") -> AskedCommand:
    return AskedCommand(THREAD, THREAD, COMMAND, NOW, call)


@pytest.mark.parametrize(
    ("started", "words", "closes"),
    [
        (NOW + 900, ["/bin/bash", "-lc", COMMAND], True),
        (NOW + 900, ["bwrap", "--", "/bin/bash", "-c", COMMAND], True),
        (NOW - 60_000, ["/bin/bash", "-lc", COMMAND], False),
        (NOW + 900, ["/bin/bash", "-lc", "sleep 4"], False),
        (NOW + 900, [], False),
    ],
)
def test_the_very_command_that_was_asked_for_was_granted_if_it_runs(
    started: int, words: list[str], closes: bool
) -> None:
    found = began(asked(), [(started, words)], NOW + 1_000)

    assert (found is not None) is closes


def test_it_closes_its_own_call_or_what_its_thread_has_asked() -> None:
    running = [(NOW + 900, ["bash", "-lc", COMMAND])]
    one, other = began(asked(), running, NOW), began(asked(None), running, NOW)

    assert isinstance(one, s.RequestClosed)
    assert isinstance(other, s.RequestClosed)
    assert (one.tool_use_id, one.request_id) == ("call-1", None)
    assert (other.tool_use_id, other.request_id) == (None, THREAD)


def hook(codex: Codex, event: str, at: int = NOW, **body: object) -> None:
    about = {"session_id": THREAD, "turn_id": "t", "hook_event_name": event}
    codex.hook(json.dumps({**about, **body}).encode(), at)


def test_hooks_tell_what_is_asked_for_until_it_is_over() -> None:
    codex = Codex()
    call = {"tool_name": "Bash", "tool_input": {"command": COMMAND}}
    hook(codex, "PreToolUse", **call, tool_use_id="call-1")
    hook(codex, "PermissionRequest", **call)
    while_asked = dict(codex.threads.asked)
    hook(codex, "PostToolUse", **call, tool_use_id="call-1")

    assert while_asked == {"call-1": asked()}
    assert codex.threads.asked == {}


@pytest.mark.parametrize("end", ["Interrupt", "Stop", "UserPromptSubmit", "SessionEnd"])
def test_with_its_turn_nothing_is_asked_for_any_more(end: str) -> None:
    codex = Codex()
    hook(codex, "PermissionRequest", tool_name="Bash", tool_input={"command": COMMAND})
    hook(codex, end)

    assert codex.threads.asked == {}


# With real locks and processes.


class Home:
    def __init__(self, path: Path) -> None:
        self.path = path
        (path / LOCKS).mkdir()
        self.signals: list[AnySignal] = []
        self.pids: dict[str, int] = {}
        self.full = False
        self.threads = KnownThreads()
        around = Surroundings(self.accept, lambda: self.pids, lambda _pid: NOW, lambda: NOW)
        self.witness = LiveThreads(path, self.threads, around)

    async def accept(self, signals: Sequence[AnySignal]) -> int:
        if self.full:
            raise SpoolUnavailable("full")
        self.signals += signals
        return len(self.signals)

    @contextlib.contextmanager
    def running(self, thread: str = THREAD):  # type: ignore[no-untyped-def] # a context of None
        path = self.path / LOCKS / f"{thread}.lock"
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        path.unlink()

    def write(self, thread: str = THREAD, source: str = "user") -> None:
        day = datetime.fromtimestamp(BEGUN / 1000, tz=UTC)
        folder = self.path / "sessions" / f"{day:%Y/%m/%d}"
        folder.mkdir(parents=True, exist_ok=True)
        payload = {"id": thread, "session_id": OTHER, "thread_source": source, "cwd": "/"}
        line = {"timestamp": day.isoformat(), "type": "session_meta", "payload": payload}
        (folder / f"rollout-{day:%Y-%m-%dT%H-%M-%S}-{thread}.jsonl").write_text(
            json.dumps(line) + "\n"
        )


@pytest.fixture
async def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Home]:
    for name in ("LOOK_S", "ASKING_S"):
        monkeypatch.setattr(f"adsum_collector.agents.codex.live_threads.{name}", 0.02)
    home = Home(tmp_path)
    task = asyncio.create_task(home.witness.run())
    await wait_until(lambda: home.witness.looked_at)  # what comes now is news
    yield home
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@linux
async def test_a_session_without_hooks_has_a_process_and_an_end(home: Home) -> None:
    home.write()
    with home.running():
        await wait_until(lambda: kinds(home.signals) == RESUMED)
        assert home.witness.health(NOW).state == "ok"
    await wait_until(lambda: kinds(home.signals) == [*RESUMED, s.SessionEnded])

    assert home.signals[0].pid == os.getpid()


@linux
async def test_a_subagent_is_known_by_its_rollout(home: Home) -> None:
    home.write(source="subagent")
    with home.running():
        await wait_until(lambda: home.threads.get(THREAD) is not None)

    known = home.threads.get(THREAD)
    assert known is not None
    assert (known.kind, known.session) == ("child", OTHER)
    assert home.signals == []


@linux
async def test_what_could_not_be_kept_is_told_at_the_next_look(home: Home) -> None:
    home.write()
    home.full = True
    with home.running():
        await wait_until(lambda: home.witness.faults["not accepted"] > 0)
        home.full = False
        await wait_until(lambda: kinds(home.signals)[:1] == [s.ProcessSeen])


@linux
async def test_an_approved_command_is_seen_to_run(home: Home) -> None:
    home.pids[THREAD] = os.getpid()
    command = "sleep 60; true"
    home.threads.asked["call-1"] = AskedCommand(THREAD, THREAD, command, 0, "call-1")
    with subprocess.Popen(["/bin/sh", "-c", command]) as process:
        await wait_until(lambda: kinds(home.signals) == [s.RequestClosed])
        process.kill()

    assert home.threads.asked == {}


async def test_without_locks_a_command_line_tells_what_was_taken_up_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "adsum_collector.agents.codex.live_threads.resumed_by",
        lambda words: THREAD if words[-1:] == [THREAD] else None,
    )
    # a process counts as what it is at its first two looks: on a busy machine not within 40 ms
    monkeypatch.setattr("adsum_collector.agents.codex.live_threads.LOOK_S", 0.3)
    home.write()
    (home.path / LOCKS).rmdir()
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)", THREAD]
    with subprocess.Popen(sleeps) as process:
        try:
            await wait_until(lambda: kinds(home.signals) == [s.ProcessSeen])
        finally:
            process.kill()

    assert home.signals[0].pid == process.pid


@pytest.mark.parametrize(
    "thread", ["ffffffff-ffff-7fff-ffff-ffffffffffff", "e6770000-0000-7000-8000-000000000000"]
)
def test_an_id_that_names_no_day_has_no_rollout(thread: str, tmp_path: Path) -> None:
    """Anybody may write one on a command line: `codex resume ID`."""
    assert rollout_of(tmp_path, thread) is None


def test_a_lock_that_bears_no_id_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / LOCKS).mkdir()
    for name in (THREAD, "zzzzzzzzzzzz7", f"{THREAD}0", THREAD.replace("-", "g")):
        (tmp_path / LOCKS / f"{name}.lock").touch()
    (tmp_path / LOCKS / OTHER).touch()

    assert locks_in(tmp_path) == ({}, {THREAD})


def test_a_home_without_locks_has_none(tmp_path: Path) -> None:
    assert locks_in(tmp_path) == ({}, set())


async def test_compressed_rollouts_are_counted_archived_ones_too(tmp_path: Path) -> None:
    for folder in (tmp_path / "sessions" / "2026" / "11" / "23", tmp_path / "archived_sessions"):
        folder.mkdir(parents=True)
        (folder / f"rollout-2026-11-23T09-40-00-{THREAD}.jsonl.zst").write_bytes(b"(\xb5/\xfd")
    (tmp_path / LOCKS).mkdir(exist_ok=True)
    around = Surroundings(lambda _s: asyncio.sleep(0, 0), dict, lambda _pid: NOW, lambda: NOW)
    witness = LiveThreads(tmp_path, KnownThreads(), around)
    task = asyncio.create_task(witness.run())
    await wait_until(lambda: witness.faults)
    task.cancel()

    assert witness.health(NOW).counts == {COMPRESSED: 2, COMPRESSED_MB: 1}


def test_of_several_homes_each_witness_names_its_own(tmp_path: Path) -> None:
    around = Surroundings(lambda _s: asyncio.sleep(0, 0), dict, lambda _pid: NOW, lambda: NOW)

    def names(*homes: Path) -> list[str]:
        return [each.health(NOW).name for each in Codex().own_witnesses(homes, around)]

    one, other = tmp_path / "one", tmp_path / "other"
    assert names(one) == ["server", "threads"]
    assert names(one, other) == [
        *(f"server of {one}", f"threads of {one}", f"server of {other}", f"threads of {other}"),
    ]

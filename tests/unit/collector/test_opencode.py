"""OpenCode's database: what it tells, that it is left alone, and what becomes of one that is not as we know it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents.base import Surroundings
from adsum_collector.agents.opencode import agent as db
from adsum_collector.agents.opencode.agent import EventLog, SessionLog, is_opencode
from adsum_collector.errors import SpoolUnavailable
from adsum_shared import signals as s
from adsum_shared.signals import AnySignal
from tests.support import wait_until

NOW = 1_795_704_400_000
TABLES = """
CREATE TABLE event (id text PRIMARY KEY, aggregate_id text, seq integer, type text, data text);
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer);
CREATE TABLE session (id text, directory text, title text, time_created integer, time_updated integer,
                      parent_id text);
CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, data text);
"""
SPENT = {"input": 1000, "output": 30, "reasoning": 5, "cache": {"read": 200, "write": 0}}


def info(**fields: Any) -> dict[str, Any]:
    times = {"created": NOW - 9_000, "updated": NOW - 8_000}
    return {
        "info": {"id": "s1", "directory": "/src/boat", "title": "A boat", "time": times, **fields}
    }


def user(key: str = "m1", at: int = NOW - 7_000) -> dict[str, Any]:
    return {"info": {"id": key, "role": "user", "time": {"created": at}}}


def answer(**fields: Any) -> dict[str, Any]:
    times = {"created": NOW - 6_000, "completed": NOW - 5_000}
    return {"info": {"id": "m2", "parentID": "m1", "role": "assistant", "time": times, **fields}}


def call(tool: str, status: str, **state: Any) -> dict[str, Any]:
    told = {"status": status, "input": {"command": "ls"}, **state}
    part = {"type": "tool", "tool": tool, "callID": "c1", "messageID": "m2", "state": told}
    return {"part": part, "time": NOW - 4_000}


def read(*rows: tuple[str, dict[str, Any]]) -> list[AnySignal]:
    log = SessionLog("s1")
    return [
        each
        for kind, data in rows
        for each in log.read(f"{kind}.1", json.dumps(data).encode(), NOW)
    ]


def kinds(signals: Sequence[AnySignal]) -> list[str]:
    return [str(type(each).__struct_config__.tag) for each in signals]


def test_a_turn_is_told_from_its_prompt_to_its_end() -> None:
    text = {"part": {"type": "text", "text": "go", "messageID": "m1"}, "time": NOW}
    said = {"part": {"type": "text", "text": "gone", "messageID": "m2"}, "time": NOW}

    told = read(
        ("session.created", info()),
        *(("message.updated", user()), ("message.part.updated", text)),
        ("message.part.updated", said),
        ("message.updated", answer(finish="stop")),
    )

    assert [each for each in kinds(told) if each not in ("alive", "meta.changed")] == [
        *("session.started", "prompt.submitted", "prompt.submitted", "turn.ended")
    ]
    assert (
        next(each.text for each in told if isinstance(each, s.PromptSubmitted) and each.text)
        == "go"
    )
    assert next(each for each in told if isinstance(each, s.TurnEnded)).last_message == "gone"


def test_an_answer_before_its_calls_ends_no_turn() -> None:
    assert kinds(read(("message.updated", answer(finish="tool-calls")))) == ["alive"]


@pytest.mark.parametrize(
    ("error", "kind"), [("MessageAbortedError", "turn.interrupted"), ("APIError", "turn.failed")]
)
def test_a_turn_that_broke_off_says_how(error: str, kind: str) -> None:
    assert kinds(read(("message.updated", answer(error={"name": error})))) == [kind]


def test_a_call_is_told_once_it_runs_and_once_it_has_ended() -> None:
    told = read(
        ("message.part.updated", call("bash", "pending")),
        ("message.part.updated", call("bash", "running")),
        ("message.part.updated", call("bash", "running")),
        ("message.part.updated", call("bash", "error", error="no such file")),
    )

    assert kinds(told) == ["tool.started", "tool.finished"]


def test_a_question_waits_for_a_human() -> None:
    told = read(("message.part.updated", call("question", "running")))

    assert kinds(told) == ["tool.started", "request.opened"]


def test_a_childs_turn_is_no_turn_of_its_session() -> None:
    told = read(
        ("session.created", info(parentID="s0")), ("message.updated", answer(finish="stop"))
    )

    assert kinds(told) == ["child.started", "child.finished"]
    assert {each.session_id for each in told} == {"s0"}


class Home:
    """A database with one session, held open by who writes it, as OpenCode does."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "opencode.db"
        self.writer = sqlite3.connect(self.path)
        self.writer.executescript(f"PRAGMA journal_mode = WAL;{TABLES}")
        self.heard: list[AnySignal] = []
        self.is_full = False
        self.log = EventLog(directory, Surroundings(self.accept, dict, lambda _pid: 1, lambda: NOW))

    async def accept(self, signals: Sequence[AnySignal]) -> int:
        if self.is_full:
            raise SpoolUnavailable("the disk is full")
        self.heard += signals
        return 0

    def write(self, *rows: tuple[str, dict[str, Any]], session: str = "s1") -> None:
        with self.writer as database:
            for kind, data in rows:
                seq = database.execute("SELECT count(*) FROM event").fetchone()[0]
                told = (f"e{seq}", session, seq, f"{kind}.1", json.dumps(data))
                database.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", told)
                database.execute(
                    "INSERT OR REPLACE INTO event_sequence VALUES (?, ?)", (session, seq)
                )

    def begin(self, session: str, at: int) -> None:
        with self.writer as database:
            row = (session, "/src/boat", "A boat", at, NOW - 1_000, None)
            database.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", row)

    def say(self, key: str, at: int, session: str = "s1", **told: Any) -> None:
        """An answer, in the table and in the log."""
        spent = {"role": "assistant", "modelID": "m", "tokens": SPENT, "cost": 0.25, **told}
        spent["time"] = {"created": at, "completed": at + 900}
        self.write(("message.updated", {"info": {"id": key, **spent}}), session=session)
        with self.writer as database:
            row = (key, session, at, json.dumps(spent))
            database.execute("INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?)", row)

    def spend(self) -> None:
        self.begin("s1", NOW - 9_000)
        for key in ("m1", "m2"):
            self.say(key, NOW - 5_000)

    def forget(self, key: str) -> None:
        with self.writer as database:
            database.execute("DELETE FROM message WHERE id = ?", (key,))

    def used(self) -> dict[str, tuple[int, float]]:
        """By session: how many answers, and dollars."""
        with db.opened(self.path) as database:
            return {each.session: (each.messages, each.cost) for each in db.totals(database, 0)}

    def files(self) -> dict[str, bytes]:
        return {each.name: each.read_bytes() for each in self.path.parent.iterdir()}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    with closing(made.writer):
        yield made


async def running(home: Home, until: Any) -> None:
    task = asyncio.create_task(home.log.run())
    try:
        await wait_until(until)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_what_is_written_meanwhile_is_heard_with_what_came_before(home: Home) -> None:
    home.write(("session.created", info()))
    task = asyncio.create_task(home.log.run())
    await wait_until(lambda: home.log.read_at)
    home.write(("message.updated", user()))

    await wait_until(lambda: "prompt.submitted" in kinds(home.heard))
    task.cancel()

    assert "session.started" in kinds(home.heard)


async def test_after_a_full_disk_all_that_was_followed_is_told_anew(home: Home) -> None:
    home.write(("session.created", info()))
    home.write(("session.created", info()), session="s2")
    task = asyncio.create_task(home.log.run())
    await wait_until(lambda: home.log.read_at)
    home.write(("message.updated", user()), session="s2")
    home.write(("message.updated", user()))
    await wait_until(lambda: kinds(home.heard).count("prompt.submitted") == 2)
    home.heard.clear()

    home.is_full = True
    home.write(("message.updated", answer(finish="stop")))
    await wait_until(lambda: home.log.faults["not accepted"])
    home.is_full = False

    await wait_until(lambda: "turn.ended" in kinds(home.heard))
    task.cancel()
    assert {each.session_id for each in home.heard if isinstance(each, s.SessionStarted)} == {
        "s1",
        "s2",
    }


READ = """
import sys
from pathlib import Path
from adsum_collector.agents.opencode import agent as db
with db.opened(Path(sys.argv[1])) as database:
    print(db.sequences(database))
"""


def test_one_that_another_process_has_open_is_read_without_a_trace(home: Home) -> None:
    """In a process of its own: SQLite shares the index among the connections of one."""
    home.write(("session.created", info()), ("message.updated", user()))
    before = home.files()

    words = [sys.executable, "-c", READ, str(home.path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)

    assert done.stdout == "{'s1': 1}\n"
    assert home.files() == before
    assert set(before) == {"opencode.db", "opencode.db-shm", "opencode.db-wal"}


async def test_what_nobody_runs_is_told_as_past_with_what_it_used(home: Home) -> None:
    home.write(("session.created", info()))
    home.spend()

    await running(home, lambda: "usage.totalled" in kinds(home.heard))

    used = next(each for each in home.heard if isinstance(each, s.UsageTotalled))
    assert (used.input_tokens, used.output_tokens, used.cache_read_tokens) == (2000, 70, 400)
    assert next(each for each in home.heard if isinstance(each, s.CostReported)).cost_usd == 0.5
    assert kinds(home.heard)[:2] == ["meta.changed", "session.ended"]
    assert "session.started" not in kinds(home.heard)


def test_what_a_fork_repeats_counts_once_where_it_was_said(home: Home) -> None:
    home.spend()
    home.begin("s2", NOW - 4_000)
    for key in ("f1", "f2"):
        home.say(key, NOW - 5_000, "s2")

    assert home.used() == {"s1": (2, 0.5)}

    home.say("f3", NOW - 3_000, "s2")

    assert home.used() == {"s1": (2, 0.5), "s2": (1, 0.25)}


@pytest.mark.parametrize("goes", ["message", "session"])
def test_a_fork_takes_over_nothing_of_a_session_that_was_undone_or_deleted(
    home: Home, goes: str
) -> None:
    home.begin("s1", NOW - 9_000)
    home.say("m1", NOW - 5_000)
    home.begin("s2", NOW - 4_000)
    home.say("f1", NOW - 5_000, "s2")
    home.say("f2", NOW - 3_000, "s2")

    home.forget("m1")
    if goes == "session":
        with home.writer as database:
            database.execute("DELETE FROM session WHERE id = 's1'")
            database.execute("DELETE FROM event WHERE aggregate_id = 's1'")

    assert home.used()["s2"] == (1, 0.25)


def test_what_an_undo_takes_back_stays_counted_as_it_was_last(home: Home) -> None:
    home.begin("s1", NOW - 9_000)
    home.say("m1", NOW - 6_000)
    home.say("m2", NOW - 5_000, cost=0.125)
    home.say("m2", NOW - 5_000, cost=0.5)
    before = home.used()

    home.forget("m2")

    assert home.used() == before == {"s1": (2, 0.75)}


def test_an_answer_of_before_there_was_a_log_counts(home: Home) -> None:
    home.spend()
    home.writer.executescript("DELETE FROM event")

    assert home.used() == {"s1": (2, 0.5)}


async def test_a_database_of_another_kind_is_told_and_ends_nothing(home: Home) -> None:
    home.writer.executescript("DROP TABLE event_sequence")

    await running(home, lambda: home.log.health(NOW).state == "trouble")

    assert "no such table: event_sequence" in str(home.log.health(NOW).note)


def test_one_that_is_closed_is_read_without_a_trace(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(("session.created", info()))
    home.writer.close()
    before = home.files()

    with db.opened(home.path) as database:
        assert db.sequences(database) == {"s1": 0}
    assert home.files() == before
    assert set(before) == {"opencode.db"}


def test_who_writes_never_waits_for_who_reads(home: Home) -> None:
    home.write(("session.created", info()))
    home.writer.execute("PRAGMA busy_timeout = 0")

    with db.opened(home.path) as database:
        assert len(list(db.events(database, "s1", -1))) == 1
        home.write(("message.updated", user()))


@pytest.mark.parametrize(
    ("words", "ours"),
    [(["/usr/bin/opencode", "run"], True), (["node", "opencode"], False), ([], False)],
)
def test_its_process_is_known_by_its_name(words: list[str], ours: bool) -> None:
    assert is_opencode(words) is ours

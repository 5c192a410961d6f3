"""`adsum up --demo` before anything starts: its own directory, port and environment, nobody else's."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from adsum import demo
from adsum.outcome import CommandError
from adsum_collector.errors import SpoolUnavailable, StartError
from adsum_hub.usage.budgets import read_budgets
from adsum_shared.settings import KNOWN


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "adsum-demo"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_taken_port_is_replaced_by_a_free_one(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "PORT", taken)
    found = demo._free_port()
    assert found not in (0, taken)


URL = "http://127.0.0.1:47993"


def test_an_empty_directory_becomes_the_demos_and_is_gone_at_its_end(folder: Path) -> None:
    folder.mkdir()
    with demo._stage(folder, URL) as stage:
        assert stage.is_relative_to(folder)
        assert list(stage.iterdir()) == []
    assert not folder.exists()


def test_a_strangers_directory_is_refused_and_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")

    with pytest.raises(CommandError, match="was not made by a demo"), demo._stage(folder, URL):
        pass
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]


def test_a_demo_that_was_killed_at_once_is_no_stranger(folder: Path) -> None:
    folder.mkdir()
    (folder / "up.lock").touch(mode=0o600)
    with demo._stage(folder, URL) as stage:
        assert stage.is_dir()


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "adsum-demo"
    with (
        pytest.raises(CommandError, match="cannot be used: Not a directory"),
        demo._stage(place, URL),
    ):
        pass


def test_nothing_behind_a_link_is_deleted(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "photo").write_text("")
    left = folder / demo.STAGE / "link"
    left.parent.mkdir(parents=True)
    left.symlink_to(precious)

    with demo._stage(folder, URL) as stage:
        assert list(stage.iterdir()) == []
    assert not folder.exists()
    assert (precious / "photo").exists()


def test_a_short_folder_of_the_brokers_socket_goes_as_well(folder: Path, tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.mkdir()
    with demo._stage(folder, URL) as stage:
        (stage / "broker").mkdir()
        (stage / "broker" / "socket").write_text(f"{short}/broker.sock")
    assert not short.exists()


def test_the_parts_have_a_home_of_their_own_and_are_known_for_a_demo(folder: Path) -> None:
    env = demo._env(folder, "unix:///nowhere", 4711)

    assert env["HOME"].startswith(str(folder))
    assert env["XDG_CONFIG_HOME"].startswith(str(folder))
    assert env["ADSUM_DEMO"] == "on"
    assert len(read_budgets(json.loads(env["ADSUM_BUDGETS"]))) == 3
    named = {name.removeprefix("ADSUM_").lower() for name in env if name.startswith("ADSUM_")}
    assert named <= KNOWN | {"hub_port", "hub_host"}


def test_the_real_state_directory_is_beside_the_demos_and_not_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    async def noted(folder: Path, port: int) -> None:
        asked.append(folder)

    monkeypatch.setattr(demo, "_run", noted)
    monkeypatch.setattr(os, "environ", {**os.environ, "ADSUM_NOTIFY": "[]"})
    demo.run_demo(tmp_path / "adsum")

    assert not [name for name in os.environ if name.startswith("ADSUM_")]
    assert [place.parent for place in asked] == [tmp_path / "adsum-demo"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "fault", [StartError("The disk is full."), SpoolUnavailable("The disk is full.")]
)
def test_why_a_demo_ends_is_said_however_deep_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    async def failing(folder: Path, port: int) -> None:
        raise ExceptionGroup("a fleet", [ExceptionGroup("a machine", [fault])])

    monkeypatch.setattr(demo, "_run", failing)
    with pytest.raises(CommandError, match=r"^The disk is full\.$"):
        demo.run_demo(tmp_path / "adsum")

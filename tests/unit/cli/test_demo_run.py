"""`adsum up --demo` before anything starts: its own directory, port and environment, nobody else's."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from adsum.demo import run
from adsum.outcome import CommandError
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
    monkeypatch.setattr(run, "PORT", taken)
    found = run._free_port()
    assert found not in (0, taken)


def test_an_empty_directory_becomes_the_demos(folder: Path) -> None:
    folder.mkdir()
    run._require_ours(folder)
    assert (folder / run.MARK).exists()


def test_a_strangers_directory_is_refused_and_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")

    with pytest.raises(CommandError, match="was not made by a demo"):
        run._require_ours(folder)
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="cannot be used: Not a directory"):
        run._require_ours(tmp_path / "file" / "adsum-demo")


def test_nothing_behind_a_link_is_deleted(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "photo").write_text("")
    run._require_ours(folder)
    (folder / "link").symlink_to(precious)

    with run._emptied(folder):
        assert not (folder / "link").exists()
    assert not folder.exists()
    assert (precious / "photo").exists()


def test_the_parts_have_a_home_of_their_own_and_are_known_for_a_demo(folder: Path) -> None:
    run._require_ours(folder)
    env = run._env(folder, "unix:///nowhere", 4711)

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

    monkeypatch.setattr(run, "_run", noted)
    monkeypatch.setattr(os, "environ", {**os.environ, "ADSUM_NOTIFY": "[]"})
    run.run_demo(tmp_path / "adsum")

    assert not [name for name in os.environ if name.startswith("ADSUM_")]
    assert asked == [tmp_path / "adsum-demo"]
    assert list(tmp_path.iterdir()) == []

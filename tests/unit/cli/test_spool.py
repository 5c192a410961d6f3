"""`adsum collector spool status` while no collector runs: all of it, and not a byte changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from adsum.app import app
from adsum.collector import WIDTH
from adsum.outcome import CommandError
from adsum_collector.spool.spool_directory import SpoolDirectory
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_collector.state_dir import hold_lock
from tests.spools import Clock, fill

CAP = SpoolLimits(cap_bytes=1 << 20, rotate_bytes=100_000, min_free_bytes=0, log_bytes=0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a collector that was stopped."""
    monkeypatch.setenv("ADSUM_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ADSUM_SPOOL_CAP_MB", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    return tmp_path / "state"


@pytest.fixture
def files(state_dir: Path, clock: Clock) -> SpoolDirectory:
    return SpoolDirectory(state_dir / "spool", CAP, clock)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["collector", "spool", "status", *words])


def told(*words: str) -> dict[str, object]:
    done = run("--json", *words)
    assert done.exit_code == 0, done.exception
    found: dict[str, object] = json.loads(done.stdout)
    return found


def everything(directory: Path) -> dict[str, tuple[int, int, str]]:
    return {
        str(path.relative_to(directory)): (
            path.lstat().st_mtime_ns,
            path.lstat().st_mode,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted([directory, *directory.rglob("*")])
    }


def test_what_waits_is_told_in_numbers(state_dir: Path, files: SpoolDirectory) -> None:
    fill(files, 250)
    files.acknowledge(120, files.meta.spool_id)
    spool_id = files.meta.spool_id
    files.close()

    found = told()

    assert found["schema"] == 2
    assert found["running"] is False
    assert found["sent"] is None
    assert (found["spool_id"], found["first"], found["last"]) == (spool_id, 1, 250)
    assert (found["confirmed"], found["waiting"]) == (120, 130)
    assert found["cap"] == 1 << 20
    assert [(f["first"], f["last"]) for f in found["files"]] == [(1, 100), (101, 200), (201, 250)]  # type: ignore[attr-defined, index]
    # the first that waits was seen when the clock stood at 120 ms
    assert isinstance(found["oldest_waiting_ms"], int)
    assert "contents" not in found


@pytest.mark.parametrize("how", ["stopped", "killed", "damaged", "at its cap", "newer"])
def test_to_look_changes_nothing_on_the_disk(
    state_dir: Path, files: SpoolDirectory, how: str, tmp_path: Path
) -> None:
    count = 1200 if how == "at its cap" else 250
    fill(files, count)
    if how == "killed":
        shutil.copytree(state_dir, tmp_path / "as it was", dirs_exist_ok=True)
    files.close()
    if how == "killed":
        shutil.rmtree(state_dir)
        (tmp_path / "as it was").rename(state_dir)
        assert (state_dir / "spool" / "spool-000003.db-wal").stat().st_size > 0
    if how == "damaged":
        (state_dir / "spool" / "spool-000002.db").write_bytes(b"x" * 5000)
    if how == "newer":
        with closing(sqlite3.connect(state_dir / "spool" / "spool-000003.db")) as db:
            db.execute("PRAGMA user_version = 9")
    before = everything(state_dir)

    found = told()
    assert run().exit_code == 0

    assert everything(state_dir) == before
    if how == "damaged":
        assert "spool-000002.db cannot be used: it is no database." in str(found["problem"])
    elif how == "newer":
        assert found["last"] == 200
        assert "a newer version of Adsum has written it" in str(found["problem"])
    else:
        assert found["last"] == count
        assert found["problem"] is None


def test_what_a_killed_collector_left_in_its_log_counts(
    state_dir: Path, files: SpoolDirectory, tmp_path: Path
) -> None:
    fill(files, 3)
    files.acknowledge(2, files.meta.spool_id)
    shutil.copytree(state_dir, tmp_path / "killed")
    files.close()

    found = told("--state-dir", str(tmp_path / "killed"))

    assert (found["last"], found["confirmed"], found["waiting"]) == (3, 2, 1)


def test_gaps_are_told_with_numbers_and_reasons(
    state_dir: Path, files: SpoolDirectory, clock: Clock
) -> None:
    fill(files, 950)
    files.close()
    (state_dir / "spool" / "spool-000004.db").write_bytes(b"x")
    SpoolDirectory(state_dir / "spool", CAP, clock).close()

    found = told()

    assert found["gaps"] == [
        {"first": 1, "last": 200, "reason": "cap", "at": 1_000_000_000},
        {"first": 301, "last": 400, "reason": "corrupt", "at": 1_000_000_000},
    ]
    lines = run().stdout
    assert "gaps       300 signals will never come:\n           1-200: the cap was" in lines
    assert "           301-400: a file was damaged\n" in lines
    assert [f["first"] for f in found["files"]] == [201, 401, 501, 601, 701, 801, 901]  # type: ignore[attr-defined]
    assert found["waiting"] == 650


def test_text_fits_a_terminal_and_names_what_was_quarantined(
    state_dir: Path, files: SpoolDirectory, clock: Clock
) -> None:
    fill(files, 250)
    files.close()
    (state_dir / "spool" / "spool-000002.db").write_bytes(b"x" * 5000)
    SpoolDirectory(state_dir / "spool", CAP, clock).close()

    text = run().stdout

    assert max(map(len, text.splitlines())) <= WIDTH
    assert "spool-000002.db.corrupt" in text
    assert "it is no database" in text
    assert "signals missing: 100" in " ".join(text.split())
    assert "no collector runs" in text


def test_directories_without_a_spool_are_named_with_the_next_step(state_dir: Path) -> None:
    def error() -> str:
        done = run()
        assert isinstance(done.exception, CommandError)
        return str(done.exception)

    assert "does not exist: no collector has run there yet. Start one with `adsum up`" in error()
    state_dir.mkdir()
    assert f"{state_dir / 'spool'} does not exist" in error()
    (state_dir / "spool").mkdir()
    assert "There is none yet" in error()
    (state_dir / "spool" / "spool-000001.db").write_bytes(b"x")
    assert "spool-000001.db cannot be used: it is no database" in error()
    shutil.rmtree(state_dir)
    state_dir.write_text("a file")
    assert "cannot be read (Not a directory)" in error()


def test_a_directory_that_may_not_be_read_is_named(state_dir: Path) -> None:
    state_dir.mkdir(mode=0o000)
    was = os.geteuid()
    os.seteuid(was or 65534)  # root may read everything
    try:
        done = run()
    finally:
        os.seteuid(was)

    state_dir.chmod(0o700)
    assert "cannot be read (Permission denied). Run this as" in str(done.exception)


def test_files_are_left_alone_while_a_collector_holds_them(
    state_dir: Path, files: SpoolDirectory
) -> None:
    files.close()
    with hold_lock(state_dir, 1):
        done = run()

    assert re.search(r"process \d+\) does not answer on port 1 .* nobody else", str(done.exception))


@pytest.mark.parametrize("cap", ["0", "-5", "99999999", "a lot", "nan"])
def test_an_absurd_cap_is_named_with_what_it_may_be(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, cap: str
) -> None:
    state_dir.mkdir()
    monkeypatch.setenv("ADSUM_SPOOL_CAP_MB", cap)

    done = run()

    assert isinstance(done.exception, CommandError)
    assert re.search(rf"ADSUM_SPOOL_CAP_MB: .*, not '{cap}'", str(done.exception))


def test_the_cap_shown_is_the_operators(
    state_dir: Path, files: SpoolDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.close()
    monkeypatch.setenv("ADSUM_SPOOL_CAP_MB", "2048")

    assert told()["cap"] == 2048 << 20

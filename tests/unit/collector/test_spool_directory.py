"""The spool's files: numbering, rotation, limits, and every kind of damage."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adsum_collector.spool.spool_file as spool_file_module
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.spool.spool import SpoolGap
from adsum_collector.spool.spool_directory import SpoolDirectory
from adsum_collector.spool.spool_file import Append, SpoolLimits
from tests.spools import SMALL, Clock, fill, numbers_of, prompt, put, read_all


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> Iterator[list[SpoolDirectory]]:
    """Every SpoolDirectory made by `open_in`, closed at the end."""
    made: list[SpoolDirectory] = []
    yield made
    for files in made:
        files.close()


def test_a_state_that_does_not_change_is_not_built_anew(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    files.commit([Append([b"a"], state={"k": b"1"})])
    before = files.state
    files.commit([Append([b"b"])])
    files.commit([Append([b"c"], state={"k": b"1", "gone": None})])
    assert files.state is before

    files.commit([Append([], state={"k": None, "n": b"2"})])
    assert (files.state, before) == ({"n": b"2"}, {"k": b"1"})
    files.close()


def test_numbers_go_on_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    first = SpoolDirectory(tmp_path, SMALL, clock)
    assert put(first, b"a", b"b") == 2
    first.close()

    second = SpoolDirectory(tmp_path, SMALL, clock)

    assert put(second, b"c") == 3
    assert read_all(second)[0] == {1: b"a", 2: b"b", 3: b"c"}
    assert second.meta.spool_id == first.meta.spool_id
    second.close()


def test_what_was_committed_is_there_after_a_kill(tmp_path: Path, clock: Clock) -> None:
    running = SpoolDirectory(tmp_path / "live", SMALL, clock)
    put(running, b"a")
    shutil.copytree(tmp_path / "live", tmp_path / "killed")  # as the disk is at this instant
    running.close()

    after = SpoolDirectory(tmp_path / "killed", SMALL, clock)

    assert read_all(after)[0] == {1: b"a"}
    after.close()


def test_numbers_and_reading_run_on_over_rotated_files(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 25)

    rows, gaps = read_all(files)

    assert list(rows) == list(range(1, 26))
    assert gaps == []
    assert len(list(tmp_path.glob("spool-*.db"))) > 2
    files.close()


def test_an_acknowledged_file_goes_when_it_is_old_enough(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 25)
    files.acknowledge(25, files.meta.spool_id)
    assert len(list(tmp_path.glob("spool-*.db"))) == 3

    clock.now += 61
    files.acknowledge(25, files.meta.spool_id)

    assert len(list(tmp_path.glob("spool-*.db"))) == 1
    assert read_all(files)[1][0].reason == "retention"
    files.close()


def test_a_file_that_no_hub_has_stays_however_old(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 25)
    clock.now += 10_000

    files.acknowledge(3, files.meta.spool_id)

    assert len(read_all(files)[0]) == 25
    files.close()


def test_beyond_the_cap_the_oldest_goes_and_leaves_a_gap(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 100)

    rows, gaps = read_all(files)

    assert [gap.reason for gap in gaps] == ["cap"]
    assert gaps[0].first == 1
    assert list(rows) == list(range(gaps[0].last + 1, 101))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 300_000
    files.close()


def test_a_gap_is_remembered_over_a_restart(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 100)
    before = read_all(files)
    files.close()

    again = SpoolDirectory(tmp_path, SMALL, clock)

    assert read_all(again) == before
    again.close()


def test_a_message_that_comes_twice_gets_its_first_number(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    assert put(files, b"a", b"b", message_id="m") == 2
    put(files, b"c")

    assert put(files, b"a", b"b", message_id="m") == 2
    assert files.commit([Append([b"d"], "n"), Append([b"d"], "n")]) == [4, 4]
    assert list(read_all(files)[0].values()) == [b"a", b"b", b"c", b"d"]
    files.close()


def test_a_message_is_known_after_restart_and_rotation(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    put(files, b"a", message_id="m")
    fill(files, 12)
    files.close()

    again = SpoolDirectory(tmp_path, SMALL, clock)

    assert put(again, b"a", message_id="m") == 1
    again.close()


def test_state_is_kept_and_follows_into_new_files(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    files.commit([Append([b"a"], None, {"x": b"1", "y": b"2"})])
    fill(files, 12)
    files.commit([Append([b"b"], None, {"x": None})])
    files.close()

    again = SpoolDirectory(tmp_path, SMALL, clock)

    assert again.state == {"y": b"2"}
    again.close()


def test_a_damaged_newest_file_is_quarantined_and_a_new_spool_begins(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 15)
    files.acknowledge(4, files.meta.spool_id)
    old = files.meta.spool_id
    files.close()
    newest = max(tmp_path.glob("spool-*.db"))
    newest.write_bytes(b"\0" * newest.stat().st_size)

    again = SpoolDirectory(tmp_path, SMALL, clock)

    rows, gaps = read_all(again)
    assert again.meta.spool_id != old
    assert again.meta.incarnation == 0
    assert gaps == [SpoolGap(1, 1, "corrupt")]
    # what was acknowledged stood in the damaged file, so more is kept than need be
    assert next(iter(rows.values())) == prompt(0)
    assert list(tmp_path.glob("*.corrupt"))
    assert put(again, b"goes on") == max(rows) + 1
    again.close()


def test_what_a_damaged_file_still_gives_up_is_kept(tmp_path: Path, clock: Clock) -> None:
    limits = SpoolLimits(retention_s=60, min_free_bytes=0, log_bytes=0)
    files = SpoolDirectory(tmp_path, limits, clock)
    fill(files, 100)
    files.close()
    path = tmp_path / "spool-000001.db"
    raw = bytearray(path.read_bytes())
    raw[-6000:-4000] = b"\xff" * 2000
    path.write_bytes(raw)

    again = SpoolDirectory(tmp_path, limits, clock)

    rows, _ = read_all(again)
    assert 50 < len(rows) <= 100
    again.close()


def test_a_damaged_older_file_leaves_a_gap_and_the_spool_goes_on(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 25)
    old = files.meta.spool_id
    files.close()
    (tmp_path / "spool-000002.db").write_bytes(b"garbage" * 1000)

    again = SpoolDirectory(tmp_path, SMALL, clock)

    rows, gaps = read_all(again)
    assert again.meta.spool_id == old
    assert [gap.reason for gap in gaps] == ["corrupt"]
    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, 26))
    assert "spool-000002.db was damaged (it is no database)" in str(again.notice)
    again.close()


def test_a_file_that_a_crash_left_unfinished_is_forgotten(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    put(files, b"a")
    files.close()
    (tmp_path / "spool-000002.db").touch()

    again = SpoolDirectory(tmp_path, SMALL, clock)

    assert again.meta.spool_id == files.meta.spool_id
    assert put(again, b"b") == 2
    again.close()


def test_a_new_beginning_keeps_what_no_hub_has(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 25)
    files.acknowledge(22, files.meta.spool_id)
    old = files.meta.spool_id

    files.begin_anew("rollback", 9, instead_of=files.meta.spool_id)

    rows, gaps = read_all(files)
    assert files.meta.spool_id != old
    assert files.meta.incarnation == 9
    assert gaps == [SpoolGap(1, 1, "rollback")]
    assert list(rows.values()) == [prompt(22), prompt(23), prompt(24)]
    files.close()


def test_little_free_space_is_a_refusal(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SpoolLimits(min_free_bytes=1 << 60, min_free_share=1.0), clock)

    with pytest.raises(SpoolUnavailable, match=r"is full: .* are free, .* Free some space"):
        put(files, b"a")

    assert files.last == 0
    files.close()


def test_after_an_input_output_error_nothing_is_accepted_until_it_can_be_read_back(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    put(files, b"a")

    def fail(_appends: object) -> list[int]:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(files.current, "insert", fail)
    with pytest.raises(SpoolUnavailable, match="disk I/O error"):
        put(files, b"b")

    assert put(files, b"c") == 2
    assert read_all(files)[0] == {1: b"a", 2: b"c"}
    files.close()


def test_every_commit_is_synced_to_the_disk(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)

    pragmas = [
        files.current._db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("synchronous", "journal_mode", "locking_mode")
    ]
    assert pragmas == [2, "wal", "exclusive"]  # 2: FULL, a sync in every commit
    files.close()


def test_only_the_owner_can_read_the_spool(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path / "spool", SMALL, clock)
    fill(files, 15)

    modes = {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "spool").iterdir()}

    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700
    files.close()


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(1, 9)),
            st.tuples(st.just("ack"), st.integers(0, 60)),
            st.tuples(st.just("later"), st.integers(1, 50)),
            st.just(("reopen", 0)),
        ),
        max_size=20,
    )
)
def test_whatever_happens_every_number_is_a_row_or_in_a_gap(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """And a number that no hub has acknowledged is lost to nothing but the cap."""
    directory, clock = tmp_path_factory.mktemp("spool"), Clock()
    files = SpoolDirectory(directory, SMALL, clock)
    written: dict[int, bytes] = {}
    acked = 0
    for step, number in steps:
        if step == "put":
            bodies = [b"%d" % (len(written) + at) * 300 for at in range(number)]
            last = files.commit([Append(bodies)])[0]
            written |= dict(enumerate(bodies, last - number + 1))
        elif step == "ack":
            acked = max(acked, min(number, files.last))
            files.acknowledge(number, files.meta.spool_id)
        elif step == "later":
            clock.now += number
        else:
            files.close()
            files = SpoolDirectory(directory, SMALL, clock)

    rows, gaps = read_all(files)
    files.close()
    assert rows.items() <= written.items()
    missing = {seq for gap in gaps for seq in range(gap.first, gap.last + 1)}
    assert rows.keys() | missing == written.keys()
    assert not rows.keys() & missing
    lost = {s for gap in gaps if gap.reason != "cap" for s in range(gap.first, gap.last + 1)}
    assert all(seq <= acked for seq in lost)


def test_only_the_newest_file_is_read_through(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 25)
    files.close()
    asked: list[str] = []
    connect = spool_file_module.connect

    def listening(path: Path) -> sqlite3.Connection:
        db = connect(path)
        db.set_trace_callback(lambda statement: asked.append(f"{path.name} {statement}"))
        return db

    monkeypatch.setattr(spool_file_module, "connect", listening)
    again = SpoolDirectory(tmp_path, SMALL, clock)
    read_all(again)

    slow = [line for line in asked if "quick_check" in line or "sum(" in line]
    assert {line.split()[0] for line in slow} == {"spool-000003.db"}
    assert not any("min(seq), max(seq)" in line for line in asked)  # SQLite scans for both at once
    again.close()


def test_damage_inside_a_full_file_costs_what_cannot_be_read_and_no_more(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    fill(files, 25)
    old = files.meta.spool_id
    files.close()
    full = tmp_path / "spool-000001.db"
    raw = bytearray(full.read_bytes())
    page = raw.index(b"000005....") // 4096 * 4096
    raw[page : page + 4096] = b"\xff" * 4096
    full.write_bytes(raw)

    again = SpoolDirectory(tmp_path, SMALL, clock)
    rows, gaps = read_all(again)
    assert put(again, prompt(25)) == 26
    rows |= {26: prompt(25)}

    assert again.meta.spool_id == old
    assert {gap.reason for gap in gaps} == {"corrupt"}
    assert sorted([*rows, *numbers_of(gaps)]) == list(range(1, 27))
    assert len(rows) >= 20
    assert all(rows[seq] == prompt(seq - 1) for seq in rows)
    assert numbers_of(again.current.gaps) == numbers_of(gaps)
    again.close()
    reopened = SpoolDirectory(tmp_path, SMALL, clock)
    assert read_all(reopened) == (rows, gaps)
    reopened.close()


def test_why_a_spool_began_anew_is_told_as_long_as_its_first_file_is_there(
    tmp_path: Path, clock: Clock
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    files.begin_anew("rollback", 3, instead_of=files.meta.spool_id)
    fill(files, 25)
    files.acknowledge(26, files.meta.spool_id)
    fill(files, 10)

    assert read_all(files)[1] == [SpoolGap(1, 1, "rollback")]
    files.close()


@pytest.mark.parametrize("step", ["read", "acknowledge", "set_incarnation", "begin_anew"])
def test_an_input_output_error_outside_a_commit_is_a_refusal_and_then_it_is_read_back(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    files = SpoolDirectory(tmp_path, SMALL, clock)
    put(files, b"a")

    def fail(*_: object, **__: object) -> None:
        files.current._db.execute("BEGIN IMMEDIATE")
        raise sqlite3.OperationalError("disk I/O error")

    def take() -> None:
        match step:
            case "read":
                files.read(0, 9, 999)
            case "acknowledge":
                files.acknowledge(1, files.meta.spool_id)
            case "set_incarnation":
                files.set_incarnation(3)
            case _:
                files.begin_anew("rollback", 3, instead_of=files.meta.spool_id)

    for name in ("rows", "write"):
        monkeypatch.setattr(files.current, name, fail)
    with pytest.raises(SpoolUnavailable, match="disk I/O error"):
        take()
    assert not files.current._db.in_transaction

    take()
    put(files, b"b")
    assert list(read_all(files)[0].values()) == [b"a", b"b"]
    files.close()

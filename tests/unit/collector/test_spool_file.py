"""One file of the spool: its gaps, its log, and what an error says about it."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from adsum_collector.errors import is_damage
from adsum_collector.spool.spool import SpoolGap
from adsum_collector.spool.spool_directory import SpoolDirectory
from adsum_collector.spool.spool_file import find_gap, require_log, with_gap
from tests.spools import SMALL, Clock, fill, read_all


@pytest.fixture
def clock() -> Clock:
    return Clock()


spans = st.tuples(st.integers(1, 30), st.integers(0, 10), st.sampled_from(["cap", "corrupt"]))


@given(st.lists(spans, max_size=6))
def test_the_first_reason_stays_and_no_number_is_told_twice(
    told: list[tuple[int, int, str]],
) -> None:
    reasons: dict[int, str] = {}
    gaps: list[SpoolGap] = []
    for first, more, reason in told:
        gaps = with_gap(gaps, SpoolGap(first, first + more, reason))
        reasons = dict.fromkeys(range(first, first + more + 1), reason) | reasons

    assert [seq for gap in gaps for seq in range(gap.first, gap.last + 1)] == sorted(reasons)
    for seq, reason in reasons.items():
        found = find_gap(gaps, seq)
        assert found is not None
        assert found.reason == reason
    assert not any(
        a.last + 1 == b.first and a.reason == b.reason for a, b in itertools.pairwise(gaps)
    )


def test_a_spool_of_the_version_before_goes_on(tmp_path: Path, clock: Clock) -> None:
    files = SpoolDirectory(tmp_path / "spool", SMALL, clock)
    files.begin_anew("copy", 1, instead_of=files.meta.spool_id)
    files.close()
    with contextlib.closing(sqlite3.connect(files.current.path)) as db:
        db.execute("ALTER TABLE gaps DROP COLUMN at")
        db.commit()

    again = SpoolDirectory(tmp_path / "spool", SMALL, clock)
    assert again.current.gaps == [SpoolGap(1, 1, "copy", 0)]
    again.current.write(gaps=[SpoolGap(1, 1, "copy", 5)])
    again.close()


@pytest.mark.parametrize("log_bytes", [0, 100_000], ids=["as written", "rolled out"])
@pytest.mark.parametrize("place", range(5))
def test_a_log_that_is_damaged_loses_no_commit_without_a_word(
    tmp_path: Path, clock: Clock, place: int, log_bytes: int
) -> None:
    """SQLite takes the log to end where its first broken frame lies."""
    limits = structs.replace(SMALL, log_bytes=log_bytes)
    files = SpoolDirectory(tmp_path / "live", limits, clock)
    old = files.meta.spool_id
    fill(files, 9)
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    files.close()
    log = tmp_path / "killed" / "spool-000001.db-wal"
    raw = bytearray(log.read_bytes())
    at = [found for n in range(9) if (found := raw.find(b"%06d...." % n)) > 0][place * 2]
    raw[at] ^= 1
    log.write_bytes(raw)

    again = SpoolDirectory(tmp_path / "killed", limits, clock)

    if place < 4:
        assert again.meta.spool_id != old
        assert read_all(again)[1] == [SpoolGap(1, 1, "corrupt")]
        assert "its log is damaged" in str(again.notice)
        assert "signals may be missing" in str(again.notice)
    again.close()


@pytest.mark.parametrize("checkpoints", [0, 1, 2])
def test_a_sound_log_is_not_taken_for_damaged(
    tmp_path: Path, clock: Clock, checkpoints: int
) -> None:
    limits = structs.replace(SMALL, log_bytes=100_000)
    files = SpoolDirectory(tmp_path / "live", limits, clock)
    for _ in range(checkpoints):
        fill(files, 3)
        files.current.checkpoint()
    fill(files, 2)
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    with (tmp_path / "killed" / "spool-000001.db-wal").open("r+b") as log:
        log.truncate(log.seek(0, 2) - 5000)  # as a crash in the midst of a write leaves it
    last = files.last
    files.close()

    again = SpoolDirectory(tmp_path / "killed", limits, clock)

    assert again.meta.spool_id == files.meta.spool_id
    assert again.last == last
    again.close()


def connect_to_read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, isolation_level=None)


def error_of(db: sqlite3.Connection, *statements: str) -> sqlite3.DatabaseError:
    """Of the last one."""
    with contextlib.closing(db):
        for statement in statements[:-1]:
            db.execute(statement)
        with pytest.raises(sqlite3.DatabaseError) as raised:
            db.execute(statements[-1]).fetchall()
    return raised.value


def test_what_tells_of_the_file_is_damage_and_what_tells_of_the_disk_is_not(
    tmp_path: Path,
) -> None:
    plain = tmp_path / "plain.db"
    with contextlib.closing(sqlite3.connect(plain, isolation_level=None)) as db:
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (zeroblob(20000))")
    raw = plain.read_bytes()
    broken, text = tmp_path / "broken.db", tmp_path / "text.db"
    broken.write_bytes(raw[:4096] + b"\xff" * 4096 + raw[8192:])
    text.write_bytes(b"no database" * 1000)
    full = ("PRAGMA max_page_count = 7", "INSERT INTO t VALUES (zeroblob(90000))")

    assert is_damage(error_of(connect_to_read(broken), "SELECT * FROM t"))
    assert is_damage(error_of(connect_to_read(text), "SELECT * FROM t"))
    assert is_damage(error_of(connect_to_read(plain), "SELECT * FROM signals"))
    assert not is_damage(error_of(connect_to_read(plain), "DELETE FROM t"))
    with contextlib.closing(sqlite3.connect(plain, isolation_level=None)) as db:
        assert not is_damage(error_of(db, *full))
    with pytest.raises(sqlite3.DatabaseError) as raised:
        connect_to_read(tmp_path / "none.db")
    assert not is_damage(raised.value)


def test_a_disk_that_keeps_no_log_is_told_apart_from_one_that_does() -> None:
    with (
        contextlib.closing(sqlite3.connect(":memory:")) as db,
        pytest.raises(sqlite3.OperationalError, match="takes no write-ahead log"),
    ):
        require_log(db)

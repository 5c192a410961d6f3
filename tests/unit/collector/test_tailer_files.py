"""What is read of a transcript, one test per way in which a file can be odd."""

from __future__ import annotations

import errno
import itertools
import os
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import adsum_collector.line_reader as line_reader_module
import adsum_collector.transcripts.cursors as cursors_module
import adsum_collector.transcripts.files as files_module
from adsum_collector.transcripts.cursors import Chunk, Cursor, Stamp, digest, read_chunk
from adsum_collector.transcripts.files import look_at


def take(path: Path, cursor: Cursor | None = None) -> Chunk:
    return read_chunk(str(path), cursor, with_sidecar=False)


def take_all(path: Path, cursor: Cursor | None = None) -> tuple[list[bytes], Cursor, list[str]]:
    lines: list[bytes] = []
    faults: list[str] = []
    while True:
        chunk = take(path, cursor)
        lines += chunk.lines
        faults += chunk.faults
        cursor = chunk.cursor
        if not chunk.more:
            return lines, cursor, faults


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s1.jsonl"


def test_each_line_is_taken_once(path: Path) -> None:
    path.write_bytes(b"one\ntwo\n")
    first = take(path)
    append(path, b"three\n")
    second = take(path, first.cursor)

    assert (first.lines, second.lines) == ([b"one", b"two"], [b"three"])
    assert take(path, second.cursor).lines == []


def test_half_a_line_waits_for_its_newline(path: Path) -> None:
    path.write_bytes(b"one\ntw")
    first = take(path)
    append(path, b"o")
    second = take(path, first.cursor)
    append(path, b"\n")

    assert (first.lines, second.lines, second.more) == ([b"one"], [], False)
    assert take(path, second.cursor).lines == [b"two"]


@given(
    lines=st.lists(
        # \xef begins a byte order mark, which is no part of a line
        st.binary(max_size=40).map(lambda b: b.translate(None, b"\0\r\n\t \xef")),
        max_size=30,
    ),
    pieces=st.lists(st.integers(1, 60), min_size=1, max_size=40),
    chunk=st.integers(3, 50),
)
def test_each_line_is_taken_once_however_it_is_written(
    lines: list[bytes], pieces: list[int], chunk: int
) -> None:
    text = b"".join(line + b"\n" for line in lines)
    taken: list[bytes] = []
    cursor: Cursor | None = None
    with (
        tempfile.TemporaryDirectory() as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(cursors_module, "CHUNK_BYTES", chunk)
        patch.setattr(cursors_module, "CHUNK_LINES", 3)
        path = Path(directory) / "s1.jsonl"
        path.touch()
        for size in itertools.cycle(pieces):
            append(path, text[:size])
            text = text[size:]
            more, cursor, faults = take_all(path, cursor)
            taken += more
            assert faults == []
            if not text:
                break

    assert taken == [line for line in lines if line]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(b"one\r\ntwo\r\n", [b"one", b"two"], id="windows line ends"),
        pytest.param(b"\n\n one \n\t\r\n\n", [b"one"], id="blank lines"),
        pytest.param(b"\xef\xbb\xbfone\n", [b"one"], id="byte order mark"),
        pytest.param(b"\xff\xfe\n", [b"\xff\xfe"], id="not even text"),
        pytest.param(b"", [], id="empty"),
        pytest.param(b"\n", [], id="only a newline"),
    ],
)
def test_lines(path: Path, text: bytes, lines: list[bytes]) -> None:
    path.write_bytes(text)

    assert take_all(path)[0] == lines


def test_nul_padding_is_no_part_of_a_line(path: Path) -> None:
    path.write_bytes(b"one\n" + b"\0" * 5000 + b"two\n")

    lines, _, faults = take_all(path)

    assert lines == [b"one", b"two"]
    assert faults == ["NUL padding"]


def test_a_truncated_file_is_begun_anew(path: Path) -> None:
    path.write_bytes(b"one\ntwo\n")
    cursor = take(path).cursor
    path.write_bytes(b"ten\n")

    chunk = take(path, cursor)

    assert (chunk.lines, chunk.faults) == ([b"ten"], ("truncated",))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"else\n" * 100, id="another head"),
        # and no line begins where the last one ended
        pytest.param(b"one\n" * 99 + b"one and more\n" * 9, id="the same head"),
    ],
)
def test_a_rewritten_file_is_begun_anew(path: Path, text: bytes) -> None:
    path.write_bytes(b"one\n" * 100)
    cursor = take(path).cursor
    path.write_bytes(text)

    lines, _, faults = take_all(path, cursor)

    assert b"\n".join(lines) + b"\n" == text
    assert faults == ["replaced"]


def test_another_file_of_the_same_beginning_is_begun_anew(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"one\n" * 100)
    cursor = take_all(path)[1]
    other = tmp_path / "other"
    other.write_bytes(b"one\n" * 99 + b"two\n" + b"three\n")
    other.replace(path)

    assert take_all(path, cursor)[0] == [b"one"] * 99 + [b"two", b"three"]


def test_a_file_written_anew_as_it_was_goes_on_where_it_was(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"one\ntwo\n")
    cursor = take(path).cursor
    other = tmp_path / "other"
    other.write_bytes(b"one\ntwo\nthree\n")
    other.replace(path)

    chunk = take(path, cursor)

    assert (chunk.lines, chunk.faults) == ([b"three"], ())
    assert chunk.cursor.inode == path.stat().st_ino


def test_a_file_that_grew_while_its_head_was_short_is_the_same(path: Path) -> None:
    path.write_bytes(b"1\n")
    chunk = take(path)
    for number in range(2, 200):
        append(path, b"%d\n" % number)
        chunk = take(path, chunk.cursor)
        assert (chunk.lines, chunk.faults) == ([b"%d" % number], ())
    assert chunk.cursor.head_size == cursors_module.HEAD_BYTES


def test_a_long_line_is_taken_whole(path: Path) -> None:
    long = b"x" * (3 << 20)
    path.write_bytes(b"one\n" + long + b"\ntwo\n")

    lines, _, faults = take_all(path, _at_start(path))

    assert lines == [b"one", long, b"two"]
    assert faults == []


def _at_start(path: Path) -> Cursor:
    """Nothing read so far, of a file that was small when it was first seen."""
    stat = path.stat()
    return Cursor(inode=stat.st_ino, head=_digest_of_nothing(), head_size=0, offset=0)


def _digest_of_nothing() -> str:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        return digest(descriptor, 0)
    finally:
        os.close(descriptor)


def test_a_huge_line_is_skipped_with_little_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"one\n")
        file.seek(100 << 20)  # a hole reads as NUL
        file.write(b"x\ntwo\n")
    cursor = take(path, _at_start(path)).cursor
    tracemalloc.start()

    lines, _, faults = take_all(path, cursor)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (lines, faults) == ([b"two"], ["huge line"])
    assert peak < 8 << 20


def test_an_unfinished_huge_line_is_left_out_as_it_grows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_reader_module, "HUGE_LINE_BYTES", 1 << 20)
    path.write_bytes(b"one\n" + b"x" * (2 << 20))
    size = path.stat().st_size
    lines, cursor, faults = take_all(path, _at_start(path))
    assert (lines, faults) == ([b"one"], ["huge line"])
    assert (cursor.offset, cursor.inside) == (size, True)

    append(path, b"y\ntwo\n")

    lines, cursor, faults = take_all(path, cursor)
    assert (lines, faults, cursor.inside) == ([b"two"], [], False)


def test_a_huge_line_is_left_out_in_turns(path: Path) -> None:
    path.write_bytes(b"one\n")
    os.truncate(path, 60 << 20)
    append(path, b"\ntwo\n")
    cursor = take(path, _at_start(path)).cursor
    offsets = [cursor.offset]
    chunk = take(path, cursor)
    while chunk.more:
        offsets.append(chunk.cursor.offset)
        chunk = take(path, chunk.cursor)
    offsets.append(chunk.cursor.offset)

    at_once = line_reader_module.HUGE_LINE_BYTES + cursors_module.SKIPPED_BYTES
    assert max(b - a for a, b in itertools.pairwise(offsets)) <= at_once
    assert chunk.lines == [b"two"]


def test_a_file_of_absurd_size_is_not_opened(path: Path) -> None:
    path.write_bytes(b"one\n")
    os.truncate(path, 1 << 40)

    with pytest.raises(OSError, match="too large") as caught:
        take(path)

    assert caught.value.errno == errno.EFBIG


def test_many_short_lines_come_in_bounded_chunks(path: Path) -> None:
    path.write_bytes(b"".join(b"%d\n" % number for number in range(5000)))
    cursor: Cursor | None = None
    sizes: list[int] = []
    seen: list[bytes] = []
    while True:
        chunk = take(path, cursor)
        cursor = chunk.cursor
        sizes.append(len(chunk.lines))
        seen += chunk.lines
        if not chunk.more:
            break

    assert max(sizes) == cursors_module.CHUNK_LINES
    assert seen == [b"%d" % number for number in range(5000)]


def test_a_big_file_is_begun_at_its_tail_with_a_whole_line(path: Path) -> None:
    lines = [b"%07d" % number + b"x" * 993 for number in range(2000)]
    path.write_bytes(b"\n".join(lines) + b"\n")

    taken, cursor, _ = take_all(path)

    assert taken == lines[-len(taken) :]
    assert 255 <= len(taken) <= 262
    assert cursor.offset == path.stat().st_size


def test_the_tail_reaches_back_to_one_whole_line(path: Path) -> None:
    last = b"z" * (600 << 10)
    path.write_bytes(b"one\n" * 1_000_000 + last + b"\n")

    lines, _, _ = take_all(path)

    assert lines[-1] == last
    assert len(lines) < 300_000


def test_a_gigabyte_is_begun_at_once(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")

    chunk = take(path)

    assert chunk.lines == [b"last"]
    assert not chunk.more


def test_a_pipe_in_a_files_place_does_not_hold_us_up(path: Path) -> None:
    os.mkfifo(path)

    with pytest.raises(OSError, match="plain file"):
        take(path)


def test_a_directory_in_a_files_place(path: Path) -> None:
    path.mkdir()

    with pytest.raises(OSError, match="plain file"):
        take(path)


def test_a_file_that_has_gone(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        take(path)


def test_a_link_is_followed_to_its_file(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.write_bytes(b"one\n")
    path.symlink_to(real)

    assert take(path).lines == [b"one"]


def test_the_sidecar_is_read_where_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "agent-1.jsonl"
    path.write_bytes(b"one\n")
    assert read_chunk(str(path), None, with_sidecar=True).sidecar is None

    (tmp_path / "agent-1.meta.json").write_bytes(b"{}")

    assert read_chunk(str(path), None, with_sidecar=True).sidecar == b"{}"
    assert read_chunk(str(path), None, with_sidecar=False).sidecar is None


def test_reading_changes_nothing(path: Path) -> None:
    path.write_bytes(b"one\ntwo")
    path.chmod(0o400)
    before = path.stat()

    take_all(path)

    after = path.stat()
    assert (after.st_mtime_ns, after.st_size, after.st_mode) == (
        before.st_mtime_ns,
        before.st_size,
        before.st_mode,
    )


def walk(*paths: Path) -> tuple[dict[str, Stamp | None], set[str], list[str]]:
    entered: list[str] = []
    told, found = look_at(map(str, paths), entered.append)
    return told, found, entered


def test_a_look_finds_transcripts_at_any_depth_and_nothing_else(tmp_path: Path) -> None:
    wanted = {"p/s.jsonl", "p/s/subagents/agent-1.jsonl", "p/s/subagents/workflows/r/agent-2.jsonl"}
    for name in [*wanted, "p/memory/notes.md", "p/s/tool-results/1.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "p" / "odd.jsonl").mkdir()

    told, found, entered = walk(tmp_path)

    assert found == told.keys() == {str(tmp_path / name) for name in wanted}
    assert str(tmp_path / "p/s/subagents/workflows/r") in entered


def test_a_link_that_leads_back_is_walked_once(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "s.jsonl").write_bytes(b"")
    (tmp_path / "p" / "back").symlink_to(tmp_path)

    assert walk(tmp_path)[1] == {str(tmp_path / "p" / "s.jsonl")}


@pytest.mark.parametrize("name", ["own", "own.jsonl"])
def test_a_link_that_leads_to_itself_hides_nothing_else(tmp_path: Path, name: str) -> None:
    directories = [tmp_path / f"p{number}" for number in range(20)]
    for directory in directories:
        directory.mkdir()
        (directory / "s.jsonl").write_bytes(b"")
        (directory / name).symlink_to(name)
    (tmp_path / name).symlink_to(name)

    assert walk(tmp_path)[1] == {str(directory / "s.jsonl") for directory in directories}


def test_a_file_that_goes_during_a_walk_hides_no_other(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.jsonl").write_bytes(b"")
    walked = files_module._walk(str(tmp_path), lambda _: None, {})
    first, _ = next(walked)
    gone = next(path for path in tmp_path.iterdir() if str(path) != first)
    gone.unlink()

    assert len([first, *walked]) == 19


def test_a_linked_project_directory_is_walked(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "s.jsonl").write_bytes(b"")
    (tmp_path / "projects").mkdir()
    (tmp_path / "projects" / "p").symlink_to(tmp_path / "disk")

    assert walk(tmp_path / "projects")[1] == {str(tmp_path / "projects" / "p" / "s.jsonl")}


def test_a_transcript_in_a_store_of_blobs_is_found_by_its_links_name(tmp_path: Path) -> None:
    (tmp_path / ".store").mkdir()
    (tmp_path / ".store" / "b1").write_bytes(b"")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "s.jsonl").symlink_to(tmp_path / ".store" / "b1")

    _, found = look_at([str(tmp_path)], lambda _: None, roots=[str(tmp_path)])

    assert found == {str(tmp_path / "p" / "s.jsonl")}


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    assert walk(tmp_path / "none")[0] == {str(tmp_path / "none"): None}


def test_known_stamps_are_not_told_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"")
    told, _ = look_at([str(tmp_path)], lambda _: None)
    known = {path: stamp for path, stamp in told.items() if stamp is not None}
    append(tmp_path / "b.jsonl", b"x")

    told, found = look_at([str(tmp_path)], lambda _: None, known)

    assert told.keys() == {str(tmp_path / "b.jsonl")}
    assert len(found) == 2


def test_two_roots_that_are_one_directory_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "real" / "p").mkdir(parents=True)
    (tmp_path / "real" / "p" / "s1.jsonl").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    roots = [str(tmp_path / "link"), str(tmp_path / "real")]
    path = str(tmp_path / "link" / "p" / "s1.jsonl")
    entered: list[str] = []

    _, found = look_at(roots, entered.append, roots=roots)

    assert found == {path}
    assert entered == [roots[0], f"{roots[0]}/p"]
    assert set(files_module.mains_of(roots, ["s1"])) == {path}
    known = files_module.TranscriptFiles(roots, lambda _: None, 0)
    assert {known.inside(f"{root}/p/s1.jsonl") for root in roots} == {path}

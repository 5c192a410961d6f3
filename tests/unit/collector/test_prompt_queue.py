"""What waits for sessions: its order, its bounds, and that a file of it is whole or as it was."""

from pathlib import Path

import pytest

from adsum_collector.control.queue import (
    FILE,
    MOST_OF_ALL,
    MOST_OF_ONE,
    MOST_USED,
    PromptQueue,
    Queued,
)
from adsum_shared.commands import NotObeyedError


def item(name: str, session_id: str = "s", until: int = 1_000) -> Queued:
    return Queued(name, session_id, f"say {name}", "ann", 0, until)


def filled(state_dir: Path, *names: str) -> PromptQueue:
    queue = PromptQueue(state_dir)
    for name in names:
        queue.add(item(name))
    return queue


def names(queue: PromptQueue, session_id: str = "s") -> list[str]:
    return [each.id for each in queue.of(session_id)]


def test_what_waits_and_what_was_obeyed_outlives_a_restart(tmp_path: Path) -> None:
    queue = filled(tmp_path, "a", "b")
    queue.use("c1")
    queue.note_told(frozenset({"s"}))

    again = PromptQueue(tmp_path)

    assert again.of("s") == [item("a"), item("b")]
    assert again.told == {"s"}
    with pytest.raises(NotObeyedError, match="given before"):
        again.use("c1")
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_the_oldest_ids_are_forgotten(tmp_path: Path) -> None:
    queue = PromptQueue(tmp_path)
    queue._kept = type(queue._kept)(used=tuple(map(str, range(MOST_USED))))

    queue.use("new")

    queue.use("0")
    with pytest.raises(NotObeyedError):
        queue.use("new")


@pytest.mark.parametrize(
    ("name", "place", "order"),
    [("c", 0, "cab"), ("a", 1, "bac"), ("a", 2, "bca"), ("a", 99, "bca"), ("b", 0, "bac")],
)
def test_it_is_put_in_order(tmp_path: Path, name: str, place: int, order: str) -> None:
    queue = filled(tmp_path, "a", "b", "c")
    queue.add(item("x", "another"))

    queue.move("s", name, place)

    assert names(queue) == [*order]
    assert names(queue, "another") == ["x"]


def test_what_is_being_handed_over_stays_first_and_is_not_taken_back(tmp_path: Path) -> None:
    queue = filled(tmp_path, "a", "b")
    queue.mark("a", "sent")

    queue.add(item("c"), 0)

    assert names(queue) == ["a", "c", "b"]
    for change in (queue.take_out, lambda session, name: queue.move(session, name, 1)):
        with pytest.raises(NotObeyedError, match="handed over already"):
            change("s", "a")


def test_another_sessions_item_is_nobody_elses_to_take(tmp_path: Path) -> None:
    queue = filled(tmp_path, "a")

    with pytest.raises(NotObeyedError, match="does not wait"):
        queue.take_out("another", "a")
    assert queue.take_out("s", "a").text == "say a"
    with pytest.raises(NotObeyedError, match="does not wait"):
        queue.take_out("s", "a")


def test_it_is_bounded(tmp_path: Path) -> None:
    queue = filled(tmp_path, *map(str, range(MOST_OF_ONE)))

    with pytest.raises(NotObeyedError, match="this session has no room"):
        queue.add(item("more"))
    queue._kept = type(queue._kept)(items=tuple(item(str(n), f"s{n}") for n in range(MOST_OF_ALL)))
    with pytest.raises(NotObeyedError, match="sessions of this machine"):
        queue.add(item("more", "t"))


def test_what_waits_too_long_goes_but_not_what_is_being_handed_over(tmp_path: Path) -> None:
    queue = filled(tmp_path, "a", "b")
    queue.add(item("c", until=2_000))
    queue.mark("a", "sent")

    assert queue.expire(999) == []
    assert [each.id for each in queue.expire(1_000)] == ["b"]
    assert names(PromptQueue(tmp_path)) == ["a", "c"]


def test_a_damaged_file_is_put_aside_and_nothing_waits(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'{"items": [')

    queue = PromptQueue(tmp_path)

    assert queue.sessions == []
    assert (tmp_path / "queue.damaged").read_bytes() == b'{"items": ['
    queue.add(item("a"))


def test_what_cannot_be_written_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = filled(tmp_path, "a")

    def full(*_given: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("adsum_collector.control.queue.write_private", full)
    with pytest.raises(OSError, match="no space"):
        queue.take_out("s", "a")
    with pytest.raises(OSError, match="no space"):
        queue.use("c1")

    assert names(queue) == ["a"]
    monkeypatch.undo()
    queue.use("c1")

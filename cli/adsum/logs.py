"""`adsum logs` shows what the parts on this machine have written, and follows what they write."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from adsum.client import home_of
from adsum.outcome import CommandError, Exit
from adsum.text.saying import put
from adsum_shared.redact import clean

PARTS = ("hub", "collector", "broker")
POLL_S = 0.25
#: The last lines are looked for in so much of a file's end.
TAIL_BYTES = 1 << 20


@dataclass(slots=True)
class Tail:
    """One log, and how far it has been read. rest: the start of a line that is not whole yet."""

    part: str
    file: Path
    read: int = 0
    rest: bytes = field(default=b"")

    def last(self, lines: int) -> list[str]:
        try:
            with self.file.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - TAIL_BYTES))
                text = file.read()
        except FileNotFoundError:
            return []
        self.read = size
        whole, _, self.rest = text.rpartition(b"\n")
        found = _texts(whole.splitlines()) if whole else []
        return found[-lines:] if lines else []

    def more(self) -> list[str]:
        """From the beginning, if it was emptied or made anew."""
        try:
            with self.file.open("rb") as file:
                size = file.seek(0, 2)
                if size < self.read:
                    self.read, self.rest = 0, b""
                file.seek(self.read)
                text = self.rest + file.read()
                self.read = file.tell()
        except FileNotFoundError:
            self.read, self.rest = 0, b""
            return []
        *whole, self.rest = text.split(b"\n")
        return _texts(whole)


def show_logs(
    state_dir: Path | None, part: str | None, lines: int, *, follow: bool, poll_s: float = POLL_S
) -> None:
    """part: None for all. Ends when interrupted, if it follows."""
    if part is not None and part not in PARTS:
        raise CommandError(f"{part!r} writes no log. Give one of {', '.join(PARTS)}.", Exit.USAGE)
    folder = home_of(state_dir) / "logs"
    tails = [Tail(each, folder / f"{each}.log") for each in ((part,) if part else PARTS)]
    if not any(tail.file.exists() for tail in tails) and not follow:
        raise CommandError(
            f"No log in {folder} yet. `adsum up` and a service write them there; a part that was "
            "started by hand writes to its terminal."
        )
    named = part is None
    for tail in tails:
        _print(tail.part, tail.last(lines), named=named)
    if not follow:
        return
    # Leaving it is its normal end, not an error.
    with contextlib.suppress(KeyboardInterrupt):
        for tail, news in _news(tails, poll_s):
            _print(tail.part, news, named=named)


def _news(tails: Sequence[Tail], poll_s: float) -> Iterator[tuple[Tail, list[str]]]:
    while True:
        for tail in tails:
            if news := tail.more():
                yield tail, news
        time.sleep(poll_s)


def _print(part: str, lines: Sequence[str], *, named: bool) -> None:
    for line in lines:
        # In a pipe it is data, and stays as it was written.
        text = readable(line) if sys.stdout.isatty() else line
        put(f"{part:<9} {text}" if named else text)


def readable(line: str) -> str:
    """A line of JSON as people read one: when, how grave, who, what, and the rest by name."""
    try:
        record = json.loads(line)
        what, at = record.pop("event"), record.pop("time")
    except (ValueError, KeyError, TypeError, AttributeError):
        return line
    level, logger = str(record.pop("level", "info")).upper(), record.pop("logger", "")
    rest = "".join(f" {name}={value}" for name, value in record.items())
    return clean(f"{str(at)[:19].replace('T', ' ')} {level:<7} {logger}: {what}{rest}")


def _texts(lines: Sequence[bytes]) -> list[str]:
    # What a log quotes may come from an agent.
    return [clean(line.decode("utf-8", "replace").expandtabs()) for line in lines]

"""`adsum logs` shows what the parts on this machine have written, and follows what they write."""

import contextlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adsum.client import home_of
from adsum.outcome import CommandError, put, require
from adsum_shared.redact import clean

PARTS = ("hub", "collector", "broker")
POLL_S = 0.25
#: The last lines are looked for in so much of a file's end.
TAIL_BYTES = 1 << 20


@dataclass(slots=True)
class Tail:
    """One log, and how far it has been read: from TAIL_BYTES before its end on.

    rest: the start of a line that is not whole yet.
    """

    part: str
    file: Path
    read: int = -1
    rest: bytes = b""

    def more(self) -> list[str]:
        """The whole lines that came since; from the beginning, if it was emptied or made anew."""
        try:
            with self.file.open("rb") as file:
                size = file.seek(0, 2)
                if self.read < 0:
                    self.read = max(0, size - TAIL_BYTES)
                elif size < self.read:
                    self.read, self.rest = 0, b""
                file.seek(self.read)
                text = self.rest + file.read()
                self.read = file.tell()
        except FileNotFoundError:
            self.read, self.rest = 0, b""
            return []
        *whole, self.rest = text.split(b"\n")
        # What a log quotes may come from an agent.
        return [clean(line.decode("utf-8", "replace").expandtabs()) for line in whole]


def show_logs(
    part: str | None, *, lines: int, state_dir: Path | None, follow: bool = False
) -> None:
    require(part in (None, *PARTS), f"{part!r} writes no log. Give one of {', '.join(PARTS)}.")
    folder = home_of(state_dir) / "logs"
    tails = [Tail(each, folder / f"{each}.log") for each in ((part,) if part else PARTS)]
    if not any(tail.file.exists() for tail in tails) and not follow:
        raise CommandError(
            f"No log in {folder} yet. `adsum up` and a service write them there; a part that was "
            "started by hand writes to its terminal."
        )
    for tail in tails:
        found = tail.more()
        _print(tail.part, found[max(0, len(found) - lines) :], named=part is None)
    # Leaving it is its normal end, not an error.
    with contextlib.suppress(KeyboardInterrupt):
        while follow:
            for tail in tails:
                _print(tail.part, tail.more(), named=part is None)
            time.sleep(POLL_S)


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

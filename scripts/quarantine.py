"""Check tests/quarantine.toml: an entry older than 14 days fails, and so does one of no test."""

from __future__ import annotations

import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
MAX_DAYS = 14


class QuarantinedTest(NamedTuple):
    """id: as pytest prints it; without the part in brackets it names all cases of a test."""

    id: str
    cause: str
    date: date


def read_quarantine(root: Path = ROOT) -> list[QuarantinedTest]:
    entries = tomllib.loads((root / "tests" / "quarantine.toml").read_text()).get("test", [])
    return [QuarantinedTest(**entry) for entry in entries]


def faults(tests: Sequence[QuarantinedTest], today: date, root: Path = ROOT) -> Iterator[str]:
    for test in tests:
        path, _, name = test.id.partition("::")
        definition = f"def {name.partition('[')[0]}("
        if not (root / path).is_file() or definition not in (root / path).read_text():
            yield f"{test.id}: there is no such test. Remove the entry."
        elif (today - test.date).days > MAX_DAYS:
            yield f"{test.id}: in quarantine since {test.date}. Fix it: {test.cause}"


def main() -> int:
    messages = list(faults(read_quarantine(), datetime.fromtimestamp(time.time(), UTC).date()))
    sys.stderr.writelines(f"tests/quarantine.toml: {message}\n" for message in messages)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())

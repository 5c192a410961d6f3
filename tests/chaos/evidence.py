"""What a run leaves behind: one line of figures, and, if it failed, everything to look into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.scene import Scene


class Report(msgspec.Struct):
    """only: the kinds of faults it was restricted to. events, faults, line_faults: kind -> how many. kinds: of findings.
    gaps: reason -> how many hubs said so at the end. Times in seconds."""

    seed: int
    seconds: float
    events: dict[str, int]
    faults: dict[str, int]
    line_faults: dict[str, int]
    findings: list[str]
    kinds: dict[str, int]
    recovery_s: dict[str, list[float]]
    live_s: float
    settled_s: float
    most: dict[str, float]
    gaps: dict[str, int]
    skipped: dict[str, str]
    only: list[str] = []

    @property
    def passed(self) -> bool:
        return not self.findings

    def line(self) -> str:
        events = ", ".join(f"{count} {what}" for what, count in sorted(self.events.items()))
        verdict = "passed" if self.passed else f"FAILED {self.kinds}"
        return (
            f"seed {self.seed}{''.join(f', {each}' for each in self.only)}: {verdict}; {events}; {sum(self.faults.values())} faults, "
            f"live after {self.live_s:.1f} s, all after {self.settled_s:.1f} s"
        )


def append_result(file: Path, report: Report) -> None:
    with file.open("ab") as results:
        results.write(msgspec.json.encode(report) + b"\n")


def keep(root: Path, scene: Scene, report: Report | None, told: Any) -> None:
    """Beside the spools, the broker's files and the logs, which lie there already."""
    scene.ledger.write(root / "client.jsonl")
    began = min((each.began for each in scene.faults), default=0.0)
    lines = [
        msgspec.json.encode(
            msgspec.structs.replace(each, began=each.began - began, ended=each.ended - began)
        )
        for each in sorted(scene.faults, key=lambda each: each.began)
    ]
    (root / "faults.jsonl").write_bytes(b"\n".join([*lines, b""]))
    lines = [msgspec.json.encode((at - began, *what)) for at, *what in scene.line_faults]
    (root / "lines.jsonl").write_bytes(b"\n".join([*lines, b""]))
    if report is not None:
        (root / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    if told is not None:
        (root / "shown.json").write_bytes(msgspec.json.format(msgspec.json.encode(told)))

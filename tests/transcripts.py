"""Transcripts for tests: lines as plain as can be, and a stand-in for the agent's adapter."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adsum_collector.agents.base import Transcripts
from adsum_collector.agents.records import Lines, Past, Private, TranscriptFile
from adsum_shared.signals import Alive, AnySignal, CostReported, GaugesReported, MetaChanged


def line(note: str | int, **fields: Any) -> bytes:
    """kind: `alive` by default, `meta`, `cost`, `gauges`, or `silent`, which says nothing."""
    return json.dumps({"note": str(note)} | fields).encode() + b"\n"


def append(path: Path, *lines: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(lines))


def file_of(path: str) -> TranscriptFile | None:
    if found := re.fullmatch(r"[^/]+/([^/]+)\.jsonl", path):
        return TranscriptFile(found[1])
    if found := re.fullmatch(r"[^/]+/([^/]+)/subagents/(?:.+/)?agent-([^/]+)\.jsonl", path):
        return TranscriptFile(found[1], found[2])
    return None


def read(
    lines: Sequence[bytes],
    file: TranscriptFile,
    context: str,
    seen: int,
    sidecar: bytes | None,
    _private: Private,
) -> Lines:
    """context: how many lines there were before."""
    signals: list[AnySignal] = []
    faults: dict[str, int] = {}
    for raw in lines:
        try:
            fields = json.loads(raw)
        except ValueError:
            faults["no JSON"] = faults.get("no JSON", 0) + 1
            continue
        common = {"session_id": file.session_id, "at": fields.get("at", seen), "seen": seen}
        if fields.get("kind", "alive") == "alive":
            note = fields["note"]
            if sidecar is not None:
                note += "+" + sidecar.decode()
            signals.append(Alive(**common, source="transcript", agent_id=file.agent_id, note=note))
        elif fields["kind"] == "meta":
            signals.append(MetaChanged(**common, source="transcript", title=fields["note"]))
        elif fields["kind"] == "cost":
            signals.append(CostReported(**common, cost_usd=float(fields["note"])))
        elif fields["kind"] == "gauges":
            signals.append(GaugesReported(**common, context_tokens=int(fields["note"])))
    is_session = b'"nobody"' not in b"".join(lines)
    return Lines(signals, str(int(context or 0) + len(lines)), faults, is_session=is_session)


def history(_head: Sequence[bytes], tail: Sequence[bytes], _whose: TranscriptFile) -> Past | None:
    """The last note is the title."""
    notes = [json.loads(raw)["note"] for raw in tail]
    return Past(title=notes[-1]) if notes else None


def written(lines: Sequence[bytes]) -> int:
    """`at` is what a signal says; this is `written`."""
    found = [re.search(rb'"written": (\d+)', raw) for raw in lines]
    times = [int(each[1]) for each in found if each]
    return times[-1] if times else 0


STAND_IN = Transcripts(file_of, read, history, written)

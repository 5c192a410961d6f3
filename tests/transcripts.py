"""Transcripts for tests: lines as plain as can be, and a stand-in for the agent's adapter."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adsum_collector.agent import Transcripts
from adsum_collector.agents.transcript import Lines, Private, TranscriptFile
from adsum_shared.signals import Alive, AnySignal, MetaChanged


def line(note: str | int, **fields: Any) -> bytes:
    """kind: `alive` by default, `meta`, or `silent`, which says nothing."""
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
    return Lines(signals, str(int(context or 0) + len(lines)), faults)


STAND_IN = Transcripts(file_of, read)

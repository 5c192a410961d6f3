"""Reads recorded scenarios: a folder each, with meta.json, events.jsonl and perhaps labels.jsonl."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from adsum_shared.signals import DEFAULT_AGENT

T = TypeVar("T")
Version = tuple[int, ...]

#: Whose word labels are that do not say it, by how their agent was run: a server shared by all its
#: terminals tells what each session does (`codex`). Else it is the agent's own registry.
LABELLED_BY = {"shared server": "server", "solo": "screen", "headless": "process"}


class Event(msgspec.Struct):
    """One thing that came, as recorded. Which fields are set depends on `kind`."""

    t_ms: int
    kind: str
    event: str = ""
    body: dict[str, Any] = {}
    file: str = ""
    line: Any = None
    pid: int = 0
    content: dict[str, Any] = {}
    deleted: bool = False
    action: str = ""
    sig: int | str | None = None
    ppid: int = 0
    what: str = ""
    processes: list[dict[str, Any]] = msgspec.field(name="list", default_factory=list)


class Label(msgspec.Struct):
    """What was true for a span of time. known_to: which of `hook` and `line` said anything near.

    source: whose word it is: `registry`, `server`, `screen`, `process`, or `hand`.
    """

    session_id: str
    from_ms: int
    to_ms: int
    group: str | None = None
    states: list[str] | None = None
    why: str = ""
    known_to: list[str] = []
    source: str = ""


class Trace(msgspec.Struct):
    """faults: what could not be read or understood, each named; it was left out.

    agent: whose session it is, by the name its adapter bears.
    """

    name: str
    t0: int
    version: Version
    events: list[Event]
    labels: list[Label]
    faults: list[str]
    agent: str = DEFAULT_AGENT

    @property
    def end(self) -> int:
        times = [event.t_ms for event in self.events] + [label.to_ms for label in self.labels]
        return max(times, default=0)


class _Meta(msgspec.Struct):
    t0_wall_ms: int
    cli_version: str = ""
    agent: str = DEFAULT_AGENT
    mode: str = ""


class NoTracesError(Exception):
    """There is nothing to replay."""


def load_all(folder: Path) -> list[Trace]:
    """Every scenario below the folder, or the folder itself if it is one. Raises NoTracesError."""
    if not folder.is_dir():
        raise NoTracesError(f"{folder} is no folder; give one that holds scenarios")
    metas = sorted(folder.glob("*/meta.json"))
    if (folder / "meta.json").is_file():
        metas.append(folder / "meta.json")
    if not metas:
        raise NoTracesError(
            f"no scenario in {folder}: each is a folder with meta.json and events.jsonl,"
            " and with labels.jsonl if it is to be scored"
        )
    return [load(meta.parent) for meta in metas]


def load(folder: Path) -> Trace:
    """Total: what is broken is named in `faults` and left out."""
    name, faults = folder.resolve().name, []
    meta = _Meta(0)
    try:
        meta = msgspec.json.decode((folder / "meta.json").read_bytes(), type=_Meta)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        faults.append(f"{name}/meta.json: {error}; the scenario's own clock is not known")
    events = _lines(folder / "events.jsonl", Event, faults)
    if not (folder / "events.jsonl").is_file():
        faults.append(f"{name}/events.jsonl: missing; nothing to replay")
    labels = _lines(folder / "labels.jsonl", Label, faults)
    for label in labels:
        label.source = label.source or LABELLED_BY.get(meta.mode, "registry")
    version = tuple(int(part) for part in re.findall(r"\d+", meta.cli_version)[:3])
    # By arrival, as the format says; a stable sort costs nothing and a hand-edited file may not be.
    events.sort(key=lambda event: event.t_ms)
    labels.sort(key=lambda label: (label.from_ms, label.to_ms))
    return Trace(name, meta.t0_wall_ms, version, events, labels, faults, meta.agent)


def _lines(path: Path, kind: type[T], faults: list[str]) -> list[T]:
    if not path.is_file():
        return []
    decode = msgspec.json.Decoder(kind).decode
    found: list[T] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            faults.append(f"{path.parent.resolve().name}/{path.name}:{number}: {error}")
    return found

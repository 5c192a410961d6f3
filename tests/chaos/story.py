"""What the real agent said, told again: recorded hooks with ids and times that the test knows."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from adsum_collector.agents.claude_code.bodies import decode_hook
from adsum_collector.agents.claude_code.hooks import signals_from_hook
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_shared.privacy import private_as
from adsum_shared.signals import AnySignal
from bench.traces import load
from tests.chaos.tape import id_of, taped

TRACES = Path(__file__).parent.parent / "data" / "traces"
#: A hook's signals are told apart by the lower digits of their ids.
PER_HOOK = 100


class Told(msgspec.Struct):
    """Of a hook's body: its own number, above 0, and when it happened."""

    tape: int = 0
    at_ms: int = 0


def recorded(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """At least `count` bodies of hooks, from whole scenarios in random order."""
    folders = sorted(path.parent for path in TRACES.glob("*/events.jsonl"))
    bodies: list[dict[str, Any]] = []
    while len(bodies) < count:
        trace = load(rng.choice(folders))
        bodies += [event.body for event in trace.events if event.kind == "hook" and event.body]
    return bodies


def number(body: dict[str, Any], session_id: str, tape: int, at_ms: int) -> bytes:
    told = {"session_id": session_id, "tape": tape, "at_ms": at_ms}
    # what the tailer would look for lies outside its folders
    return json.dumps({**body, **told, "transcript_path": None}).encode()


def signals_of(body: bytes) -> list[AnySignal]:
    told = msgspec.json.decode(body, type=Told)
    found = signals_from_hook(decode_hook(body), told.at_ms)
    return [
        msgspec.structs.replace(signal, v=told.tape * PER_HOOK + place)
        for place, signal in enumerate(found)
    ]


def ids_of(body: bytes) -> list[str]:
    return [f"{id_of(signal)}" for signal in signals_of(body)]


def told_in_order(bodies: Iterable[bytes], applied: Sequence[str], salt: str) -> Facts | None:
    """The facts that these bodies make, one after the other, of those signals that were applied."""
    private = private_as("redacted", salt)
    signals = {id_of(signal): signal for body in bodies for signal in signals_of(body)}
    step = taped(fold)
    facts: Facts | None = None
    for name in applied:
        facts = step(facts, private(signals[name]))
    return facts

"""What one signal costs the hub, from the fold to the encoded view: `python -m bench.verdict`.

30,000 signals of 400 sessions, one after the other, as if each came in a batch of its own: folded,
judged, made a view of, encoded. A quiet hour is one call after the other in one turn after the
other; in a busy one each session has subagents with calls of their own, parallel calls and dialogs.
Each signal is told by its hook and by its transcript, as Claude Code's are, between the registry's
words and what was used. Sessions have a past before the measuring begins. The garbage collector runs
as seldom as in a hub. Prints microseconds a signal, each signal's best of some rounds, since other
processes interrupt any of them, and the ratio of fold, verdict and view to encoding.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec

from adsum_collector.agents.claude_code.tools import role_of
from adsum_hub.app import GC_THRESHOLDS
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import judge
from adsum_hub.views import Shown, ViewedHost, session_view
from adsum_shared import signals as s

NOW = 1_764_000_000_000
SESSIONS, SIGNALS, PAST, ROUNDS = 400, 30_000, 60_000, 3
PLACE = ViewedHost("0f4c1d0a-6b0e-4f1e-9a59-3f0a5d2b7c11", "build-box", "live", 1_250)
TOOLS = ("Bash", "Read", "Edit", "Grep", "WebFetch")
COMMAND = "uv run pytest -x tests/unit/test_session_views.py -k ordering"


class Session:
    """Says what a session's witnesses say, in the order they say it."""

    def __init__(self, number: int, dice: random.Random, *, busy: bool) -> None:
        self.id = f"{number:08x}-3c2e-4b7f-8f0d-2d9f6f1f7a10"
        self.dice = dice
        self.busy = busy
        self.t = NOW + dice.randrange(2_000)
        self.prompts = self.calls = self.tokens = 0
        self.children: list[str] = []

    def say(self, kind: type, source: str, late: int = 0, **data: Any) -> Any:
        self.t += self.dice.randrange(1, 40)
        prompt_id = f"{self.id[:8]}-p{self.prompts}" if source in ("hook", "transcript") else None
        data = {"prompt_id": prompt_id, **data}
        if "tool" in data:
            data["role"] = role_of(data["tool"])
        return kind(
            session_id=self.id,
            at=self.t - late,
            seen=self.t,
            source=source,
            agent="claude_code",
            **data,
        )

    def both(self, kind: type, **data: Any) -> Iterator[Any]:
        yield self.say(kind, "hook", **data)
        yield self.say(kind, "transcript", late=30, **data)

    def hour(self) -> Iterator[Any]:
        yield self.say(s.ProcessSeen, "process", pid=4_000, started=self.t - 3_000)
        yield self.say(s.SessionStarted, "hook", reason="startup")
        yield self.say(
            s.MetaChanged, "transcript", cwd="/home/ada/work/adsum", project="adsum", branch="main",
            model="claude-opus-5-5", version="2.1.330", mode="default",
            transcript=f"/home/ada/.claude/projects/adsum/{self.id}.jsonl",
        )  # fmt: skip
        while True:
            yield from self.turn()

    def turn(self) -> Iterator[Any]:
        self.prompts += 1
        self.t += 5_000
        text = (
            "Make the list keep its order when a session goes on, and add a test that fails first"
        )
        yield from self.both(s.PromptSubmitted, text=text)
        yield self.say(s.StatusReported, "registry", status="busy", pid=4_000)
        if self.busy:
            for _ in range(self.dice.randint(2, 5)):
                yield from self.launch()
        for _ in range(self.dice.randint(10, 30) if self.busy else self.dice.randint(3, 8)):
            yield from self.work()
        while self.busy and self.children and self.dice.random() < 0.7:
            child = self.children.pop(0)
            yield from self.both(s.ChildFinished, child_id=child)
        running = [s.BackgroundTask(child) for child in self.children]
        said = "The list keeps its order now; the test failed before and passes."
        yield self.say(s.TurnEnded, "hook", last_message=said, background=running)
        yield self.say(s.TurnEnded, "transcript", late=20, last_message=said)
        yield self.say(s.StatusReported, "registry", status="idle", pid=4_000)

    def launch(self) -> Iterator[Any]:
        self.calls += 1
        call, child = f"toolu_{self.id[:8]}{self.calls:06}", f"a{self.calls:07x}"
        what = "Look for every place that sorts sessions"
        yield from self.both(s.ToolStarted, tool="Agent", tool_use_id=call, summary=what)
        yield from self.both(s.ChildStarted, child_id=child, type="Explore", description=what)
        yield from self.both(
            s.ToolFinished, tool="Agent", tool_use_id=call, child_id=child, background=True
        )
        self.children.append(child)

    def work(self) -> Iterator[Any]:
        """A few calls at a time, some in subagents, some with a dialog before they run."""
        at_once = self.dice.randint(1, 3) if self.busy else 1
        begun = []
        for _ in range(at_once):
            self.calls += 1
            call, tool = f"toolu_{self.id[:8]}{self.calls:06}", self.dice.choice(TOOLS)
            who = None
            if self.children and self.dice.random() < 0.6:
                who = self.dice.choice(self.children)
            begun.append((call, tool, who))
            yield from self.both(
                s.ToolStarted, tool=tool, tool_use_id=call, agent_id=who, summary=COMMAND,
                digest=call, timeout_ms=120_000 if tool == "Bash" else None,
            )  # fmt: skip
            if self.busy and self.dice.random() < 0.25:
                payload = {"tool_name": tool, "tool_input": {"command": COMMAND}}
                yield self.say(
                    s.RequestOpened, "hook", request_kind="permission", tool=tool, digest=call,
                    agent_id=who, summary=COMMAND, payload=payload, request_id=f"r{self.calls}",
                )  # fmt: skip
        self.tokens += 700
        yield self.say(
            s.UsageTotalled, "transcript", day="2025-11-24", model="claude-opus-5-5", messages=self.calls,
            input_tokens=self.tokens, output_tokens=self.tokens, cache_read_tokens=9 * self.tokens,
        )  # fmt: skip
        yield self.say(
            s.GaugesReported, "statusline", context_tokens=self.tokens, context_size=200_000
        )
        yield self.say(s.Alive, "transcript", event=s.MESSAGE)
        for call, tool, who in begun:
            self.t += self.dice.randrange(20, 2_000)
            ok = self.dice.random() < 0.9
            yield from self.both(
                s.ToolFinished, tool=tool, tool_use_id=call, agent_id=who, ok=ok, digest=call,
                error=None if ok else "Exit code 1",
            )  # fmt: skip


def told(*, busy: bool, count: int) -> list[Any]:
    dice = random.Random(11)
    hours = [Session(number, dice, busy=busy).hour() for number in range(SESSIONS)]
    each = -(-count // SESSIONS)
    rows = zip(*(islice(hour, each) for hour in hours), strict=True)
    return [signal for row in rows for signal in row][:count]


class Pipeline:
    """Each step takes what the one before it gave, for one signal."""

    def __init__(self) -> None:
        self.facts: dict[str, Facts] = {}
        self.shown: dict[str, Shown] = {}
        self.spent = array("q")  # three to a signal; objects would be the collector's to look at
        self.bytes = 0
        self._encode: Callable[[object], bytes] = msgspec.json.Encoder().encode

    def take(self, signal: Any) -> None:
        clock, key, now = time.perf_counter_ns, signal.session_id, signal.seen + 2
        begun = clock()
        facts = self.facts[key] = fold(self.facts.get(key), signal)
        folded = clock()
        last = self.shown.get(key)
        verdict = judge(facts, now, last=last.verdict if last else None)
        view = session_view(PLACE, key, facts, verdict, last)
        self.shown[key] = Shown(PLACE, facts, verdict, view)
        viewed = clock()
        self.bytes += len(self._encode(view))
        encoded = clock()
        self.spent.extend((folded - begun, viewed - folded, encoded - viewed))


def measure(*, busy: bool, rounds: int) -> dict[str, float]:
    signals = told(busy=busy, count=PAST + SIGNALS)
    line = Pipeline()
    for signal in signals[:PAST]:
        line.take(signal)
    begun = dict(line.facts), dict(line.shown)
    best = array("q")
    for _ in range(rounds):
        line.facts, line.shown = dict(begun[0]), dict(begun[1])
        line.spent, line.bytes = array("q"), 0
        gc.collect()  # so that each round meets the same of them
        for signal in signals[PAST:]:
            line.take(signal)
        best = array("q", map(min, best or line.spent, line.spent))
    fold_us, view_us, encode_us = (statistics.fmean(best[step::3]) / 1000 for step in range(3))
    return {
        "fold_us": round(fold_us, 1),
        "verdict_and_view_us": round(view_us, 1),
        "encode_us": round(encode_us, 1),
        "ratio": round((fold_us + view_us) / encode_us, 1),
        "view_bytes": line.bytes // SIGNALS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    found = {hour: measure(busy=hour == "busy", rounds=args.rounds) for hour in ("quiet", "busy")}
    if args.json:
        print(json.dumps(found))
        return
    for hour, row in found.items():
        print(
            f"{hour:5}  fold {row['fold_us']:5.1f} us  verdict and view {row['verdict_and_view_us']:6.1f} us"
            f"  encode {row['encode_us']:4.1f} us  ratio {row['ratio']:4.1f}  ({row['view_bytes']} bytes)"
        )


if __name__ == "__main__":
    main()

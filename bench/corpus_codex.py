"""A made-up history of Codex's rollouts: of any size, the same for the same seed, with its true sums.

    python -m bench.corpus_codex DIRECTORY [--bytes 200000000] [--seed 7]

Lines have the keys, and their order, of those that Codex 0.169 writes, whose forks refer to their
parent's lines; a quarter of the sessions has those of 0.145, whose forks repeat them at a new time.
Subagents and reviews have files of their own.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.corpus import Truth
from bench.corpus_lines import CLASSES, EPOCH, SPREAD, Pool

MODELS = ("gpt-6.1-sol", "gpt-6.1-terra", "gpt-5.5")
Fields = dict[str, Any]
#: In the order in which they are told: all that went in, of that read and written, out, reasoning.
TOLD = ("input", "cached_input", "cache_write_input", "output", "reasoning_output", "total")


def stamp(ms: int) -> str:
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


@dataclass
class Thread:
    """One rollout as it is written. old: as 0.145 does. total: as told last; responses: so many."""

    id: str
    root: str
    at: int
    model: str
    old: bool
    lines: list[bytes] = field(default_factory=list)
    total: Counter[str] = field(default_factory=Counter)
    responses: int = 0

    def write(self, kind: str, payload: Fields) -> None:
        ordinal = {} if self.old else {"ordinal": len(self.lines)}
        told = {"timestamp": stamp(self.at), **ordinal, "type": kind, "payload": payload}
        self.lines.append(json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode())

    def event(self, what: str, **fields: Any) -> None:
        self.write("event_msg", {"type": what, **fields})

    def begin(self, **fields: Any) -> None:
        said = {"session_id": self.root, "id": self.id, "timestamp": stamp(self.at)}
        said |= {"cwd": "/home/dev/work", "cli_version": "0.145.0" if self.old else "0.169.0"}
        self.write("session_meta", {**said, "source": "cli", "thread_source": "user", **fields})
        self.at += 40


class Rollouts:
    def __init__(self, root: Path, size: int, seed: int) -> None:
        self._root, self._size = root / "sessions", size
        self._draw = random.Random(seed)
        self._pool = Pool(self._draw)
        self.truth = Truth()

    def write(self) -> Truth:
        while self.truth.size < self._size:
            self._session()
        return self.truth

    def _id(self, at: int) -> str:
        """Such ids begin with the time."""
        time, rest = f"{at:012x}", f"{self._draw.getrandbits(72):018x}"
        return f"{time[:8]}-{time[8:]}-7{rest[:3]}-9{rest[3:6]}-{rest[6:]}"

    def _text(self, mean: float) -> str:
        size = min(int(self._draw.lognormvariate(mean, 1.3)), 60_000)
        return str(json.loads(f'"{self._pool.text(size)}"'))

    def _session(self) -> None:
        draw, at = self._draw, EPOCH + self._draw.randrange(SPREAD)
        identity, model = self._id(at), self._draw.choice(MODELS)
        thread = Thread(identity, identity, at, model, draw.random() < 0.25)
        thread.begin(base_instructions={"text": self._text(8.5)})
        most = min(int(draw.lognormvariate(13.8, 1.1)), 40_000_000, self._size // 8 + 1000)
        self._talk(thread, most)
        own = len(thread.lines)
        if draw.random() < 0.3:
            self._fork(thread, own)
        if draw.random() < 0.3:
            spawned = {"subagent": {"thread_spawn": {"parent_thread_id": thread.id}}}
            self._child(thread, thread.model, most // 6, thread_source="subagent", source=spawned)
        if draw.random() < 0.2:
            source = {"subagent": {"other": "guardian"}}
            about = {"thread_source": "guardian_review", "source": source}
            self._child(thread, "codex-auto-review", 3_000, **about)
        self._save(thread)

    def _child(self, parent: Thread, model: str, most: int, **about: Any) -> None:
        at = parent.at + 5_000
        child = Thread(self._id(at), parent.root, at, model, parent.old)
        child.begin(**about)
        self._talk(child, most)
        self._save(child)

    def _fork(self, parent: Thread, own: int) -> None:
        at = parent.at + 60_000
        identity = self._id(at)
        fork = Thread(identity, identity, at, parent.model, parent.old)
        fork.total = Counter(parent.total)
        base = {"thread_id": parent.id, "end_ordinal_exclusive": own}
        fork.begin(forked_from_id=parent.id, **({} if fork.old else {"history_base": base}))
        for line in parent.lines[1:own] if fork.old else ():
            fork.lines.append(b'{"timestamp":"%s"' % stamp(at).encode() + line[39:])
        fork.at += 20_000
        self._talk(fork, 40_000)
        self._save(fork)

    def _talk(self, thread: Thread, most: int) -> None:
        size, before = 0, len(thread.lines)
        while size <= most:
            self._turn(thread)
            size, before = size + sum(map(len, thread.lines[before:])), len(thread.lines)

    def _turn(self, thread: Thread) -> None:
        turn = self._id(thread.at)
        thread.event("task_started", turn_id=turn, model_context_window=258_400)
        thread.write("world_state", {"full": True, "state": self._text(6)})
        thread.write("turn_context", {"turn_id": turn, "cwd": "/home", "model": thread.model})
        tier = "priority" if self._draw.random() < 0.1 else "default"
        thread.event("thread_settings_applied", thread_settings={"service_tier": tier})
        self._said(thread, "user", "input_text")
        for _ in range(self._draw.randrange(1, 14)):
            self._response(thread, turn)
        self._said(thread, "assistant", "output_text")
        thread.event("task_complete", turn_id=turn, last_agent_message=self._text(5))
        thread.at += self._draw.randrange(5_000, 400_000)

    def _said(self, thread: Thread, role: str, kind: str) -> None:
        content = [{"type": kind, "text": self._text(5.5)}]
        thread.write("response_item", {"type": "message", "role": role, "content": content})

    def _response(self, thread: Thread, turn: str) -> None:
        draw = self._draw
        thread.at += draw.randrange(1_500, 40_000)
        blob = f"{draw.getrandbits(6_000):x}"
        thread.write("response_item", {"type": "reasoning", "encrypted_content": blob})
        call = f"call_{draw.getrandbits(96):x}"
        script = {"type": "custom_tool_call", "name": "exec", "call_id": call}
        thread.write("response_item", {**script, "input": self._text(5.5)})
        spent = self._spent(thread)
        thread.total.update(spent)
        usage = {f"{name}_tokens": spent[name] for name in TOLD}
        total = {f"{name}_tokens": thread.total[name] for name in TOLD}
        if not thread.old:
            about = {"thread_id": thread.id, "turn_id": turn, "session_id": thread.root}
            about |= {"root_turn_id": turn, "response_id": f"resp_{draw.getrandbits(96):024x}"}
            sums = {"turn_token_usage": total, "thread_token_usage": total}
            thread.write("token_usage_record", {**about, "usage": usage, **sums})
        output = self._text(7.5)
        thread.at += draw.randrange(5, 900)
        item = {"type": "CommandExecution", "id": call, "aggregated_output": output}
        thread.event("item_completed", turn_id=turn, item={**item, "exit_code": 0})
        thread.write("response_item", {"type": "custom_tool_call_output", "output": output})
        info = {"total_token_usage": total, "last_token_usage": usage}
        limits = {"limit_id": "codex", "primary": None, "secondary": None, "plan_type": None}
        info |= {"model_context_window": 258_400}
        # Now and then a total is told twice. Not a fork's first, which ccusage takes for a copy then.
        thread.responses += 1
        for _ in range(1 + (draw.random() < 0.05 and thread.responses > 2)):
            thread.event("token_count", info=info, rate_limits=limits)

    def _spent(self, thread: Thread) -> dict[str, int]:
        draw = self._draw
        plain, read = draw.randrange(40, 9_000), int(draw.lognormvariate(10.8, 0.8))
        written = 0 if thread.old else int(draw.lognormvariate(7, 1.2))
        output = int(draw.lognormvariate(5.2, 1.1)) + 8
        self.truth.messages += 1
        self.truth.sessions[thread.root] += output
        self.truth.sums.update(
            dict(zip(CLASSES, (plain, output, read, written, 0, 0), strict=True))
        )
        told = (plain + read + written, read, written, output, output // 3)
        return dict(zip(TOLD, (*told, told[0] + output), strict=True))

    def _save(self, thread: Thread) -> None:
        day = datetime.fromtimestamp(thread.at / 1000, UTC)
        path = self._root / day.strftime("%Y/%m/%d")
        path.mkdir(parents=True, exist_ok=True)
        data = b"\n".join(thread.lines) + b"\n"
        name = f"rollout-{day.strftime('%Y-%m-%dT%H-%M-%S')}-{thread.id}.jsonl"
        (path / name).write_bytes(data)
        self.truth.files += 1
        self.truth.size += len(data)
        self.truth.lines += len(thread.lines)
        self.truth.assistant_lines += data.count(b'"type":"token_')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--bytes", type=int, default=200_000_000)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    truth = Rollouts(options.directory, options.bytes, options.seed).write()
    print(json.dumps(vars(truth) | {"sessions": len(truth.sessions)}))


if __name__ == "__main__":
    main()

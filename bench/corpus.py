"""A made-up history of transcripts: of any size, the same for the same seed, and with its true sums.

    python -m bench.corpus DIRECTORY [--bytes 1000000000] [--seed 7]

Lines have the keys, and their order, of those that Claude Code 2.1.330 writes; a sixth of the
sessions has the order of older ones. A message is one line per block, on which `output_tokens`
grows or not; forks say again what was said, subagents and workflows have files of their own.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.corpus_lines import CLASSES, Pool, Spent, Stage, assistant, attachment, later, user

FORKED = 0.06
SUBAGENTS = 0.35
#: A copy of a main agent's message in a file of a side question, under a request id of its own.
ASIDE = 0.02
HEAD = (
    '{{"type":"queue-operation","operation":"enqueue","timestamp":"{at}","sessionId":"{session}",'
    '"content":"go on"}}\n{{"type":"mode","mode":"normal","sessionId":"{session}"}}\n'
)
COST_STATE = (
    '{{"type":"cost-state","sessionId":"{session}","totalCostUSD":1.5,"modelUsage":{{}}}}\n'
)


@dataclass
class Truth:
    """What was really spent: each message once, at its last word, by the session that said it."""

    sums: Counter[str] = field(default_factory=Counter)
    sessions: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    lines: int = 0
    assistant_lines: int = 0
    files: int = 0
    size: int = 0

    def add(self, session: str, spent: Spent) -> None:
        self.messages += 1
        self.sessions[session] += spent.numbers[1]
        self.sums.update(dict(zip(CLASSES, spent.numbers, strict=True)))


class History:
    """One project directory tree, filled session by session until it is as large as asked.

    gateways: how many of its sessions went through one, and so have no ids of requests. Of those
    ccusage (20.0.24) takes only lines of one id and one time for copies, and a message's lines are
    written one after the other: no two tools to compare.
    """

    def __init__(self, root: Path, size: int, seed: int, *, gateways: float = 0.0) -> None:
        self._root = root
        self._size = size
        self._gateways = gateways
        self._random = random.Random(seed)
        self._pool = Pool(self._random)
        self.truth = Truth()

    def write(self) -> Truth:
        while self.truth.size < self._size:
            self._session()
        return self.truth

    def _session(self) -> None:
        draw = self._random
        project = self._root / "projects" / f"-home-dev-work-project-{draw.randrange(40):02d}"
        stage = Stage.drawn(draw, "/home/dev/work/" + project.name, self._gateways)
        most = min(int(draw.lognormvariate(14.2, 1.1)), 40_000_000, self._size // 8 + 1000)
        head = HEAD.format(at=stage.now(), session=stage.session)
        lines = [head, *self._talk(stage, most)]
        self._save(project / f"{stage.session}.jsonl", [*lines, self._cost_state(stage)])
        below = project / stage.session / "subagents"
        if draw.random() < SUBAGENTS:
            for each in range(draw.randrange(1, 5)):
                folder = below / "workflows" / f"run-{each}" if draw.random() < 0.2 else below
                self._agent(stage, folder, most // 6)
        if draw.random() < ASIDE * 10:
            self._aside(stage, below, lines)
        if stage.forkable and draw.random() < FORKED:
            self._fork(stage, project, lines, most // 3)

    def _cost_state(self, stage: Stage) -> str:
        return COST_STATE.format(session=stage.session)

    def _agent(self, stage: Stage, folder: Path, most: int) -> None:
        agent = stage.subagent(self._random)
        self._save(folder / f"agent-{agent.agent}.jsonl", self._talk(agent, most))

    def _fork(self, stage: Stage, project: Path, lines: list[str], most: int) -> None:
        """All that has an uuid is replayed, at its old times; then it goes on by itself."""
        fork = stage.forked(self._random)
        replayed = [
            line.replace(stage.session, fork.session)
            for line in lines
            if line.startswith('{"parentUuid"')
        ]
        self.truth.assistant_lines += sum('"role":"assistant"' in line for line in replayed)
        head = HEAD.format(at=fork.now(), session=fork.session)
        own = self._talk(fork, most)
        self._save(project / f"{fork.session}.jsonl", [head, *replayed, *own])

    def _aside(self, stage: Stage, folder: Path, lines: list[str]) -> None:
        """A side question: copies of the last lines, in a file of its own and with other ids."""
        agent = stage.subagent(self._random)
        copies = []
        for line in lines[-40:]:
            if '"role":"assistant"' in line and '"requestId":"req_' in line:
                head, rest = line.split('"requestId":"req_', 1)
                copy = f'{head}"requestId":"req_aside{rest}'
                copies.append(copy.replace('"isSidechain":false', '"isSidechain":true', 1))
        self.truth.assistant_lines += len(copies)
        if copies:
            self._save(folder / f"agent-aside_question-{agent.agent}.jsonl", copies)

    def _talk(self, stage: Stage, most: int) -> list[str]:
        lines: list[str] = []
        size = 0
        while size <= most:
            turn = list(self._turn(stage))
            lines += turn
            size += sum(map(len, turn))
        return lines

    def _turn(self, stage: Stage) -> Iterator[str]:
        draw, pool = self._random, self._pool
        yield user(stage, draw, pool, typed=True)
        yield from attachment(stage, draw, pool)
        for _ in range(draw.randrange(1, 14)):
            spent = Spent.drawn(draw, stage)
            self.truth.add(stage.session, spent)
            for line in assistant(stage, draw, pool, spent):
                self.truth.assistant_lines += 1
                yield line
            for _ in range(draw.choice((1, 1, 1, 2))):
                yield user(stage, draw, pool, typed=False)
            later(stage, draw)

    def _save(self, path: Path, lines: list[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = "".join(lines).encode()
        path.write_bytes(data)
        self.truth.files += 1
        self.truth.size += len(data)
        self.truth.lines += data.count(b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    truth = History(options.directory, options.bytes, options.seed).write()
    print(json.dumps(vars(truth) | {"sessions": len(truth.sessions)}))


if __name__ == "__main__":
    main()

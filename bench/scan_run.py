"""Adsum's scan of a directory of transcripts, in this process or as installed, as JSON of its sums.

    python -m bench.scan_run AGENT DIRECTORY [LEDGER [PROCESSES [sums]]]

Without a ledger all is added up in memory, in one process. With the path of a directory it is what
the collector's process does, with a ledger there, by so many processes, and, unless only the sums
are asked for, with what each session was about.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections import Counter
from datetime import UTC
from pathlib import Path

import msgspec

from adsum_collector.agents import known_agents, usage_lines
from adsum_collector.usage.ledger import Ledger
from adsum_collector.usage.reading import Errand, UsageReading, shipped_limit

CLASSES = ("messages", "input", "output", "cache_read", "cache_5m", "cache_1h", "web_searches")
#: The made-up history lies in the past of anybody who reads it then, ms.
LATEST = 2_000_000_000_000


def paths_below(root: str) -> list[str]:
    """The largest first, so that no process is left alone with one at the end."""
    sizes: dict[str, int] = {}
    for directory, _, names in os.walk(root):
        for name in names:
            if name.endswith(".jsonl"):
                path = f"{directory}/{name}"
                sizes[path] = os.stat(path).st_size  # noqa: PTH116 - a Path costs more than this
    return sorted(sizes, key=lambda path: (-sizes[path], path))


def main(called: str, root: str, directory: str = "", processes: str = "1", only: str = "") -> None:
    gc.disable()  # as the worker does
    agent = next(each for each in known_agents() if each.name == called)
    file_of, used_by = agent.transcripts.file_of, usage_lines(agent).used_by
    pasts = bool(directory) and only != "sums"
    if directory:
        state = Path(directory) / str(os.getpid())
        state.mkdir(parents=True)
        ledger = Ledger.open(state, shipped_limit, UTC)
    else:
        ledger = Ledger.in_memory(lambda _model: None, UTC)
    errands = []
    for path in paths_below(root):
        whose = file_of(path[len(root) + 1 :]) or used_by(path)
        if whose is not None:
            errands.append(Errand(os.fsencode(path), whose, past=pasts and whose.agent_id is None))
    faults = Counter[str]()
    reading = UsageReading(ledger, agent, lambda: LATEST, int(processes))
    for batch in reading.read(errands):
        faults.update(batch.faults)
    sums = dict.fromkeys(CLASSES, 0)
    for total in ledger:
        for name in CLASSES:
            sums[name] += getattr(total, name)
    ledger.close()
    memory = sum(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    report = {"sums": sums, "faults": faults, "rss_kb": memory}
    sys.stdout.buffer.write(msgspec.json.encode(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # whoever starts a worker ends it as soon as it has said all

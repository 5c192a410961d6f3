"""What a restart costs with a long history of which nothing has changed: beside a bare walk of it.

    python -m bench.usage_restart [--bytes 1000000000] [--rounds 7] [--corpus DIRECTORY]

A history is made up in a temporary directory and read into a ledger as the collector's process does;
then, again and again and each time by a new process, the collector's part starts on it. Nothing may
be read of the transcripts, and nothing told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

SELF = "bench.usage_restart"


async def restart(root: str, state: str) -> dict[str, float]:
    """CPU seconds of each part, in this process."""
    begin = time.process_time()
    from adsum_collector.transcripts.tailer import Tailer

    before = time.process_time()
    from adsum_collector.agents import known_agents
    from adsum_collector.transcripts.files import look_at
    from adsum_collector.usage.witness import UsageWitness

    assert Tailer
    agent = known_agents()[0]
    transcripts = agent.transcripts
    imported = time.process_time()
    told, _ = look_at([root], lambda _directory: None)
    walked = time.process_time()
    witness = UsageWitness(
        Deaf(),  # type: ignore[arg-type]
        agent,
        directory=Path(state),
        lives=lambda _session_id: False,
        reader=lambda: "bench",
        now=lambda: time.time_ns() // 1_000_000,
    )
    for path, stamp in told.items():
        witness.noticed(path, transcripts.file_of(path.removeprefix(root + "/")), stamp)
    witness.walked()
    task = asyncio.create_task(witness.run())
    while not witness.idle:  # noqa: ASYNC110 - what a restart does is not made for being watched
        await asyncio.sleep(0.001)
    done = time.process_time()
    busy = witness.progress is not None
    task.cancel()
    await asyncio.wait([task])
    if busy:
        raise SystemExit("something was read")
    return {
        "imports": imported - before,
        "walk": walked - imported,
        "usage": done - walked,
        "files": len(told),
        "others": before - begin,
    }


class Deaf:
    async def accept(self, signals: Sequence[object], *_: object) -> int:
        raise SystemExit(f"{len(signals)} signals were told")


async def first_run(root: str, state: str) -> None:
    """As installed, by the process; with its progress."""
    from adsum_collector.agents import known_agents
    from adsum_collector.transcripts.files import look_at
    from adsum_collector.usage.witness import UsageWitness

    agent, accepted = known_agents()[0], 0
    transcripts = agent.transcripts

    class Counting:
        async def accept(self, signals: Sequence[object], *_: object) -> int:
            nonlocal accepted
            accepted += len(signals)
            return accepted

    witness = UsageWitness(
        Counting(),  # type: ignore[arg-type]
        agent,
        directory=Path(state),
        lives=lambda _session_id: False,
        reader=lambda: "bench",
        now=lambda: time.time_ns() // 1_000_000,
    )
    for path, stamp in look_at([root], lambda _directory: None)[0].items():
        witness.noticed(path, transcripts.file_of(path.removeprefix(root + "/")), stamp)
    begin = time.perf_counter()
    task = asyncio.create_task(witness.run())
    witness.walked()
    while not (witness.idle and witness.progress is None and not witness._pasts):  # noqa: ASYNC110, SLF001
        await asyncio.sleep(0.01)
    children = os.times()
    print(
        f"first run: {time.perf_counter() - begin:.2f} s until all was told, {accepted} signals; "
        f"the process {children.children_user + children.children_system:.2f} s of CPU; "
        f"the collector {children.user + children.system:.2f} s, {_peak_mb()} MB at most"
    )
    task.cancel()
    await asyncio.wait([task])


def _peak_mb() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--corpus", type=Path, help="a history that is there already")
    parser.add_argument("--once", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        what, root, state = options.once
        runs: Mapping[str, Callable[[str, str], Any]] = {"first": first_run, "again": restart}
        if (found := asyncio.run(runs[what](root, state))) is not None:
            print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory(prefix="adsum-restart-") as directory:
        state = Path(directory) / "state"
        state.mkdir()
        corpus = options.corpus
        if corpus is None:
            corpus = Path(directory) / "claude"
            command = [sys.executable, "-m", "bench.corpus", str(corpus)]
            command += ["--bytes", str(options.bytes)]
            subprocess.run(command, capture_output=True, check=True)
        once = [sys.executable, "-m", SELF, "--once"]
        where = [str(corpus / "projects"), str(state)]
        print(subprocess.check_output([*once, "first", *where], text=True), end="")
        found = [
            json.loads(subprocess.check_output([*once, "again", *where], text=True))
            for _ in range(options.rounds)
        ]
        size = (state / "usage.db").stat().st_size
        print(
            f"{found[0]['files']:.0f} files; ledger {size / 1e6:.1f} MB; CPU in ms, least / median"
        )
        for part in ("walk", "usage", "imports"):
            times = [each[part] * 1000 for each in found]
            print(f"{part:8} {min(times):7.1f} / {statistics.median(times):7.1f}")


if __name__ == "__main__":
    main()

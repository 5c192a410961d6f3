"""Chaos: a fleet of real processes under faults drawn by seed, judged by an oracle.

    python -m tests.chaos [--seeds N] [--first K] [--seconds S] [--jobs N] [--results FILE]

Every seed is a run. One that fails prints its findings and keeps spools, broker files, logs and
what was sent in a directory that it names.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.chaos.conductor import Conductor, Via
from tests.chaos.evidence import Report, append_result, keep
from tests.chaos.faults import KINDS

SHOWN_FINDINGS = 12


def play(
    seed: int,
    seconds: float,
    keep_in: Path | None = None,
    only: Sequence[str] = (),
    via: Via = "mixed",
) -> tuple[Report, Path]:
    """The report, and where its evidence lies if it failed."""
    # Short: a unix socket's path may be about a hundred bytes long.
    root = Path(tempfile.mkdtemp(prefix=f"adsum-chaos-{seed}-"))
    conductor = Conductor(seed, seconds, root, only, via)
    report = None
    try:
        report = asyncio.run(conductor.run())
    finally:
        if report is not None and report.passed:
            shutil.rmtree(root)
        else:
            if conductor.scene is not None:
                keep(root, conductor.scene, report, conductor.told)
            if keep_in is not None:
                keep_in.mkdir(parents=True, exist_ok=True)
                root = Path(shutil.move(root, keep_in / root.name))
            print(f"seed {seed}: evidence in {root}", flush=True)
    return report, root


def _try(seed: int, only: Sequence[str], words: argparse.Namespace) -> bool:
    """Whether it passed. In a process of its own if there are several at once."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        report, _ = play(seed, words.seconds, words.keep, only, words.via)
    except Exception:  # noqa: BLE001 - a part that cannot be started ends one run, not the sweep
        traceback.print_exc()
        return False
    lines = [report.line(), *(f"  {each}" for each in report.findings[:SHOWN_FINDINGS])]
    print("\n".join(lines), flush=True)
    if words.results:
        append_result(words.results, report)
    return report.passed


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=10, help="how many runs")
    parser.add_argument("--first", type=int, default=1, help="the first one's seed")
    parser.add_argument("--seconds", type=float, default=10.0, help="under faults, each")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", choices=KINDS)
    ways = ("redis", "ingest", "mixed")
    parser.add_argument("--via", default="mixed", choices=ways, help="how machines report")
    parser.add_argument("--each", action="store_true", help="every fault alone, with every seed")
    parser.add_argument("--results", type=Path, help="a line of JSON for each run goes here")
    parser.add_argument("--keep", type=Path, help="where evidence is moved to")
    return parser.parse_args()


def main() -> None:
    words = _words()
    mixes = [[name] for name in KINDS] if words.each else [words.only]
    runs = [
        (seed, only) for only in mixes for seed in range(words.first, words.first + words.seeds)
    ]
    seeds, faults = zip(*runs, strict=True)
    # Ended from outside, a run still ends its processes and unmounts its disk.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    if words.jobs == 1:
        passed = [_try(seed, only, words) for seed, only in runs]
    else:
        with ProcessPoolExecutor(words.jobs) as pool:
            passed = list(pool.map(_try, seeds, faults, itertools.repeat(words)))
    failed = [run for run, ok in zip(runs, passed, strict=True) if not ok]
    names = ", ".join(f"{seed} {' '.join(only)}".strip() for seed, only in failed) or "none"
    print(f"{len(runs) - len(failed)} of {len(runs)} runs passed; failed: {names}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

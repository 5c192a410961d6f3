"""What each way to send hooks costs the agent: the real CLI plays one turn with each, in turns.

    python -m bench.hook_transports [--seconds 80]

The turn calls ten tools of a scripted model, without a terminal, and every way hooks the events
that `adsum hooks install` does, for one real collector that follows the transcripts of all ways:
posted as installed, posted to a server that keeps nothing (bare), by curl in a command that the CLI
waits for or does not, and by our shim on every event. One run of each makes a round; ratios are of
runs of the same round. The turn is the CLI's own count; the run is its process from start to end, and
CPU that of its children too. Heard is what the collector took (of bare, the SessionStart, which cannot
be posted), lines what a transcript holds more than without hooks.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx

import adsum_collector
from adsum_collector.agents.claude_code.settings_text import entry_for, events_for
from adsum_collector.agents.installer import Target
from bench.hook_post import serve_empty, start
from tests.brokers import running_broker
from tests.real_cli.census import census
from tests.real_cli.cli_rig import VERSION, CliMissingError, Home, claude_binary
from tests.real_cli.fleet import Part, adsum, answers, free_port
from tests.real_cli.mock_model import MockModel
from tests.real_cli.scripts import SCRIPTS, Turn, shell

#: The table's order, and what is compared with what.
WAYS = ("none", "http", "bare http", "async curl", "curl", "async shim")
NONE = WAYS[0]
CALLS = 10
SCRIPTS["steps"] = (*(Turn(calls=(shell(f"echo {n}"),)) for n in range(CALLS)), Turn("Done."))
#: The prompt, each tool before and after; around the turn SessionStart and SessionEnd. No Stop.
IN_TURN = 1 + 2 * CALLS
HOOKS = dict.fromkeys(WAYS, IN_TURN + 2) | {NONE: 0, "bare http": 1}
TURN = ("-p", "do play:steps", "--output-format", "json", "--permission-mode", "bypassPermissions")
#: How late a command that nobody waits for may arrive before it counts as lost.
LATE_S = 2.0
LEAST_ROUNDS = 3


class Run(NamedTuple):
    """Milliseconds, and how many hooks were heard."""

    turn: float
    whole: float
    cpu: float
    heard: int


class Row(NamedTuple):
    """Medians over the rounds, in ms. a_hook: what the turn takes more, by the hooks within it."""

    way: str
    turn: float
    quartiles: tuple[float, float]
    turn_ratio: float
    a_hook: float
    run: float
    run_ratio: float
    cpu: float
    heard: float
    lines: float


def hooks_of(way: str, target: Target, bare: int) -> dict[str, Any]:
    """The `hooks` of a settings file. bare: the port of the server that keeps nothing."""
    version = tuple(map(int, VERSION.split(".")))
    events, posting = events_for(version), replace(target, transport="http")
    command = {"type": "command", "command": curl(target), "timeout": 2}
    entry: dict[str, Callable[[str], dict[str, Any]]] = {
        "http": lambda event: entry_for(event, posting, version),
        "bare http": lambda event: entry_for(event, replace(posting, port=bare), version),
        "async curl": lambda _: {"hooks": [command | {"async": True}]},
        "curl": lambda _: {"hooks": [command]},
        "async shim": lambda event: entry_for(event, target, version),
    }
    return {} if way == NONE else {event: [entry[way](event)] for event in events}


def curl(target: Target) -> str:
    headers = ("content-type: application/json", f"authorization: Bearer {target.token}")
    words = ["curl", "-sf", "-m", "2", "-o", "/dev/null"]
    for header in headers:
        words += ["-H", header]
    return shlex.join([*words, "--data-binary", "@-", target.url])


@dataclass(frozen=True)
class Stage:
    """One collector, and a user for each way."""

    port: int
    homes: dict[str, Home]

    def heard(self) -> int:
        facts = httpx.get(f"http://127.0.0.1:{self.port}/readyz").json()
        return int(facts["hooks"]["accepted"] + facts["shim"]["accepted"])

    def play(self, way: str) -> Run:
        before, spent = self.heard(), _cpu()
        home = self.homes[way]
        began = time.perf_counter()
        done = subprocess.run(
            [str(claude_binary()), *TURN],
            cwd=home.work,
            env=home.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
        )
        whole, spent = time.perf_counter() - began, _cpu() - spent
        turn = json.loads(done.stdout)["duration_ms"]
        heard = self._settled(before + HOOKS[way]) - before
        return Run(turn, whole * 1000, spent * 1000, heard)

    def _settled(self, wanted: int) -> int:
        """What is heard once nothing is under way any more, which the next run would pay for."""
        deadline = time.monotonic() + LATE_S
        while (heard := self.heard()) < wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        return heard


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def set_up(root: Path) -> Iterator[Stage]:
    with MockModel() as model, running_broker(root / "broker", unix=True) as broker:
        homes = {way: Home(root / way.replace(" ", "-"), model.url).seed() for way in WAYS}
        state, port = root / "state", free_port()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "ADSUM_STATE_DIR": str(state),
            "ADSUM_COLLECTOR_PORT": str(port),
            "ADSUM_REDIS_URL": broker.url,
            "ADSUM_CLAUDE_DIRS": os.pathsep.join(str(h.settings.parent) for h in homes.values()),
        }
        url = f"http://127.0.0.1:{port}/livez"
        collector = Part(adsum("collector"), env, root / "collector.log", lambda: answers(url))
        bare, bare_port = start(serve_empty)
        try:
            collector.start()
            token = (state / "token").read_text().strip()
            shim = Path(adsum_collector.__path__[0]) / "shim.py"
            target = Target(port, token, sys.executable, shim, state / "collector.sock")
            for way, home in homes.items():
                home.install_hooks(hooks_of(way, target, bare_port))
            yield Stage(port, homes)
        finally:
            bare.terminate()
            bare.join()
            collector.stop()


def rounds(
    play: Callable[[str], Run], seconds: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[dict[str, Run]]:
    """As many as fit, each beginning with another way; the first warms the machine up."""
    deadline, longest, number = clock() + seconds, 0.0, 0
    while number <= LEAST_ROUNDS or clock() + longest <= deadline:
        began, first = clock(), number % len(WAYS)
        found = {way: play(way) for way in (*WAYS[first:], *WAYS[:first])}
        longest = max(longest, clock() - began)
        if number:
            yield found
        number += 1


def rows(played: Sequence[Mapping[str, Run]], lines: Mapping[str, float]) -> list[Row]:
    """lines: of a transcript, by way."""
    return [_row(way, played, lines[way] - lines[NONE]) for way in WAYS]


def _row(way: str, played: Sequence[Mapping[str, Run]], lines: float) -> Row:
    runs = [each[way] for each in played]
    low, turn, high = statistics.quantiles([run.turn for run in runs], n=4, method="inclusive")
    return Row(
        way,
        turn,
        (low, high),
        statistics.median(each[way].turn / each[NONE].turn for each in played),
        statistics.median(each[way].turn - each[NONE].turn for each in played) / IN_TURN,
        statistics.median(run.whole for run in runs),
        statistics.median(each[way].whole / each[NONE].whole for each in played),
        statistics.median(run.cpu for run in runs),
        statistics.mean(run.heard for run in runs),
        lines,
    )


def told(table: Sequence[Row]) -> str:
    head = f"{'hooks':11} {'turn ms':>8} {'quartiles':>12} {'ratio':>6} {'a hook':>7}"
    head += f" {'run ms':>7} {'ratio':>6} {'CPU ms':>7} {'heard':>6} {'lines':>6}"
    return "\n".join([head, *map(_told, table)])


def _told(row: Row) -> str:
    spread = "{:.0f} to {:.0f}".format(*row.quartiles)
    turn = f"{row.way:11} {row.turn:8.0f} {spread:>12} {row.turn_ratio:6.2f} {row.a_hook:7.1f}"
    run = f"{row.run:7.0f} {row.run_ratio:6.2f} {row.cpu:7.0f}"
    return f"{turn} {run} {row.heard:6.1f} {row.lines:+6.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=80, help="for everything")
    options = parser.parse_args()
    began = time.monotonic()
    if shutil.which("curl") is None:
        raise SystemExit("needs curl on PATH")
    try:
        claude_binary()
    except CliMissingError as error:
        raise SystemExit(str(error)) from None
    with tempfile.TemporaryDirectory(prefix="adsum-bench-") as name, set_up(Path(name)) as stage:
        played = list(rounds(stage.play, options.seconds - (time.monotonic() - began)))
        # The round that warms up leaves transcripts as well.
        each = len(played) + 1
        lines = {way: census(home).total() / each for way, home in stage.homes.items()}
    print(told(rows(played, lines)))
    print(f"{len(played)} rounds, Claude Code {VERSION}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

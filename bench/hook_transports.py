"""What each way to send hooks costs the agent: the real CLI plays one turn with each, in turns.

    python -m bench.hook_transports [--agent codex] [--seconds 80]

The turn calls ten tools of a scripted model, without a terminal, and every way hooks the events
that `adsum hooks install` does, for one real collector that follows the transcripts of all ways:
posted as installed, posted to a server that keeps nothing (bare), by curl in a command that the CLI
waits for or does not, and by our shim on every event. One run of each makes a round; ratios are of
runs of the same round. The turn is the CLI's own count; the run is its process from start to end, and
CPU that of its children too. Heard is what the collector took (of bare, the SessionStart, which cannot
be posted), lines what a transcript holds more than without hooks. Of Codex there is one way to send
them, beside a command that does nothing (bare), and its turn is the count in its rollout
(`codex exec`, so the turn runs in that process).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx

import adsum_collector
from adsum_collector.agents.claude_code.settings_text import entry_for, events_for
from adsum_collector.agents.codex.trust import app_server, listed, trust
from adsum_collector.agents.installer import Target
from bench.hook_post import serve_empty, start
from tests.brokers import running_broker
from tests.real_cli.census import census
from tests.real_cli.cli_rig import VERSION, CliMissingError, Home, claude_binary
from tests.real_cli.codex_rig import CODEX, CodexHome, MockResponses, codex_binary
from tests.real_cli.codex_rig import SCRIPTS as CODEX_SCRIPTS
from tests.real_cli.fleet import Part, adsum, answers, free_port
from tests.real_cli.mock_model import MockModel
from tests.real_cli.scripts import SCRIPTS, Turn, shell

RIG = Path(__file__).parent.parent / ".rig"
#: The table's order, and what is compared with what.
WAYS = ("none", "http", "bare http", "async curl", "curl", "async shim")
NONE = WAYS[0]
CALLS = 10
SCRIPTS["steps"] = (*(Turn(calls=(shell(f"echo {n}"),)) for n in range(CALLS)), Turn("Done."))
#: The prompt, each tool before and after; around the turn SessionStart and SessionEnd. No Stop.
IN_TURN = 1 + 2 * CALLS
HOOKS = dict.fromkeys(WAYS, IN_TURN + 2) | {NONE: 0, "bare http": 1}
TURN = ("-p", "do play:steps", "--output-format", "json", "--permission-mode", "bypassPermissions")
CODEX_WAYS = (NONE, "bare async", "async shim")
CODEX_SCRIPTS["steps"] = (
    *(f"const r = await tools.exec_command({{cmd: 'echo {n}'}}); text(r);" for n in range(CALLS)),
    "Done.",
)
#: The prompt, each tool before and after, each answer of the model's, and Stop. The last two end with
#: `codex exec`, which waits for neither; SessionStart and SessionEnd come beside them.
CODEX_IN_TURN = 1 + 2 * CALLS + (CALLS + 1) + 1
CODEX_TURN = ("exec", "--skip-git-repo-check", "do play:steps")
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
    homes: Mapping[str, Home]
    program: Path
    turn: tuple[str, ...] = TURN
    hooks: Mapping[str, int] = field(default_factory=lambda: HOOKS)

    def heard(self) -> int:
        facts = httpx.get(f"http://127.0.0.1:{self.port}/readyz").json()
        return int(facts["hooks"]["accepted"] + facts["shim"]["accepted"])

    def play(self, way: str) -> Run:
        before, spent = self.heard(), _cpu()
        home = self.homes[way]
        began = time.perf_counter()
        done = subprocess.run(
            [str(self.program), *self.turn],
            cwd=home.work,
            env=home.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
        )
        whole, spent = time.perf_counter() - began, _cpu() - spent
        turn = _turn_in(home) if isinstance(home, CodexHome) else json.loads(done.stdout)
        turn = turn["duration_ms"]
        heard = self._settled(before + self.hooks[way]) - before
        return Run(turn, whole * 1000, spent * 1000, heard)

    def _settled(self, wanted: int) -> int:
        """What is heard once nothing is under way any more, which the next run would pay for."""
        deadline = time.monotonic() + LATE_S
        while (heard := self.heard()) < wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        return heard


def _turn_in(home: CodexHome) -> dict[str, Any]:
    """The end of the turn in its latest rollout."""
    lines = map(json.loads, home.rollouts()[-1].read_text().splitlines())
    ends = [each["payload"] for each in lines if each["payload"].get("type") == "task_complete"]
    return dict(ends[-1])


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def collecting(root: Path, dirs: Mapping[str, Sequence[Path]]) -> Iterator[tuple[Path, int]]:
    """A collector's state directory and port. dirs: by setting, the agents' directories."""
    with running_broker(root / "broker", unix=True) as broker:
        state, port = root / "state", free_port()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "ADSUM_STATE_DIR": str(state),
            "ADSUM_COLLECTOR_PORT": str(port),
            "ADSUM_REDIS_URL": broker.url,
            **{name: os.pathsep.join(map(str, paths)) for name, paths in dirs.items()},
        }
        url = f"http://127.0.0.1:{port}/livez"
        collector = Part(adsum("collector"), env, root / "collector.log", lambda: answers(url))
        try:
            collector.start()
            yield state, port
        finally:
            collector.stop()


@contextmanager
def set_up_codex(root: Path) -> Iterator[Stage]:
    with MockResponses() as model:
        homes = {way: CodexHome(root / way.replace(" ", "-"), model.url) for way in CODEX_WAYS}
        dirs = [home.seed().directory for home in homes.values()]
        with collecting(root, {"ADSUM_CODEX_DIRS": dirs}) as (state, port):
            home, program = homes["async shim"], codex_binary()
            words = ["hooks", "install", "--agent", "codex", "--yes", "--program", str(program)]
            env = {**home.env, "ADSUM_STATE_DIR": str(state)}
            subprocess.run(adsum(*words), env=env, capture_output=True, check=True)
            hooks = (home.directory / "hooks.json").read_text()
            bare = homes["bare async"].directory / "hooks.json"
            bare.write_text(re.sub(r'"command": "/bin/sh.*"', '"command": "exit 0"', hooks))
            with app_server(program, bare.parent) as app:
                trust(app, listed(app, bare)[0].values())
            heard = {NONE: 0, "bare async": 0, "async shim": CODEX_IN_TURN}
            yield Stage(port, homes, program, CODEX_TURN, heard)


@contextmanager
def set_up(root: Path) -> Iterator[Stage]:
    with MockModel() as model:
        homes = {way: Home(root / way.replace(" ", "-"), model.url).seed() for way in WAYS}
        dirs = [home.settings.parent for home in homes.values()]
        bare, bare_port = start(serve_empty)
        with ExitStack() as stack:
            stack.callback(bare.join)
            stack.callback(bare.terminate)
            state, port = stack.enter_context(collecting(root, {"ADSUM_CLAUDE_DIRS": dirs}))
            token = (state / "token").read_text().strip()
            shim = Path(adsum_collector.__path__[0]) / "shim.py"
            target = Target(port, token, sys.executable, shim, state / "collector.sock")
            for way, home in homes.items():
                home.install_hooks(hooks_of(way, target, bare_port))
            yield Stage(port, homes, claude_binary())


def rounds(
    play: Callable[[str], Run],
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    ways: tuple[str, ...] = WAYS,
) -> Iterator[dict[str, Run]]:
    """As many as fit, each beginning with another way; the first warms the machine up."""
    deadline, longest, number = clock() + seconds, 0.0, 0
    while number <= LEAST_ROUNDS or clock() + longest <= deadline:
        began, first = clock(), number % len(ways)
        found = {way: play(way) for way in (*ways[first:], *ways[:first])}
        longest = max(longest, clock() - began)
        if number:
            yield found
        number += 1


def rows(
    played: Sequence[Mapping[str, Run]], lines: Mapping[str, float], hooks: int = IN_TURN
) -> list[Row]:
    """lines: of a transcript, by way, in the table's order. hooks: of a turn."""
    return [_row(way, played, lines[way] - lines[NONE], hooks) for way in lines]


def _row(way: str, played: Sequence[Mapping[str, Run]], lines: float, hooks: int) -> Row:
    runs = [each[way] for each in played]
    low, turn, high = statistics.quantiles([run.turn for run in runs], n=4, method="inclusive")
    return Row(
        way,
        turn,
        (low, high),
        statistics.median(each[way].turn / each[NONE].turn for each in played),
        statistics.median(each[way].turn - each[NONE].turn for each in played) / hooks,
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


def _lines_of(home: Home) -> int:
    if isinstance(home, CodexHome):
        return sum(len(path.read_bytes().splitlines()) for path in home.rollouts())
    return census(home).total()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=80, help="for everything")
    parser.add_argument("--agent", choices=("claude_code", "codex"), default="claude_code")
    options = parser.parse_args()
    began, is_codex = time.monotonic(), options.agent == "codex"
    if shutil.which("curl") is None:
        raise SystemExit("needs curl on PATH")
    try:
        _ = codex_binary() if is_codex else claude_binary()
    except CliMissingError as error:
        raise SystemExit(str(error)) from None
    # Codex refuses a home below $TMPDIR.
    place, stand = (RIG, set_up_codex) if is_codex else (None, set_up)
    RIG.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".bench-", dir=place) as name,
        stand(Path(name)) as stage,
    ):
        seconds, ways = options.seconds - (time.monotonic() - began), tuple(stage.homes)
        played = list(rounds(stage.play, seconds, ways=ways))
        # The round that warms up leaves transcripts as well.
        each = len(played) + 1
        lines = {way: _lines_of(home) / each for way, home in stage.homes.items()}
    print(told(rows(played, lines, CODEX_IN_TURN if is_codex else IN_TURN)))
    version = f"Codex {CODEX}" if is_codex else f"Claude Code {VERSION}"
    print(f"{len(played)} rounds, {version}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

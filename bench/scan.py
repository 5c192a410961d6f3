"""What a cold scan of a long history costs, beside ccusage and beside what reading costs at all.

    python -m bench.scan [--agent codex] [--bytes 1000000000] [--rounds 5] [--ccusage PATH]

A history is made up in a temporary directory, which goes afterwards. In every round each program
runs once, on two cores, so that a slow moment hits them all; the page cache is warm. All must come
to the same sums, and to those the history was made with. ccusage comes from npm, into .rig/.
`Sums alone` adds up in memory, as ccusage does. `Kept on disk` writes every message into the
ledger, so that nothing is ever read again. `As installed` is all that the collector's two processes
do: of each session they also find out what it was about, from both ends of its file; `1 process` is
the same by one. ccusage does neither; it begins anew every time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).parent.parent
CORES = 2
#: Releases that are looked at, from the newest on, for one that has a program for this machine.
RELEASES = 4
LIMIT = """
import os, sys
buffer = bytearray(1 << 20)
view, find, lines = memoryview(buffer), buffer.find, 0
for top, _, names in os.walk(sys.argv[1]):
    for name in names:
        file = os.open(f"{top}/{name}", os.O_RDONLY)
        while got := os.readv(file, [view]):
            at = find(b"\\n", 0, got)
            while at >= 0:
                lines += 1
                at = find(b"\\n", at + 1, got)
        os.close(file)
print(lines)
"""
#: What ccusage tells apart, as ours: it gives no split of what is written to the cache.
SAME = {
    "inputTokens": ("input",),
    "outputTokens": ("output",),
    "cacheReadTokens": ("cache_read",),
    "cacheCreationTokens": ("cache_5m", "cache_1h"),
}


@dataclass
class Runs:
    """rss: MB, of all processes together where the program says so itself."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    rss: list[float] = field(default_factory=list)
    output: str = ""


@dataclass(frozen=True)
class History:
    """An agent's: who makes it up, where it lies, and what ccusage calls the agent."""

    module: str
    below: str
    called: str
    bare: tuple[str, ...]


HISTORIES = {
    "claude_code": History("bench.corpus", "projects", "claude", ("--mode", "display")),
    "codex": History("bench.corpus_codex", "sessions", "codex", ("--no-cost",)),
}


def made_up(module: str, root: Path, size: int, seed: int) -> dict[str, Any]:
    """By a process of its own: what this one weighs would count for all that it starts."""
    command = [sys.executable, "-m", module, str(root)]
    command += ["--bytes", str(size), "--seed", str(seed)]
    written = subprocess.run(command, capture_output=True, check=True)
    return cast("dict[str, Any]", json.loads(written.stdout))


def run(command: list[str], env: dict[str, str], runs: Runs) -> None:
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        runs.wall.append(time.perf_counter() - begin)
        output.seek(0)
        runs.output = output.read().decode()
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ended with {process.returncode}")
    runs.cpu.append(usage.ru_utime + usage.ru_stime)
    told = json.loads(runs.output).get("rss_kb") if runs.output.startswith('{"sums"') else None
    runs.rss.append((told or usage.ru_maxrss) / 1024)


def ccusage(prefix: Path) -> Path:
    """The newest release's own program, not the script of node's that starts it."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("needs npm, or --ccusage with the path of its program")
    listed = subprocess.run(
        [npm, "view", "ccusage", "versions", "--json"], capture_output=True, check=True
    )
    prefix.mkdir(parents=True, exist_ok=True)
    for version in reversed(json.loads(listed.stdout)[-RELEASES:]):
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(prefix)]
        subprocess.run([*command, f"ccusage@{version}"], capture_output=True, check=False)
        for program in prefix.glob("node_modules/@ccusage/*/bin/ccusage"):
            program.chmod(0o755)
            if (
                subprocess.run([program, "--version"], capture_output=True, check=False).returncode
                == 0
            ):
                return program
        print(f"ccusage {version} has no program for this machine")
    raise SystemExit(
        f"none of the last {RELEASES} releases of ccusage has a program for this machine"
    )


def commands(agent: str, projects: Path, program: Path) -> dict[str, list[str]]:
    history = HISTORIES[agent]
    adsum = [sys.executable, "-m", "bench.scan_run", agent, str(projects)]
    theirs = [str(program), history.called, "daily", "--json", "--offline"]
    ledgers = str(projects.parent / "ledgers")
    files = f"find {projects} -name '*.jsonl' -print0 | xargs -0 cat | wc -l"
    return {
        "cat | wc -l": ["sh", "-c", files],
        "limit: readv + find": [sys.executable, "-c", LIMIT, str(projects)],
        "Adsum, sums alone": adsum,
        "Adsum, kept on disk": [*adsum, ledgers, "1", "sums"],
        "Adsum, 1 process": [*adsum, ledgers, "1"],
        "Adsum, as installed": [*adsum, ledgers, "2"],
        "ccusage": theirs,
        "ccusage, no prices": [*theirs, *history.bare],
    }


def compare(found: dict[str, Runs], truth: dict[str, int]) -> None:
    for name, runs in found.items():
        if name.startswith("Adsum"):
            sums = json.loads(runs.output)["sums"]
            wrong = {each for each in truth if sums[each] != truth[each]}
        elif name.startswith("ccusage"):
            sums = json.loads(runs.output)["totals"]
            wrong = {
                each for each, ours in SAME.items() if sums[each] != sum(truth[o] for o in ours)
            }
        else:
            continue
        print(f"{name:22} {'the same sums in every class' if not wrong else f'WRONG: {wrong}'}")


def report(found: dict[str, Runs]) -> None:
    theirs = found["ccusage"]
    print(f"\n{'':22} {'CPU s':>15} {'x less':>7} {'wall s':>15} {'x less':>7} {'RSS MB':>7}")
    for name, runs in found.items():
        columns = []
        for mine, other in ((runs.cpu, theirs.cpu), (runs.wall, theirs.wall)):
            median = statistics.median(mine)
            columns.append(
                f"{min(mine):6.2f} / {median:6.2f} {statistics.median(other) / median:7.2f}"
            )
        print(f"{name:22} {' '.join(columns)} {max(runs.rss):7.0f}")
    print("least / median; x less by medians")
    print("kept on disk: every message too, so that nothing is read twice; as installed: what each")
    print("session was about as well; ccusage keeps nothing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", choices=HISTORIES, default="claude_code")
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ccusage", type=Path, help="its program, instead of the newest from npm")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    program = options.ccusage or ccusage(ROOT / ".rig" / "ccusage")
    if shutil.disk_usage(tempfile.gettempdir()).free < 2 * options.bytes:
        raise SystemExit(f"too little room in {tempfile.gettempdir()}")
    with tempfile.TemporaryDirectory(prefix="adsum-scan-") as directory:
        root = Path(directory)
        history = HISTORIES[options.agent]
        truth = made_up(history.module, root, options.bytes, options.seed)
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        print(
            f"{truth['size'] / 1e9:.2f} GB, {truth['files']} files, {truth['lines']} lines,",
            end=" ",
        )
        print(f"{truth['assistant_lines'] / truth['lines']:.0%} an assistant's;", end=" ")
        print(f"{version.stdout.strip()}; load {os.getloadavg()[0]:.1f}; {CORES} cores used")
        env = os.environ | {"CLAUDE_CONFIG_DIR": directory, "CODEX_HOME": directory}
        env |= {"HOME": directory, "TZ": "UTC"}
        # What is installed has its bytecode; the first round writes that of a checkout.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        every = commands(options.agent, root / history.below, program)
        found = {name: Runs() for name in every}
        for _ in range(options.rounds):
            for name, command in every.items():
                run(command, env, found[name])
        compare(found, {"messages": truth["messages"], **truth["sums"]})
        report(found)
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

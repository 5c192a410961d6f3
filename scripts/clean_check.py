"""`make up` and `make test` in a clean Debian without Redis, Chromium or an environment, timed.

A clone of the last commit in a root filesystem of its own, with processes of its own; of the machine it
shares the network and where pip gets packages from. Needs root, debootstrap, git and the network.
`make clean-check`; --base DIR keeps the clean system for the next time, --quick leaves most tests out.
"""

# ruff: noqa: S603, T201 - a script that runs programs and speaks by printing

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clean_system import clean_system, copy_of, mounted, pip_settings, require

ROOT = Path(__file__).resolve().parent.parent
#: What the README asks for, and make; git for the clone is this machine's.
PACKAGES = "python3,python3-venv,make,ca-certificates"
HOME = "/home/dev"
CHECKOUT = f"{HOME}/adsum"
UP_WITHIN_S = 600.0
HOOK = {
    "session_id": "11111111-2222-4333-8444-555555555555",
    "hook_event_name": "UserPromptSubmit",
    "cwd": CHECKOUT,
    "prompt": "count the trees",
    "transcript_path": f"{HOME}/.claude/projects/x/11111111-2222-4333-8444-555555555555.jsonl",
}
QUICK = "tests/integration/test_hub.py tests/browser/test_real_hub.py"


@dataclass(slots=True)
class Clean:
    """The clean system, and what was measured in it."""

    root: Path
    ports: tuple[int, int]
    table: list[tuple[str, float]] = field(default_factory=list)

    def words(self, command: str) -> list[str]:
        return ["chroot", str(self.root), "/bin/sh", "-ec", f"cd {CHECKOUT} && exec {command}"]

    @property
    def env(self) -> dict[str, str]:
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        home = {"HOME": HOME, "PATH": path, "LANG": "C.UTF-8"}
        hub, collector = map(str, self.ports)
        ports = {"ADSUM_HUB_PORT": hub, "ADSUM_COLLECTOR_PORT": collector}
        return {**home, **ports, **pip_settings()}

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.table.append((what, time.monotonic() - began))
        print(f"  {self.table[-1][1]:6.1f} s  {what}", flush=True)

    def run(self, command: str, log: str) -> None:
        """Exits with the end of what it said if it fails."""
        file = self.root.parent / log
        env = {k: v for k, v in self.env.items() if not k.startswith("ADSUM_")}
        with file.open("wb") as log_file:
            both = {"stdout": log_file, "stderr": subprocess.STDOUT}
            code = subprocess.run(self.words(command), env=env, check=False, **both).returncode  # type: ignore[call-overload]
        text = file.read_text(errors="replace")
        for line in (each for each in text.splitlines() if " passed" in each or " skipped" in each):
            print(f"            {line.strip('= ')}", flush=True)
        if code:
            end = "\n".join(text.splitlines()[-60:])
            sys.exit(f"{end}\n`{command}` ended with {code}")


def try_up(clean: Clean, nth: str) -> None:
    """Until its URL answers and a hook shows in `adsum agents`; then Ctrl-C."""
    hub, collector = clean.ports
    log = clean.root.parent / "up.log"
    with log.open("wb") as log_file:
        run = subprocess.Popen(
            clean.words("make up"),
            env=clean.env,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait(done: Callable[[], bool]) -> None:
        until = time.monotonic() + UP_WITHIN_S
        while not done():
            if run.poll() is not None or time.monotonic() > until:
                sys.exit(f"{log.read_text(errors='replace')[-3000:]}\n`make up` does not come up")
            time.sleep(0.05)

    try:
        with clean.step(f"make up{nth}, until its URL answers"):
            wait(lambda: answers(f"http://127.0.0.1:{hub}/readyz"))
        with clean.step("a hook, until `adsum agents` shows its session"):
            wait(lambda: posted(clean.root, collector))
            agents = clean.words(".venv/bin/adsum agents")
            wait(lambda: b"count the trees" in subprocess.check_output(agents, env=clean.env))
    finally:
        with clean.step("Ctrl-C, until it has ended"), contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGINT)
            run.wait(30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:  # noqa: S310 - ours, by http
            return bool(reply.status == 200)
    except OSError:
        return False


def posted(root: Path, port: int) -> bool:
    token = root / HOME.lstrip("/") / ".local" / "state" / "adsum" / "token"
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/live/hook",
        json.dumps(HOOK).encode(),
        {"content-type": "application/json"},
    )
    try:
        request.add_header("authorization", f"Bearer {token.read_text().strip()}")
        with urllib.request.urlopen(request, timeout=2) as reply:  # noqa: S310 - as above
            return bool(reply.status == 200)
    except OSError:
        return False


def try_tests(clean: Clean, *, quick: bool) -> None:
    if not quick:
        with clean.step("make test, everything in it"):
            clean.run("make test", "test.log")
        with clean.step("make test-all"):
            clean.run("make test-all", "test-all.log")
        return
    with clean.step("make check, with what the tests need from pip"):
        clean.run("make check", "check.log")
    with clean.step("make system-deps, by apt"):
        clean.run("make system-deps", "deps.log")
    with clean.step("make unit"):
        clean.run("make unit", "unit.log")
    with clean.step(QUICK):
        clean.run(f".venv/bin/pytest -q {QUICK}", "some.log")


def free_ports() -> tuple[int, int]:
    """The network is the machine's, where Adsum may run already."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def play(work: Path, base: Path, commit: str, *, quick: bool) -> None:
    """In mounts and with process numbers of its own: nothing is left when it ends."""
    root = work / "root"
    clean = Clean(root, free_ports())
    copy_of(base, root)
    with clean.step("git clone"):
        target = str(root / CHECKOUT.lstrip("/"))
        git = ["git", "-c", "advice.detachedHead=false"]
        subprocess.run([*git, "clone", "--quiet", str(ROOT), target], check=True)
        subprocess.run([*git, "-C", target, "checkout", "--quiet", commit], check=True)
    with mounted(root):
        try_up(clean, "")
        try_up(clean, " again")
        try_tests(clean, quick=quick)
    width = max(len(what) for what, _ in clean.table)
    print("\n".join(["", *(f"{what:{width}}  {took:7.1f} s" for what, took in clean.table)]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--base", type=Path, help="where clean systems are kept; else they go again"
    )
    parser.add_argument("--release", default="trixie", help="of Debian, from bookworm on")
    parser.add_argument(
        "--commit", default="HEAD", help="which; what is not committed is not tried"
    )
    parser.add_argument("--quick", action="store_true", help="of the tests a part only")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        play(asked.work, asked.base, asked.commit, quick=asked.quick)
        return
    require("debootstrap", "chroot", "unshare", "git")
    with tempfile.TemporaryDirectory(prefix="adsum-clean-") as folder:
        work = Path(folder)
        kept = (asked.base or work / "base").resolve()
        kept.mkdir(parents=True, exist_ok=True)
        base = clean_system(kept, f"{asked.release}-make", asked.release, PACKAGES)
        again = [sys.executable, __file__, "--work", str(work), "--base", str(base)]
        again += ["--commit", asked.commit]
        # The shell is its first process: it takes in processes whose parents have ended.
        first = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            '"$@"; exit $?',
        ]
        again += ["--quick"] if asked.quick else []
        code = subprocess.run([*first, "sh", *again], check=False).returncode
    sys.exit(code)


if __name__ == "__main__":
    main()

"""Raise the versions in tests/clis.toml to the newest that npm has, and list words that are new to us.

    python -m scripts.upgrade_clis            # write tests/clis.toml
    python -m scripts.upgrade_clis --nightly  # test the newest versions, write .rig/cli-news.md

Both run the tests of the versions with the newest Claude Code and Codex. `--nightly` leaves
tests/clis.toml as it is, and also runs the core tests. .rig/cli-news.md then lists hook events, lines
and fields that tests/data/claude_words.json or codex_words.json does not hold; it is absent if there
are none.
"""

# ruff: noqa: S603, T201 - a script that runs pytest and prints what changed

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.real_cli.cli_rig import CLIS, CLIS_ENV, NEWS_ENV, CliMissingError, newest_version

ROOT = Path(__file__).parent.parent
PINS = ROOT / "tests" / "clis.toml"
RIG = ROOT / ".rig"
NEWS = RIG / "cli-news.md"
#: The tests that list unknown words. Their run takes about two minutes.
VERSIONS = ("tests/real_cli/test_versions.py", "tests/real_cli/test_codex_words.py")
WORKERS = ("-n", "2", "--dist", "loadfile")


def upgraded(text: str, newest: dict[str, str]) -> tuple[str, list[str]]:
    """Return the file with the newest versions, and a line for each agent: old -> new.

    The version of an agent of which there are recordings only stays.
    """
    lines: list[str] = []
    for agent, version in newest.items():
        pin = CLIS[agent]
        if version == pin["version"]:
            lines.append(f"{agent}: {version}, the newest")
        elif recordings := pin.get("recordings"):
            lines.append(
                f"{agent}: {pin['version']} stays; {version} needs new sessions in {recordings}"
            )
        else:
            lines.append(f"{agent}: {pin['version']} -> {version}")
            head, table, rest = text.partition(f"[{agent}]\n")
            old, new = (f'\nversion = "{each}"\n' for each in (pin["version"], version))
            text = head + table + rest.replace(old, new, 1)
    return text, lines


def run_tests(pins: Path, *words: str) -> int:
    """Run pytest with these versions and return its exit code."""
    env = {**os.environ, CLIS_ENV: str(pins), NEWS_ENV: str(NEWS)}
    command = [sys.executable, "-m", "pytest", "-v", *WORKERS, *words]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nightly", action="store_true", help="leave tests/clis.toml as it is")
    nightly: bool = parser.parse_args().nightly
    try:
        newest = {agent: newest_version(agent) for agent in CLIS}
    except CliMissingError as error:
        sys.exit(f"error: {error}")
    text, lines = upgraded(PINS.read_text("utf-8"), newest)
    RIG.mkdir(exist_ok=True)
    NEWS.unlink(missing_ok=True)
    pins = RIG / "clis.toml" if nightly else PINS
    pins.write_text(text, "utf-8")
    code = run_tests(pins, *VERSIONS)
    if nightly:
        code = run_tests(pins, "tests/real_cli", "-m", "core") or code
    print(*lines, NEWS.read_text("utf-8") if NEWS.exists() else "no unknown words", sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main())

"""From the press of Allow on the page of a real browser to the first instruction of the real CLI's tool.

    python -m bench.decide [--rounds 60]

Two machines with a collector, hooks and a session of the real CLI each; one hub, one Redis, one
Chromium. The scripted model asks for one call after another, which writes down when it began. In
turn it is allowed by a click on the session's page, and by Enter at the terminal: the bare way, of
which what is left is the agent's own. Both are pressed once the page's button can be, so a dialog
has stood there for as long. The press is timed before it is handed to browser or tmux.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import statistics
import tempfile
import time
from pathlib import Path

from tests.real_cli.conftest import new_fleet
from tests.real_cli.elsewhere import Elsewhere, agree, browsing
from tests.real_cli.fleet import until
from tests.real_cli.scripts import SCRIPTS, Turn, shell
from tests.real_cli.session import ASKS, Session
from tests.real_cli.timeline import Watcher

WANTED_MS = {"p50": 300, "p99": 800}


def play(rounds: int, script: str) -> dict[str, list[float]]:
    """Seconds, of each way."""
    took: dict[str, list[float]] = {"click": [], "key": []}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fleet = stack.enter_context(new_fleet(folder, "anvil", "bellows"))
        agree(fleet)
        watcher = stack.enter_context(Watcher(fleet.hub_url))
        page = stack.enter_context(browsing()).new_page()
        for machine in fleet.machines:
            session = Session(machine, watcher, mode="manual")
            stack.enter_context(session.terminal)
            there = Elsewhere(page, fleet, session)
            session.terminal.type(f"do play:{script}")
            for number in range(rounds):
                way = "key" if number % 2 else "click"
                took[way].append(one(there, f"began-{number}", way))
    return took


def one(there: Elsewhere, name: str, way: str) -> float:
    there.asked(f"> {name}.")
    there.session.terminal.wait_for(ASKS)
    if way == "click":
        pressed = there.press()
    else:
        pressed = time.time()
        there.session.terminal.press("Enter")
    began = there.made(f"{name}.txt")
    return float(until(began.read_text, "the time in it")) - pressed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="of each machine, half of each way")
    rounds = parser.parse_args().rounds
    stamps = (shell(f"date +%s.%N > began-{n}.txt") for n in range(rounds))
    SCRIPTS["decide"] = (*(Turn(calls=(each,)) for each in stamps), Turn("Done."))
    took = play(rounds, "decide")
    for way, words in (("click", "Allow on the page"), ("key", "Enter at the terminal")):
        ordered = sorted(each * 1000 for each in took[way])
        p50, p99 = statistics.median(ordered), ordered[math.ceil(0.99 * len(ordered)) - 1]
        print(
            f"{words:22} {len(ordered)} x: p50 {p50:.0f}, p99 {p99:.0f}, longest {ordered[-1]:.0f} ms"
        )
    print("wanted", WANTED_MS, "load", *(f"{each:.1f}" for each in os.getloadavg()))


if __name__ == "__main__":
    main()

"""What it costs to interpret a session's view, by which domains are asked: `python -m bench.domains`."""

from __future__ import annotations

import random
import statistics
import time

import msgspec

from adsum_hub.domains.built_in import read_line
from adsum_hub.domains.show import BUILT_IN, DomainChoice, Domains, find
from adsum_hub.facts import Facts
from adsum_hub.verdict.judge import judge
from adsum_hub.views import ViewedHost, session_view
from adsum_shared.state import SessionView
from tests.rosters import many_facts

NOW = 1_764_000_000_000
ROUNDS = 15
LINES = [
    "ls -la src",
    "cd api && uv run pytest -x tests/unit 2>&1 | tail -5",
    "git add -A && git commit -m \"$(cat <<'EOF'",
    "git push -u origin feature/auth && gh pr create --fill",
]


def views() -> list[tuple[SessionView, Facts]]:
    """A hundred different sessions; those that run a command or have run some, do what people do."""
    dice = random.Random(4)
    found = []
    for number, raw in enumerate(many_facts(NOW, dice)):
        facts = msgspec.json.decode(raw, type=Facts)
        tools = {
            key: msgspec.structs.replace(
                tool, tool="Bash", role="shell", summary=dice.choice(LINES)
            )
            for key, tool in facts.calls.items()
        }
        facts = msgspec.structs.replace(facts, tools=tools)
        place = ViewedHost("h", "box", "live", 0)
        view = session_view(place, str(number), facts, judge(facts, NOW))
        found.append((view, facts))
    return found


def took(domains: Domains, asked: list[tuple[SessionView, Facts]], *, changed: bool) -> float:
    """Microseconds a view, median of the rounds."""
    # Made a second time: an equal view is another object, as it is in a hub.
    again = [(None, None)] * len(asked) if changed else views()
    before = [view and domains.shown(view, None, facts or Facts("")) for view, facts in again]
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for (view, facts), known in zip(asked, before, strict=True):
            domains.shown(view, known, facts)
        rounds.append((time.perf_counter() - began) / len(asked) * 1e6)
    return statistics.median(rounds)


def main() -> None:
    asked, found = views(), find([])
    print("us a view, median of", ROUNDS)
    for names in ((), ("sdlc",), tuple(BUILT_IN)):
        domains = Domains(found.domains, DomainChoice([("*", names)]), time.perf_counter)
        line = f"{', '.join(names) or 'none':<26}{took(domains, asked, changed=True):6.1f}"
        print(f"{line}   unchanged {took(domains, asked, changed=False):.1f}")
    began = time.perf_counter()
    for number in range(2_000):
        read_line(f"{LINES[number % len(LINES)]} {number}")
    print(f"a command never seen before {(time.perf_counter() - began) / 2_000 * 1e6:9.1f}")


if __name__ == "__main__":
    main()

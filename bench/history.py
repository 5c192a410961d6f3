"""What a long history costs a hub: memory, a start, a search, a usage report, a budget.

    python -m bench.history [--sessions 20000]

Sessions of one host, told from their files alone: two days and two models each, over 300 days. All
in one process, without Redis; a start is decoding the facts as they lie there and resolving all.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import httpx
import msgspec
import psutil
from fastapi import FastAPI

from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.rest.totals import usage_router
from adsum_hub.roster import Accounts, Roster
from adsum_hub.snapshots import Snapshot, decode_facts
from adsum_hub.usage.budgets import Overspent, Worker, read_budgets
from adsum_hub.usage.spending import Spending
from adsum_shared import signals as s
from adsum_shared.prices import load_book

NOW = 1_795_000_000_000
DAY = 86_400_000
MODELS = ("claude-opus-5-5", "claude-haiku-5-5")


def day_of(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).date().isoformat()


def told(number: int) -> Facts:
    """One session's facts, as its collector's signals make them."""
    session_id = f"{number:08x}-0000-4000-8000-{number:012x}"
    end = NOW - number % 300 * DAY - number
    here = {"session_id": session_id, "seen": NOW, "source": "transcript"}
    about = s.MetaChanged(
        **here,  # type: ignore[arg-type]
        at=end - DAY,
        ai_title=f"Make the {number % 97} things of part {number} work",
        cwd=f"/home/user/work/project-{number % 40}",
        project=f"project-{number % 40}",
        branch="main",
        model=MODELS[0],
        version="2.1.330",
        last_prompt="And now run all of the tests, please",
        last_answer="All tests pass. " * 8,
    )
    over = s.SessionEnded(**here, at=end, reason="process")  # type: ignore[arg-type]
    used = [
        s.UsageTotalled(
            **here,  # type: ignore[arg-type]
            at=end,
            day=(date.fromisoformat(day_of(end)) - timedelta(days=back)).isoformat(),
            model=model,
            messages=9,
            input_tokens=1_000 + number,
            output_tokens=20_000,
            cache_read_tokens=900_000,
            cache_1h_tokens=40_000,
        )
        for back in (1, 0)
        for model in MODELS
    ]
    facts: Facts | None = None
    for signal in (about, over, *used):
        facts = fold(facts, signal)
    assert facts is not None
    return facts


def timed(what: str, run: Callable[[], object], unit: str = "ms") -> None:
    began = time.perf_counter()
    run()
    print(f"{what:52}{(time.perf_counter() - began) * 1e3:10.1f} {unit}")


def rss() -> float:
    gc.collect()
    return float(psutil.Process().memory_info().rss)


def start(raw: list[bytes], accounts: Accounts) -> Roster:
    facts = [each for each in map(decode_facts, raw) if each is not None]
    roster = Roster(accounts)
    roster.add("host", Snapshot(sessions={each.session_id: each for each in facts}), NOW)
    while roster.take_changes(NOW).more:
        pass
    return roster


async def asked(roster: Roster) -> None:
    app = FastAPI()
    app.include_router(usage_router(roster, lambda: NOW))
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - began)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://hub") as client:
        for path in (
            "usage?days=400&by=day",
            "usage?days=400&by=day",
            "usage?days=7&by=project",
            "usage?days=400&by=session",
            "history?limit=100",
            "history?q=project-7+part+tests",
        ):
            longest = 0.0
            ticking = asyncio.create_task(tick())
            await asyncio.sleep(0)  # it has begun, so that it notices from the first moment on
            began = time.perf_counter()
            answer = await client.get(f"/api/v1/{path}")
            took = (time.perf_counter() - began) * 1e3
            ticking.cancel()
            size = len(answer.content) / 1e3
            print(f"GET {path:48}{took:10.1f} ms, loop held {longest * 1e3:.0f} ms, {size:.0f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=20_000)
    count = parser.parse_args().sessions
    gc.set_threshold(10_000, 50, 1000)  # as a hub does
    raw = [msgspec.json.encode(told(number)) for number in range(count)]
    print(f"{count} sessions of history, {sum(map(len, raw)) / count:.0f} bytes each as stored")
    spending = Spending(load_book(), day_of)
    budgets = read_budgets(
        [
            {"scope": "team", "usd": 1, "per": "30 days"},
            {"scope": "project", "usd": 1, "per": "7 days"},
        ]
    )
    overspent = Overspent(budgets, spending)
    before = rss()
    began = time.perf_counter()
    roster = start(raw, Accounts(spending))
    print(f"{'start':52}{(time.perf_counter() - began) * 1e3:10.1f} ms")
    print(f"{'memory':52}{(rss() - before) / count:10.0f} bytes a session")
    host = roster.hosts["host"]
    assert len(host.past) == count
    assert not roster.views
    asyncio.run(asked(roster))
    print(f"{'memory, all priced':52}{(rss() - before) / count:10.0f} bytes a session")
    timed("today's sum", lambda: roster.accounts.today(NOW))
    worker = Worker(
        ("host", raw and next(iter(host.facts))), "host", next(iter(host.facts.values())), NOW
    )
    timed("two budgets, 30 days", lambda: overspent.look([worker], day_of(NOW)))
    timed("two budgets again", lambda: overspent.look([worker], day_of(NOW)))
    timed("expiry", lambda: roster.expire(NOW))
    other = told(1)
    more = fold(
        other,
        s.UsageTotalled(
            session_id=other.session_id,
            at=NOW,
            seen=NOW,
            day=day_of(NOW),
            model="m",
            input_tokens=5,
        ),
    )
    timed("one more report of usage", lambda: spending.update(("host", other.session_id), more))


if __name__ == "__main__":
    main()

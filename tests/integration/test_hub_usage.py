"""Real hubs and what was used: prices, budgets on which all agree, history over a restart, bad numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from adsum_shared import signals as s
from tests.half_hubs import HOST, FakeCollector, clock
from tests.hub_processes import HubProcess
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(60)]

#: A dollar for a million tokens of anything.
PRICES = """
[[price]]
models = ["m"]
input = 1.0
output = 1.0
cache_read = 1.0
cache_write_5m = 1.0
cache_write_1h = 1.0
"""
Start = Callable[..., HubProcess]


@pytest.fixture
def start(tmp_path: Path, redis_url: str) -> Iterator[Start]:
    hubs: list[HubProcess] = []
    (tmp_path / "prices.toml").write_text(PRICES)

    def start(**settings: str) -> HubProcess:
        settings = {"price_file": str(tmp_path / "prices.toml"), **settings}
        hub = HubProcess(tmp_path / f"hub{len(hubs)}", redis_url, **settings)
        hubs.append(hub)
        return hub.start()

    yield start
    for hub in hubs:
        hub.kill()


class Machine(FakeCollector):
    """A collector that tells of usage."""

    async def tell(self, *signals: s.Signal | bytes) -> None:
        first = len(self.signals) + 1
        self.signals += [
            s.encode_signal(one) if isinstance(one, s.Signal) else one for one in signals
        ]  # type: ignore[arg-type]
        await self.publish(first, len(self.signals))
        await self.beat()


@pytest.fixture
async def machine(redis: Redis) -> Machine:
    machine = Machine(redis)
    await machine.join()
    return machine


def day(ms: int) -> str:
    """As a hub in this zone has it."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().date().isoformat()


def used(tokens: int, session: str = "s", at: int = 0, **more: Any) -> s.UsageTotalled:
    at = at or clock()
    return s.UsageTotalled(
        session_id=session,
        at=at,
        seen=clock(),
        source="transcript",
        **{"day": day(at), "model": "m", "input_tokens": tokens, **more},
    )


def prompted(session: str = "s") -> s.PromptSubmitted:
    now = clock()
    return s.PromptSubmitted(session_id=session, at=now, seen=now, prompt_id=f"p{now}", text="go")


def past(session: str, title: str) -> list[s.Signal]:
    at = clock() - 3_600_000
    common: dict[str, Any] = {"session_id": session, "at": at, "seen": clock()}
    common["source"] = "transcript"
    return [
        s.MetaChanged(**common, ai_title=title, project="web"),
        s.SessionEnded(**common, reason="process"),
    ]


async def test_dollars_are_the_users_own_prices_and_agree_everywhere(
    start: Start, machine: Machine
):
    await machine.tell(prompted(), used(2_500_000))
    hub = start()
    await wait_until(lambda: hub.applied(HOST) == 2)
    await wait_until(lambda: hub.get("/api/v1/summary")["totalCostTodayUsd"])

    assert hub.get("/api/v1/summary")["totalCostTodayUsd"] == pytest.approx(2.5)
    assert hub.get("/api/v1/usage?by=session")["total"]["cost_usd"] == pytest.approx(2.5)
    view = hub.get(f"/api/v1/sessions/{HOST}:s")
    assert view["usage"]["cost_usd"] == pytest.approx(2.5)


async def test_a_broken_price_file_is_told_of_and_stops_nothing(
    start: Start, machine: Machine, tmp_path: Path
):
    broken = tmp_path / "broken.toml"
    broken.write_text('[[price]]\nmodels = ["m"]\ninput = "cheap"\n')
    await machine.tell(prompted(), used(2_500_000))
    hub = start(price_file=str(broken))
    await wait_until(lambda: hub.applied(HOST) == 2)
    ready = await wait_until(lambda: (found := hub.get("/readyz"))["problem"] and found)

    assert ready["ready"]
    for text in (
        ready["problem"],
        hub.get("/api/v1/usage")["notes"][-1],
        hub.get("/api/v1/sessions")["trouble"]["problem"],
    ):
        assert "price 1" in text
        assert str(broken) in text
    assert hub.get("/api/v1/usage")["total"]["unpriced_tokens"] == 2_500_000


@pytest.mark.slow
async def test_all_hubs_agree_on_who_is_over_a_budget_and_since_when(
    start: Start, machine: Machine
):
    budgets = json.dumps([{"scope": "project", "usd": 1, "per": "7 days"}])
    first = start(budgets=budgets)
    await machine.tell(
        s.MetaChanged(session_id="s", at=clock(), seen=clock(), project="web"), prompted()
    )
    at = clock() + 100
    await machine.tell(used(1_500_000, at=at))
    over = await wait_until(lambda: is_over(first))
    # One that has not been there, and knows only what was stored and what lies in the stream.
    second = start(budgets=budgets)
    await wait_until(lambda: is_over(second))

    assert over["label"] == "Over project budget (web): $1.50 of $1.00 in 7 days"
    for hub in (first, second):
        state = hub.get(f"/api/v1/sessions/{HOST}:s")["state"]
        offset = hub.host(HOST).get("clock_offset_ms", 0)
        assert (state["label"], state["since"] + offset) == (over["label"], at)

    await machine.tell(prompted())
    await wait_until(lambda: not is_over(first))
    await wait_until(lambda: not is_over(second))


def is_over(hub: HubProcess) -> dict[str, Any] | None:
    sessions = hub.get("/api/v1/sessions")["sessions"]
    states = [each["state"] for each in sessions]
    return next((state for state in states if state["state"] == "budget_exceeded"), None)


def test_a_bad_budget_is_refused_at_the_start(tmp_path: Path, redis_url: str):
    hub = HubProcess(tmp_path / "hub", redis_url, budgets='[{"scope": "team", "usd": 5}]')
    hub.spawn()
    assert hub.process is not None
    code = hub.process.wait(timeout=20)

    said = hub.log.read_text()
    assert code == 2
    assert "Traceback" not in said
    for words in (
        "ADSUM_BUDGETS, entry 1: there is no `per`",
        "Write one of session",
    ):
        assert words in said


async def test_absurd_numbers_are_set_aside_counted_and_shown(start: Start, machine: Machine):
    hub = start()
    good = s.encode_signal(used(1_000_000))
    await machine.tell(
        good.replace(b"1000000", b"-5"),
        good.replace(b"1000000", b"1" + b"0" * 30),
        used(7, day="2099-01-01"),
        s.CostReported(session_id="s", at=clock(), seen=clock(), cost_usd=1e30),
        good,
        prompted(),
    )
    await wait_until(lambda: hub.applied(HOST) == 6)

    assert hub.get("/api/v1/usage")["total"]["cost_usd"] == pytest.approx(1.0)
    host = hub.host(HOST)
    assert host["set_aside"] == 4
    assert "4 signals could not be used" in host["problem"]


@pytest.mark.slow
async def test_history_is_searched_and_outlives_a_restart(start: Start, machine: Machine):
    hub = start()
    await machine.tell(*past("one", "Fix the login"), used(10, "one"), *past("two", "Other"))
    await machine.tell(prompted("alive"))
    await wait_until(lambda: hub.applied(HOST) == 6)

    def seen(of: HubProcess) -> tuple[Any, ...]:
        found = of.get("/api/v1/history?q=LOGIN")
        ids = [each["session_id"] for each in of.get("/api/v1/sessions")["sessions"]]
        sums = of.get("/api/v1/usage?by=session")["total"]["input_tokens"]
        return found["total"], found["sessions"][0]["title"], ids, sums

    assert seen(hub) == (1, "Fix the login", ["alive"], 10)
    hub.stop()
    hub.start()
    assert seen(hub) == (1, "Fix the login", ["alive"], 10)
    assert hub.get(f"/api/v1/sessions/{HOST}:one")["state"]["state"] == "session_ended"


async def test_csv_comes_as_a_file(start: Start, machine: Machine):
    await machine.tell(prompted(), used(5))
    hub = start()
    await wait_until(lambda: hub.applied(HOST) == 2)

    async with httpx.AsyncClient(base_url=hub.url, trust_env=False) as client:
        answer = await client.get("/api/v1/usage?format=csv&by=host")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.splitlines()[1].startswith(f"host,{HOST},lab,1,5,")


async def test_a_model_of_the_bigger_table_has_its_price_a_moment_after_it_was_met(
    start: Start, machine: Machine
):
    await machine.tell(prompted(), used(1_000_000, model="gpt-4o"))
    hub = start()

    def dollars() -> float | None:
        sessions = hub.get("/api/v1/sessions")["sessions"]
        return sessions[0]["usage"].get("cost_usd") if sessions else None

    await wait_until(lambda: dollars() is not None)
    assert dollars() == pytest.approx(2.5)
    assert hub.get("/api/v1/summary")["totalCostTodayUsd"] == pytest.approx(2.5)

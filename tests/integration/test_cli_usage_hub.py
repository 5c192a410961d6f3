"""`adsum usage`, `history` and `show` against a real hub that a machine told its history."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adsum_shared.signals import MetaChanged, SessionEnded, UsageTotalled, encode_signal
from tests.half_hubs import HOST, FakeCollector, clock
from tests.hub_processes import HubProcess
from tests.integration.conftest import Run
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow]

SESSION = "0a1b2c3d-0000-4000-8000-000000000001"
HOUR = 3_600_000
EVIL = "=HYPERLINK(1)"


@pytest.fixture
async def hub(
    redis_url: str, collector: FakeCollector, tmp_path: Path
) -> AsyncIterator[HubProcess]:
    hub = HubProcess(tmp_path / "hub", redis_url).start()
    now = clock()
    day = time.strftime("%Y-%m-%d", time.localtime((now - 3 * HOUR) / 1000))
    told = {"session_id": SESSION, "seen": now, "source": "transcript"}
    used = {"at": now - 3 * HOUR, "day": day, "input_tokens": 1_000_000, **told}
    for signal in (
        MetaChanged(at=now - 4 * HOUR, title=EVIL, project="adsum", cwd="/src/adsum", **told),
        UsageTotalled(model="claude-opus-4-5-20251101", output_tokens=1_000_000, **used),
        UsageTotalled(model="nobody-knows-1", **used),
        SessionEnded(at=now - 3 * HOUR, reason="process", **told),
    ):
        collector.signals.append(encode_signal(signal))
    await collector.publish(1, 4)
    await wait_until(lambda: hub.applied(HOST) == 4, timeout=15)
    yield hub
    hub.stop()


async def test_a_history_is_told_with_what_it_cost(hub: HubProcess, run: Run) -> None:
    at = ("--hub", hub.url)
    code, out, err = run("usage", "--by", "model", "--days", "2", *at)
    lines = out.splitlines()
    assert code == 0
    assert "nobody-knows-1" in err
    assert [line.split()[0] for line in lines[1:3]] == [
        "claude-opus-4-5-20251101",
        "nobody-knows-1",
    ]
    assert lines[1].split()[1] == "≈"
    assert lines[2].split()[1] == "unpriced"
    assert lines[3].split()[1] == "≥"

    code, out, _ = run("history", "hyperlink", *at)
    assert code == 0
    assert out.splitlines()[1].split()[:3] == ["3h", EVIL, "adsum"]

    code, out, _ = run("show", "0a1b2c", *at)
    assert code == 0
    assert "have no price" in " ".join(out.split())
    assert "ended" in out


async def test_what_a_script_gets_is_whole_and_harmless(hub: HubProcess, run: Run) -> None:
    at = ("--hub", hub.url)
    (over,) = json.loads(run("history", "--json", *at)[1])["sessions"]
    assert (over["session_id"], over["title"]) == (SESSION, EVIL)
    (row,) = json.loads(run("usage", "--by", "session", "--days", "2", "--json", *at)[1])["rows"]
    assert row["key"] == over["id"]

    code, out, _ = run("usage", "--by", "session", "--days", "2", "--csv", *at)
    assert code == 0
    (cells,) = csv.DictReader(io.StringIO(out))
    assert cells["label"] == f"'{EVIL}"
    assert float(cells["cost_usd"]) == pytest.approx(row["usage"]["cost_usd"])


async def test_what_the_hub_refuses_is_a_usage_error(hub: HubProcess, run: Run) -> None:
    code, out, err = run("usage", "--since", "2999-01-01", "--hub", hub.url)
    assert (code, out) == (2, "")
    assert "since (2999-01-01) is after until" in err


def test_more_days_than_a_hub_keeps_are_refused_by_the_name_of_the_option(run: Run) -> None:
    code, out, err = run("usage", "--days", "9999")
    assert (code, out) == (2, "")
    assert "'--days'" in err
    assert "400" in err

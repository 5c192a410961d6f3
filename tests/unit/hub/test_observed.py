"""What a hub keeps of the last signals: bounded, stripped, and enough to be replayed."""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from adsum_hub.live.broadcast import Broadcast
from adsum_hub.observed import Recent, _size, report_of
from adsum_hub.rest.api import explain
from adsum_hub.rest.roster import api_router
from adsum_shared.envelope import encode_batch, encode_gap
from adsum_shared.signals import AnySignal, decode_signal, encode_signal
from bench.replay import Arrival, arrivals, timeline
from bench.traces import load
from tests.unit.hub.test_roster import AHEAD, Fleet
from tests.unit.hub.test_roster import HOST as LAB

TRACES = Path(__file__).parents[2] / "data" / "traces"
HOST = "h"


def entry(first: int, *signals: AnySignal, spool: str = "sp") -> dict[bytes, bytes]:
    raw = [encode_signal(each) for each in signals]
    return encode_batch(spool_id=spool, first=first, nonce="n", sent_at=1, signals=raw)


def signal(kind: str, seen: int, session: str = "s", **fields: object) -> AnySignal:
    raw = {"kind": kind, "session_id": session, "at": seen, "seen": seen, **fields}
    return decode_signal(msgspec.json.encode(raw))


def test_it_keeps_so_many_bytes_and_says_since_when() -> None:
    one = entry(1, signal("alive", 1))
    recent = Recent(most_bytes=2 * _size(one))
    assert recent.since is None
    for now in (10, 20, 30):
        recent.keep(HOST, one, now)

    assert (recent.since, len(recent.batches(HOST, "s"))) == (20, 2)
    assert recent.batches("another", "s") == recent.batches(HOST, "t") == []


def test_entries_without_signals_and_with_fields_of_others_are_counted() -> None:
    gap = encode_gap(spool_id="sp", first=1, last=1, nonce="n", sent_at=1, reason="cap")
    recent = Recent(most_bytes=100_000)
    for now in range(1_000):
        recent.keep(HOST, gap, now)
    assert recent.since is not None
    assert recent.since > 500

    recent.keep(HOST, gap | {b"more": b"x" * 100_000}, 1_000)
    assert recent.since is None


def test_another_session_and_what_was_sent_again_are_not_told() -> None:
    first = entry(1, signal("alive", 5), signal("alive", 6, session="s2"))
    told = report_of([first, first, entry(3, signal("alive", 7))], "s", 0)

    assert [(each["session_id"], each["seen"]) for each in told] == [("s", 5), ("s", 7)]


def test_of_what_came_before_the_latest_of_each_kind_is_told() -> None:
    early = [signal("alive", 1), signal("prompt.submitted", 2), signal("alive", 3)]
    told = report_of([entry(1, *early, signal("alive", 9))], "s", 5)

    assert [each["seen"] for each in told] == [2, 3, 9]


def test_nothing_that_people_or_agents_wrote_is_told() -> None:
    written = entry(
        1,
        signal("prompt.submitted", 1, text="SECRET plan"),
        signal("meta.changed", 2, title="SECRET title", cwd="/home/me/SECRET/web", project="web"),
        signal("tool.started", 3, tool="Bash", tool_use_id="t", summary="rm SECRET", digest="ab"),
        signal("request.opened", 4, request_kind="permission", payload={"command": "SECRET"}),
        signal("turn.ended", 5, last_message="SECRET?"),
        signal("tool.finished", 6, tool="Bash", tool_use_id="t", error="SECRET", digest="ab"),
        signal("kind.of.tomorrow", 7, said="SECRET"),
    )
    told = report_of([written], "s", 0)
    digests = {each["digest"] for each in told if "digest" in each}

    assert "SECRET" not in str(told)
    assert [each["kind"] for each in told][-1] == "tool.finished"
    assert told[1]["project"] == "web"
    assert [each["last_message"] for each in told if "last_message" in each] == ["?"]
    assert len(digests) == 1
    assert digests != {"ab"}


@pytest.mark.parametrize(
    "name", ["i_ask", "i_perm_deny", "i_agentbg", "i_plan_reject", "i_esc_tool"]
)
def test_a_replay_of_what_is_told_comes_to_the_same_states(name: str) -> None:
    trace = load(TRACES / name)
    found = arrivals(trace)
    session = trace.labels[0].session_id
    mine = [each for each in found if each.signal.session_id == session]
    told = report_of([entry(1, *(each.signal for each in mine))], session, 0)
    again = [
        Arrival(each.t, decode_signal(msgspec.json.encode(one)), each.witness)
        for each, one in zip(sorted(mine, key=lambda each: each.signal.seen), told, strict=True)
    ]

    def states(batch: list[Arrival]) -> list[tuple[int, str]]:
        return [(change.t_ms, change.state) for change in timeline(batch, trace.t0, trace.end)]

    assert states(again) == states(sorted(mine, key=lambda each: each.signal.seen))


async def test_a_session_s_signals_are_asked_for_by_its_id() -> None:
    fleet = Fleet()
    said = fleet.prompt("a")
    fleet.happen(said)
    fleet.told()
    fleet.roster.recent.keep(LAB, entry(1, said), fleet.now)
    clock = lambda: fleet.now + 5_000  # noqa: E731 - as the hub's
    app = FastAPI()
    app.include_router(api_router(fleet.roster, Broadcast(fleet.roster, clock), clock))
    explain(app)
    way = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=way, base_url="http://hub") as client:
        told = (await client.get(f"/api/v1/sessions/{LAB}:a/signals?minutes=1")).json()
        nobody = await client.get(f"/api/v1/sessions/{LAB}:b/signals")
        absurd = await client.get(f"/api/v1/sessions/{LAB}:a/signals?minutes=0")

    assert told["now"] == fleet.now + 5_000 + AHEAD
    assert (told["since"], told["held_since"]) == (told["now"] - 60_000, fleet.now + AHEAD)
    assert [each["kind"] for each in told["signals"]] == ["prompt.submitted"]
    assert (nobody.status_code, absurd.status_code) == (404, 422)

"""From a person's click to the machine's stream of commands: each bad input, and who was first."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from adsum_hub import control
from adsum_shared import streams
from adsum_shared.commands import DECISION_TTL_MS
from adsum_shared.signals import (
    ChildStarted,
    PromptSubmitted,
    QueuedItem,
    QueueReported,
    SessionEnded,
    SessionSuspended,
    TurnEnded,
)
from tests.deciding import BINDING, FORM, QUESTIONS, SESSION, DecidingHub
from tests.unit.hub.test_roster import AHEAD, HOST

pytestmark = pytest.mark.redis


@pytest.fixture
def hub(redis: Any, tmp_path: Path) -> DecidingHub:
    return DecidingHub(redis, tmp_path)


async def test_a_decision_is_one_signed_command_and_its_outcome_is_told(hub: DecidingHub) -> None:
    hub.asks()
    answer = await hub.decide("deny", text="not now", stop=True)
    told = answer.json()["command"]

    assert answer.status_code == 202
    assert (told["outcome"], told["by"]) == ("given", "ann")
    (command,) = await hub.commands()
    assert (command.id, command.verb, command.text, command.stop) == (
        told["id"],
        "deny",
        "not now",
        True,
    )
    assert (command.request_id, command.binding, command.by) == ("r1", BINDING, "ann")
    assert 0 < await hub.redis.pttl(streams.decided(HOST, "r1")) <= streams.DECIDED_MS

    given = (await hub.http.get(f"{SESSION}/commands/{command.id}")).json()
    hub.report(command.id, "overruled", reason="the terminal was first")
    final = (await hub.http.get(f"{SESSION}/commands/{command.id}")).json()
    assert (given["command"]["outcome"], given["final"]) == ("given", False)
    assert (final["command"]["outcome"], final["final"]) == ("overruled", True)
    assert final["command"]["reason"] == "the terminal was first"


async def test_what_was_decided_is_listed_at_its_session(hub: DecidingHub) -> None:
    hub.asks()
    first = (await hub.decide()).json()["command"]["id"]
    hub.report(first, "sent")
    hub.asks("r2")
    await hub.decide("deny", request_id="r2")
    told = (await hub.http.get(f"{SESSION}/commands")).json()["commands"]

    assert [(each["by"], each["verb"], each["outcome"]) for each in told] == [
        ("ann", "allow", "sent"),
        ("ann", "deny", "given"),
    ]


async def test_whoever_waits_for_an_outcome_is_told_of_it_at_once(
    hub: DecidingHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "LOOK_S", 0.001)
    hub.asks()
    named = (await hub.decide()).json()["command"]["id"]
    path = f"{SESSION}/commands/{named}"
    waiting = asyncio.ensure_future(hub.http.get(path, params={"wait": 30}))
    hub.report(named, "sent")
    await asyncio.sleep(0)
    hub.report(named, "took_effect")

    assert (await waiting).json()["command"]["outcome"] == "took_effect"
    assert (await hub.http.get(f"{SESSION}/commands/other")).status_code == 404
    assert (await hub.http.get(path, params={"wait": 31})).status_code == 422


async def test_a_session_can_be_named_with_a_slash_as_well(hub: DecidingHub) -> None:
    hub.asks()
    body = {"verb": "allow", "request_id": "r1", "binding": BINDING}

    path = f"/api/v1/sessions/{HOST}/s/commands"
    assert (await hub.http.post(path, json=body)).status_code == 202
    assert (await hub.http.post(path.replace("/s/", "/t/"), json=body)).status_code == 404


@pytest.mark.parametrize(
    ("status", "said", "body"),
    [
        (400, "is no decision", {"verb": "reboot"}),
        (400, "`request_id` is missing", {"request_id": ""}),
        (400, "`binding` is missing", {"binding": ""}),
        (409, "not what is asked now", {"binding": "0" * 64}),
        (410, "asked no more", {"request_id": "r0"}),
        (400, "takes no text", {"text": "x"}),
        (400, "control characters", {"verb": "deny", "text": "a\x1b[2J"}),
        (400, "control characters", {"verb": "deny", "text": "a\u202eb"}),
        (400, "too long", {"verb": "deny", "text": "x" * 4_001}),
        (400, "cannot be read", {"input": {"command": "rm -rf /"}}),
        (400, "plan is empty", {"verb": "plan", "text": " "}),
        (413, "too long", {"verb": "plan", "text": "x" * (257 << 10)}),
    ],
)
async def test_each_bad_input_has_an_answer_of_its_own_and_nothing_is_done(
    hub: DecidingHub, status: int, said: str, body: dict[str, Any]
) -> None:
    hub.asks()
    answer = await hub.decide(**body)

    assert answer.status_code == status, answer.text
    assert said in answer.json()["error"]
    assert answer.json()["next"]
    assert await hub.commands() == []
    assert await hub.redis.exists(streams.decided(HOST, "r1")) == 0


async def test_nothing_is_sent_where_it_would_not_be_obeyed(hub: DecidingHub) -> None:
    hub.asks(verbs=["allow", "deny"])
    refused = [await hub.decide("always")]
    hub.fleet.beat(control="off")
    refused.append(await hub.decide())
    hub.fleet.later(3_600_000, beating=False)
    refused.append(await hub.decide())
    hub.fleet.beat(control="approve")
    refused.append(await hub.decide())
    hub.asks("r2")
    hub.ends("r2")
    refused.append(await hub.decide(request_id="r2"))

    assert [(each.status_code, each.json()["error"]) for each in refused] == [
        (409, "It takes no `always`, so it was not decided."),
        (409, "On lab nothing can be decided from elsewhere."),
        (409, "lab is offline, so nothing that is decided here would reach it."),
        (410, "The time to answer this from elsewhere is over."),
        (409, "This cannot be answered from elsewhere."),
    ]
    assert await hub.commands() == []


async def test_what_is_not_shown_whole_is_not_allowed_but_can_be_denied(hub: DecidingHub) -> None:
    hub.asks(payload={"command": "deploy --token [redacted:value:ab]"})
    refused = await hub.decide()

    assert refused.status_code == 409
    assert "Not all of what is asked is shown" in refused.json()["error"]
    assert (await hub.decide("deny")).status_code == 202


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "Not answered: 'Which colour?'"),
        ({"Which colour?": ["Red"]}, "Not answered: 'Which parts?'"),
        ({"Which colour?": ["Red", "Blue"], "Which parts?": ["a"]}, "It takes one answer only"),
        ({"Which colour?": [" "], "Which parts?": ["a"]}, "Not answered: 'Which colour?'"),
        ({"Which colour?": ["Red"], "Which parts?": ["a"], "Why?": ["x"]}, "Nobody asked 'Why?'"),
    ],
)
async def test_a_question_takes_whole_answers_only(
    hub: DecidingHub, answers: dict[str, list[str]], said: str
) -> None:
    hub.asks(request_kind="question", payload=QUESTIONS)
    refused = await hub.decide("answer", answers=answers)

    assert (refused.status_code, refused.json()["error"].startswith(said)) == (400, True)
    whole = {"Which colour?": ["a dark red"], "Which parts?": ["a", "b"]}
    given = await hub.decide("answer", answers=whole, notes={"Which parts?": "both, please"})
    assert given.status_code == 202
    (command,) = await hub.commands()
    assert command.answers == whole


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "Not filled in: 'branch'"),
        ({"branch": ""}, "Not filled in: 'branch'"),
        ({"branch": "x", "size": 1}, "The form has no field 'size'"),
        ({"branch": ["x"]}, "'branch' takes one value"),
        ({"branch": "a\x00"}, "There are control characters"),
    ],
)
async def test_a_form_takes_its_own_fields_only(
    hub: DecidingHub, content: dict[str, Any], said: str
) -> None:
    hub.asks(request_kind="dialog", payload=FORM)
    refused = await hub.decide("elicit", content=content)

    assert (refused.status_code, refused.json()["error"].startswith(said)) == (400, True)
    assert (await hub.decide("elicit", content={"branch": "x", "force": True})).status_code == 202


@pytest.mark.parametrize("payload", [{"questions": "?"}, {"questions": [1, {}]}, {"x": 1}])
async def test_what_asks_oddly_is_no_reason_to_fail(
    hub: DecidingHub, payload: dict[str, Any]
) -> None:
    hub.asks(request_kind="question", payload=payload)

    assert (await hub.decide("answer", answers={"Why?": ["x"]})).status_code == 400
    assert (await hub.decide("elicit", content={"a": "x"})).status_code == 400


async def test_of_two_who_decide_in_the_same_instant_at_two_hubs_one_wins(
    hub: DecidingHub, redis: Any, tmp_path: Path
) -> None:
    other = DecidingHub(redis, tmp_path / "other", hub.fleet)
    await other.keys.known()  # as a hub does when it starts: it shows the half that machines pin
    for number in range(20):
        asked = f"q{number}"
        hub.asks(asked)
        verbs = [(hub, "allow"), (other, "deny"), (hub, "deny"), (other, "allow")]
        told = await asyncio.gather(*(one.decide(verb, request_id=asked) for one, verb in verbs))

        assert sorted(each.status_code for each in told) == [202, 409, 409, 409]
        assert all("decided already" in each.json()["error"] for each in told if each.is_error)
    assert len(await hub.commands()) == 20


async def test_what_came_to_nothing_can_be_decided_anew_and_nothing_else(hub: DecidingHub) -> None:
    hub.asks()
    first = (await hub.decide()).json()["command"]["id"]
    again = await hub.decide("deny")
    hub.report(first, "sent")
    later = await hub.decide("deny")
    hub.report(first, "refused", reason="the trail cannot be written")
    anew = await hub.decide("deny")

    assert [each.status_code for each in (again, later, anew)] == [409, 409, 202]
    assert again.json()["error"] == "This was decided already by ann (allow)."
    assert [each.verb for each in await hub.commands()] == ["allow", "deny"]


async def test_a_decision_that_nobody_reports_can_be_given_anew_when_it_is_too_old(
    hub: DecidingHub,
) -> None:
    hub.asks()
    first = (await hub.decide()).json()["command"]["id"]
    key = streams.decided(HOST, "r1")
    await hub.redis.pexpire(key, streams.DECIDED_MS - DECISION_TTL_MS + 2_000)
    early = await hub.decide("deny")
    await hub.redis.pexpire(key, streams.DECIDED_MS - DECISION_TTL_MS - 1)

    assert (early.status_code, (await hub.decide("deny")).status_code) == (409, 202)

    hub.fleet.later(DECISION_TTL_MS + 1, beating=False)
    unheard = (await hub.http.get(f"{SESSION}/commands/{first}")).json()
    hub.fleet.beat(control="approve")
    expired = (await hub.http.get(f"{SESSION}/commands/{first}")).json()
    listed = (await hub.http.get(f"{SESSION}/commands")).json()["commands"]
    hub.report(first, "took_effect")
    late = (await hub.http.get(f"{SESSION}/commands/{first}")).json()
    assert [(each["command"]["outcome"], each["final"]) for each in (unheard, expired, late)] == [
        ("given", False),
        ("expired", True),
        ("took_effect", True),
    ]
    assert [each["outcome"] for each in listed] == ["expired", "expired"]


async def test_where_two_persons_are_needed_the_second_can_decide_and_the_first_cannot_again(
    hub: DecidingHub,
) -> None:
    hub.asks()
    first = (await hub.decide()).json()["command"]["id"]
    hub.report(first, "awaits_second")
    again = await hub.decide()
    hub.name = "bob"
    second = await hub.decide()

    assert (again.status_code, again.json()["error"]) == (
        409,
        "You have decided so already: it takes another person.",
    )
    assert second.status_code == 202
    assert [each.by for each in await hub.commands()] == ["ann", "bob"]


async def test_who_comes_round_to_the_answer_of_the_other_is_heard_again(hub: DecidingHub) -> None:
    hub.asks(request_kind="question", tool="AskUserQuestion", payload=QUESTIONS)
    said = []
    for name, colour in (("ann", "Red"), ("bob", "Blue"), ("ann", "Blue")):
        hub.name = name
        answers = {"Which colour?": [colour], "Which parts?": ["a"]}
        said.append(await hub.decide("answer", answers=answers))
        if said[-1].status_code == 202:
            given = said[-1].json()["command"]["id"]
            hub.report(given, "awaits_second", verb="answer", by=name)

    assert [each.status_code for each in said] == [202, 202, 202]


async def test_a_command_is_for_the_collector_that_runs(hub: DecidingHub) -> None:
    hub.asks()
    await hub.decide()

    (command,) = await hub.commands()
    assert command.run == "n"


async def test_the_stream_is_bounded(hub: DecidingHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_COMMANDS", 5)
    for number in range(210):  # a stream is trimmed by whole nodes of a hundred
        hub.asks(f"q{number}")
        assert (await hub.decide(request_id=f"q{number}")).status_code == 202

    assert await hub.redis.xlen(streams.commands(HOST)) < 110


@pytest.mark.parametrize("ahead", [f"{(1 << 42)}-0", f"{(1 << 64) - 1}-{(1 << 64) - 1}"])
async def test_an_entry_dated_ahead_keeps_no_command_back(hub: DecidingHub, ahead: str) -> None:
    stream = streams.commands(HOST)
    await hub.redis.xadd(stream, {"c": "{}"}, id=ahead)
    await hub.redis.xtrim(stream, maxlen=0)  # what is gone counts as well
    hub.asks()

    assert (await hub.decide()).status_code == 202

    (command,) = await hub.commands()
    assert command.verb == "allow"
    seconds, _ = await hub.redis.time()
    ((given, _),) = await hub.redis.xrange(stream)
    assert abs(int(given.split(b"-")[0]) - seconds * 1000) < DECISION_TTL_MS


async def test_a_hub_without_a_usable_key_says_so_and_decides_nothing(
    hub: DecidingHub, tmp_path: Path
) -> None:
    (tmp_path / "command-key.pem").write_text("no key")
    (tmp_path / "command-key.pem").chmod(0o600)
    hub.asks()
    answer = await hub.decide()

    assert answer.status_code == 409
    assert "This hub can sign nothing" in answer.json()["error"]
    assert await hub.redis.exists(streams.decided(HOST, "r1"), streams.commands(HOST)) == 0


async def test_no_reason_and_no_key_is_in_the_log(
    hub: DecidingHub, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hub.asks()
    await hub.decide("deny", text="between us")

    assert "ann: deny for r1" in caplog.text
    assert "between us" not in caplog.text


def test_times_of_a_request_are_the_hubs(hub: DecidingHub) -> None:
    hub.asks()
    (view,) = hub.fleet.roster.views.values()

    assert view.requests[0].hold is not None
    assert view.requests[0].hold.until == hub.fleet.now + 60_000
    assert AHEAD > 60_000


async def test_who_has_a_form_before_them_has_it_held_and_decides_nothing(hub: DecidingHub) -> None:
    hub.asks(verbs=["elicit", "deny", "defer", "extend"], request_kind="dialog", payload=FORM)
    assert (await hub.decide("extend")).status_code == 202
    assert await hub.redis.exists(streams.decided(HOST, "r1")) == 0
    assert (await hub.decide("elicit", content={"branch": "x"})).status_code == 202

    assert [each.verb for each in await hub.commands()] == ["extend", "elicit"]
    told = (await hub.http.get(f"{SESSION}/commands")).json()["commands"]
    assert [each["verb"] for each in told] == ["elicit"]
    refused = [await hub.decide("extend", binding="0" * 64), await hub.decide("extend", text="x")]
    hub.asks("r2")
    refused.append(await hub.decide("extend", request_id="r2"))
    assert [each.status_code for each in refused] == [409, 400, 409]


async def test_a_form_that_is_not_shown_whole_is_held_to_be_denied(hub: DecidingHub) -> None:
    payload = FORM | {"message": "Token [redacted:value:ab]?"}
    verbs = ["elicit", "deny", "defer", "extend"]
    hub.asks(verbs=verbs, request_kind="dialog", payload=payload)

    assert (await hub.decide("extend")).status_code == 202
    assert (await hub.decide("elicit", content={"branch": "x"})).status_code == 409
    assert (await hub.decide("deny")).status_code == 202


async def test_an_action_is_one_signed_command_for_the_session_itself(hub: DecidingHub) -> None:
    hub.fleet.beat(control="full")
    hub.asks()

    answers = [await hub.act("prompt", text="go on\nplease"), await hub.act("interrupt")]

    assert [each.status_code for each in answers] == [202, 202], answers[0].text
    told = answers[0].json()["command"]
    assert (told["verb"], told["outcome"], told["by"]) == ("prompt", "given", "ann")
    first, second = await hub.commands()
    assert (first.id, first.session_id, first.verb, first.text) == (
        *(told["id"], "s", "prompt"),
        "go on\nplease",
    )
    assert (first.request_id, first.binding, second.verb) == (None, None, "interrupt")
    hub.report(told["id"], "queued", verb="prompt", request_id=None)
    known = (await hub.http.get(f"{SESSION}/commands/{told['id']}")).json()
    assert (known["command"]["outcome"], known["final"]) == ("queued", False)


@pytest.mark.parametrize(
    ("status", "said", "verb", "body"),
    [
        (400, "`text` is missing", "prompt", {}),
        (400, "`text` is missing", "queue", {"text": " \n"}),
        (400, "control characters", "prompt", {"text": "a\x1b[201~rm"}),
        (400, "too long", "queue", {"text": "x" * 10_001}),
        (400, "takes no text", "interrupt", {"text": "x"}),
        (400, "takes no place", "prompt", {"text": "x", "place": 1}),
        (400, "no such place", "queue", {"text": "x", "place": -1}),
        (400, "not for one of its requests", "prompt", {"text": "x", "request_id": "r1"}),
        (400, "not for one of its requests", "prompt", {"text": "x", "binding": "b"}),
        (410, "Nothing called 'q0' waits", "withdraw", {"item": "q0"}),
        (410, "Nothing called 'q0' waits", "move", {"item": "q0", "place": 0}),
        (400, "`place` is missing", "move", {"item": "q1"}),
        (400, "`item` is missing", "withdraw", {}),
        (400, "cannot be read", "prompt", {"text": "x", "keys": "Enter"}),
    ],
)
async def test_each_bad_action_has_an_answer_of_its_own_and_nothing_is_done(
    hub: DecidingHub, status: int, said: str, verb: str, body: dict[str, Any]
) -> None:
    hub.fleet.beat(control="full")
    hub.asks()
    hub.tell(QueueReported, items=[QueuedItem("q1", "later", "ann", 1, 2)])

    answer = await hub.act(verb, **body)

    assert answer.status_code == status, answer.text
    assert said in answer.json()["error"]
    assert answer.json()["next"]
    assert await hub.commands() == []


async def test_actions_need_more_than_an_owner_who_lets_requests_be_answered(
    hub: DecidingHub,
) -> None:
    hub.asks()
    refused = [await hub.act("prompt", text="x")]
    hub.fleet.beat(control="off")
    refused.append(await hub.act("interrupt"))
    hub.fleet.later(3_600_000, beating=False)
    refused.append(await hub.act("queue", text="x"))
    hub.fleet.beat(control="full")
    hub.tell(SessionEnded)
    refused.append(await hub.act("prompt", text="x"))
    refused.append(await hub.act("queue", text="x"))

    assert [(each.status_code, each.json()["error"]) for each in refused] == [
        (409, "On lab requests can be answered from elsewhere, but not `prompt`."),
        (409, "On lab nothing can be decided from elsewhere."),
        (409, "lab is offline, so nothing that is decided here would reach it."),
        (410, "This session is over, so nothing can be done in it."),
        (410, "This session is over: nothing that waits for it would be read."),
    ]
    assert all(each.json()["next"].endswith("adsum control full") for each in refused[:2])
    assert await hub.commands() == []


async def test_what_waits_is_shown_in_order_and_can_be_taken_back(hub: DecidingHub) -> None:
    hub.fleet.beat(control="full")
    hub.asks()
    first, second = (QueuedItem(n, f"say {n}", "ann", AHEAD + 1, AHEAD + 2) for n in ("q1", "q2"))
    hub.tell(QueueReported, items=[second, first], way="terminal")

    view = (await hub.http.get(SESSION)).json()

    assert [(each["id"], each["text"], each["at"]) for each in view["queue"]] == [
        ("q2", "say q2", 1),
        ("q1", "say q1", 1),
    ]
    assert view["prompt_way"] == "queue"  # it asks something
    assert (await hub.act("withdraw", item="q1")).status_code == 202
    assert (await hub.act("move", item="q1", place=0)).status_code == 202


def rests(hub: DecidingHub) -> None:
    hub.fleet.beat(control="full")
    hub.tell(PromptSubmitted, prompt_id="p")
    hub.tell(TurnEnded, prompt_id="p")


async def test_what_would_lose_something_is_not_suspended(hub: DecidingHub) -> None:
    hub.fleet.beat(control="full")
    hub.tell(PromptSubmitted, prompt_id="p")
    refused = [await hub.act("suspend")]
    hub.asks()
    refused.append(await hub.act("suspend"))
    hub.ends()
    rests(hub)
    hub.tell(QueueReported, items=[QueuedItem("q1", "x", "ann", 1, 2)])
    refused.append(await hub.act("suspend"))
    hub.tell(QueueReported)
    hub.tell(ChildStarted, child_id="c", child_kind="shell")
    refused.append(await hub.act("suspend"))
    refused.append(await hub.act("resume"))

    assert [each.status_code for each in refused] == [409] * 5
    said = [each.json()["error"] for each in refused]
    assert said[0].startswith("It works")
    assert said[1:3] == ["It asks something.", "A message waits for it."]
    assert "not suspended" in said[4]
    assert await hub.commands() == []


async def test_what_is_said_to_a_suspended_session_is_given_to_its_machine(
    hub: DecidingHub,
) -> None:
    rests(hub)
    assert (await hub.act("suspend")).status_code == 202
    hub.fleet.later(1_000)
    hub.fleet.beat(control="full")
    hub.tell(SessionSuspended, by="ann", freed_bytes=5)
    hub.tell(SessionEnded)

    view = (await hub.http.get(SESSION)).json()
    assert (view["state"]["state"], view["prompt_way"]) == ("suspended", "resume")
    assert (view["suspended"]["by"], view["suspended"]["freed_bytes"]) == ("ann", 5)
    assert (await hub.act("interrupt")).status_code == 410
    assert (await hub.act("suspend")).status_code == 410
    for verb in ("prompt", "queue", "resume"):
        assert (await hub.act(verb, text="go on")).status_code == 202
    given = [(each.verb, each.text) for each in await hub.commands()]
    assert given == [
        *(("suspend", None), ("prompt", "go on"), ("queue", "go on"), ("resume", "go on"))
    ]


async def test_the_names_of_other_dashboards_lead_to_the_same(hub: DecidingHub) -> None:
    async def state(agent: str = "s") -> str:
        return str((await hub.http.get(f"/api/agents/{agent}")).json()["state"])

    hub.tell(PromptSubmitted, prompt_id="p")
    assert (await state("nobody"), await state()) == ("uninitialized", "active")
    rests(hub)
    assert await state(f"{HOST}:s") == "idle"

    told = await hub.http.post("/api/agents/s/suspend", json={})
    assert (told.status_code, told.json()["command"]["verb"]) == (202, "suspend")
    hub.fleet.later(1_000)
    hub.fleet.beat(control="full")
    hub.tell(SessionSuspended, by="ann")
    hub.tell(SessionEnded)
    assert await state() == "suspended"
    told = await hub.http.post("/api/agents/s/resume", json={"message": "go on"})
    assert told.status_code == 202
    assert [each.text for each in await hub.commands()] == [None, "go on"]
    assert (await hub.http.post("/api/agents/nobody/resume", json={})).status_code == 404

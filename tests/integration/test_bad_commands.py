"""Each way in which a command can be wrong, by its name: an answer of its own, and nothing done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum_hub.auth.gate import AccessDeniedError, Grant, require_in_reach
from adsum_shared import streams
from adsum_shared.commands import DECISION_TTL_MS, NotObeyedError, key_id, opened, signed
from adsum_shared.signals import SessionEnded
from tests.control import asked_by, command_for, permission
from tests.deciding import BINDING, SESSION, DecidingHub
from tests.unit.hub.test_roster import HOST

pytestmark = pytest.mark.redis


@pytest.fixture
def hub(redis: Any, tmp_path: Path) -> DecidingHub:
    hub = DecidingHub(redis, tmp_path)
    hub.asks()
    return hub


def is_offline(hub: DecidingHub) -> None:
    hub.fleet.later(3_600_000, beating=False)


def is_gone(hub: DecidingHub) -> None:
    hub.fleet.later(1_000)
    hub.fleet.beat(control="approve")
    hub.tell(SessionEnded)


def is_late(hub: DecidingHub) -> None:
    hub.fleet.later(60_000)
    hub.fleet.beat(control="approve")


def is_deaf(hub: DecidingHub) -> None:
    hub.fleet.beat(control="approve", commands_problem="this user has no permissions")


class Bad(NamedTuple):
    """before: what happens first. body: beside a decision that would be right."""

    name: str
    status: int
    said: str
    body: Mapping[str, Any] = MappingProxyType({})
    before: Callable[[DecidingHub], None] = lambda _hub: None


ASKED_OF_A_HUB = (
    Bad("unknown verb", 400, "'obey' is no decision", {"verb": "obey"}),
    Bad("expired", 410, "The time to answer this from elsewhere is over", {}, is_late),
    Bad("wrong hash", 409, "not what is asked now", {"binding": "0" * 64}),
    Bad("no hash", 400, "`binding` is missing", {"binding": ""}),
    Bad("no such request", 410, "asked no more", {"request_id": "r9"}),
    Bad("another input", 400, "cannot be read", {"input": {"command": "rm"}}),
    Bad("a decision it does not take", 409, "takes no `always`", {"verb": "always"}),
    Bad("session gone", 410, "asked no more", {}, is_gone),
    Bad("machine offline", 409, "lab is offline", {}, is_offline),
    Bad("control off", 409, "nothing can be decided", {}, lambda h: h.fleet.beat(control="off")),
    Bad("no way for commands", 409, "lab cannot read commands: this user has no", {}, is_deaf),
    Bad("control characters", 400, "control characters", {"verb": "deny", "text": "\x1b[2J"}),
    Bad("turned text", 400, "control characters", {"verb": "deny", "text": "a\u202eb"}),
    Bad("too long", 400, "too long", {"verb": "deny", "text": "x" * 4_001}),
)


@pytest.mark.parametrize("bad", ASKED_OF_A_HUB, ids=lambda bad: bad.name)
async def test_a_hub_says_what_is_wrong_and_what_to_do_and_signs_nothing(
    hub: DecidingHub, bad: Bad
) -> None:
    hub.ends()
    hub.asks("r1x", verbs=["allow", "deny"])
    bad.before(hub)
    answer = await hub.decide(**({"request_id": "r1x", **bad.body}))

    assert answer.status_code == bad.status, answer.text
    assert bad.said in answer.json()["error"]
    assert answer.json()["next"]
    assert await hub.commands() == []
    assert await hub.redis.exists(streams.decided(HOST, "r1x")) == 0


async def test_a_second_decision_is_told_who_was_first(hub: DecidingHub) -> None:
    await hub.decide()
    hub.name = "bob"
    answer = await hub.decide("deny")

    assert (answer.status_code, answer.json()["error"]) == (
        409,
        "This was decided already by ann (allow).",
    )
    assert [each.verb for each in await hub.commands()] == ["allow"]


async def test_a_session_that_nobody_knows_is_told_so(hub: DecidingHub) -> None:
    body = {"verb": "allow", "request_id": "r1", "binding": BINDING}
    answer = await hub.http.post(f"{SESSION}x/commands", json=body)

    assert answer.status_code == 404
    assert "no session" in answer.json()["error"]


def test_a_machine_out_of_reach_is_told_so() -> None:
    grant = Grant("ann", "operator", "token", hosts=("h1",))

    with pytest.raises(AccessDeniedError, match="may do nothing on this machine") as refused:
        require_in_reach(grant, f"{SESSION}/commands")

    assert (refused.value.status, "--hosts" in refused.value.step) == (403, True)


KEY, STRANGER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wrong signature", "its signature is wrong"),
        ("a stranger's key", "signed by no hub that this machine trusts"),
        ("changed on its way", "its signature is wrong"),
        ("for another machine", "its signature is wrong"),
        ("too old", "it came too late"),
        ("from the future", "it came too late"),
        ("no command", "it cannot be read"),
        ("too long", "the command is too long"),
    ],
)
def test_a_machine_says_what_is_wrong_with_what_it_is_sent(name: str, said: str) -> None:
    command = command_for(asked_by(permission()))
    fields, age_ms, host = signed(command, KEY), 50, "h1"
    match name:
        case "wrong signature":
            fields[b"s"] = signed(command, STRANGER)[b"s"]
        case "a stranger's key":
            fields = signed(command, STRANGER)
        case "changed on its way":
            fields[b"c"] = fields[b"c"].replace(b'"allow"', b'"always"')
        case "for another machine":
            host = "h2"
        case "too old":
            age_ms = DECISION_TTL_MS + 1
        case "from the future":
            age_ms = -DECISION_TTL_MS - 1
        case "no command":
            fields[b"c"] = b"{}"
            fields[b"s"] = KEY.sign(b"adsum command\0h1\0{}")
        case "too long":
            fields[b"c"] += b" " * (257 << 10)
    keys = {key_id(KEY.public_key()): KEY.public_key()}

    with pytest.raises(NotObeyedError, match=said):
        opened(fields, host, keys, age_ms)

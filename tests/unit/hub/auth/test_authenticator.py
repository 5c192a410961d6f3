"""Who is let in, while Redis answers, while it is away, and after a pass was revoked elsewhere."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_hub.auth import gate as gate_module
from adsum_hub.auth.credentials import (
    DAY_MS,
    SIGN_IN_IDLE_MS,
    SIGN_IN_MOST_MS,
    Credential,
    Kind,
    csrf_of,
    digest_of,
    make_cookie,
    make_token,
)
from adsum_hub.auth.gate import (
    AWAY_MS,
    FRESH_MS,
    RETRY_MS,
    AccessDeniedError,
    Authenticator,
    CredentialCache,
    Lookup,
    Presented,
)
from adsum_hub.redis_access import Bulkhead
from adsum_shared.redis_errors import ExhaustedError

START = 1_000_000_000
COOKIE, TOKEN, MACHINE = make_cookie(), make_token(), make_token()


def sign_in(since: int = START, seen: int | None = None) -> Credential:
    until = since + SIGN_IN_MOST_MS
    return Credential("id", "Ann", "operator", since, until, seen or since, SIGN_IN_IDLE_MS)


class FakeStore:
    """Answers from a dict, or fails, or never answers; counts how often it was asked."""

    def __init__(self) -> None:
        self.stored: dict[str, Credential] = {}
        self.away = False
        self.exhausted = False
        self.silent = False
        self.rounds = 0  # of the loop, until it answers
        self.read_only = False
        self.asked = 0
        self.used: list[int] = []

    async def find(self, digest: str) -> Credential | None:
        self.asked += 1
        for _ in range(self.rounds):
            await asyncio.sleep(0)
        if self.silent:
            await asyncio.Event().wait()
        if self.exhausted:
            raise ExhaustedError("all in use")
        if self.away:
            raise RedisConnectionError("gone")
        return self.stored.get(digest)

    async def use(self, digest: str, held: Credential, now: int) -> Credential:
        if self.read_only:
            raise RedisConnectionError("READONLY")
        self.used.append(now)
        return held


class Scene:
    def __init__(self) -> None:
        self.now = START
        self.store = FakeStore()
        kinds: dict[Kind, Any] = {"sign-in": self.store, "token": self.store}
        self.known = Lookup(kinds, Bulkhead(2, of_one=2, wait_s=0.05))
        self.unknown = Lookup(kinds, Bulkhead(2, of_one=2, wait_s=0.05))
        self.authenticator = Authenticator(
            self.known, self.unknown, digest_of(MACHINE), lambda: self.now
        )

    def knows(self, secret: str, held: Credential) -> None:
        self.store.stored[digest_of(secret)] = held

    async def status(
        self, secret: str = COOKIE, kind: Kind = "sign-in", *, only_looks: bool = True
    ) -> int:
        try:
            await self.authenticator.authenticate(Presented(kind, secret), only_looks=only_looks)
        except AccessDeniedError as refused:
            return refused.status
        return 200


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_cookie_becomes_its_name_its_role_and_its_own_csrf(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())

    grant = await scene.authenticator.authenticate(Presented("sign-in", COOKIE))

    assert (grant.name, grant.role, grant.by) == ("Ann", "operator", "sign-in")
    assert grant.csrf == csrf_of(COOKIE)


async def test_a_token_needs_no_csrf(scene: Scene) -> None:
    scene.knows(TOKEN, Credential("id", "ci", "viewer", START, START + DAY_MS, 0))

    assert (await scene.authenticator.authenticate(Presented("token", TOKEN))).csrf == ""


async def test_nobody_is_told_how_to_sign_in(scene: Scene) -> None:
    with pytest.raises(AccessDeniedError, match="not signed in") as refused:
        await scene.authenticator.authenticate(None)

    assert refused.value.status == 401
    assert "adsum login" in refused.value.step
    assert not refused.value.noteworthy


async def test_an_unknown_secret_is_refused(scene: Scene) -> None:
    assert await scene.status() == 401
    assert await scene.status(TOKEN, "token") == 401


async def test_this_machines_token_needs_no_redis(scene: Scene) -> None:
    scene.store.away = True

    grant = await scene.authenticator.authenticate(Presented("token", MACHINE))

    assert (grant.role, grant.by) == ("admin", None)
    assert scene.store.asked == 0


async def test_this_machines_token_in_a_cookie_opens_nothing(scene: Scene) -> None:
    assert await scene.status(MACHINE, "sign-in") == 401


async def test_redis_is_not_asked_again_within_a_moment(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.now += FRESH_MS - 1
    assert await scene.status() == 200
    assert scene.store.asked == 1


async def test_one_revoked_by_another_hub_opens_nothing_a_moment_later(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.store.stored.clear()
    scene.now += FRESH_MS
    assert await scene.status() == 401


async def test_one_revoked_by_another_hub_opens_nothing_where_none_is_cached(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    shown = Presented("sign-in", COOKIE)
    await scene.authenticator.authenticate(shown, fresh_ms=0)
    await scene.authenticator.authenticate(shown, fresh_ms=0)
    assert scene.store.asked == 2
    scene.store.stored.clear()

    with pytest.raises(AccessDeniedError, match="revoked"):
        await scene.authenticator.authenticate(shown, fresh_ms=0)


async def test_one_revoked_here_opens_nothing_at_once(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.store.stored.clear()
    scene.authenticator.forget(digest_of(COOKIE))
    assert await scene.status() == 401


@pytest.mark.parametrize(
    ("held", "age_ms", "status"),
    [
        (sign_in(), SIGN_IN_IDLE_MS - 1, 200),
        (sign_in(), SIGN_IN_IDLE_MS, 401),
        (sign_in(seen=START + 80 * DAY_MS), SIGN_IN_MOST_MS - 1, 200),
        (sign_in(seen=START + 89 * DAY_MS), SIGN_IN_MOST_MS, 401),
    ],
)
async def test_a_sign_in_ends_unused_or_old(
    scene: Scene, held: Credential, age_ms: int, status: int
) -> None:
    scene.knows(COOKIE, held)
    scene.now += age_ms
    assert await scene.status() == status


async def test_one_that_ends_within_that_moment_opens_nothing(scene: Scene) -> None:
    scene.knows(TOKEN, Credential("id", "ci", "viewer", START, START + 500, 0))
    assert await scene.status(TOKEN, "token") == 200
    scene.now += 500
    assert await scene.status(TOKEN, "token") == 401


@pytest.mark.parametrize("trouble", ["away", "read_only"])
async def test_without_redis_whoever_was_here_lately_goes_on(scene: Scene, trouble: str) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    setattr(scene.store, trouble, True)
    scene.now += AWAY_MS - 1
    assert await scene.status() == 200


async def test_without_redis_they_look_and_do_no_more(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status(only_looks=False) == 200
    scene.store.away = True
    scene.now += FRESH_MS

    grant = await scene.authenticator.authenticate(Presented("sign-in", COOKIE), only_looks=True)

    assert (grant.name, grant.role) == ("Ann", "viewer")
    assert await scene.status(only_looks=False) == 503


async def test_a_note_of_its_use_that_fails_takes_no_role_away(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    scene.store.read_only = True
    assert await scene.status(only_looks=False) == 200


@pytest.mark.parametrize("only_looks", [True, False])
async def test_where_the_hub_itself_has_too_much_to_do_nothing_remembered_is_believed(
    scene: Scene, only_looks: bool
) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.store.exhausted = True
    scene.now += FRESH_MS

    with pytest.raises(AccessDeniedError, match="Too much is asked") as refused:
        await scene.authenticator.authenticate(Presented("sign-in", COOKIE), only_looks=only_looks)

    assert refused.value.status == 503
    scene.store.exhausted = False
    assert await scene.status(only_looks=False) == 200  # at once: Redis was never away


async def test_a_turn_that_does_not_come_is_no_redis_that_is_away(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.now += FRESH_MS
    async with scene.known.bulkhead.turn("a"), scene.known.bulkhead.turn("b"):
        assert await scene.status() == 503
    scene.store.stored.clear()
    assert await scene.status() == 401


async def test_strangers_take_no_turn_of_those_who_are_known(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.now += FRESH_MS
    async with scene.unknown.bulkhead.turn("a"), scene.unknown.bulkhead.turn("b"):
        assert await scene.status(make_token(), "token") == 503
        assert await scene.status(only_looks=False) == 200


async def test_strangers_of_one_address_leave_others_a_turn(scene: Scene) -> None:
    scene.knows(TOKEN, Credential("id", "ci", "viewer", START, START + DAY_MS, 0))
    crowd, one = "203.0.113.7", Presented("token", TOKEN)
    scene.unknown.bulkhead = Bulkhead(1, of_one=2, wait_s=5.0)
    async with scene.unknown.bulkhead.turn(crowd):
        waiting = asyncio.create_task(scene.authenticator.authenticate(one, address=crowd))
        other = asyncio.create_task(scene.authenticator.authenticate(one, address="203.0.113.8"))
        await asyncio.sleep(0)
        with pytest.raises(AccessDeniedError, match="Too much is asked"):
            await scene.authenticator.authenticate(one, address=crowd)
    assert [(await each).name for each in (waiting, other)] == ["ci", "ci"]


async def test_a_loop_that_was_held_up_is_no_redis_that_is_away(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "ANSWER_S", 0.05)
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.now += FRESH_MS
    scene.store.rounds = 8
    asking = asyncio.create_task(scene.status(only_looks=False))
    for _ in range(12):
        await asyncio.sleep(0)
        time.sleep(0.03)  # noqa: ASYNC251 - nothing else gets on meanwhile
    assert await asking == 200


async def test_without_redis_not_for_ever(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.store.away = True
    scene.now += AWAY_MS
    assert await scene.status() == 503


async def test_without_redis_nobody_else_is_let_in_and_the_reason_is_said(scene: Scene) -> None:
    scene.store.away = True

    with pytest.raises(AccessDeniedError, match="Redis does not answer") as refused:
        await scene.authenticator.authenticate(Presented("sign-in", COOKIE))

    assert (refused.value.status, refused.value.close) == (503, gate_module.LATER)


async def test_a_redis_that_is_away_is_left_alone_for_a_moment(scene: Scene) -> None:
    scene.store.away = True
    assert [await scene.status() for _ in range(5)] == [503] * 5
    assert scene.store.asked == 1
    scene.store.away = False
    scene.knows(COOKIE, sign_in())
    scene.now += RETRY_MS
    assert await scene.status() == 200


async def test_a_redis_that_says_nothing_holds_nobody_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "ANSWER_S", 0.01)
    scene.store.silent = True
    assert await scene.status() == 503


async def test_an_open_socket_is_told_when_its_pass_is_gone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "LOOK_S", 0.001)
    scene.knows(COOKIE, sign_in())
    lapsing = asyncio.create_task(scene.authenticator.lapse(Presented("sign-in", COOKIE)))
    await asyncio.sleep(0)
    assert not lapsing.done()
    scene.store.stored.clear()
    scene.now += FRESH_MS

    code, reason = await lapsing

    assert code == gate_module.NOT_IN
    assert "revoked" in reason


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "MOST_CACHED", 3)
    held = CredentialCache()
    for number in range(3):
        held.keep(str(number), sign_in(), START)
    assert held.within("0", FRESH_MS, START)  # used, so not the first to go
    held.keep("3", sign_in(), START)

    kept = [name for name in "0123" if held.within(name, FRESH_MS, START)]

    assert kept == ["0", "2", "3"]

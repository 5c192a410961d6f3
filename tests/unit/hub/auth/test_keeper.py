"""Who is let in, while Redis answers, while it is away, and after a pass was revoked elsewhere."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_hub.auth import held as held_module
from adsum_hub.auth import keeper as keeper_module
from adsum_hub.auth.credentials import Shown
from adsum_hub.auth.entry import DAY_MS, SIGN_IN_IDLE_MS, SIGN_IN_MOST_MS, Kind, Pass
from adsum_hub.auth.held import AWAY_MS, FRESH_MS, Held
from adsum_hub.auth.keeper import RETRY_MS, Keeper, RefusedError
from adsum_hub.auth.secret import csrf_of, digest_of, make_cookie, make_token

START = 1_000_000_000
COOKIE, TOKEN, MACHINE = make_cookie(), make_token(), make_token()


def sign_in(since: int = START, seen: int | None = None) -> Pass:
    until = since + SIGN_IN_MOST_MS
    return Pass("id", "Ann", "operator", since, until, seen or since, SIGN_IN_IDLE_MS)


class FakePasses:
    """Answers from a dict, or fails, or never answers; counts how often it was asked."""

    def __init__(self) -> None:
        self.stored: dict[str, Pass] = {}
        self.away = False
        self.silent = False
        self.read_only = False
        self.asked = 0
        self.used: list[int] = []

    async def find(self, digest: str) -> Pass | None:
        self.asked += 1
        if self.silent:
            await asyncio.Event().wait()
        if self.away:
            raise RedisConnectionError("gone")
        return self.stored.get(digest)

    async def use(self, digest: str, held: Pass, now: int) -> Pass:
        if self.read_only:
            raise RedisConnectionError("READONLY")
        self.used.append(now)
        return held


class Scene:
    def __init__(self) -> None:
        self.now = START
        self.passes = FakePasses()
        kinds: dict[Kind, FakePasses] = {"sign-in": self.passes, "token": self.passes}
        self.keeper = Keeper(kinds, digest_of(MACHINE), lambda: self.now)  # type: ignore[arg-type]

    def knows(self, secret: str, held: Pass) -> None:
        self.passes.stored[digest_of(secret)] = held

    async def status(self, secret: str = COOKIE, kind: Kind = "sign-in") -> int:
        try:
            await self.keeper.let_in(Shown(kind, secret))
        except RefusedError as refused:
            return refused.status
        return 200


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_cookie_becomes_its_name_its_role_and_its_own_csrf(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())

    grant = await scene.keeper.let_in(Shown("sign-in", COOKIE))

    assert (grant.name, grant.role, grant.by) == ("Ann", "operator", "sign-in")
    assert grant.csrf == csrf_of(COOKIE)


async def test_a_token_needs_no_csrf(scene: Scene) -> None:
    scene.knows(TOKEN, Pass("id", "ci", "viewer", START, START + DAY_MS, 0))

    assert (await scene.keeper.let_in(Shown("token", TOKEN))).csrf == ""


async def test_nobody_is_told_how_to_sign_in(scene: Scene) -> None:
    with pytest.raises(RefusedError, match="not signed in") as refused:
        await scene.keeper.let_in(None)

    assert refused.value.status == 401
    assert "adsum login" in refused.value.step
    assert not refused.value.noteworthy


async def test_an_unknown_secret_is_refused(scene: Scene) -> None:
    assert await scene.status() == 401
    assert await scene.status(TOKEN, "token") == 401


async def test_this_machines_token_needs_no_redis(scene: Scene) -> None:
    scene.passes.away = True

    grant = await scene.keeper.let_in(Shown("token", MACHINE))

    assert (grant.role, grant.by) == ("admin", None)
    assert scene.passes.asked == 0


async def test_this_machines_token_in_a_cookie_opens_nothing(scene: Scene) -> None:
    assert await scene.status(MACHINE, "sign-in") == 401


async def test_redis_is_not_asked_again_within_a_moment(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.now += FRESH_MS - 1
    assert await scene.status() == 200
    assert scene.passes.asked == 1


async def test_one_revoked_by_another_hub_opens_nothing_a_moment_later(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.passes.stored.clear()
    scene.now += FRESH_MS
    assert await scene.status() == 401


async def test_one_revoked_here_opens_nothing_at_once(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.passes.stored.clear()
    scene.keeper.forget(digest_of(COOKIE))
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
    scene: Scene, held: Pass, age_ms: int, status: int
) -> None:
    scene.knows(COOKIE, held)
    scene.now += age_ms
    assert await scene.status() == status


async def test_one_that_ends_within_that_moment_opens_nothing(scene: Scene) -> None:
    scene.knows(TOKEN, Pass("id", "ci", "viewer", START, START + 500, 0))
    assert await scene.status(TOKEN, "token") == 200
    scene.now += 500
    assert await scene.status(TOKEN, "token") == 401


@pytest.mark.parametrize("trouble", ["away", "read_only"])
async def test_without_redis_whoever_was_here_lately_goes_on(scene: Scene, trouble: str) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    setattr(scene.passes, trouble, True)
    scene.now += AWAY_MS - 1
    assert await scene.status() == 200


async def test_without_redis_not_for_ever(scene: Scene) -> None:
    scene.knows(COOKIE, sign_in())
    assert await scene.status() == 200
    scene.passes.away = True
    scene.now += AWAY_MS
    assert await scene.status() == 503


async def test_without_redis_nobody_else_is_let_in_and_the_reason_is_said(scene: Scene) -> None:
    scene.passes.away = True

    with pytest.raises(RefusedError, match="Redis does not answer") as refused:
        await scene.keeper.let_in(Shown("sign-in", COOKIE))

    assert (refused.value.status, refused.value.close) == (503, keeper_module.LATER)


async def test_a_redis_that_is_away_is_left_alone_for_a_moment(scene: Scene) -> None:
    scene.passes.away = True
    assert [await scene.status() for _ in range(5)] == [503] * 5
    assert scene.passes.asked == 1
    scene.passes.away = False
    scene.knows(COOKIE, sign_in())
    scene.now += RETRY_MS
    assert await scene.status() == 200


async def test_a_redis_that_says_nothing_holds_nobody_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "ANSWER_S", 0.01)
    scene.passes.silent = True
    assert await scene.status() == 503


async def test_an_open_socket_is_told_when_its_pass_is_gone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "LOOK_S", 0.001)
    scene.knows(COOKIE, sign_in())
    lapsing = asyncio.create_task(scene.keeper.lapse(Shown("sign-in", COOKIE)))
    await asyncio.sleep(0)
    assert not lapsing.done()
    scene.passes.stored.clear()
    scene.now += FRESH_MS

    code, reason = await lapsing

    assert code == keeper_module.NOT_IN
    assert "revoked" in reason


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_module, "MOST", 3)
    held = Held()
    for number in range(3):
        held.keep(str(number), sign_in(), START)
    assert held.within("0", FRESH_MS, START)  # used, so not the first to go
    held.keep("3", sign_in(), START)

    kept = [name for name in "0123" if held.within(name, FRESH_MS, START)]

    assert kept == ["0", "2", "3"]

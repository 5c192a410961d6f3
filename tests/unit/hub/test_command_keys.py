"""The key that signs commands, and what people may decide by it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis

from adsum_hub.command_keys import CommandKeyError, CommandKeys
from adsum_shared import streams
from adsum_shared.commands import key_id
from tests.seals import seal


async def test_the_key_is_made_once_for_its_owner_alone_and_its_public_half_is_shown(
    tmp_path: Path,
) -> None:
    async with FakeAsyncRedis() as redis:
        one, again = (CommandKeys(tmp_path / "state", redis, seal()) for _ in range(2))
        known = await one.known()

        assert list(known) == [key_id((await again.own()).public_key())]
        assert await again.known() == known
        assert await redis.hgetall(streams.COMMAND_KEYS) == {
            named.encode(): sealed_key(named, of) for named, of in known.items()
        }
    assert (tmp_path / "state" / "command-key.pem").stat().st_mode & 0o777 == 0o600


async def test_keys_of_other_hubs_are_shown_but_none_under_a_foreign_id(tmp_path: Path) -> None:
    async with FakeAsyncRedis() as redis:
        other = await CommandKeys(tmp_path / "other", redis, seal()).known()
        (public,) = other.values()
        bad: dict[Any, Any] = {
            "0" * 16: sealed_key("0" * 16, public),
            "x": sealed_key("x", "no key"),
            b"\xff": b"\xff",
        }
        await redis.hset(streams.COMMAND_KEYS, mapping=bad)

        mine = CommandKeys(tmp_path / "mine", redis, seal())

        assert await mine.known() == other | {
            key_id((await mine.own()).public_key()): mine_public(await mine.own())
        }


async def test_a_key_that_no_hub_signed_is_shown_to_no_machine(tmp_path: Path) -> None:
    async with FakeAsyncRedis() as redis:
        (name, public), *_ = (
            await CommandKeys(tmp_path / "a", FakeAsyncRedis(), seal()).known()
        ).items()
        for planted in (
            public.encode(),
            seal(secret="x" * 32).sign(
                streams.COMMAND_KEYS, b'{"key":"%b"}' % public.encode(), name
            ),
        ):
            await redis.hset(streams.COMMAND_KEYS, mapping={name: planted})
            trust = seal()

            assert name not in await CommandKeys(tmp_path / "b", redis, trust).known()
            assert trust.notes()


def sealed_key(name: str, public: str) -> bytes:
    return seal().sign(streams.COMMAND_KEYS, b'{"key":"%b"}' % public.encode(), name)


def mine_public(key: object) -> str:
    return str(key.public_key().public_bytes_raw().hex())  # type: ignore[attr-defined] # a private key


@pytest.mark.parametrize("spoil", ["readable", "torn", "link"])
async def test_a_key_that_others_may_know_or_that_is_none_signs_nothing(
    tmp_path: Path, spoil: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeAsyncRedis() as redis:
        await CommandKeys(tmp_path, redis, seal()).own()
        file = tmp_path / "command-key.pem"
        private = file.read_text()
        if spoil == "readable":
            file.chmod(0o644)
        elif spoil == "torn":
            file.write_text(private[:60])
        else:
            file.rename(tmp_path / "elsewhere.pem")
            file.symlink_to(tmp_path / "elsewhere.pem")
        keys = CommandKeys(tmp_path, redis, seal())

        with pytest.raises(CommandKeyError, match=r"command-key\.pem"):
            await keys.own()
        await keys.run()  # it says so and ends: such a hub still shows the list

        assert await keys.known() == {}
    assert "nobody can decide anything from here" in caplog.text
    assert private[40:60] not in caplog.text


async def test_an_end_that_comes_while_redis_answers_is_not_a_minute_late(
    tmp_path: Path,
) -> None:
    """`asyncio.wait_for`, with which Redis's client waits, loses a cancellation at that moment."""
    asked = asyncio.Event()

    class Answering:
        async def hgetall(self, _key: str) -> dict[bytes, bytes]:
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return {}
            raise AssertionError

        async def hset(self, *_: object) -> None: ...

    running = asyncio.create_task(CommandKeys(tmp_path, Answering(), seal()).run())  # type: ignore[arg-type] # as far as it is asked
    await asked.wait()
    running.cancel()

    done, _ = await asyncio.wait({running}, timeout=10)
    assert done == {running}

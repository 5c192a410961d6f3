"""What the doctor makes of what Redis says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adsum.doctor.checks import Finding, RedisLook, check_redis, judge_redis
from tests.brokers import free_port

MB = 1 << 20
WELL = {
    "redis_version": "7.0.15",
    "maxmemory_policy": "noeviction",
    "maxmemory": 256 * MB,
    "used_memory": 12 * MB,
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
}


def judged(
    save: str | None = "", refusal: str | None = None, at: str = "redis://h:1", **info: Any
) -> Finding:
    return judge_redis(RedisLook(WELL | info, save, refusal), at)


def test_a_redis_that_is_well_says_which_it_is_and_what_it_holds() -> None:
    found = judged()
    assert (found.result, found.details) == ("ok", ())
    assert found.what == "Redis 7.0.15 at redis://h:1 takes writes; 13 MB of 268 MB used."
    assert "Valkey 9.1.2 at" in judged(valkey_version="9.1.2", redis_version="7.2.4").what


def test_a_redis_that_takes_no_writes_fails_with_the_step() -> None:
    found = judged(refusal="Redis at redis://h:1 is out of memory. Raise its maxmemory.")
    assert (found.result, found.fix) == ("fail", "Raise its maxmemory.")


@pytest.mark.parametrize(
    ("at", "command"),
    [
        ("redis://h:1", "redis-cli -u redis://h:1 CONFIG SET maxmemory-policy noeviction"),
        ("unix:/run/r.sock", "redis-cli -s /run/r.sock CONFIG SET maxmemory-policy noeviction"),
    ],
)
def test_a_policy_that_throws_away_is_a_warning_with_the_line_to_run(at: str, command: str) -> None:
    found = judged(maxmemory_policy="allkeys-lru", at=at)
    assert found.result == "warn"
    assert "its policy is allkeys-lru" in found.what
    assert (found.fix or "").startswith(command)


def test_a_policy_without_a_limit_is_only_worth_knowing() -> None:
    found = judged(maxmemory_policy="volatile-ttl", maxmemory=0)
    assert found.result == "ok"
    assert "volatile-ttl" in found.details[0]


@pytest.mark.parametrize(("used", "result"), [(204, "ok"), (206, "warn")])
def test_memory_nearly_used_is_a_warning(used: int, result: str) -> None:
    assert judged(used_memory=used * MB).result == result
    assert judged(used_memory=1_000 * MB, maxmemory=0).result == "ok"


def test_what_redis_does_not_count_is_not_counted() -> None:
    assert judged(used_memory=250 * MB, mem_not_counted_for_evict=100 * MB).result == "ok"


@pytest.mark.parametrize(
    "info", [{"aof_last_write_status": "err"}, {"aof_enabled": 0, "rdb_last_bgsave_status": "err"}]
)
def test_a_save_that_failed_is_a_warning(info: dict[str, Any]) -> None:
    found = judged(save="3600 1", **info)
    assert found.result == "warn"
    assert "could not save" in found.what


def test_keeping_nothing_on_disk_is_worth_knowing_and_no_fault() -> None:
    found = judged(aof_enabled=0)
    assert found.result == "ok"
    assert "keeps nothing on disk" in found.details[0]
    assert judged(save="3600 1 300 100", aof_enabled=0).details == ()
    assert judged(save=None, aof_enabled=0).details == (), "nobody may ask"


def test_a_redis_that_is_away_fails_and_no_password_is_shown(tmp_path: Path) -> None:
    found = check_redis(f"redis://me:hunter2@127.0.0.1:{free_port()}", tmp_path)
    assert found.result == "fail"
    assert "cannot be reached" in found.what
    assert "hunter2" not in f"{found}"


def test_without_a_url_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    found = check_redis(None, tmp_path)
    assert found.result == "skip"
    assert "ADSUM_REDIS_URL" in found.what


def test_an_embedded_broker_that_is_not_there_fails(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    assert check_redis(None, tmp_path).result == "fail"

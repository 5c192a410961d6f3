"""What people are told when the broker does not take our batches."""

from __future__ import annotations

import pytest
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)

from adsum_collector.problems import describe
from adsum_shared.connect import BrokerTooOldError, require_recent


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("Error 111 connecting to h:1. Connection refused."), "cannot be reached"),
        (TimeoutError("Timeout connecting to server"), "cannot be reached"),
        (OSError("no route"), "cannot be reached"),
        (AuthenticationError("invalid username-password pair"), "refused the password"),
        (ResponseError("NOAUTH Authentication required."), "refused the password"),
        (NoPermissionError("this user has no permissions to run 'xadd'"), "forbids"),
        (OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "memory"),
        (ReadOnlyError("You can't write against a read only replica."), "read-only replica"),
        (BusyLoadingError("Redis is loading the dataset in memory"), "loading"),
        (ResponseError("MISCONF Redis is configured to save RDB snapshots"), "cannot save"),
        (ResponseError("WRONGTYPE Operation against a key"), "answered: WRONGTYPE"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_every_problem_names_the_broker_and_the_next_step(error: Exception, words: str) -> None:
    text = describe(error, "redis://h:1")

    assert words in text
    assert "redis://h:1" in text
    assert text.count(". ") >= 1


def test_an_old_redis_is_named_with_what_is_needed() -> None:
    with pytest.raises(BrokerTooOldError) as caught:
        require_recent({"redis_version": "5.0.7"})

    assert "Redis 5.0 is too old" in describe(caught.value, "redis://h:1")

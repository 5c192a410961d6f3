"""Every state a Redis can be in is told as a cause and a next step."""

from __future__ import annotations

import pytest
from redis import exceptions

from adsum_shared.redis_errors import BrokerTooOldError, describe

KEPT = "Nothing is lost."


@pytest.mark.parametrize(
    ("error", "cause", "step"),
    [
        (exceptions.OutOfMemoryError("command not allowed"), "out of memory", "maxmemory"),
        (exceptions.ResponseError("OOM command not allowed"), "out of memory", "maxmemory"),
        (
            exceptions.ResponseError("Error running script: @user_script:11: -OOM command not"),
            "out of memory",
            "maxmemory",
        ),
        (exceptions.ReadOnlyError("You can't write"), "read-only replica", "primary"),
        (exceptions.ResponseError("READONLY You can't write"), "read-only replica", "primary"),
        (exceptions.ResponseError("MISCONF Errors writing"), "cannot save to its disk", "log"),
        (exceptions.BusyLoadingError("Redis is loading"), "loading", "Wait"),
        (exceptions.ResponseError("BUSY Redis is busy running a script"), "busy", "Wait"),
        (
            exceptions.ResponseError("MASTERDOWN Link with MASTER is down"),
            "lost its primary",
            "Start that",
        ),
        (
            exceptions.ResponseError("NOREPLICAS Not enough good replicas"),
            "fewer replicas",
            "Start them",
        ),
        (
            exceptions.ConnectionError("max number of clients reached"),
            "no connection",
            "maxclients",
        ),
        (
            exceptions.ConnectionError("Error 111 connecting to h:1"),
            "cannot be reached",
            "Start it",
        ),
        (exceptions.TimeoutError(), "does not answer", "look at"),
        (ConnectionResetError(104, "reset"), "cannot be reached", "Start it"),
        (exceptions.ResponseError("ERR what"), "answered: ERR what", KEPT),
    ],
)
def test_a_state_is_told_with_its_next_step(error: Exception, cause: str, step: str):
    told = describe(error, "redis://h:1", KEPT)

    assert cause in told
    assert step in told
    assert told.endswith(KEPT)
    assert "redis://h:1" in told


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (exceptions.NoPermissionError("this user has no permissions"), "rights"),
        (exceptions.ResponseError("NOPERM this user"), "rights"),
        (exceptions.AuthenticationError("invalid username-password pair: hunter2"), "right one"),
        (exceptions.ResponseError("NOAUTH Authentication required."), "right one"),
    ],
)
def test_what_is_forbidden_is_told_without_what_was_tried(error: Exception, step: str):
    told = describe(error, "redis://h:1", KEPT)

    assert step in told
    assert "hunter2" not in told


def test_a_server_that_is_too_old_says_so_itself():
    assert (
        describe(BrokerTooOldError("too old: upgrade"), "redis://h:1", KEPT) == "too old: upgrade"
    )

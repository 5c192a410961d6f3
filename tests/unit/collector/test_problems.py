"""What people are told when the broker does not take our batches."""

from __future__ import annotations

import pytest
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    InvalidResponse,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)

from adsum_collector.delivery.publisher import NOTICE_S, DeliveryProblem
from adsum_collector.delivery.transports import RedisTransport
from adsum_collector.errors import (
    SpoolUnavailable,
    StreamMovedError,
    StreamUnusableError,
)
from adsum_shared.connect import require_recent
from adsum_shared.host_keys import OddReplyError
from adsum_shared.redis_errors import BrokerTooOldError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("Error 111 connecting to h:1. Connection refused."), "cannot be reached"),
        (TimeoutError("Timeout connecting to server"), "cannot be reached"),
        (OSError("no route"), "cannot be reached"),
        (TimeoutError("Timeout reading from h:1"), "does not answer"),
        (AuthenticationError("invalid username-password pair"), "refused the password"),
        (ResponseError("NOAUTH Authentication required."), "refused the password"),
        (NoPermissionError("this user has no permissions to run 'xadd'"), "command (this user has"),
        (OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "memory"),
        (ReadOnlyError("You can't write against a read only replica."), "read-only replica"),
        (BusyLoadingError("Redis is loading the dataset in memory"), "loading"),
        (MasterDownError("Link with MASTER is down"), "lost its primary"),
        (ResponseError("MISCONF Redis is configured to save RDB snapshots"), "cannot save"),
        (ResponseError("NOREPLICAS Not enough good replicas to write."), "fewer replicas"),
        (ResponseError("BUSY Redis is busy running a script."), "SCRIPT KILL"),
        (ConnectionError("max number of clients reached"), "maxclients"),
        (ResponseError("ERR unknown command"), "answered: ERR unknown command"),
        (InvalidResponse("Protocol Error: b'HTTP/1.1'"), "answered: Protocol Error"),
        (StreamUnusableError("adsum:{h}:in"), "absurd id into adsum:{h}:in"),
        (OddReplyError("the answer makes no sense. Look."), "makes no sense"),
    ],
    ids=lambda value: (
        f"{type(value).__name__} {value}"[:40] if isinstance(value, Exception) else ""
    ),
)
def test_every_problem_names_the_broker_and_the_next_step(error: Exception, words: str) -> None:
    problem = DeliveryProblem("Redis at redis://h:1", lambda: 0.0)
    problem.report(error)
    text = str(problem.text)

    assert words in text
    assert "redis://h:1" in text
    assert "Nothing is lost" in text
    assert text.count(". ") >= 1
    assert "{" not in text.replace("{h}", "")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def problem(clock: Clock) -> DeliveryProblem:
    problem = DeliveryProblem(RedisTransport("redis://user:secret@h:1").place, clock)
    problem.publishing()
    return problem


def test_before_the_first_connection_that_is_the_problem(clock: Clock) -> None:
    problem = DeliveryProblem(RedisTransport("redis://user:secret@h:1").place, clock)

    assert problem.text == "Not connected to Redis at redis://h:1 yet."
    problem.reached()
    assert problem.text is None


def test_all_that_is_wrong_is_told_the_most_important_first(problem: DeliveryProblem) -> None:
    problem.notice("It has moved.")
    problem.held_up("The stream waits.")
    problem.report(SpoolUnavailable("full"))
    assert problem.text is not None
    spool, stream, notice = (problem.text.index(w) for w in ("The spool fails", "waits.", "moved."))
    assert spool < stream < notice

    problem.spool_read()
    problem.report(ConnectionError("refused"))
    assert problem.text.startswith("Redis at redis://h:1")
    assert "The stream waits." not in problem.text  # nobody knows, while it is away


def test_a_notice_is_told_for_a_while_after_its_last_cause(
    problem: DeliveryProblem, clock: Clock
) -> None:
    for _ in range(3):
        problem.report(StreamMovedError())
        clock.now += NOTICE_S - 1
        assert "looks like a copy" in str(problem.text)

    clock.now += 1
    assert problem.text is None


def test_what_is_refused_stays_told_until_something_goes_through(problem: DeliveryProblem) -> None:
    problem.report(NoPermissionError("no xadd"))
    problem.reached()
    assert "no xadd" in str(problem.text)
    problem.publishing()
    assert problem.text is None


def test_the_same_is_logged_once_for_each_connection(
    problem: DeliveryProblem, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        problem.held_up("It waits.")
        problem.notice("There is a copy.")
    assert [record.message for record in caplog.records] == ["It waits.", "There is a copy."]


def test_an_old_redis_is_named_with_what_is_needed(problem: DeliveryProblem) -> None:
    with pytest.raises(BrokerTooOldError) as caught:
        require_recent({"redis_version": "5.0.7"})

    problem.report(caught.value)
    assert "Redis 5.0 is too old" in str(problem.text)

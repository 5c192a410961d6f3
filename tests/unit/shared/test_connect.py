"""Time-outs, back-off and the oldest broker we speak to."""

from __future__ import annotations

from itertools import islice

import pytest

from adsum_shared.connect import (
    BrokerTooOldError,
    backoff,
    open_redis,
    redis_version,
    require_recent,
)


def test_the_library_never_retries_for_us():
    kwargs = open_redis("redis://127.0.0.1:1").connection_pool.connection_kwargs

    assert kwargs["retry"] is None
    assert kwargs["protocol"] == 2


def test_a_blocking_reader_outwaits_its_own_block():
    kwargs = open_redis("redis://127.0.0.1:1", block_s=30).connection_pool.connection_kwargs

    assert kwargs["socket_timeout"] > 30


def test_pauses_grow_but_never_beyond_the_limit():
    pauses = list(islice(backoff(0.1, 2.0), 200))

    assert max(pauses) <= 2.0
    assert pauses[0] <= 0.1
    assert max(pauses[50:]) > 0.5


def test_an_old_broker_is_refused_with_the_next_step():
    with pytest.raises(BrokerTooOldError, match=r"6\.0 is too old.*Upgrade it"):
        require_recent({"redis_version": "6.0.16"})


def test_valkey_passes_as_the_redis_it_descends_from():
    require_recent({"redis_version": "7.2.4", "server_name": "valkey"})

    assert redis_version({}) == (0, 0)

"""Time-outs, back-off and the oldest broker we speak to."""

from __future__ import annotations

from itertools import islice

import pytest

from adsum_shared.connect import backoff, check_url, open_redis, redis_version, require_recent
from adsum_shared.redis_errors import BrokerTooOldError
from adsum_shared.redis_url import RedisUrlError, address_of


def test_the_library_never_retries_for_us():
    kwargs = open_redis("redis://127.0.0.1:1").connection_pool.connection_kwargs

    assert kwargs["retry"] is None
    assert kwargs["protocol"] == 2


def test_a_blocking_reader_outwaits_its_own_block():
    kwargs = open_redis("redis://127.0.0.1:1", block_s=30).connection_pool.connection_kwargs

    assert kwargs["socket_timeout"] > 30


@pytest.mark.parametrize(
    "url",
    [
        "nonsense-s3cr",
        "http://x:s3cr@h",
        "redis://h:s3cr",
        "redis://:s3cr/etpw@h",
        "redis://:12/s3cr@h",
        "redis://:12?s3cr@h",
        "redis://:12#s3cr@h",
        "redis://u:s3cr\N{ACCOUNT OF}@h",
        "redis://h?s3cr=1",
        "redis://h?db=s3cr",
        "unix://:s3cr/x@/run/broker.sock",
    ],
)
def test_what_is_no_redis_url_is_refused_without_a_word_of_it(url):
    with pytest.raises(RedisUrlError, match="redis://host:6379") as refused:
        check_url(url)

    assert "s3cr" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://host", "redis://host:6379"),
        ("redis://user:s3cret@host:7000/1", "redis://host:7000"),
        ("rediss://:s3cr%2Fet@h:1?password=s3cret", "rediss://h:1"),
        ("redis://[::1]:7000", "redis://[::1]:7000"),
        ("unix://me:s3cret@/run/broker.sock?db=0", "unix:/run/broker.sock"),
        ("unix:///run/a@b.sock", "unix:/run/a@b.sock"),
    ],
)
def test_of_a_url_only_the_place_is_shown(url, address):
    check_url(url)

    assert address_of(url) == address


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

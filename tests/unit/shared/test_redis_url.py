"""URLs of Sentinels and clusters: what they name, what of them is shown, and which are none."""

from __future__ import annotations

import pytest

from adsum_shared.connect import check_url, open_redis
from adsum_shared.redis_cluster import ClusterReader, ClusterRedis
from adsum_shared.redis_url import RedisUrlError, address_of, read_url, with_ca


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis+sentinel://a:1,b/mymaster", "redis+sentinel://a:1,b:26379/mymaster"),
        ("rediss+sentinel://u:s3cr@a/m/2?sentinel_password=s3cr", "rediss+sentinel://a:26379/m"),
        ("redis+cluster://:s3cr@a,[::1]:7", "redis+cluster://a:6379,[::1]:7"),
        ("rediss+cluster://a:1/0?ssl_ca_certs=/s3cr", "rediss+cluster://a:1"),
    ],
)
def test_of_a_url_of_several_only_the_places_are_shown(url: str, address: str) -> None:
    check_url(url)

    assert address_of(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://a:1,b:2",
        "redis+sentinel://a:1/mymaster/s3cr",
        "redis+sentinel://a:1/mymaster/0/s3cr",
        "redis+sentinel://a:s3cr/mymaster",
        "redis+sentinel://a:1,/mymaster",
        "redis+sentinel://u:s3cr/x@a:1/mymaster",
        "redis+sentinel://a:1/mymaster?s3cr=1",
        "redis+sentinel://[::1]s3cr/mymaster",
        "redis+cluster://a:1/1?password=s3cr",
        "redis+cluster://a:1?db=3&password=s3cr",
        "redis+cluster://a:70000?password=s3cr",
        "unix+cluster://s3cr",
    ],
)
def test_what_is_none_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(RedisUrlError, match=r"redis\+sentinel://host:26379") as refused:
        check_url(url)

    assert "s3cr" not in str(refused.value)


def test_every_server_is_reached_with_the_login_and_options_of_the_whole() -> None:
    url = read_url("rediss+sentinel://u:p%2F@a:1/m/2?ssl_check_hostname=false&sentinel_password=q/")

    assert url.of(("h", 5)) == "rediss://u:p%2F@h:5/2?ssl_check_hostname=false"
    assert url.of_sentinel(("::1", 5)) == "rediss://:q%2F@[::1]:5?ssl_check_hostname=false"
    assert url.master == "m"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("rediss://h", "rediss://h?ssl_ca_certs=%2Fca.pem"),
        ("rediss+cluster://h?a=b", "rediss+cluster://h?a=b&ssl_ca_certs=%2Fca.pem"),
        ("rediss://h?ssl_ca_certs=/own", "rediss://h?ssl_ca_certs=/own"),
        ("unix:///run/r.sock", "unix:///run/r.sock"),
    ],
)
def test_an_authority_is_named_in_the_url_unless_it_names_its_own(url: str, named: str) -> None:
    assert with_ca(url, "/ca.pem") == named


async def test_each_url_has_its_client_and_none_connects_before_it_is_asked() -> None:
    assert isinstance(open_redis("redis+cluster://a:1"), ClusterRedis)
    assert isinstance(open_redis("redis+cluster://a:1", block_s=1), ClusterReader)
    kwargs = open_redis("rediss+sentinel://u:p@a/m/3").connection_pool.connection_kwargs
    assert (kwargs["username"], kwargs["db"], kwargs["protocol"], kwargs["retry"]) == (
        *("u", 3),
        *(2, None),
    )

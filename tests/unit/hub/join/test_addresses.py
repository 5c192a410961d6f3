"""URLs that machines are given, and those an operator writes for them."""

from __future__ import annotations

import pytest

from adsum_hub.join.rights import Addresses
from adsum_hub.settings import HubSettings
from adsum_shared.settings import ConfigError


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("redis://hub:s3cr@r:6379/1", "r:6379/1"),
        ("rediss://r?username=hub&password=s3cr&ssl_keyfile=/s3cr", "r"),
        ("rediss://r?ssl_ca_certs=/s3cr&ssl_cert_reqs=none&db=2", "r?ssl_cert_reqs=none&db=2"),
        ("unix:///run/r.sock?db=1&password=s3cr#s3cr", "/run/r.sock?db=1"),
        ("redis+sentinel://hub:s3cr@r:1,q:2/m/3?sentinel_password=s3cr", "r:1,q:2/m/3"),
        ("rediss+cluster://hub:s3cr@r:1,q:2?ssl_ca_certs=/s3cr", "r:1,q:2"),
    ],
)
def test_a_machine_gets_nothing_of_the_hubs_own_login_or_files(given: str, place: str) -> None:
    scheme = given.partition(":")[0]

    url = Addresses(given, None, None).redis("h", "secret")

    assert url == f"{scheme}://adsum-h:secret@{place}"


@pytest.mark.parametrize("name", ["machine_redis_url", "machine_shared_url"])
@pytest.mark.parametrize("given", ["redis.example.net:6379", "http://u:s3cr@r", "u:s3cr@r:6379"])
def test_a_url_for_machines_that_is_none_is_told_at_start_without_it(name: str, given: str) -> None:
    with pytest.raises(ConfigError, match=f"ADSUM_{name.upper()} is no Redis URL") as refused:
        HubSettings(**{name: given})

    assert given not in str(refused.value)
    assert "s3cr" not in str(refused.value)
    assert "redis://host:6379" in str(refused.value)


@pytest.mark.parametrize("name", ["machine_redis_url", "machine_shared_url"])
@pytest.mark.parametrize(("given", "kept"), [("", None), ("rediss://u:p@r:1", "rediss://u:p@r:1")])
def test_a_url_for_machines_is_kept_and_an_empty_one_is_none(
    name: str, given: str, kept: str | None
) -> None:
    assert getattr(HubSettings(**{name: given}), name) == kept

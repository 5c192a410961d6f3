"""Ways to Redis that fail: certificates, Sentinels and nodes that are none, each told with its next step."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adsum.doctor.checks import check_redis
from adsum.machine import reach_redis
from adsum_collector.settings import CollectorSettings
from adsum_shared.connect import UNAVAILABLE, open_redis
from adsum_shared.redis_errors import is_untrusted
from adsum_shared.redis_url import with_ca
from tests.authorities import Authority
from tests.brokers import Broker, free_port, require_binary, running_broker
from tests.clusters import asked, until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(60), pytest.mark.slow]
TLS_PORT = free_port()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Broker]:
    """A node that is a cluster alone; it speaks TLS at TLS_PORT."""
    pem, key = authority.sign("localhost", "127.0.0.1")
    tls = ("--tls-port", str(TLS_PORT), "--tls-cert-file", str(pem), "--tls-key-file", str(key))
    tls += ("--tls-ca-cert-file", str(authority.file), "--tls-auth-clients", "no")
    tls += ("--tls-cluster", "yes")  # else it names its port without TLS to all
    alone = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    words = [require_binary(), "--tls-port", "0", "--version"]
    version = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        with running_broker(tmp_path_factory.mktemp("broker"), *tls, *alone) as broker:
            asked(broker, "CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
            until(lambda: b"cluster_state:ok" in asked(broker, "CLUSTER", "INFO"))
            yield broker
    except AssertionError:
        pytest.skip(f"built without TLS: {version.stdout}")


@pytest.fixture
def shows(server: Broker) -> Iterator[Callable[[tuple[Path, Path]], None]]:
    """The server shows another certificate, from the next connection on."""
    names = ("tls-cert-file", "tls-key-file")
    before = [asked(server, "CONFIG", "GET", name)[1].decode() for name in names]

    def show(files: tuple[Path, ...]) -> None:
        pairs = [str(word) for pair in zip(names, files, strict=True) for word in pair]
        asked(server, "CONFIG", "SET", *pairs)

    yield show
    show(tuple(map(Path, before)))


@pytest.mark.core
@pytest.mark.parametrize("scheme", ["rediss", "rediss+cluster"])
def test_ones_own_authority_is_taken_and_no_other_counts_beside_it(
    server: Broker,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
) -> None:
    url = f"{scheme}://localhost:{TLS_PORT}"
    other = Authority(tmp_path / "other")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))  # the system trusts it

    def look(ca: Path) -> tuple[str, str]:
        settings = CollectorSettings(redis_url=url, redis_ca=ca)
        found = check_redis(settings.redis_url, tmp_path)
        return found.result, f"{found.what} {found.fix}"

    assert look(authority.file)[0] == "ok"
    assert check_redis(url, tmp_path).result == "ok"
    level, told = look(other.file)
    assert level == "fail"
    assert "authority is not trusted here" in told
    assert "ADSUM_REDIS_CA" in told


@pytest.mark.parametrize("scheme", ["rediss", "rediss+cluster"])
def test_who_joins_with_an_authority_for_the_hub_reaches_a_redis_of_another(
    server: Broker,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
) -> None:
    url, other = f"{scheme}://localhost:{TLS_PORT}", Authority(tmp_path / "other")

    assert reach_redis(url, "h", str(authority.file)) == with_ca(url, str(authority.file))
    with pytest.raises(UNAVAILABLE) as refused:
        reach_redis(url, "h", str(other.file))
    assert is_untrusted(refused.value)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))  # the system trusts it
    assert reach_redis(url, "h", str(other.file)) == url


@pytest.mark.parametrize("scheme", ["rediss", "rediss+cluster"])
@pytest.mark.parametrize(
    ("name", "days", "words"),
    [
        ("localhost", -1, ("has expired", "Renew it")),
        ("elsewhere.example", 30, ("for another name", "subjectAltName")),
    ],
)
def test_a_wrong_certificate_is_told_with_its_next_step(
    shows: Callable[[tuple[Path, Path]], None],
    authority: Authority,
    scheme: str,
    name: str,
    days: int,
    words: tuple[str, str],
) -> None:
    shows(authority.sign(name, days=days))
    url = with_ca(f"{scheme}://user:s3cret@localhost:{TLS_PORT}", str(authority.file))

    found = check_redis(url, authority.file.parent)

    told = f"{found.what} {found.fix}"
    assert found.result == "fail"
    assert all(word in told for word in words), told
    assert "s3cret" not in told


def test_a_file_that_holds_no_certificate_is_named(server: Broker, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    missing = check_redis(with_ca(f"rediss://localhost:{TLS_PORT}", str(file)), tmp_path)
    file.write_text("no certificate")
    empty = check_redis(with_ca(f"rediss://localhost:{TLS_PORT}", str(file)), tmp_path)

    for found in (missing, empty):
        told = f"{found.what} {found.fix}"
        assert (found.result, str(file) in told, "ADSUM_REDIS_CA" in told) == (
            "fail",
            True,
            True,
        ), told


def test_a_cluster_that_is_down_is_told(server: Broker, tmp_path: Path) -> None:
    url = f"redis+cluster://127.0.0.1:{server.port}"
    asked(server, "CLUSTER", "DELSLOTS", 16_000)
    until(lambda: b"cluster_state:fail" in asked(server, "CLUSTER", "INFO"))
    try:
        down = check_redis(url, tmp_path)
    finally:
        asked(server, "CLUSTER", "ADDSLOTS", 16_000)
        until(lambda: b"cluster_state:ok" in asked(server, "CLUSTER", "INFO"))

    assert "the cluster is down" in f"{down.what} {down.fix}"
    assert check_redis(url, tmp_path).result == "ok"


def test_a_server_alone_is_no_cluster(redis_server: Broker, tmp_path: Path) -> None:
    found = check_redis(f"redis+cluster://127.0.0.1:{redis_server.port}", tmp_path)

    told = f"{found.what} {found.fix}"
    assert f"127.0.0.1:{redis_server.port} is no node of a cluster" in told
    assert "redis://" in told


def test_sentinels_that_are_away_are_told(tmp_path: Path) -> None:
    found = check_redis(f"redis+sentinel://u:s3cret@127.0.0.1:{free_port()}/mymaster", tmp_path)

    told = f"{found.what} {found.fix}"
    assert "no Sentinel answers" in told
    assert "s3cret" not in told


async def test_a_socket_is_a_way_as_any_other(tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker", unix=True) as broker:
        async with open_redis(broker.url, block_s=0.5) as client:
            await client.xadd("a", {"b": "c"}, id="1-1")
            assert len(await client.xread({"a": "0-0"}, block=10)) == 1
        found = await asyncio.to_thread(check_redis, broker.url, tmp_path)
        assert found.result == "ok"

"""Joining that cannot succeed: the cause, the next step, and everything as it was before."""

from __future__ import annotations

import datetime
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from adsum_hub.auth.credentials import digest_of
from adsum_shared import streams
from tests.brokers import Broker, free_port, running_broker
from tests.hub_processes import HubProcess, started
from tests.joining import Machine, hosts, join_token, machines
from tests.seals import seal
from tests.support import wait_until
from tests.tls import tls_before

pytestmark = [pytest.mark.redis, pytest.mark.slow]
TLS_PORT = free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[HubProcess]:
    names = f'["localhost:{TLS_PORT}", "127.0.0.1:{TLS_PORT}"]'
    folder = tmp_path_factory.mktemp("hub") / "one"
    hub = HubProcess(folder, broker.url, sign_in="on", hub_hosts=names)
    with started(hub):
        yield hub


@pytest.fixture
def oak(tmp_path: Path) -> Iterator[Machine]:
    with machines("oak") as [made]:
        yield made


@contextmanager
def undone(machine: Machine) -> Iterator[None]:
    """Whatever happens within, the home is the same after it."""
    before = machine.tree()
    yield
    after = machine.tree()
    # Only names: to show how two spools differ takes pytest a minute.
    assert sorted(n for n in before | after if before.get(n) != after.get(n)) == []


def assert_joined(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr


@pytest.mark.core
def test_a_token_joins_one_machine_once(hub: HubProcess, oak: Machine, broker: Broker) -> None:
    token, over = join_token(hub), join_token(hub)
    with redis.Redis.from_url(broker.url) as client:
        for secret, before, after in (
            (over, b'"until":', b'"until":1,"x":'),
            (token, b'"by":null', b'"by":"other"'),
        ):
            key = streams.join_token(digest_of(secret))
            stored: Any = seal().verify(key, client.get(key))  # type: ignore[arg-type] # it is there
            client.set(key, seal().sign(key, stored.replace(before, after)))
    wrong = "adsum_join_" + "x" * 43
    for given, why in (
        (token, "was used already"),
        (over, "has expired"),
        (wrong, "No join token is this one"),
        ("hello", "no join token"),
        ("", "joins by a token"),
    ):
        with undone(oak):
            done = oak.join(hub.url, given)
        assert done.returncode in (1, 2, 4), (given, done)
        assert why in done.stderr
        assert "adsum hub tokens create --join" in done.stderr
        assert given not in done.stderr or given in ("", "hello")


def test_a_hub_that_is_not_there_is_named(oak: Machine) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with undone(oak):
        done = oak.join(url, "adsum_join_" + "x" * 43)
    assert done.returncode == 3
    assert f"The hub at {url} cannot be reached" in done.stderr


def test_settings_that_are_broken_or_read_only_use_no_token_up(
    hub: HubProcess, oak: Machine
) -> None:
    oak.settings.parent.mkdir()
    token = join_token(hub)
    oak.settings.write_text('{"model": \n')
    with undone(oak):
        broken = oak.join(hub.url, token)
    oak.settings.write_text("{}\n")
    oak.settings.chmod(0o444)
    with undone(oak):
        held = oak.join(hub.url, token)
    oak.settings.chmod(0o644)

    assert (broken.returncode, held.returncode) == (1, 1)
    assert "correct it, then try again" in broken.stderr
    assert "is read-only" in held.stderr
    assert "--no-hooks" in held.stderr
    assert_joined(oak.join(hub.url, token))  # as good as before
    assert oak.run("leave").returncode == 0


def test_a_redis_that_the_machine_cannot_reach_undoes_all_and_frees_the_token(
    oak: Machine, broker: Broker, tmp_path: Path
) -> None:
    away = f"redis://127.0.0.1:{free_port()}"
    hub = HubProcess(tmp_path / "hub", broker.url, sign_in="on", machine_redis_url=away)
    with started(hub):
        token = join_token(hub)
        users = acl_users(broker)
        with undone(oak):
            done = oak.join(hub.url, token, "--via", "redis")
        again = oak.join(hub.url, token, "--via", "redis")
        assert "oak" not in hosts(hub)
    assert done.returncode == 3
    assert away in done.stderr
    assert "ADSUM_MACHINE_REDIS_URL" in done.stderr
    assert "Everything is as it was before." in done.stderr
    assert "was used" not in again.stderr
    assert acl_users(broker) == users


def acl_users(broker: Broker) -> set[str]:
    with redis.Redis.from_url(broker.url) as client:
        return set(client.acl_users())


# As soon as it is joined; as its collector starts, and nobody could find that yet; as that runs.
@pytest.mark.parametrize("at", ["machine.json", "logs/collector.log", "usage.db", "codex/usage.db"])
async def test_ctrl_c_undoes_all(hub: HubProcess, oak: Machine, broker: Broker, at: str) -> None:
    oak.env["ADSUM_JOIN_TOKEN"] = join_token(hub)
    with undone(oak):
        joining = oak.spawn("join", hub.url, "--no-service", "--yes")
        await wait_until((oak.state / at).exists, 20, 0.001)
        joining.send_signal(signal.SIGINT)
        _, said = joining.communicate(timeout=60)
    assert joining.returncode == 130, said
    assert "Everything is as it was before." in said
    assert "oak" not in hosts(hub)


def test_without_a_service_manager_nothing_is_changed(hub: HubProcess, oak: Machine) -> None:
    oak.env["PATH"] = str(oak.home / "bin")
    with undone(oak):
        done = oak.join(hub.url, join_token(hub), service=True)
    assert done.returncode != 0
    assert "--no-service" in done.stderr
    assert "Everything is as it was before." in done.stderr


def test_who_has_joined_joins_once_and_again_when_told(hub: HubProcess, oak: Machine) -> None:
    assert_joined(oak.join(hub.url, join_token(hub)))
    first = oak.kept

    said = oak.join(hub.url, join_token(hub))
    assert said.returncode == 0
    assert "has joined" in said.stderr
    assert oak.kept == first
    again = oak.join(hub.url, join_token(hub), "--again")

    assert again.returncode == 0, again.stderr
    assert oak.kept["host_id"] == first["host_id"]
    assert oak.kept["secret"] != first["secret"]
    assert oak.run("leave").returncode == 0


def test_a_copy_of_a_machine_joins_as_a_machine_of_its_own(
    hub: HubProcess, oak: Machine, tmp_path: Path
) -> None:
    assert_joined(oak.join(hub.url, join_token(hub)))
    token = join_token(hub)
    with machines("elm") as [elm]:
        elm.state.mkdir(parents=True, mode=0o700)
        (elm.state / "host.json").write_bytes((oak.state / "host.json").read_bytes())
        with undone(elm):
            copied = elm.join(hub.url, token)
        assert copied.returncode == 1
        assert "--new-identity" in copied.stderr
        done = elm.join(hub.url, token, "--new-identity")
        assert done.returncode == 0, done.stderr
        assert elm.host_id != oak.host_id
        assert {"oak", "elm"} <= hosts(hub).keys()
    assert oak.ready()["problem"] is None


def test_leaving_a_hub_that_is_away_says_what_is_left(
    broker: Broker, oak: Machine, tmp_path: Path
) -> None:
    hub = HubProcess(tmp_path / "hub", broker.url, sign_in="on")
    with started(hub):
        assert_joined(oak.join(hub.url, join_token(hub)))
    left = oak.run("leave")
    assert left.returncode == 5
    assert f"adsum hosts forget {oak.host_id}" in left.stderr
    assert not oak.settings.exists()
    assert not (oak.state / "machine.json").exists()


USER = ("--user", "default", "on", "nopass", "~*", "&*", "+@all", "-acl")


def test_without_rights_to_make_users_it_is_refused_or_shared_as_the_operator_says(
    oak: Machine, tmp_path: Path
) -> None:
    with running_broker(tmp_path / "strict", *USER) as strict:
        hub = HubProcess(tmp_path / "hub", strict.url, sign_in="on")
        with started(hub):
            token = join_token(hub)
            with undone(oak):
                done = oak.join(hub.url, token, "--via", "redis")
            assert done.returncode == 1
            assert "+acl" in done.stderr
            assert "--via ingest" in done.stderr
            assert "ADSUM_MACHINE_SHARED_URL" in done.stderr
        hub.env["ADSUM_MACHINE_SHARED_URL"] = strict.url
        with started(hub):
            done = oak.join(hub.url, token)
            assert done.returncode == 0, done.stderr
            assert "warning" in done.stderr
            assert "shares its Redis login" in done.stderr
            assert oak.run("leave").returncode == 0


def certificate(folder: Path, *, name: str, days: int) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / f"{name}{days}.pem", folder / f"{name}{days}.key"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem, secret


@pytest.mark.parametrize(
    ("name", "days", "trusted", "why"),
    [
        ("localhost", 10, False, "--ca FILE"),
        ("localhost", -10, True, "has expired"),
        ("elsewhere", 10, True, "is not for localhost"),
        ("localhost", 10, True, None),
    ],
)
def test_a_wrong_certificate_is_told_in_words_and_ones_own_authority_is_taken(
    hub: HubProcess,
    oak: Machine,
    tmp_path: Path,
    name: str,
    days: int,
    trusted: bool,
    why: str | None,
) -> None:
    pem, key = certificate(tmp_path, name=name, days=days)
    ca = ("--ca", str(pem)) if trusted else ()
    with tls_before(hub.port, TLS_PORT, pem, key) as url:
        if why is None:
            assert oak.join(url, join_token(hub), *ca).returncode == 0
            assert oak.run("leave").returncode == 0
            return
        with undone(oak):
            done = oak.join(url, join_token(hub), *ca)
    assert done.returncode == 4
    assert why in done.stderr

"""The scripts of deploy/ for real, as far as no Docker is needed: users of Redis, certificate, backups."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.exceptions import NoPermissionError

from adsum_hub.auth.credentials import Credential, CredentialStore
from adsum_hub.auth.hub_secret import HubSecret
from adsum_hub.join.machines import JoinedMachine, MachineStore
from adsum_hub.join.rights import Rights
from adsum_hub.settings import HubSettings
from adsum_shared import streams
from adsum_shared.connect import open_redis
from tests.brokers import free_port, require_binary
from tests.seals import seal

pytestmark = [pytest.mark.timeout(60), pytest.mark.slow]

ROOT = Path(__file__).parent.parent
START = ROOT / "deploy" / "redis" / "start.sh"
HOST = "0b5e1f6a-7f0e-4a6e-9d3b-2f7a0c1d4e5f"


class Server:
    """Redis as Compose starts it. Its data outlives it."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str, hub: str = "hub-word", machines: str = "machines-word") -> None:
        binary = Path(require_binary())
        tools = self.data.parent / "tools"
        tools.mkdir(exist_ok=True)
        if not (tools / "redis-server").exists():  # valkey-server takes the same words
            (tools / "redis-server").symlink_to(binary)
        env = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "REDIS_DATA": str(self.data),
            "REDIS_HUB_PASSWORD": hub,
            "REDIS_MACHINES_PASSWORD": machines,
        }
        command = ["sh", str(START), "--port", str(self.port), "--bind", "127.0.0.1", *words]
        self._process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 15
        while not self._answers():
            assert self._process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            return bool(self.connect("probe", "-").ping())
        except redis.ConnectionError:
            return False

    def connect(self, user: str, password: str) -> redis.Redis:
        return redis.Redis(port=self.port, username=user, password=password)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    data = tmp_path / "data"
    data.mkdir()
    server = Server(data)
    yield server
    server.stop()


@pytest.mark.redis
def test_nobody_gets_in_without_a_name_and_the_probe_may_only_ping(server: Server) -> None:
    server.start()

    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=server.port).ping()
    with pytest.raises(redis.AuthenticationError):
        server.connect("hub", "wrong").ping()
    with pytest.raises(NoPermissionError):
        server.connect("probe", "-").get("adsum:hosts")


@pytest.mark.core
@pytest.mark.redis
def test_the_hubs_user_has_adsums_keys_and_nothing_that_ruins_redis(server: Server) -> None:
    server.start()
    hub = server.connect("hub", "hub-word")

    hub.sadd(streams.HOSTS, HOST)
    assert hub.eval("return redis.call('scard', KEYS[1])", 1, streams.HOSTS) == 1
    assert hub.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert hub.info("persistence")["aof_enabled"] == 1
    for words in (["FLUSHALL"], ["KEYS", "*"], ["CONFIG", "SET", "save", ""], ["SHUTDOWN"]):
        with pytest.raises(NoPermissionError):
            hub.execute_command(*words)
    with pytest.raises(NoPermissionError):
        hub.set("somebody:else", "1")


@pytest.mark.core
@pytest.mark.redis
def test_a_machines_user_writes_what_machines_write_alone(server: Server) -> None:
    server.start()
    machine = server.connect("machines", "machines-word")

    machine.sadd(streams.HOSTS, HOST)
    machine.xadd(streams.inbox(HOST), {"v": "1"}, id="1-1")
    machine.set(streams.beat(HOST), b"{}", px=1000)
    machine.xgroup_create(streams.inbox(HOST), "end", "$")
    assert machine.xinfo_groups(streams.inbox(HOST))[0]["last-delivered-id"] == b"1-1"
    assert machine.hmget(streams.stored(HOST), ["cur"]) == [None]
    assert machine.get(streams.want(HOST)) is None
    for forbidden in (
        lambda: machine.set(streams.want(HOST), "1"),
        lambda: machine.set(streams.HOSTS, "1"),
        lambda: machine.xrange(streams.inbox(HOST)),
        lambda: machine.xinfo_stream(streams.inbox(HOST)),
        lambda: machine.hmget(streams.snapshot(HOST), ["v"]),
        lambda: machine.xread({streams.commands(HOST): "0"}),
        lambda: machine.execute_command("HSET", streams.snapshot(HOST), "v", "1"),
        lambda: machine.get(streams.login_code("d")),
        lambda: machine.set(streams.entry_pass("token", "d"), "{}"),
        lambda: machine.eval("return 1", 0),
        lambda: machine.execute_command("ACL", "LIST"),
    ):
        with pytest.raises(NoPermissionError):
            forbidden()


@pytest.mark.redis
async def test_the_hubs_user_may_all_that_joining_and_mending_take(server: Server) -> None:
    server.start()
    client = open_redis(f"redis://hub:hub-word@127.0.0.1:{server.port}")
    rights, machines, digest = Rights(client), MachineStore(client, seal()), "a" * 64
    async with machines.alone(HOST) as alone:
        assert alone
        await machines.enter(JoinedMachine(HOST, "oak", digest, 1, "acl", "t"), "")

    await rights.mend([(HOST, digest)], [], machines.entitled)
    assert await rights.there() == {HOST}
    await rights.mend([(HOST, digest)], [], machines.entitled)  # reads what it has now
    await machines.forget(HOST)
    await rights.mend([], [HOST], machines.entitled)

    assert await rights.there() == set()
    await client.aclose()


@pytest.mark.redis
async def test_the_hubs_user_may_all_that_sealing_and_revoking_take(
    server: Server, tmp_path: Path
) -> None:
    server.start()
    client = open_redis(f"redis://hub:hub-word@127.0.0.1:{server.port}")
    state = tmp_path / "hub"
    state.mkdir()
    (state / "command-key.pem").touch()  # of an earlier version, so it signs what is there
    secret = HubSecret(HubSettings(state_dir=state), lambda: 1)
    await secret.look(client)
    store, digest = CredentialStore(client, "token", secret.seal), "a" * 64
    await store.issue(digest, Credential(digest[:12], "Ann", "viewer", 1, 10_000, 1), 1)

    assert await store.find(digest) is not None
    assert await store.revoke(digest[:12]) == [digest]
    await secret.look(client)
    assert await store.find(digest) is None
    await client.aclose()


@pytest.mark.redis
def test_without_a_password_there_is_no_user_for_machines(server: Server) -> None:
    server.start(hub="", machines="")

    assert server.connect("hub", "").sadd(streams.HOSTS, HOST) == 1
    with pytest.raises(redis.AuthenticationError):
        server.connect("machines", "").ping()


@pytest.mark.redis
def test_a_restart_keeps_data_and_users_that_hubs_made_and_takes_new_passwords(
    server: Server,
) -> None:
    server.start()
    hub = server.connect("hub", "hub-word")
    hub.sadd(streams.HOSTS, HOST)
    hub.execute_command(
        "ACL", "SETUSER", "c-box", "on", ">box-word", f"~{streams.inbox(HOST)}", "+xadd"
    )
    hub.execute_command("ACL", "SAVE")
    server.stop()

    server.start(hub="changed", machines="")

    assert server.connect("hub", "changed").smembers(streams.HOSTS) == {HOST.encode()}
    assert server.connect("c-box", "box-word").xadd(streams.inbox(HOST), {"v": "1"})
    for user, password in (("hub", "hub-word"), ("machines", "machines-word")):
        with pytest.raises(redis.AuthenticationError):
            server.connect(user, password).ping()


@pytest.mark.redis
def test_passwords_are_kept_as_hashes(server: Server) -> None:
    server.start()
    users = server.data / "users.acl"

    assert "hub-word" not in users.read_text()
    assert "machines-word" not in users.read_text()
    assert users.stat().st_mode & 0o077 == 0


@pytest.mark.redis
def test_the_certificate_serves_its_names_to_who_has_the_authority(
    server: Server, tmp_path: Path
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on PATH")
    folder, plain = tmp_path / "tls", free_port()
    script = ROOT / "deploy" / "redis" / "certificate"
    env = {**os.environ, "ADSUM_REDIS_TLS_DIR": str(folder)}
    subprocess.run(
        [str(script), "localhost", "127.0.0.1"], env=env, check=True, capture_output=True
    )
    authority = (folder / "ca.crt").read_bytes()
    subprocess.run(
        [str(script), "localhost", "127.0.0.1"], env=env, check=True, capture_output=True
    )
    assert (folder / "ca.crt").read_bytes() == authority
    assert (folder / "ca.key").stat().st_mode & 0o077 == 0
    files = [
        "--tls-cert-file",
        str(folder / "redis.crt"),
        "--tls-key-file",
        str(folder / "redis.key"),
    ]
    files += ["--tls-ca-cert-file", str(folder / "ca.crt"), "--tls-auth-clients", "no"]
    help_ = subprocess.run(
        [require_binary(), "--version"], capture_output=True, text=True, check=True
    )
    try:
        server.start("--tls-port", str(plain), *files)
    except AssertionError:
        pytest.skip(f"built without TLS: {help_.stdout}")

    for name in ("localhost", "127.0.0.1"):
        url = f"rediss://machines:machines-word@{name}:{plain}"
        client = redis.Redis.from_url(url, ssl_ca_certs=str(folder / "ca.crt"))
        assert client.ping()
    with pytest.raises(redis.ConnectionError, match="certificate"):
        redis.Redis.from_url(f"rediss://machines:machines-word@127.0.0.1:{plain}").ping()


@pytest.fixture
def compose(tmp_path: Path) -> Path:
    """Stands in for Compose: writes down how it was called, and hands on what it is given."""
    program = tmp_path / "compose"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n'
        f'case "$*" in *backup*) [ -e {tmp_path}/fails ] && exit 1; echo packed;;\n'
        f"*restore*) cat > {tmp_path}/given; [ ! -e {tmp_path}/fails ];; esac\n"
    )
    program.chmod(0o755)
    return program


def run(
    script: str, compose: Path, *words: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COMPOSE": str(compose), "ADSUM_BACKUPS": "2"}
    command = [str(ROOT / "deploy" / script), *words]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)


def test_backups_are_complete_private_and_the_newest_stay(compose: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    for day in (1, 2, 3):
        (folder / f"adsum-2020010{day}T000000Z.backup").write_text("old")
    (folder / "notes").write_text("mine")

    done = run("backup", compose, str(folder))

    assert done.returncode == 0, done.stderr
    newest = Path(done.stdout.strip())
    kept = {"notes", "adsum-20200103T000000Z.backup", newest.name}
    assert {path.name for path in folder.iterdir()} == kept
    assert newest.read_text() == "packed\n"
    assert newest.stat().st_mode & 0o077 == 0


def test_a_backups_folder_is_named_from_where_it_was_called(compose: Path, tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / "deploy" / "backup", tmp_path / "deploy")
    called_from = tmp_path / "elsewhere"
    called_from.mkdir()

    script = str(tmp_path / "deploy" / "backup")  # not ours: a fault would write into the checkout
    done = run(script, compose, "my backups", cwd=called_from)

    assert done.returncode == 0, done.stderr
    (kept,) = (called_from / "my backups").iterdir()
    assert Path(done.stdout.strip()) == kept
    assert run(script, compose, cwd=called_from).returncode == 0
    assert len(list((tmp_path / "backups").iterdir())) == 1


def test_a_backup_that_fails_leaves_nothing_and_takes_nothing_away(
    compose: Path, tmp_path: Path
) -> None:
    (tmp_path / "fails").touch()
    folder = tmp_path / "backups"
    folder.mkdir()
    for day in (1, 2, 3):
        (folder / f"adsum-2020010{day}T000000Z.backup").write_text("old")

    assert run("backup", compose, str(folder)).returncode == 1
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("fails", [False, True])
def test_a_restore_stops_the_hub_and_starts_it_again_whatever_becomes_of_it(
    compose: Path, tmp_path: Path, fails: bool
) -> None:
    if fails:
        (tmp_path / "fails").touch()
    (tmp_path / "b").write_text("packed")

    done = run("restore", compose, str(tmp_path / "b"), "--replace", "--sign-everybody-out")

    assert bool(done.returncode) == fails
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [calls[0], calls[-1]] == ["stop hub", "start hub"]
    assert calls[1].endswith("hub restore - --replace --sign-everybody-out")
    assert (tmp_path / "given").read_text() == "packed"

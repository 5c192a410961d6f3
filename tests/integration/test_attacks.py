"""Each login tries what it must not be able to do, against a real hub, Redis with the users of deploy/, and a collector."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
import redis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from adsum.machine import Membership, keep
from adsum_collector.control.consent import (
    Consent,
    check_trail,
    keep_consent,
    read_consent,
    read_trail,
)
from adsum_collector.state_dir import load_identity, make_private
from adsum_hub.auth.credentials import Credential, LoginCode, digest_of, id_of, make_cookie
from adsum_hub.auth.credentials import make_code as new_code
from adsum_hub.auth.credentials import make_token as new_token
from adsum_hub.join.machines import JoinedMachine
from adsum_hub.join.rights import user_of
from adsum_hub.join.tokens import TOKEN_PREFIX, StoredJoinToken, make_machine_secret
from adsum_shared import streams
from adsum_shared.commands import HOLD_VERSION, Command, key_id, make_token, signed
from adsum_shared.envelope import Beat, decode_beat, encode_batch, encode_beat
from adsum_shared.host_keys import KIND, KeysRequest, NewEntry, encode
from adsum_shared.signals import Hold, PromptSubmitted, RequestOpened, encode_signal
from tests.control import permission, run_hook
from tests.deciding import wall_ms
from tests.hub_processes import AgentCollector, HubProcess
from tests.integration.conftest import Run, claude
from tests.signing_in import admin, asking, machine_token
from tests.signing_in import make_token as token_of
from tests.support import wait_until
from tests.test_deploy_scripts import Server

pytestmark = [
    pytest.mark.redis,
    pytest.mark.timeout(120),
    pytest.mark.slow,
    pytest.mark.core,
]

HARMLESS = {"command": "git status"}
DAY_MS = 24 * 3_600_000


class Site:
    """A hub, the machine oak whose owner switched control on, the machine pine, and everybody's credentials."""

    def __init__(self, directory: Path) -> None:
        (directory / "data").mkdir()
        self.server = Server(directory / "data")
        self.server.start()
        self.hub_url = f"redis://hub:hub-word@127.0.0.1:{self.server.port}"
        self.hub = HubProcess(directory / "hub", self.hub_url, sign_in="on")
        self.hub.start()
        self.oak, answer = self.joined(directory / "oak", "oak")
        keep_consent(
            directory / "oak", Consent("approve", time.time(), None, answer["command_keys"])
        )
        self.collector = AgentCollector(directory / "oak", "", host_label="oak")
        self.collector.env.pop("ADSUM_REDIS_URL")
        self.collector.start()
        self.pine, answer = self.joined(directory / "pine", "pine")
        self.machine_secret: str = answer["secret"]
        self.token_id, self.viewer = token_of(self.hub, "viewer", "vera")
        with admin(self.hub) as http:
            asked = {"role": "operator", "name": "olaf", "expires_s": 3600, "hosts": [self.pine]}
            self.operator: str = http.post("/api/v1/tokens", json=asked).json()["secret"]

    def joined(self, state: Path, label: str) -> tuple[str, dict[str, Any]]:
        make_private(state)
        host_id = load_identity(state, label).host_id
        with admin(self.hub) as http:
            token = http.post("/api/v1/join-tokens", json={}).json()["secret"]
            asked = {"token": token, "host_id": host_id, "label": label, "via": "redis"}
            answer = http.post("/api/v1/join", json=asked).json()
        keep(state, Membership(self.hub.url, host_id, label, answer["redis_url"], answer["secret"]))
        return host_id, answer

    def stop(self) -> None:
        self.collector.kill()
        self.hub.kill()
        self.server.stop()

    def secret(self, login: str) -> str:
        known = {
            "viewer": self.viewer,
            "operator of pine": self.operator,
            "joined machine": self.machine_secret,
        }
        return known[login]

    def redis(self, login: str) -> redis.Redis:
        logins = {
            "joined machine": (user_of(self.pine), self.machine_secret),
            "shared login": ("machines", "machines-word"),
            "hub's login": ("hub", "hub-word"),
        }
        return self.server.connect(*logins[login])

    def session(self, named: str) -> dict[str, Any]:
        with admin(self.hub) as http:
            found: dict[str, Any] = http.get(f"/api/v1/sessions/{named}").json()
        return found

    def state(self) -> dict[str, Any]:
        """What no attempt may change."""
        hub = self.redis("hub's login")
        with admin(self.hub) as http:
            listed = {
                name: sorted(
                    (each["id"], each.get("label", ""))
                    for each in http.get(f"/api/v1/{path}").json()[name]
                )
                for path, name in (
                    ("tokens", "tokens"),
                    ("sign-ins", "sign_ins"),
                    ("join-tokens", "tokens"),
                    ("hosts", "hosts"),
                )
            }
        return listed | {
            "users": hub.execute_command("ACL", "USERS"),
            "hashes": [hub.hgetall(key) for key in (streams.COMMAND_KEYS, streams.LABELS)],
            "machines": sorted(hub.hkeys(streams.MACHINES)),
            "forgotten": hub.smembers(streams.FORGOTTEN),
            "commands": [hub.xlen(streams.commands(host)) for host in (self.oak, self.pine)],
        }


class HeldRequest(NamedTuple):
    """What a session of oak asks: a command that somebody must allow."""

    site: Site
    session: str
    id: str
    binding: str
    hook: asyncio.subprocess.Process

    @property
    def named(self) -> str:
        """At the hub."""
        return f"{self.site.oak}:{self.session}"

    def is_open(self) -> bool:
        requests = self.site.session(self.named).get("requests", [])
        return self.hook.returncode is None and any(
            each["id"] == self.id and each.get("hold") for each in requests
        )

    def filled(self, text: str) -> str:
        site = self.site
        values = {
            "OAK": site.oak,
            "PINE": site.pine,
            "SESSION": self.session,
            "REQUEST": self.id,
            "BINDING": self.binding,
            "TOKEN": site.token_id,
            "DIGEST": digest_of(site.viewer),
        }
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    async def decide(self, named: str, verb: str = "allow", wait_s: float = 0) -> int:
        """As an admin, by what the hub shows now. wait_s: for the outcome, if the hub takes it."""
        requests = self.site.session(named)["requests"]
        [binding] = [each["hold"]["binding"] for each in requests if each["id"] == self.id]
        asked = {"verb": verb, "request_id": self.id, "binding": binding}
        headers = {"authorization": f"Bearer {machine_token(self.site.hub)}"}
        path = f"{self.site.hub.url}/api/v1/sessions/{named}/commands"
        async with httpx.AsyncClient(trust_env=False, headers=headers, timeout=20) as http:
            answer = await http.post(path, json=asked)
            if wait_s and answer.status_code == 202:
                given = answer.json()["command"]["id"]
                await http.get(f"{path}/{given}", params={"wait": wait_s})
        return answer.status_code

    async def printed(self) -> bytes:
        async with asyncio.timeout(10):
            return (await self.hook.communicate())[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    site.stop()


@contextlib.asynccontextmanager
async def asking_session(site: Site, session: str, after: str = "") -> AsyncIterator[HeldRequest]:
    """A session of oak asks, by the hook as it is installed, and the hub shows it. after: an earlier request."""
    body = permission(given={"command": "python3 evil.py"}, session_id=session)
    hook = await run_hook(site.collector.state_dir / "collector.sock", body)

    def request() -> Any:
        requests = site.session(f"{site.oak}:{session}").get("requests", [])
        held = (each for each in requests if each.get("hold") and each["id"] != after)
        return next(held, None)

    try:
        shown = await wait_until(request, 20)
        yield HeldRequest(site, session, shown["id"], shown["hold"]["binding"], hook)
    finally:
        with contextlib.suppress(ProcessLookupError):
            hook.kill()
        await hook.wait()


@pytest.fixture
async def held(site: Site) -> AsyncIterator[HeldRequest]:
    async with asking_session(site, str(uuid.uuid4())) as held:
        yield held


#: Attempt -> (request, body). Everybody is refused who is not an admin, or an operator of oak.
BY_HTTP: dict[str, tuple[str, Any]] = {
    "allow another's request": (
        "POST sessions/OAK:SESSION/commands",
        {"verb": "allow", "request_id": "REQUEST", "binding": "BINDING"},
    ),
    "deny another's request": (
        "POST sessions/OAK:SESSION/commands",
        {"verb": "deny", "request_id": "REQUEST", "binding": "BINDING"},
    ),
    "prompt another's session": (
        "POST sessions/OAK:SESSION/commands",
        {"verb": "prompt", "text": "go on"},
    ),
    "archive another's session": ("POST sessions/OAK:SESSION/archive", {}),
    "make a token": ("POST tokens", {"role": "admin", "name": "eve", "expires_s": 3600}),
    "make a login link": ("POST login-links", {"role": "admin", "name": "eve"}),
    "make a join token": ("POST join-tokens", {}),
    "list tokens": ("GET tokens", None),
    "list sign-ins": ("GET sign-ins", None),
    "revoke a token": ("DELETE tokens/TOKEN", None),
    "revoke another machine": ("POST hosts/OAK/revoke", {}),
    "reset another machine": ("POST hosts/OAK/reset", {}),
    "forget another machine": ("POST hosts/OAK/forget", {}),
    "rename another machine": ("POST hosts/OAK/rename", {"label": "elm"}),
}
#: What whoever looks may read, and a machine may not.
READ_BY_HTTP = {
    "read the list": "GET sessions",
    "read another's session": "GET sessions/OAK:SESSION",
    "read another's activity": "GET sessions/OAK:SESSION/activity",
    "read another's commands": "GET sessions/OAK:SESSION/commands",
    "list machines": "GET hosts",
    "read the history": "GET history",
    "read command keys": "GET command-keys",
}
PEOPLE = {"viewer": 403, "operator of pine": 403}
HTTP = [
    pytest.param(login, request, body, status, id=f"{login}: {name}")
    for name, (request, body) in BY_HTTP.items()
    for login, status in {**PEOPLE, "joined machine": 401}.items()
] + [
    pytest.param("joined machine", request, None, 401, id=f"joined machine: {name}")
    for name, request in READ_BY_HTTP.items()
]
#: Attempt -> words, refused to a joined machine and to the shared login.
BY_REDIS = {
    "read another's signals": "XRANGE adsum:{OAK}:in - +",
    "wait for another's signals": "XREAD STREAMS adsum:{OAK}:in 0",
    "read another's stream": "XINFO STREAM adsum:{OAK}:in FULL",
    "read another's sessions": "HGETALL adsum:{OAK}:snap",
    "read another's request": "HMGET adsum:{OAK}:snap s:SESSION",
    "read another's commands": "XRANGE adsum:{OAK}:cmd - +",
    "give another a command": "XADD adsum:{OAK}:cmd * c {} s x k y",
    "give itself a command": "XADD adsum:{PINE}:cmd * c {} s x k y",
    "take a decision": "SET adsum:{OAK}:decided:REQUEST x",
    "ask another for a replay": "SET adsum:{OAK}:want x:1",
    "list machines that joined": "HGETALL adsum:machines",
    "enter a machine": "HSET adsum:machines PINE {}",
    "rename another machine": "HSET adsum:labels OAK elm",
    "forget another machine": "SADD adsum:forgotten OAK",
    "write over the list of hosts": "SET adsum:hosts x",
    "take a host out of the list": "SREM adsum:hosts OAK",
    "list tokens": "ZRANGE adsum:{auth}:tokens 0 -1",
    "read a credential": "GET adsum:{auth}:token:DIGEST",
    "make a token": 'SET adsum:{auth}:token:x {"role":"admin"}',
    "revoke a token": "DEL adsum:{auth}:token:DIGEST",
    "make a login link": 'SET adsum:{auth}:code:x {"role":"admin"}',
    "make a join token": "SET adsum:{auth}:join:x {}",
    "read command keys": "HGETALL adsum:command-keys",
    "write a command key": "HSET adsum:command-keys x y",
    "make a user": "ACL SETUSER eve on nopass ~* +@all",
    "list users": "ACL LIST",
    "look for keys": "SCAN 0",
    "run a script": "EVAL return(1) 0",
    "delete everything": "FLUSHALL",
}
#: The shared login is trusted with these.
BY_REDIS_OF_A_MACHINE = {
    "write another's stream": "XADD adsum:{OAK}:in 9999-1 v 1",
    "write another's heartbeat": "SET adsum:{OAK}:beat {}",
    "read another's heartbeat": "GET adsum:{OAK}:beat",
    "enter a name into the list of hosts": "SADD adsum:hosts x",
}
REDIS = [
    pytest.param(login, words, id=f"{login}: {name}")
    for name, words in BY_REDIS.items()
    for login in ("joined machine", "shared login")
] + [
    pytest.param("joined machine", words, id=f"joined machine: {name}")
    for name, words in BY_REDIS_OF_A_MACHINE.items()
]


@pytest.mark.parametrize(("login", "request_line", "body", "status"), HTTP)
async def test_the_hub_refuses(
    held: HeldRequest, login: str, request_line: str, body: Any, status: int
) -> None:
    method, path = held.filled(request_line).split(" ")
    given = None if body is None else json.loads(held.filled(json.dumps(body)))
    before = held.site.state()

    with asking(held.site.hub, token=held.site.secret(login)) as http:
        answer = http.request(method, f"/api/v1/{path}", json=given)

    assert answer.status_code == status, answer.text
    assert held.session not in answer.text
    assert held.site.state() == before
    assert held.is_open()


@pytest.mark.parametrize(("login", "words"), REDIS)
async def test_redis_refuses(held: HeldRequest, login: str, words: str) -> None:
    before = held.site.state()

    with held.site.redis(login) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*held.filled(words).split(" "))

    assert held.site.state() == before
    assert held.is_open()


async def test_a_machine_gets_nothing_by_the_endpoints_of_another(held: HeldRequest) -> None:
    """Its signals through the hub, its place by joining again, and the report of a session."""
    site = held.site
    before = site.state()
    with asking(site.hub, token=site.machine_secret) as http:
        entry = NewEntry("9999-1", {b"v": b"1"})
        asked = encode(KeysRequest(add=entry, host_id=site.oak))
        sent = http.post("/ingest", content=asked, headers={"content-type": KIND})
        report = make_token(Ed25519PrivateKey.generate(), site.oak, held.session)
        http.headers["authorization"] = f"Bearer {report}"
        reported = http.post(f"/api/v1/sessions/{held.named}/report", json={"status": "passed"})
    with admin(site.hub) as http:
        made = http.post("/api/v1/join-tokens", json={}).json()
        asked_to_join = {"token": made["secret"], "host_id": site.oak, "label": "elm"}
        joined = http.post("/api/v1/join", json=asked_to_join | {"via": "redis"})
        assert http.delete(f"/api/v1/join-tokens/{made['token']['id']}").status_code == 200

    assert (sent.status_code, reported.status_code, joined.status_code) == (403, 401, 409)
    assert site.state() == before
    assert held.is_open()


def beat_of_pine(site: Site, label: str) -> None:
    beat = Beat(site.pine, label, wall_ms(), "n", "sp", seq=2, sent=2, control="approve")
    with site.redis("joined machine") as client:
        client.set(streams.beat(site.pine), encode_beat(beat), px=streams.BEAT_TTL_MS)


def entry_of(site: Site, held: HeldRequest, spool_id: str) -> dict[Any, Any]:
    """The same request id and binding, with a payload that nobody minds."""
    now, verbs = wall_ms(), ["allow", "deny", "defer"]
    asks = RequestOpened(
        session_id=held.session, at=now, seen=now, request_kind="permission", tool="Bash",
        role="shell", request_id=held.id, payload=HARMLESS,
        hold=Hold(held.binding, verbs, 60_000, cwd="/work", version=HOLD_VERSION),
    )  # fmt: skip
    prompt = PromptSubmitted(session_id=held.session, at=now, seen=now, prompt_id="p", text="x")
    return encode_batch(
        spool_id=spool_id, first=1, nonce="n", sent_at=now,
        signals=[encode_signal(prompt), encode_signal(asks)],
    )  # fmt: skip


async def test_a_machine_that_shows_anothers_request_gets_the_decision_for_itself(
    held: HeldRequest,
) -> None:
    """The request's id and binding, with a harmless payload, in its own stream; an admin allows it."""
    site = held.site
    beat_of_pine(site, "oak")
    with site.redis("joined machine") as client:
        client.xadd(
            streams.inbox(site.pine), entry_of(site, held, held.session), id=f"{wall_ms()}-2"
        )
    named = f"{site.pine}:{held.session}"
    await wait_until(lambda: beat_of_pine(site, "oak") or site.session(named).get("requests"), 20)

    assert await held.decide(named) in (202, 409)

    assert held.is_open()
    with admin(site.hub) as http:
        labels = {each["id"]: each["label"] for each in http.get("/api/v1/hosts").json()["hosts"]}
    assert labels[site.oak] == "oak"
    assert labels[site.pine] != "oak"
    assert await held.decide(held.named, "deny") == 202
    assert b'"deny"' in await held.printed()


def trail_of(site: Site) -> list[bytes]:
    """The collector of oak adds a line for each command that it does not obey."""
    return list(read_trail(site.collector.state_dir))


def entry_by_the_hub(site: Site, command: Command) -> dict[Any, Any]:
    """As whoever reads the stream finds it."""
    key = load_pem_private_key((site.hub.state_dir / "command-key.pem").read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    return dict(signed(command, key))


async def not_obeyed(held: HeldRequest, entry: dict[Any, Any]) -> None:
    """Add it to the stream of oak, and see that the request waits for what the hub signs."""
    site = held.site
    known = len(trail_of(site))
    with site.redis("hub's login") as attacker:
        attacker.xadd(streams.commands(site.oak), entry)
    await wait_until(lambda: len(trail_of(site)) > known, 20)
    assert held.is_open()
    assert check_trail(iter(trail_of(site))).fault is None
    assert await held.decide(held.named, "deny") == 202
    assert b'"deny"' in await held.printed()


@pytest.mark.parametrize("forged", ["signed", "host", "run", "request", "binding", "verb"])
async def test_the_hubs_login_to_redis_gives_no_command(held: HeldRequest, forged: str) -> None:
    """By a key of one's own, or by what a hub gave to another machine, run, request or verb."""
    site = held.site
    with site.redis("hub's login") as attacker:
        beat = decode_beat(attacker.get(streams.beat(site.oak)) or b"")
    assert beat is not None
    right = Command(
        id=os.urandom(16).hex(), host_id=site.oak, session_id=held.session, verb="allow", by="Ann",
        run=beat.nonce, request_id=held.id, binding=held.binding,
    )  # fmt: skip
    wrong: dict[str, Any] = {
        "host": {"host_id": site.pine},
        "run": {"run": "earlier"},
        "request": {"request_id": "f" * 24},
        "binding": {"binding": "0" * 64},
        "verb": {"verb": "deny"},
    }
    entry = entry_by_the_hub(site, msgspec.structs.replace(right, **wrong.get(forged, {})))
    if forged == "signed":
        entry = dict(signed(right, Ed25519PrivateKey.generate()))
    if forged == "verb":
        entry[b"c"] = entry[b"c"].replace(b"deny", b"allow")

    await not_obeyed(held, entry)


async def test_a_command_is_obeyed_once(held: HeldRequest) -> None:
    site = held.site
    assert await held.decide(held.named) == 202
    assert b'"allow"' in await held.printed()
    with site.redis("hub's login") as attacker:
        [(_, entry)] = attacker.xrevrange(streams.commands(site.oak), count=1)
    async with asking_session(site, held.session, after=held.id) as again:
        await not_obeyed(again, dict(entry))


def test_the_hubs_login_reads_no_secret_back(site: Site) -> None:
    known = [site.viewer, site.operator, site.machine_secret, machine_token(site.hub)]
    with site.redis("hub's login") as attacker:
        stored = [
            attacker.get(key) if attacker.type(key) == b"string" else key
            for key in attacker.scan_iter("adsum:*")
        ]
        stored += [attacker.hgetall(streams.MACHINES), attacker.hgetall(streams.COMMAND_KEYS)]
        users = attacker.execute_command("ACL", "LIST")
    assert not [secret for secret in known if secret in f"{stored}{users}"]


@pytest.mark.parametrize("kind", ["token", "sign-in"])
def test_a_credential_that_no_hub_issued_opens_nothing(site: Site, kind: Any) -> None:
    secret = new_token() if kind == "token" else make_cookie()
    digest, now = digest_of(secret), wall_ms()
    planted = Credential(id_of(digest), "eve", "admin", now, now + DAY_MS, now)
    with site.redis("hub's login") as attacker:
        key = streams.entry_pass(kind, digest)
        attacker.set(key, msgspec.json.encode(planted), px=DAY_MS)
        attacker.zadd(streams.entry_passes(kind), {digest: now + DAY_MS})
        shown = {"token": secret} if kind == "token" else {"cookie": secret}
        with asking(site.hub, **shown) as http:
            answer = http.get("/api/v1/me")
        attacker.delete(key)
        attacker.zrem(streams.entry_passes(kind), digest)

    assert answer.status_code == 401


def test_a_login_link_that_no_hub_made_lets_nobody_in(site: Site) -> None:
    code = new_code()
    planted = LoginCode("eve", "admin", wall_ms() + DAY_MS)
    with site.redis("hub's login") as attacker:
        attacker.set(streams.login_code(digest_of(code)), msgspec.json.encode(planted), px=60_000)
    with asking(site.hub) as http:
        answer = http.post("/api/v1/login", json={"code": code})

    assert answer.status_code in (400, 401)


def test_a_join_token_that_no_hub_made_lets_no_machine_in(site: Site) -> None:
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    digest, now = digest_of(secret), wall_ms()
    planted = StoredJoinToken(id_of(digest), now, now + DAY_MS, True, "")
    with site.redis("hub's login") as attacker:
        attacker.set(streams.join_token(digest), msgspec.json.encode(planted), px=60_000)
    with asking(site.hub) as http:
        answer = http.post("/api/v1/join/check", json={"token": secret})

    assert answer.status_code == 401


async def test_a_machine_that_no_hub_let_in_is_none(site: Site) -> None:
    host_id = str(uuid.uuid4())
    secret = make_machine_secret(host_id)
    planted = JoinedMachine(host_id, "elm", digest_of(secret), wall_ms(), "ingest", "x")
    asked = encode(KeysRequest(want=True, host_id=host_id))
    with site.redis("hub's login") as attacker:
        attacker.hset(streams.MACHINES, host_id, msgspec.json.encode(planted))
        with asking(site.hub, token=secret) as http:
            answers = [http.get("/api/v1/machine")]
            answers.append(http.post("/ingest", content=asked, headers={"content-type": KIND}))
        attacker.hdel(streams.MACHINES, host_id)

    assert [answer.status_code for answer in answers] == [401, 401]


def test_a_command_key_of_no_hub_is_not_pinned(
    site: Site, home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADSUM_REDIS_URL", site.hub_url)
    monkeypatch.setenv("ADSUM_HUB_URL", site.hub.url)
    monkeypatch.setenv("ADSUM_TOKEN", site.viewer)
    claude(home, "2.1.330")
    public = Ed25519PrivateKey.generate().public_key()
    name, text = key_id(public), public.public_bytes_raw().hex()
    with site.redis("hub's login") as attacker:
        attacker.hset(streams.COMMAND_KEYS, name, text)
        code, _, err = run("control", "approve", "--yes")
        attacker.hdel(streams.COMMAND_KEYS, name)

    assert code == 0, err
    assert name not in read_consent(home / "state").keys


@pytest.mark.parametrize("login", ["shared login", "hub's login"])
async def test_what_is_allowed_is_what_was_shown(held: HeldRequest, login: str) -> None:
    """The stream of oak gets the same id and binding with another payload, which the hub shows."""
    site = held.site
    with site.redis(login) as attacker:
        attacker.xadd(
            streams.inbox(site.oak), entry_of(site, held, held.session), id=f"{wall_ms()}-2"
        )

    def shown() -> Any:
        requests = site.session(held.named).get("requests", [])
        return next((each for each in requests if each.get("payload") == HARMLESS), None)

    await wait_until(shown, 20)
    assert await held.decide(held.named, wait_s=3) == 202

    assert held.hook.returncode is None, await held.printed()

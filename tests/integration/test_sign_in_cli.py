"""The command line at a hub that asks who it is: no step on its machine, a token elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from adsum.access import revoke
from tests import forked
from tests.brokers import Broker, free_port, running_broker
from tests.hub_processes import HubProcess, started
from tests.signing_in import admin, asking, cookie_name, log_in, machine_token, make_token
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow]

Adsum = Callable[..., subprocess.CompletedProcess[str]]
LINK = re.compile(r"(\S+)/login#([\w-]{32})")
FULL_BLOCK = "\u2588"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path_factory.mktemp("hub") / "one", broker.url, sign_in="on")
    with started(hub):
        yield hub


@pytest.fixture
def hub(standing: HubProcess, broker: Broker) -> HubProcess:
    """Nobody has signed in, and there is no token."""
    with redis.Redis.from_url(broker.url) as client:
        for key in client.scan_iter("adsum:{auth}:*"):
            client.delete(key)
    return standing


@pytest.fixture
def here(hub: HubProcess) -> Adsum:
    """A command on the hub's machine."""
    return lambda *words, **env: run(words, {**hub.env, **env})


@pytest.fixture
def elsewhere(hub: HubProcess, tmp_path: Path) -> Adsum:
    """A command on another machine, which knows where the hub is."""
    away = {**hub.env, "ADSUM_STATE_DIR": str(tmp_path / "away"), "ADSUM_HUB_URL": hub.url}
    return lambda *words, **env: run(words, {**away, **env})


def run(words: tuple[str, ...], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return forked.run(*words, env=env, timeout=30)


def test_commands_on_the_hubs_machine_need_no_step(here: Adsum) -> None:
    for words in (
        ("agents",),
        ("hosts", "--json"),
        ("usage",),
        ("history",),
        ("hub", "tokens", "list"),
    ):
        done = here(*words)
        assert done.returncode == 0, (words, done.stderr)


def test_elsewhere_a_command_is_refused_with_the_next_step_until_it_has_a_token(
    hub: HubProcess, elsewhere: Adsum, tmp_path: Path
) -> None:
    refused = elsewhere("agents")
    assert refused.returncode == 4
    assert "ADSUM_TOKEN" in refused.stderr
    assert "adsum hub tokens create" in refused.stderr
    token = make_token(hub, "viewer")[1]
    (tmp_path / "kept").write_text(token + "\n")
    assert elsewhere("agents", ADSUM_TOKEN=token).returncode == 0
    assert elsewhere("agents", ADSUM_TOKEN_FILE=str(tmp_path / "kept")).returncode == 0

    more = elsewhere("hub", "tokens", "list", ADSUM_TOKEN=token)

    assert more.returncode == 4
    assert "the role admin" in more.stderr


@pytest.mark.core
def test_a_token_is_made_shown_once_listed_and_revoked(here: Adsum, elsewhere: Adsum) -> None:
    made = here(
        "hub", "tokens", "create", "--name", "CI job", "--role", "operator", "--expires", "2d"
    )
    secret = made.stdout.strip()
    listed = here("hub", "tokens", "list")
    [told] = json.loads(here("hub", "tokens", "list", "--json").stdout)["tokens"]

    assert re.fullmatch(r"adsum_[\w-]{43}", secret)
    assert secret not in made.stderr + listed.stdout
    assert re.search(rf"{told['id']} +CI job +operator .* never +1d", listed.stdout)
    assert elsewhere("hosts", ADSUM_TOKEN=secret).returncode == 0
    assert here("hub", "tokens", "revoke", told["id"]).returncode == 0
    refused = elsewhere("hosts", ADSUM_TOKEN=secret)
    assert (refused.returncode, "was revoked" in refused.stderr) == (4, True)
    assert here("hub", "tokens", "revoke", told["id"]).returncode == 1
    assert "There is no token" in here("hub", "tokens", "list").stderr


@pytest.mark.core
def test_a_revoked_token_lists_what_it_made_and_asks_at_a_terminal(
    hub: HubProcess, here: Adsum, elsewhere: Adsum, monkeypatch: pytest.MonkeyPatch
) -> None:
    def family() -> tuple[str, str]:
        parent, secret = make_token(hub, "admin")
        wish = ("hub", "tokens", "create", "--name", "child", "--json")
        made = elsewhere(*wish, ADSUM_TOKEN=secret)
        return parent, json.loads(made.stdout)["token"]["id"]

    parent, child = family()
    done = here("hub", "tokens", "revoke", parent)
    assert done.returncode == 0
    assert f"adsum hub tokens revoke {child}" in done.stderr
    assert child in here("hub", "tokens", "list").stdout

    parent, child = family()
    answers = StringIO("y\n")
    monkeypatch.setattr(answers, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", answers)
    revoke("tokens", None, Path(hub.env["ADSUM_STATE_DIR"]), parent)
    assert child not in here("hub", "tokens", "list").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("hub", "tokens", "create", "--name", "x", "--expires", "soon"),
        ("hub", "tokens", "create", "--name", "x", "--expires", ""),
        ("hub", "tokens", "create", "--join", "--expires", ""),
        ("hub", "tokens", "create", "--name", "x", "--role", "root"),
        ("hub", "tokens", "create"),
        ("login", "--role", "root"),
    ],
)
def test_what_cannot_be_asked_for_is_a_usage_error(here: Adsum, words: tuple[str, ...]) -> None:
    assert here(*words).returncode == 2


def test_a_login_link_lets_a_colleague_in_who_is_then_listed_and_signed_out(
    hub: HubProcess, here: Adsum
) -> None:
    printed = here("login", "--role", "viewer", "--name", "Bob")
    found = LINK.fullmatch(printed.stdout.strip())
    assert found is not None
    assert found[1] == hub.url
    assert "Bob (viewer)" in printed.stderr
    assert "ADSUM_PUBLIC_URL" in printed.stderr  # no QR of an address that a phone cannot reach

    cookie = log_in(hub, found[2]).cookies[cookie_name(hub)]

    [told] = json.loads(here("hub", "sign-ins", "list", "--json").stdout)["sign_ins"]
    assert (told["name"], told["role"]) == ("Bob", "viewer")
    assert here("hub", "sign-ins", "revoke", told["id"]).returncode == 0
    with asking(hub, cookie=cookie) as client:
        assert client.get("/api/v1/me").status_code == 401


def test_a_login_link_as_json_is_all_of_it(hub: HubProcess, here: Adsum) -> None:
    made = json.loads(here("login", "--json").stdout)

    assert made["url"] == f"{hub.url}/login#{made['code']}"
    assert made["role"] == "admin"
    assert made["until"] > time.time() * 1000


async def test_a_watch_elsewhere_ends_when_its_token_is_revoked(
    hub: HubProcess, tmp_path: Path
) -> None:
    named, token = make_token(hub)
    env = {**hub.env, "ADSUM_STATE_DIR": str(tmp_path / "away"), "ADSUM_HUB_URL": hub.url}
    words = [sys.executable, "-P", "-m", "adsum", "agents", "--watch", "--jsonl"]
    bare = run(("agents", "--watch", "--jsonl"), env)
    assert (bare.returncode, "not signed in" in bare.stderr) == (4, True)

    watch = subprocess.Popen(
        words, env={**env, "ADSUM_TOKEN": token}, stderr=subprocess.PIPE, text=True
    )
    try:
        await wait_until(lambda: _ready(hub)["clients"] == 1, timeout=15)
        with admin(hub) as client:
            client.delete(f"/api/v1/tokens/{named}")
        _, said = watch.communicate(timeout=15)
    finally:
        watch.kill()
        watch.wait()
    assert watch.returncode == 4
    assert "was revoked" in said


def _ready(hub: HubProcess) -> dict[str, Any]:
    """All of it, as an admin is told; nobody else is told more than the status."""
    with asking(hub) as nobody:
        assert nobody.get("/readyz").json() == {"ready": True}
    with admin(hub) as client:
        facts: dict[str, Any] = client.get("/readyz").json()
        return facts


def test_where_nobody_signs_in_a_login_says_so(tmp_path: Path, broker: Broker) -> None:
    hub = HubProcess(tmp_path / "open", broker.url)
    try:
        hub.start()
        said = run(("login",), hub.env)
    finally:
        hub.kill()
    assert said.returncode == 1
    assert "Nobody has to sign in" in said.stderr


@pytest.mark.parametrize("public", [None, "http://192.168.1.5:47893"])
async def test_a_hub_by_hand_shows_its_first_link_at_the_terminal_and_not_in_its_log(
    tmp_path: Path, broker: Broker, public: str | None
) -> None:
    more = {"public_url": public} if public else {}
    hub = HubProcess(tmp_path / "one", broker.url, sign_in="on", **more)
    ours, theirs = pty.openpty()
    with hub.log.open("ab") as log:
        words = [sys.executable, "-P", "-m", "adsum", "hub"]
        env = {**hub.env, "PYTHONIOENCODING": "utf-8"}
        hub.process = subprocess.Popen(words, env=env, stdin=theirs, stdout=theirs, stderr=log)
    os.close(theirs)
    os.set_blocking(ours, False)
    shown = b""

    def at_the_terminal() -> str:
        nonlocal shown
        with contextlib.suppress(BlockingIOError):
            shown += os.read(ours, 65_536)
        return shown.decode("utf-8", "ignore")

    try:
        await wait_until(lambda: LINK.search(at_the_terminal()), timeout=20)
        if public:
            await wait_until(lambda: at_the_terminal().count("\n") > 15)
        found = LINK.search(at_the_terminal())
        assert found is not None
        assert found[1] == (public or hub.url)
        assert (FULL_BLOCK in at_the_terminal()) is bool(public)
        assert found[2] not in hub.log.read_text()
        assert machine_token(hub) not in at_the_terminal()
        assert log_in(hub, found[2]).json()["role"] == "admin"
    finally:
        hub.kill()
        os.close(ours)


def test_a_hub_that_is_started_by_a_service_prints_no_link(hub: HubProcess) -> None:
    assert LINK.search(hub.log.read_text()) is None


@pytest.mark.core
async def test_up_prints_a_link_that_lets_its_user_in(tmp_path: Path, hub: HubProcess) -> None:
    ports = {"ADSUM_HUB_PORT": str(free_port()), "ADSUM_COLLECTOR_PORT": str(free_port())}
    env = {**hub.env, **ports, "HOME": str(tmp_path), "ADSUM_STATE_DIR": str(tmp_path / "up")}
    # A broker of its own, so that its machine is in no list of another test.
    del env["ADSUM_REDIS_URL"]
    words = [sys.executable, "-P", "-m", "adsum", "up", "--no-hooks"]
    up = subprocess.Popen(
        words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        assert up.stdout is not None
        printed = ""
        while "Ctrl-C" not in printed:
            line = await asyncio.to_thread(up.stdout.readline)
            assert line, printed
            printed += line
        found = LINK.search(printed)
        assert found is not None
        url, asked = f"{found[1]}/api/v1/login", {"code": found[2]}
        answer = await asyncio.to_thread(httpx.post, url, json=asked, trust_env=False, timeout=10)
        kept = [file for file in (tmp_path / "up").rglob("*") if file.is_file()]
        logged = b"".join(file.read_bytes() for file in kept)
    finally:
        up.terminate()
        up.communicate(timeout=30)

    assert answer.json()["role"] == "admin"
    assert "ADSUM_PUBLIC_URL" in printed
    assert found[2].encode() not in logged
    assert not (tmp_path / "up" / "hub.token").exists()

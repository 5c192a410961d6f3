"""What tests of signing in share: a browser without a page, and this machine's token."""

from __future__ import annotations

import json
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

from tests.hub_processes import NOTHING, HubProcess


def machine_token(hub: HubProcess) -> str:
    text = (hub.state_dir / "hub.token").read_text()
    return text.strip()


def cookie_name(hub: HubProcess) -> str:
    return f"adsum-{hub.port}"


def asking(hub: HubProcess, *, token: str | None = None, cookie: str | None = None) -> httpx.Client:
    """Asks a hub, with what is given or with nothing."""
    client = httpx.Client(base_url=hub.url, trust_env=False, timeout=10)
    if token is not None:
        client.headers["authorization"] = f"Bearer {token}"
    if cookie is not None:
        client.headers["cookie"] = f"{cookie_name(hub)}={cookie}"
    return client


def admin(hub: HubProcess) -> httpx.Client:
    return asking(hub, token=machine_token(hub))


def link(hub: HubProcess, role: str = "admin", name: str = "Ann") -> str:
    """The code of a new login link."""
    with admin(hub) as client:
        made = client.post("/api/v1/login-links", json={"role": role, "name": name})
    assert made.status_code == 200, made.text
    code: str = made.json()["code"]
    return code


def log_in(hub: HubProcess, code: str) -> httpx.Response:
    with asking(hub) as client:
        return client.post("/api/v1/login", json={"code": code})


def sign_in(hub: HubProcess, role: str = "admin", name: str = "Ann") -> str:
    """The secret of a new sign-in's cookie."""
    answer = log_in(hub, link(hub, role, name))
    assert answer.status_code == 200, answer.text
    return answer.cookies[cookie_name(hub)]


def proven(client: httpx.Client) -> dict[str, str]:
    return {"x-csrf-token": client.get("/api/v1/me").json()["csrf"]}


def make_token(hub: HubProcess, role: str = "viewer", name: str = "ci") -> tuple[str, str]:
    """Its id and its secret."""
    with admin(hub) as client:
        asked = {"role": role, "name": name, "expires_s": 3600}
        made = client.post("/api/v1/tokens", json=asked).json()
    return made["token"]["id"], made["secret"]


def watching(hub: HubProcess, **headers: str) -> connect:
    address = hub.url.replace("http", "ws", 1) + "/ws"
    return connect(address, proxy=None, max_size=None, additional_headers=headers)


async def first_message(socket: ClientConnection) -> dict[str, Any]:
    await socket.send(json.dumps(NOTHING))
    message: dict[str, Any] = json.loads(await socket.recv())
    return message

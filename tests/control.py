"""A hub's half of control for tests: keys, consent, requests of Claude Code, and signed commands."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum_collector import shim
from adsum_collector.agents.base import Asked
from adsum_collector.agents.claude_code.acting import asked_in
from adsum_collector.control.consent import Consent, keep_consent
from adsum_collector.control.holds import Held
from adsum_hub.command_stream import append
from adsum_shared import streams
from adsum_shared.commands import Command, Displayed, binding_of, key_id, signed
from adsum_shared.connect import Redis
from adsum_shared.envelope import decode_beat
from adsum_shared.signals import RequestOpened
from adsum_shared.state import Control

SESSION = "11111111-1111-4111-8111-111111111111"
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red"}, {"label": "Blue"}],
}
FEATURES = {"question": "Which features?", "multiSelect": True, "options": [{"label": "Logging"}]}
RULES = [
    {
        "type": "addRules",
        "rules": [{"toolName": "Bash", "ruleContent": "make test"}],
        "behavior": "allow",
        "destination": "localSettings",
    }
]


def permission(
    tool: str = "Bash",
    given: dict[str, Any] | None = None,
    *,
    session_id: str = SESSION,
    **more: Any,
) -> bytes:
    body = {
        "hook_event_name": "PermissionRequest",
        "session_id": session_id,
        "cwd": "/work",
        "tool_name": tool,
        "tool_input": {"command": "make test"} if given is None else given,
    }
    return json.dumps(body | more).encode()


def form(**more: Any) -> bytes:
    """What an MCP server asks by a form."""
    body = {"hook_event_name": "Elicitation", "session_id": SESSION, "cwd": "/work"}
    body |= {"mcp_server_name": "rig", "message": "Who?"}
    body |= {"requested_schema": {"properties": {"name": {"type": "string"}}}}
    return json.dumps(body | more).encode()


def asked_by(body: bytes) -> Asked:
    found = asked_in(body)
    assert found is not None
    return found


#: Of a request that no collector holds.
BINDING = "b" * 64


def command_for(about: Asked | Held, verb: Any = "allow", **more: Any) -> Command:
    asked, request_id, binding = about, "a" * 24, BINDING
    if isinstance(about, Held):
        asked, request_id, binding = about.asked, about.id, about.shown
    assert isinstance(asked, Asked)
    fields = {
        "id": os.urandom(16).hex(),
        "host_id": "h1",
        "session_id": asked.session_id,
        "verb": verb,
        "by": "ann",
        "request_id": request_id,
        "binding": binding,
    }
    return Command(**(fields | more))


def binding_shown(opened: RequestOpened) -> str:
    """What a hub signs that shows this."""
    hold = opened.hold
    assert hold is not None
    about = opened.request_kind, opened.tool, opened.role, opened.summary, opened.payload
    return binding_of(Displayed(opened.session_id, hold.cwd, *about, tuple(hold.always or ())))


def consent_to(state_dir: Path, key: Ed25519PrivateKey, level: Control = "approve") -> None:
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    public = key.public_key()
    keys = {key_id(public): public.public_bytes_raw().hex()}
    keep_consent(state_dir, Consent(level, time.time(), None, keys))


async def give(redis: Redis, command: Command, key: Ed25519PrivateKey) -> None:
    """For the collector that runs, unless it names another."""
    beat = await redis.get(streams.beat(command.host_id))
    told = decode_beat(beat) if beat is not None else None
    if told is not None and not command.run:
        command = msgspec.structs.replace(command, run=told.nonce)
    await append(redis, command.host_id, signed(command, key))


async def run_hook(path: Path, body: bytes) -> asyncio.subprocess.Process:
    """The hook as it is installed where control is on; it has its body, and waits."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", shim.__file__, str(path)),
        *("claude_code", "CLAUDE_PID", "claude", shim.HOLD),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "CLAUDE_PID": str(os.getpid())},
    )
    assert process.stdin is not None
    process.stdin.write(body)
    process.stdin.close()
    return process

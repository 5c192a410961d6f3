"""The real Codex CLI in a HOME of its own, and a scripted model that speaks the Responses API to it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import re
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from tests.real_cli.cli_rig import CLIS, CliMissingError, Home, npm_package

CODEX = CLIS["codex"]["version"]
#: The model is scripted, so the key only has to be there.
KEY = "MOCK_API_KEY"
MODEL = "gpt-6.1-sol"
_MARK = re.compile(r"\bplay:(\w+)")
#: What the model runs: a script in which the calls are nested.
_ASKS = (
    "const r = await tools.exec_command({cmd: 'mkdir -p sub && touch sub/f', "
    "sandbox_permissions: 'require_escalated', justification: 'May a folder be made?'}); text(r);"
)
_SLOW = _ASKS.replace("mkdir -p sub && touch sub/f", "sleep 5; mkdir -p sub")
#: Beside the project: in the home, but outside of what its sandbox lets it write.
PAINTED = "../painted"
_PATCHES = (
    f"const r = await tools.apply_patch('*** Begin Patch\\n*** Add File: {PAINTED}\\n+red\\n"
    "*** End Patch'); text(r);"
)
_SLEEPS = "const r = await tools.exec_command({cmd: 'sleep 20'}); text(r);"


class Function(NamedTuple):
    """A call of a function that stands beside the script. arguments: as the model writes them."""

    name: str
    arguments: dict[str, Any]


class Refusal(NamedTuple):
    """The endpoint answers with this status alone."""

    status: int


_QUESTION = {"id": "colour", "header": "Colour", "question": "Which colour is it?"}
_QUESTION |= {"options": [{"label": each, "description": each} for each in ("Red", "Blue")]}
_PLAN = "So be it.\n\n<proposed_plan>\n# Plan\n\n1. Paint it red.\n</proposed_plan>"
_SPAWNS = {"message": "go play:sleep", "agent_type": "default", "task_name": "painter"}
_SPAWNS_ASKING = _SPAWNS | {"message": "go play:perm"}
Step = str | Function | Refusal
#: name -> the model's answers, one after another: a text, the script of a call, a function, a refusal.
SCRIPTS: dict[str, tuple[Step, ...]] = {
    "text": ("All is well.",),
    "perm": (_ASKS, "The folder stands."),
    "slow": (_SLOW, "The folder stands."),
    "patch": (_PATCHES, "It is painted."),
    "sleep": (_SLEEPS, "It has slept."),
    "ask": (Function("request_user_input", {"questions": [_QUESTION]}), "So it is."),
    "plan": (_PLAN,),
    "spawn": (Function("spawn_agent", _SPAWNS), "An agent is at it."),
    "spawnperm": (Function("spawn_agent", _SPAWNS_ASKING), "An agent is at it."),
    "limit": (Refusal(429),),
}


@functools.cache
def codex_binary(wanted: str = CODEX) -> Path:
    """The executable, installed from npm on first use, without the launcher that needs Node."""
    system, machine = platform.system().lower(), platform.machine().lower()
    cpu = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine, machine)
    scope = npm_package("codex", wanted)
    found = [*(scope / f"codex-{system}-{cpu}").glob("vendor/*/bin/codex")]
    if not found:
        raise CliMissingError(f"codex from npm has no executable for {system}-{cpu}")
    return found[0]


@dataclass(frozen=True)
class CodexHome(Home):
    """A user who has nothing but Codex. shared: sessions run in the client's background server."""

    version: str = CODEX
    shared: bool = False

    @property
    def program(self) -> Path:
        return codex_binary(self.version)

    @property
    def directory(self) -> Path:
        return self.path / ".codex"

    @property
    def env(self) -> dict[str, str]:
        return {
            "HOME": str(self.path),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "TMPDIR": str(self.path / "tmp"),
            KEY: "dummy",
            **self.extra,
        }

    @property
    def config(self) -> str:
        return f"""# mine
model = "{MODEL}"
model_provider = "mock"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
check_for_update_on_startup = false

# Codex lets its sandbox write /tmp, and makes .git, .codex, .agents and .aws there to write-protect them.
[sandbox_workspace_write]
exclude_slash_tmp = true

[features]
daemon_auto_start = {str(self.shared).lower()}

[analytics]
enabled = false

[model_providers.mock]
name = "Mock"
base_url = "{self.model_url}/v1"
env_key = "{KEY}"
wire_api = "responses"

[projects."{self.work}"]
trust_level = "trusted"   # by hand
"""

    def seed(self) -> CodexHome:
        for folder in (self.work, self.path / "tmp", self.directory):
            folder.mkdir(parents=True)
        (self.directory / "config.toml").write_text(self.config)
        return self

    def rollouts(self) -> list[Path]:
        return sorted(self.directory.glob("sessions/*/*/*/rollout-*.jsonl"))

    @contextlib.contextmanager
    def server(self) -> Iterator[None]:
        """Ends the background server that the first terminal starts, and the server's updater."""
        try:
            yield
        finally:
            if self.shared:
                words = [self.program, "app-server", "daemon", "stop"]
                subprocess.run(words, env=self.env, capture_output=True, timeout=30, check=False)
                for file in (self.directory / "app-server-daemon").glob("*.pid"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(json.loads(file.read_text())["pid"], signal.SIGTERM)


def _answer(body: dict[str, Any], side_job: bool) -> Step:
    """A text, or the script of a call. The step follows from the outputs since the prompt."""
    if side_job:
        return '{"title": "A rehearsal"}'
    step, items = 0, body.get("input") or []
    for item in reversed(items):
        step += str(item.get("type", "")).endswith("_output")
        asks = item.get("role") == "user" or item.get("type") == "agent_message"
        if asks and (marks := _MARK.findall(json.dumps(item))):
            script = SCRIPTS[marks[-1]]
            return script[step] if step < len(script) else "The end."
    return "No script was named."


def _namespace(name: str, body: dict[str, Any]) -> dict[str, str]:
    """In which the client offers a function, if in one."""
    tools = [*(body.get("tools") or [])]
    for item in body.get("input") or []:
        tools += item.get("tools") or [] if item.get("type") == "additional_tools" else []
    for tool in tools:
        if any(each.get("name") == name for each in tool.get("tools") or []):
            return {"namespace": tool["name"]}
    return {}


def _events(said: str | Function, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    made = uuid.uuid4().hex
    about = {"id": f"resp_{made}", "object": "response", "model": MODEL}
    yield "response.created", {"response": {**about, "status": "in_progress"}}
    if isinstance(said, Function):
        item = {"type": "function_call", "id": f"fc_{made}", "call_id": f"call_{made}"}
        item |= {"name": said.name, "arguments": json.dumps(said.arguments)}
        item |= {"status": "completed", **_namespace(said.name, body)}
    elif said.startswith("const r = "):
        item = {"type": "custom_tool_call", "id": f"ctc_{made}", "call_id": f"call_{made}"}
        item |= {"name": "exec", "input": said, "status": "completed"}
    else:
        item = {"type": "message", "id": f"msg_{made}", "role": "assistant", "status": "completed"}
        item |= {"content": [{"type": "output_text", "text": said, "annotations": []}]}
    yield "response.output_item.added", {"output_index": 0, "item": item}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    usage = {"input_tokens": 1200, "output_tokens": 45, "total_tokens": 1245}
    yield "response.completed", {"response": {**about, "status": "completed", "usage": usage}}


class _Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: object) -> None:
        """Requests are not worth a line each."""

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        about = json.loads(self.headers.get("x-codex-turn-metadata") or "{}")
        said = _answer(body, about.get("thread_source") == "thread_title")
        if isinstance(said, Refusal):
            self.send_error(said.status)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(ConnectionError):  # Esc in the terminal hangs up on us
            for name, fields in _events(said, body):
                event = json.dumps({"type": name, **fields})
                self.wfile.write(f"event: {name}\ndata: {event}\n\n".encode())


@dataclass
class MockResponses:
    """The model, from `with` to the end of its block."""

    _server: ThreadingHTTPServer = field(init=False)

    def __enter__(self) -> MockResponses:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

"""A scripted model on loopback, for driving the real CLI without a network or an account.

A prompt that holds `play:NAME` is answered with the turns of SCRIPTS[NAME]. The server keeps no
state but how often it has refused whom: the turn to play follows from how many assistant messages
come after that prompt. A request that offers no tools is one of the CLI's own side jobs (a title, a
summary) and gets a stock answer.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.real_cli.scripts import PLAN_FILE, SCRIPTS, Call, Turn

_MARK = re.compile(r"\bplay:(\w+)")
_PLAN_PATH = re.compile(r"/[^\s\"`\\]+/\.claude/plans/[^\s\"`\\]+\.md")
_SUMMARY = "<analysis>brief</analysis>\n<summary>\n1. A rehearsal.\n</summary>"
#: Long enough to be seen at it.
_SUMMARY_S = 1.5
_SIDE_JOB = json.dumps({"title": "A rehearsal", "isNewTopic": False, "ok": True})


def reply_to(body: dict[str, Any]) -> Turn:
    """The turn that this request for a message is to be answered with."""
    messages: list[dict[str, Any]] = body.get("messages", [])
    if "summary of the conversation" in " ".join(_texts(messages[-1])).lower():
        return Turn(_SUMMARY, wait=_SUMMARY_S)
    if not body.get("tools"):
        return Turn(_SIDE_JOB)
    answered = 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            answered += 1
            continue
        marks = [mark for text in _texts(message) for mark in _MARK.findall(text)]
        known = [mark for mark in marks if mark in SCRIPTS]
        if known:
            script = SCRIPTS[known[-1]]
            return _placed(script[answered], body) if answered < len(script) else Turn("The end.")
    return Turn("No script was named.")


def _placed(turn: Turn, body: dict[str, Any]) -> Turn:
    """The turn, with the CLI's own name for the plan file where the script leaves it open."""
    named = _PLAN_PATH.search(json.dumps(body)) if PLAN_FILE in repr(turn.calls) else None
    if named is None:
        return turn
    calls = json.loads(json.dumps([call.input for call in turn.calls]))
    for given in calls:
        given["file_path"] = named.group()
    return replace(
        turn, calls=tuple(Call(c.name, i) for c, i in zip(turn.calls, calls, strict=True))
    )


def _texts(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [part.get("text", "") for part in content if part.get("type") == "text"]


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    said = [{"type": "text", "text": turn.text}] if turn.text else []
    asked = [
        {
            "type": "tool_use",
            "id": f"toolu_{uuid.uuid4().hex[:24]}",
            "name": c.name,
            "input": c.input,
        }
        for c in turn.calls
    ]
    return said + asked


def _message(turn: Turn, model: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 1000,
            "cache_creation_input_tokens": 200,
            "cache_read_input_tokens": 3000,
            "output_tokens": 50,
        },
    }


def _stream(turn: Turn, model: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The server-sent events of one answer: (name, fields)."""
    whole = _message(turn, model, _blocks(turn))
    opening = {**whole, "content": [], "stop_reason": None}
    yield "message_start", {"message": opening}
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, pieces = {**block, "text": ""}, re.findall(r"\S+\s*", block["text"])
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        else:
            empty = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield "content_block_start", {"index": index, "content_block": empty}
        for delta in deltas:
            time.sleep(turn.pause)
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": ending, "usage": whole["usage"]}
    yield "message_stop", {}


class _Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    refused: Counter[tuple[str, str]]
    lock: threading.Lock
    #: Turns, and what each waits for before it is answered.
    gates: list[tuple[Turn, Callable[[], object]]]

    def log_message(self, *_args: object) -> None:
        """Requests are not worth a line each."""

    def do_HEAD(self) -> None:
        self._answer(200, {})

    def do_GET(self) -> None:
        self._answer(200 if self.path.startswith("/v1/models") else 404, {"data": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        path = self.path.partition("?")[0]
        if path == "/v1/messages/count_tokens":
            self._answer(200, {"input_tokens": 1000})
        elif path == "/v1/messages":
            self._play(reply_to(body), body.get("model", "scripted"), stream=body.get("stream"))
        else:
            self._refuse(404, "not_found_error")

    def _play(self, turn: Turn, model: str, *, stream: bool | None) -> None:
        time.sleep(turn.wait)
        for gated, wait in self.gates:
            if gated == turn:
                wait()
        if self._is_refused(turn):
            self._refuse(turn.status, "invalid_request_error")
        elif stream:
            self._send_stream(turn, model)
        else:
            self._answer(200, _message(turn, model, _blocks(turn)))

    def _is_refused(self, turn: Turn) -> bool:
        if turn.status == 200:
            return False
        who = self.headers.get("x-claude-code-session-id", ""), repr(turn)
        with self.lock:
            self.refused[who] += 1
            return self.refused[who] <= turn.times

    def _send_stream(self, turn: Turn, model: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for name, fields in _stream(turn, model):
                event = json.dumps({"type": name, **fields})
                self.wfile.write(f"event: {name}\ndata: {event}\n\n".encode())
        except ConnectionError:
            return  # Esc in the terminal hangs up on us in mid-sentence

    def _refuse(self, status: int, kind: str) -> None:
        self._answer(status, {"type": "error", "error": {"type": kind, "message": "as scripted"}})

    def _answer(self, status: int, fields: dict[str, Any]) -> None:
        raw = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_args: object) -> None:
        """A CLI that is killed hangs up anywhere; that is no event here."""


@dataclass
class MockModel:
    """The server, from `with` to the end of its block."""

    _server: ThreadingHTTPServer = field(init=False)
    _gates: list[tuple[Turn, Callable[[], object]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        own = {"refused": Counter[tuple[str, str]](), "lock": threading.Lock()}
        own |= {"gates": self._gates}
        self._server = _Listener(("127.0.0.1", 0), type("Endpoint", (_Endpoint,), own))

    def answer_after(self, turn: Turn, wait: Callable[[], object]) -> None:
        """Give this turn only after `wait` has returned."""
        self._gates.append((turn, wait))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> MockModel:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

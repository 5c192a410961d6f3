"""A receiver that answers every hook at once with an empty 200, and the hooks that post to it."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    heard: list[dict[str, Any]]
    answers: dict[str, bytes]

    def log_message(self, *_args: object) -> None:
        """Hooks are counted, not printed."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.heard.append({**body, "_arrived": time.monotonic()})
        answer = self.answers.get(body["hook_event_name"], b"")
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@dataclass
class HookSink:
    """Listens from its birth on, answers from `start` or `with` on: until then, connections wait.

    heard: every payload, by arrival. answers: by event, what is posted is answered with.
    """

    heard: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, bytes] = field(default_factory=dict)
    _server: _Listener = field(init=False)
    _answering: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        endpoint = type("Endpoint", (_Endpoint,), {"heard": self.heard, "answers": self.answers})
        self._server = _Listener(("127.0.0.1", 0), endpoint)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    @property
    def events(self) -> set[str]:
        return {body["hook_event_name"] for body in self.heard}

    def start(self) -> None:
        self._answering.set()
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def hear_shims(self, path: Path) -> None:
        """On the collector's socket, too; answers as it does."""
        listener = socket.socket(socket.AF_UNIX)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        listener.bind(str(path))
        listener.listen(128)

        def take(connection: socket.socket) -> None:
            # A hook is ended with its agent, at any moment; or it gives up, on a busy machine.
            with (
                connection,
                connection.makefile("rb") as lines,
                contextlib.suppress(ConnectionError),
            ):
                if not (line := lines.readline()).endswith(b"\n"):
                    return
                said = json.loads(line)
                about = {"_arrived": time.monotonic(), "_pid": said["pid"]}
                self.heard.append({**said["body"], **about})
                connection.sendall(b'{"ok":true,"seq":1}\n')

        def serve() -> None:
            with contextlib.suppress(OSError):  # closed
                while True:
                    threading.Thread(target=take, args=listener.accept()[:1], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()

    def start_when_called(self, startup_s: float) -> None:
        """As a service manager that keeps the socket: the first connection starts the program."""

        def wait() -> None:
            select.select([self._server.socket], [], [])
            threading.Timer(startup_s, self.start).start()

        threading.Thread(target=wait, daemon=True).start()

    def __enter__(self) -> HookSink:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._answering.is_set():
            self._server.shutdown()
        self._server.server_close()


def http_hooks(url: str, events: tuple[str, ...]) -> dict[str, Any]:
    """The `hooks` of a settings file that posts each of the events to the url."""
    post = {"type": "http", "url": url, "timeout": 2}
    return {event: [{"hooks": [post]}] for event in events}

"""Where messages go to in tests: a server that keeps what is posted to it, and a browser's keys."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


class Post(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class PostBox:
    """A push service or a webhook. status, headers: what it answers; slow_s: after how long."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.status = 201
        self.headers: dict[str, str] = {}
        #: by path, where one is to fare otherwise than the others
        self.statuses: dict[str, int] = {}
        self.slow_s = 0.0
        box = self

        class Box(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                time.sleep(box.slow_s)
                box.posts.append(Post(self.path, headers, body))
                with contextlib.suppress(OSError):  # who asked may have gone
                    self.send_response(box.statuses.get(self.path, box.status))
                    for name, value in box.headers.items():
                        self.send_header(name, value)
                    self.send_header("content-length", "0")
                    self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Box)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def webhook(self) -> str:
        """As apprise writes it, with a password."""
        return f"json://hook:S3cretWord@127.0.0.1:{self.port}/T0kenPath"

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextlib.contextmanager
def post_box() -> Iterator[PostBox]:
    box = PostBox()
    box.open()
    try:
        yield box
    finally:
        box.close()


class Browser:
    """One subscription at a push service, and the key that opens what arrives for it."""

    def __init__(self, box: PostBox, name: str = "phone") -> None:
        self.path = f"/push/{name}"
        self.endpoint = box.url + self.path
        self._box = box
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._auth = os.urandom(16)

    @property
    def subscription(self) -> dict[str, Any]:
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        keys = {"p256dh": _base64(point), "auth": _base64(self._auth)}
        return {"endpoint": self.endpoint, "expirationTime": None, "keys": keys}

    def arrived(self) -> list[Post]:
        return [post for post in self._box.posts if post.path == self.path]

    def opened(self) -> list[dict[str, Any]]:
        return [json.loads(self._decrypted(post.body)) for post in self.arrived()]

    def _decrypted(self, body: bytes) -> bytes:
        return bytes(http_ece.decrypt(body, private_key=self._key, auth_secret=self._auth))


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

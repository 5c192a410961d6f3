"""Joining a hub whose answer is lost, or is none that anybody foresaw."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from adsum_shared.envelope import VERSION
from tests.joining import machines

pytestmark = pytest.mark.slow

TOKEN = "adsum_join_" + "x" * 43


@contextmanager
def hub_that_answers(join: bytes | None) -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the identities that asked to join. None: it hangs up instead."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = {"version": "1", "wire": VERSION, "now": int(time.time() * 1000)}
            answer: bytes | None = json.dumps(found).encode()
            if self.path == "/api/v1/join":
                asked.append(told["host_id"])
                answer = join
            if answer is None:
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


@pytest.mark.parametrize("answer", [None, b"<html>"])
def test_a_lost_answer_is_told_with_what_to_do_at_the_hub(answer: bytes | None) -> None:
    with machines("oak") as [oak], hub_that_answers(answer) as (url, asked):
        before = oak.tree()
        done = oak.join(url, TOKEN)

        assert oak.tree() == before
    assert done.returncode == 3
    assert "Everything is as it was before" not in done.stderr
    assert f"adsum hosts reset {asked[0]}" in done.stderr
    assert "adsum hub tokens create --join" in done.stderr


def test_an_answer_that_nobody_foresaw_is_undone_all_the_same() -> None:
    with machines("oak") as [oak], hub_that_answers(b"{}") as (url, _):
        before = oak.tree()
        done = oak.join(url, TOKEN)

        assert oak.tree() == before
    assert done.returncode != 0
    assert "as it was before" in done.stderr

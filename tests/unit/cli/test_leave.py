"""What `adsum leave` makes of a hub that does not let the machine go at once."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adsum import leave
from adsum.joined import Joined, keep
from adsum.outcome import Exit


@contextmanager
def hub(*statuses: int) -> Iterator[tuple[str, list[str]]]:
    """One that answers so, one after the other, and hangs up at 0; and what it was asked."""
    asked: list[str] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status = statuses[len(asked)]
            asked.append(self.path)
            if not status:
                return
            told = {"id": "oak"} if status == 200 else {"error": "Redis is away.", "next": "Wait."}
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("statuses", "code", "says"),
    [
        ((503, 409, 200), Exit.OK, "has let it go"),
        ((0, 401), Exit.OK, "forgotten it, already"),
        ((503, 503, 503, 503), Exit.PARTIAL, "adsum hosts forget oak"),
        ((403,), Exit.PARTIAL, "adsum hosts forget oak"),
    ],
)
def test_a_hub_that_may_let_it_go_later_is_asked_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    statuses: tuple[int, ...],
    code: Exit,
    says: str,
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setattr(leave, "AGAIN_S", tuple(each / 1000 for each in leave.AGAIN_S))
    monkeypatch.setattr(leave.join_collector, "stop", lambda _: False)
    home = tmp_path / "state"
    home.mkdir()
    with hub(*statuses) as (url, asked):
        keep(home, Joined(url, "oak", "oak", "redis://127.0.0.1:1", "the-secret"))
        assert leave.leave(home) == code

    assert len(asked) == len(statuses)
    assert says in capsys.readouterr().err
    assert not (home / "machine.json").exists()

"""What `adsum leave`, and the undoing of a joining, make of a hub that does not let go at once."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from adsum.hooks import Setup
from adsum.join import leave
from adsum.join.join import Wish, _Joining
from adsum.join.leave import Undo
from adsum.machine import Hub, Membership, keep
from adsum.outcome import Exit
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import Holder

#: To whoever joins; who leaves reads nothing of it.
JOINED = {"way": "ingest", "label": "oak", "secret": "s", "redis_url": "", "warning": None} | {
    "why": "It was asked for."
}


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
            told = JOINED if status == 200 else {"error": "Redis is away.", "next": "Wait."}
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
    monkeypatch.setattr(leave, "stop_collector", lambda _: False)
    home = tmp_path / "state"
    home.mkdir()
    with hub(*statuses) as (url, asked):
        keep(home, Membership(url, "oak", "oak", "redis://127.0.0.1:1", "the-secret"))
        assert leave.leave(home) == code

    assert len(asked) == len(statuses)
    assert says in capsys.readouterr().err
    assert not (home / "machine.json").exists()


@pytest.mark.parametrize(
    ("seen", "code", "says", "not_said"),
    [
        ([None, None, Holder("7", 1)], Exit.ERROR, "sudo adsum service remove --system", "no more"),
        ([None], Exit.OK, "starts no more", "What is left"),
    ],
)
def test_a_collector_that_something_starts_again_is_not_called_stopped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seen: list[Holder | None],
    code: Exit,
    says: str,
    not_said: str,
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setattr(leave, "RESTARTED_S", 10.0 if seen[-1] else 0.0)
    monkeypatch.setattr(leave, "stop_collector", lambda _: True)
    looks = chain(seen, repeat(seen[-1]))
    monkeypatch.setattr(leave, "holder_of", lambda _: next(looks))
    home = tmp_path / "state"
    home.mkdir()
    with hub(200) as (url, _):
        keep(home, Membership(url, "oak", "oak", "redis://127.0.0.1:1", "the-secret"))
        assert leave.leave(home) == code

    told = capsys.readouterr().err
    assert says in told
    assert not_said not in told


@pytest.mark.parametrize(
    ("statuses", "left"),
    [((503, 200), False), ((0, 401), False), ((503, 503, 503, 503), True), ((403,), True)],
)
def test_an_undo_asks_again_while_it_has_the_credential_to_ask_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statuses: tuple[int, ...], left: bool
) -> None:
    monkeypatch.setattr(leave, "AGAIN_S", tuple(each / 1000 for each in leave.AGAIN_S))
    settings = CollectorSettings(state_dir=tmp_path / "state", host_label="oak")
    undo = Undo()
    with hub(200, *statuses) as (url, asked):
        setup = Setup(tmp_path / "settings.json", settings.state_dir, 1)
        work = _Joining(Hub(url), settings, setup, Wish("t", via="ingest"), undo)
        work._enter("t", None)

        told = undo.run()

    assert len(asked) == 1 + len(statuses)
    assert bool(told) is left
    assert all("adsum hosts forget" in each for each in told)


def test_a_terminal_that_is_gone_keeps_no_hub_from_being_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone(_: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(leave, "AGAIN_S", (0.001,))
    monkeypatch.setattr(leave, "say", gone)
    with hub(503, 200) as (url, asked):
        assert leave.let_go(Hub(url), {"undo": True})
    assert len(asked) == 2

"""How parts log: JSON or plain, one line an event, and no secret in either."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from adsum.foreground import configure_logging
from adsum_shared.redact import MASK, MOST_SIGNS, fields_without_secrets, without_secrets

#: In pieces, so that no scanner takes this file for a leak.
KEY = "sk-ant-" + "Planted" * 3
TOKEN = "adsum_" + "Zq9" * 14 + "x"
#: A line as somebody may log it -> what of it must not be read.
PLANTED = {
    "redis://ops:hunter2pass@redis:6379/0 does not answer": "hunter2pass",
    "rediss://:S3cretPw@redis:6379 does not answer": "S3cretPw",
    "https://PushUserToken@push.example/x was refused": "PushUserToken",
    '127.0.0.1 - "WebSocket /ws?token=Qwerty12345" [accepted]': "Qwerty12345",
    "GET https://api.example/send?user=1&sig=abcDEF123": "abcDEF123",
    "open https://hub.example/login#CodeOfALink_-12345": "CodeOfALink_-12345",
    "Cookie: theme=dark; adsum-47893=CookieSecret99": "CookieSecret99",
    "set-cookie: __Host-adsum=CookieSecret99; Path=/": "CookieSecret99",
    "{'cookie': 'token=a; adsum=CookieSecret99'}": "CookieSecret99",
    "headers [(b'cookie', b'adsum=CookieSecret99')]": "CookieSecret99",
    "Authorization: Bearer shortbearer1": "shortbearer1",
    "authorization=Basic dXNlcjpwYXNz": "dXNlcjpwYXNz",
    f"made {TOKEN} for Ann": TOKEN,
    "ADSUM_REDIS_PASSWORD=PlantedPw77 is wrong": "PlantedPw77",
    f"the key {KEY} was shown": KEY,
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root, hook = logging.getLogger(), sys.excepthook
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], sys.excepthook = handlers, hook
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def entries(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("line", PLANTED)
@pytest.mark.parametrize("kind", ["json", "plain"])
def test_no_planted_secret_is_in_a_line(line: str, kind: Any) -> None:
    out = io.StringIO()
    configure_logging("info", kind, out)
    logging.getLogger("adsum_hub.any").warning("%s", line)

    assert PLANTED[line] not in out.getvalue()
    assert out.getvalue().count("\n") == 1


def test_what_is_no_secret_stays_as_it_was() -> None:
    plain = (
        "reading from Redis at redis:6379",
        "host a1: asking for a replay from 7f3c:12",
        "made a login link for 'Ann' as viewer",
        "a cookie, or a token, is needed",
        "dashboard at http://127.0.0.1:47893",
        "5 tokens are good",
    )

    assert [without_secrets(line, "s") for line in plain] == list(plain)


def test_a_traceback_holds_no_secret_and_no_local_variable() -> None:
    for kind in ("json", "plain"):
        out = Terminal() if kind == "plain" else io.StringIO()
        configure_logging("info", "auto", out)
        hidden = "LocalVariable55"
        try:
            raise ValueError(f"redis://u:hunter2pass@h/{len(hidden)}")
        except ValueError:
            logging.getLogger("adsum_hub").exception("it failed")

        text = out.getvalue()
        assert "Traceback" in text
        assert "hunter2pass" not in text
        assert hidden not in text.replace('hidden = "LocalVariable55"', "")


def test_the_fault_that_ends_a_process_is_told_without_its_secret() -> None:
    out = io.StringIO()
    configure_logging("info", "json", out)
    try:
        raise RuntimeError("token=Planted1234")
    except RuntimeError:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type] # there is one

    (entry,) = entries(out)
    assert (entry["level"], "Planted1234" in entry["exception"]) == ("critical", False)


def test_a_program_gets_json_and_a_terminal_plain_words() -> None:
    file, terminal = io.StringIO(), Terminal()
    for out in (file, terminal):
        configure_logging("info", "auto", out)
        logging.getLogger("adsum_hub.trouble").info("reading from %s", "Zürich")

    (entry,) = entries(file)
    assert entry["event"] == "reading from Zürich"
    assert (entry["level"], entry["logger"]) == ("info", "adsum_hub.trouble")
    assert entry["time"].endswith("Z")
    assert "reading from Zürich" in terminal.getvalue()
    assert not terminal.getvalue().startswith("{")
    assert "\x1b[" in terminal.getvalue()


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    file, terminal = io.StringIO(), Terminal()
    configure_logging("info", "plain", file)
    logging.getLogger("adsum_hub").info("one")
    monkeypatch.setenv("NO_COLOR", "1")
    configure_logging("info", "plain", terminal)
    logging.getLogger("adsum_hub").info("two")

    assert "\x1b[" not in file.getvalue() + terminal.getvalue()


def test_a_librarys_own_way_out_is_closed() -> None:
    past_us, out = io.StringIO(), io.StringIO()
    server = logging.getLogger("uvicorn.error")
    server.addHandler(logging.StreamHandler(past_us))
    server.propagate = False
    server.setLevel(logging.NOTSET)  # a server that another test started may have raised it
    configure_logging("info", "json", out)
    server.info('"WebSocket /ws?token=%s" [accepted]', "Planted1234")

    assert past_us.getvalue() == ""
    assert entries(out)[0]["logger"] == "uvicorn.error"
    assert "Planted1234" not in out.getvalue()


def test_what_is_below_the_level_is_not_written() -> None:
    out = io.StringIO()
    configure_logging("warning", "json", out)
    logging.getLogger("adsum_hub").info("not this")
    logging.getLogger("adsum_hub").warning("but this")

    assert [entry["event"] for entry in entries(out)] == ["but this"]


def test_a_field_is_masked_by_its_name_alone() -> None:
    fields = {"cookie": "a=b", "authorization": b"x", "password": "pw", "port": 1, "event": "e"}
    masked = fields_without_secrets(fields, "s")

    assert (masked["cookie"], masked["authorization"], masked["port"]) == (MASK, MASK, 1)
    assert masked["password"] != "pw"


def test_a_line_of_megabytes_is_cut_off_and_looked_through_quickly() -> None:
    text = without_secrets("?a=" * 5_000_000, "s")

    assert len(text) < MOST_SIGNS + 100


def test_structlogs_own_tracebacks_would_show_local_variables() -> None:
    """Why the renderer is told to write plain ones; if this changes, that may go."""
    assert structlog.dev.default_exception_formatter is not structlog.dev.plain_traceback

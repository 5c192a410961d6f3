"""`adsum open`: the address for whoever has no browser here, and the page of the session named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from adsum.outcome import CommandError, Exit
from adsum.reach import has_browser, open_dashboard
from tests.brokers import free_port
from tests.hubs import StandIn, session, stand_in_hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSH_CONNECTION", "here there")
    with stand_in_hub() as hub:
        hub.sessions = [session("0a1b2c3d")]
        yield hub


def test_without_a_browser_the_address_is_printed(
    hub: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_dashboard("0a1b", only_print=False, hub=hub.url, state_dir=tmp_path)
    out, err = capsys.readouterr()
    assert out == f"{hub.url}/sessions/laptop-id:0a1b2c3d\n"
    assert "No browser" in err
    open_dashboard(None, only_print=True, hub=hub.url, state_dir=tmp_path)
    assert capsys.readouterr() == (f"{hub.url}/\n", "")


def test_the_browser_that_the_user_named_is_opened(
    hub: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    # The library reads BROWSER once; a name with %s is looked up anew.
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    assert has_browser(os.environ, "linux")
    import webbrowser

    monkeypatch.setattr(webbrowser, "_tryorder", None)
    open_dashboard(None, only_print=False, hub=hub.url, state_dir=tmp_path)
    assert opened.read_text() == f"{hub.url}/\n"


def test_a_text_browser_does_not_take_the_terminal() -> None:
    assert not has_browser({}, "linux")
    assert has_browser({"DISPLAY": ":0"}, "linux")
    assert has_browser({}, "darwin")
    assert not has_browser({"SSH_CONNECTION": "x"}, "darwin")


def test_no_hub_is_told_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No hub answers") as wrong:
        open_dashboard(
            None, only_print=False, hub=f"http://127.0.0.1:{free_port()}", state_dir=tmp_path
        )
    assert wrong.value.code == Exit.UNREACHABLE


def test_whom_the_hub_does_not_know_it_asks_in_the_browser(
    hub: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.refusal = 401
    open_dashboard(None, only_print=False, hub=hub.url, state_dir=tmp_path)
    out, err = capsys.readouterr()
    assert out == f"{hub.url}/\n"
    assert "adsum login" in err

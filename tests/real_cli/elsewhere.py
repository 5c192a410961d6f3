"""Two machines whose owners agreed to control, one hub, and somebody elsewhere at a real browser."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from scripts.chromium import chromium
from tests.real_cli.cli_rig import claude_binary
from tests.real_cli.fleet import Fleet, Machine, adsum, until
from tests.real_cli.session import Session

#: A request's first row of buttons, once they may be pressed.
READY = ".request .do-line[data-ready=true]"


def control(machine: Machine, *words: str, typed: str = "") -> str:
    """What `adsum control` of a machine's owner prints. typed: at a terminal."""
    program = ("--claude", str(claude_binary(machine.home.version))) if words[0] != "trail" else ()
    command = adsum("control", *words, *program)
    keyboard, terminal = os.openpty() if typed else (-1, subprocess.DEVNULL)
    os.write(keyboard, typed.encode()) if typed else None
    done = subprocess.run(
        command, env=machine.env, stdin=terminal, capture_output=True, text=True, check=False
    )
    for each in (keyboard, terminal):
        os.close(each) if each >= 0 else None
    assert done.returncode == 0, done.stderr
    return done.stdout


def agree(fleet: Fleet, level: str = "approve") -> None:
    """The owners of all machines, once the hub shows a key to be pinned."""
    keys = f"{fleet.hub_url}/api/v1/command-keys"
    until(lambda: httpx.get(keys).json().get("keys"), "the hub to show its key")
    for machine in fleet.machines:
        control(machine, level, "--yes")

    def levels() -> set[str]:
        hosts = httpx.get(f"{fleet.hub_url}/api/v1/hosts").json()["hosts"]
        return {str(each.get("control")) for each in hosts}

    until(lambda: levels() == {level}, "the hub to know of the consent")


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip("Chromium is missing; `make system-deps` installs it")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


#: So many looks a button must stay where it is: what moves is not ready, and is found out by the page
#: only at its next look.
STILL = 20


class Elsewhere:
    """Somebody who has one session's page before them. page: of a browser, nowhere yet."""

    def __init__(self, page: Page, fleet: Fleet, session: Session, hub_url: str = "") -> None:
        self.page, self.session = page, session
        self.work = session.machine.home.work
        self._hub_url, self.id = hub_url or fleet.hub_url, f"{session.machine.host_id}:{session.id}"
        until(lambda: fleet.session(session.id), "the hub to list it")
        page.goto(f"{self._hub_url}/sessions/{self.id}")
        page.wait_for_selector(".session")

    def asked(self, holding: str, does: str = "allow", timeout: float = 20) -> tuple[float, float]:
        """Where its button stands, once the request that holds these words can be decided."""
        request = self.page.locator(".request", has_text=holding)
        # What is out of sight is not ready.
        request.locator(f"[data-do={does}]").first.scroll_into_view_if_needed(
            timeout=timeout * 1000
        )
        button = request.locator(f".do-line[data-ready=true] [data-do={does}]:enabled")
        stood: list[Any] = []

        def stands() -> Any:
            stood.append(button.first.bounding_box() if button.count() else None)
            return stood[-1] if stood[-STILL:] == [stood[-1]] * STILL else None

        box = until(stands, f"{does} to stand still", timeout=timeout, more=self.text)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x, y)
        return x, y

    def press(self) -> float:
        """Whatever is under the mouse; the wall clock's seconds right before."""
        at = time.time()
        self.page.mouse.down()
        self.page.mouse.up()
        return at

    def click(self, holding: str, does: str = "allow") -> float:
        self.asked(holding, does)
        return self.press()

    def says(self, *words: str, timeout: float = 20) -> str:
        """The page's sentence on what was decided, once it holds one of these."""

        def found() -> str:
            told = self.page.locator(".fate, .decisions li, .barred").all_inner_texts()
            return next((t for t in told if any(word in t for word in words)), "")

        return until(found, f"the page to say {words}", timeout=timeout, more=self.text)

    def text(self) -> str:
        return self.page.locator("body").inner_text()

    def commands(self) -> list[dict[str, Any]]:
        """What the hub tells of all that was decided there, the newest last."""
        url = f"{self._hub_url}/api/v1/sessions/{self.id}/commands"
        return list(httpx.get(url, timeout=5).json()["commands"])

    def lines(self) -> list[dict[str, Any]]:
        """Of the session's transcript."""
        return self.session.machine.home.told_in(self.session.id)

    def made(self, name: str, within: float = 10) -> Path:
        file = self.work / name
        until(file.exists, f"{name} to be made", timeout=within, more=self.text)
        return file

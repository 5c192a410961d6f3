"""The page before the real hub instead of its stand-in: they mean the same by every field."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import uvicorn
from fakeredis import FakeAsyncRedis
from playwright.async_api import BrowserContext, Page, ViewportSize, expect

from adsum_collector.agents.records import TranscriptFile
from adsum_hub.app import build_app, listen, server_config
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.request_guard import known_hosts
from adsum_hub.rest.roster import Dismissals
from adsum_hub.roster import Roster, local_day
from adsum_hub.snapshots import Snapshot
from adsum_hub.trouble import Link
from adsum_shared import signals as s
from adsum_shared.envelope import Batch, Beat, Gap
from adsum_shared.state import HostWitness, HubTrouble, ScanProgress
from tests.browser.conftest import DESK, PHONE, RECORD_VIOLATIONS, wall_ms
from tests.browser.test_looks import overflow, violations
from tests.second_agent import Quill, read
from tests.support import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


class RealHub:
    """The hub's own app over a roster that is fed by hand."""

    def __init__(self) -> None:
        self.roster = Roster()
        self.roster.add("box", Snapshot(), wall_ms())
        self.broadcast = Broadcast(self.roster, wall_ms)
        self.bound = listen("127.0.0.1", 0)
        port = self.bound.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        dismissals = Dismissals(self.roster, self.broadcast, wall_ms, FakeAsyncRedis())
        app = build_app(
            self.roster,
            self.broadcast,
            Link(),
            wall_ms,
            known_hosts(port, ()),
            dismissals=dismissals,
        )
        self.server = uvicorn.Server(server_config(app))
        self.told = 0

    def hear(self, *witnesses: HostWitness, **more: Any) -> None:
        now, told = wall_ms(), self.told
        beat = Beat("box", "box", now, "n", "spool", told, told, witnesses=witnesses, **more)
        self.roster.hear("box", beat, 0, now)
        self.broadcast.flush()

    def tell(self, *signals: s.AnySignal) -> None:
        first, self.told = self.told + 1, self.told + len(signals)
        now = wall_ms()
        self.roster.apply("box", Batch("spool", first, self.told, "n", now, signals), now)
        self.broadcast.flush()

    def lose(self, count: int, reason: str) -> None:
        first, self.told = self.told + 1, self.told + count
        now = wall_ms()
        gap = Gap(reason)
        self.roster.apply("box", Batch("spool", first, self.told, "n", now, gap=gap), now)
        self.broadcast.flush()


@pytest_asyncio.fixture(loop_scope="session")
async def real() -> AsyncIterator[RealHub]:
    hub = RealHub()
    serving = asyncio.create_task(hub.server.serve(sockets=[hub.bound]))
    await wait_until(lambda: hub.server.started)
    yield hub
    hub.server.should_exit = True
    await serving


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """Fails the test that makes it complain."""
    opened = await context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    await opened.add_init_script(RECORD_VIOLATIONS)
    yield opened
    faults += await opened.evaluate("window.violations")
    await opened.close()
    assert faults == []


@pytest.mark.browser_pass
async def test_a_session_is_read_from_card_to_activity(real: RealHub, page: Page) -> None:
    at = wall_ms() - 60_000
    transcript = {"session_id": "a", "seen": at, "source": "transcript"}
    real.hear()
    real.tell(
        s.PromptSubmitted(at=at, prompt_id="p1", text="Make it green", **transcript),
        s.MetaChanged(at=at, title="Green again", **transcript),
        s.ToolStarted(
            at=at + 1000, tool="Task", role="agent", tool_use_id="t1", prompt_id="p1", **transcript
        ),
        s.ChildStarted(at=at + 1500, child_id="c1", description="Look around", **transcript),
    )
    await page.goto(real.url)
    await page.get_by_role("button", name="Green again").click()
    sheet = page.get_by_role("dialog", name="Green again")

    await expect(sheet.locator(".child")).to_contain_text("Look around")
    await expect(sheet.locator(".line")).to_have_count(3)
    await expect(sheet.locator(".line").first).to_contain_text("Make it green")
    await expect(sheet.locator(".line .age").first).to_have_text("1m")
    await expect(sheet.locator(".because").first).to_contain_text("Known from its transcript")
    await expect(sheet.locator(".warning")).to_contain_text("Hooks missing.")
    await expect(sheet.locator(".witnesses")).to_contain_text("Transcript")

    real.tell(s.TurnEnded(at=wall_ms(), prompt_id="p1", last_message="It is green.", **transcript))
    await expect(sheet.locator(".turn-steps .line").first).to_contain_text("It is green.")
    await expect(sheet.locator(".badge")).to_have_text("Background work: Look around")


async def test_a_session_of_another_agent_has_a_card_that_says_whose_it_is(
    real: RealHub, page: Page
) -> None:
    def quill(**hook: str) -> list[s.AnySignal]:
        said = Quill().hook(json.dumps({"thread": "t-1"} | hook).encode(), wall_ms())
        return [msgspec.structs.replace(each, agent=Quill.name) for each in said]

    limits = "Known from its ink alone."
    real.hear(agents=(msgspec.structs.replace(Quill().words, limits=limits),))
    real.tell(*quill(what="open", folder="/src/poem"), *quill(what="begin"))
    real.tell(*quill(what="may I", wants="strike a verse"))
    line = json.dumps({"ms": wall_ms(), "title": "An ode"}).encode()
    real.tell(*read([line], TranscriptFile("t-1"), "", wall_ms(), None, lambda each: each).signals)
    await page.goto(real.url)
    await page.get_by_role("button", name="An ode").click()
    sheet = page.get_by_role("dialog", name="An ode")

    await expect(sheet.locator(".request")).to_contain_text("strike a verse")
    await expect(sheet.locator(".facts", has_text="agent").last).to_contain_text("quill")
    await expect(sheet.locator(".facts", has_text="limits").last).to_contain_text(limits)

    real.tell(*quill(what="close"))
    await page.goto(f"{real.url}/sessions/box:t-1")
    taken_up = page.locator("[data-part=todo] .command code")
    await expect(taken_up).to_have_text("cd /src/poem && quill reopen t-1")
    await page.goto(f"{real.url}/hosts#box")
    await expect(page.get_by_text("Quill 3.1")).to_be_visible()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_a_session_is_put_aside_and_back_by_buttons_and_keys(
    real: RealHub, page: Page, size: ViewportSize
) -> None:
    async def shown(state: str | None) -> None:
        def is_so() -> bool:
            real.broadcast.flush()
            view = real.roster.views.get("box:a")
            return (view.state.state if view else None) == state

        await wait_until(is_so)

    now = wall_ms()
    turn = {"session_id": "a", "seen": now, "at": now, "prompt_id": "p1"}
    real.hear()
    real.tell(
        s.PromptSubmitted(text="go", **turn),
        s.MetaChanged(title="Green again", **turn),
        s.TurnEnded(**turn),
    )
    await page.set_viewport_size(size)
    await page.goto(real.url)
    await page.get_by_role("button", name="Green again").click()
    sheet = page.get_by_role("dialog", name="Green again")
    await sheet.get_by_role("button", name="Dismiss").click()
    await shown("archived")
    await expect(sheet.locator(".badge")).to_have_text("Dismissed")
    said = page.locator(".put-aside")
    await expect(said).to_contain_text("Green again is dismissed")
    await expect(sheet.get_by_role("button", name="Dismiss")).to_have_count(0)
    assert await violations(page) == []
    assert await overflow(page) == 0
    await sheet.get_by_role("button", name="Put back").click()
    await shown("idle")
    await expect(said).to_contain_text("back on the list")

    await page.keyboard.press("x")
    await expect(sheet).to_have_count(0)  # behind it nothing takes the focus
    await page.locator(".card .open").focus()
    await page.keyboard.press("e")
    await shown(None)
    await expect(page.locator(".card")).to_have_count(0)
    await page.goto(f"{real.url}/sessions/box:a")
    await expect(page.locator(".badge")).to_have_text("Archived")
    await expect(page.get_by_text("It ended on")).to_have_count(0)
    await page.get_by_role("button", name="Put back").click()
    await shown("idle")
    await page.keyboard.press("i")
    await shown("archived")
    await expect(said).to_contain_text("dismissed")
    await page.keyboard.press("z")
    await shown("idle")


@pytest.mark.browser_pass
async def test_an_open_request_is_read_in_full(real: RealHub, page: Page) -> None:
    now = wall_ms()
    hook = {"session_id": "a", "seen": now, "at": now, "prompt_id": "p1"}
    real.hear()
    real.tell(
        s.PromptSubmitted(text="go", **hook),
        s.ToolStarted(tool="Bash", role="shell", tool_use_id="t1", **hook),
        s.RequestOpened(
            request_kind="permission",
            tool="Bash",
            role="shell",
            tool_use_id="t1",
            request_id="r1",
            summary="make",
            payload={"command": "make all", "timeout": 9},
            **hook,
        ),
    )
    await page.goto(f"{real.url}/sessions/box:a")
    request = page.locator(".session .request")

    await expect(request).to_contain_text("Permission: Bash")
    await expect(request.locator(".request-main")).to_have_text("make all")
    await expect(request.locator(".facts")).to_contain_text("timeout")


@pytest.mark.browser_pass
async def test_what_a_machine_says_of_its_witnesses_is_shown(real: RealHub, page: Page) -> None:
    note = "~/.claude/settings.json holds none of Adsum's hooks. Next: adsum hooks install"
    real.hear(
        HostWitness("hook", "missing", note=note),
        HostWitness("transcript", "ok", wall_ms() - 65_000, {"no JSON": 2}),
        HostWitness("statusline"),
    )
    await page.goto(f"{real.url}/hosts")
    host = page.locator(".machine")
    await expect(host).to_contain_text(note)

    await host.locator(".host-head").click()
    rows = host.locator(".witnesses li")
    await expect(rows).to_have_count(3)
    assert "heard 1m ago · no JSON" in await rows.nth(1).inner_text()
    assert "never heard" in await rows.nth(2).inner_text()


@pytest.mark.browser_pass
async def test_the_hubs_trouble_is_shown_while_it_lasts(real: RealHub, page: Page) -> None:
    real.hear()
    await page.goto(real.url)
    await expect(page.locator(".pill")).to_have_text("Live")
    real.broadcast.set_trouble(
        HubTrouble("Redis is gone. Start it.", wall_ms() - 60_000, blind=True)
    )
    await expect(page.locator(".pill")).to_contain_text("Stale since")
    await expect(page.locator(".banner")).to_contain_text("Redis is gone. Start it.")
    real.broadcast.set_trouble(None)
    await expect(page.locator(".banner")).to_have_count(0)
    await expect(page.locator(".pill")).to_have_text("Live")


@pytest.mark.browser_pass
async def test_what_a_machine_lost_is_told_of_it_and_of_its_sessions(
    real: RealHub, page: Page
) -> None:
    at = wall_ms() - 60_000
    real.hear()
    real.tell(s.PromptSubmitted(session_id="a", at=at, seen=at, prompt_id="p1", text="go"))
    real.lose(12, "cap")
    await page.goto(real.url)
    lost = re.compile(r"12 signals from before .+ are missing: its disk allowance was used up\.")
    await expect(page.locator(".meta .late")).to_have_attribute("title", lost)

    await page.locator(".host-head").click()
    await page.wait_for_selector(".machine")
    await expect(page.locator(".host-lost")).to_have_text(lost)


@pytest.mark.browser_pass
async def test_usage_and_history_are_read_from_head_to_details(real: RealHub, page: Page) -> None:
    at = wall_ms() - 60_000
    day = local_day(wall_ms())
    live = {"session_id": "a", "at": at, "seen": at}
    past = {"session_id": "b", "at": at - 86_400_000, "seen": at, "source": "transcript"}
    kinds = {"day": day, "model": "claude-opus-4-1", "messages": 3}
    limits = [s.RateLimit("five_hour", 91.0, at + 3_600_000)]
    real.hear(scan=ScanProgress(10, 5, 1_000_000, 500_000, 1000, 500.0))
    real.tell(
        s.PromptSubmitted(prompt_id="p1", text="go", **live),
        s.MetaChanged(title="Live", forked_from="b", pr="https://example.com/1", **live),
        s.UsageTotalled(input_tokens=2000, output_tokens=500, **kinds, **live),
        s.GaugesReported(context_tokens=190_000, context_size=200_000, limits=limits, **live),
        s.UsageTotalled(input_tokens=1000, cache_read_tokens=9000, **kinds, **past),
        s.MetaChanged(title="Long over", last_prompt="Once upon a time", **past),
        s.SessionEnded(reason="process", **past),
    )
    await page.goto(real.url)
    await expect(page.locator(".card .spent")).to_have_text("unpriced \u00b7 2.5k tokens")
    await expect(page.locator(".gauge")).to_contain_text("95 % context")
    await expect(page.locator(".limit-short")).to_contain_text("5h 91 %")
    await expect(page.locator(".host-scan")).to_have_text("reads its history, 50 %")
    today = page.locator(".tool").first
    await expect(today).to_have_attribute("title", re.compile("12,500 tokens"))

    await today.click()
    await expect(page.locator(".report-total")).to_contain_text("12.5k")
    await expect(page.locator(".budgets")).to_contain_text("None is set.")
    await page.get_by_role("radio", name="Tokens").click()
    await expect(page.locator(".legend li")).to_contain_text(["claude-opus-4-1"])
    for n, by in enumerate(("Host", "Project", "Model", "Agent", "Session"), 1):
        await page.locator("[name=by]").nth(n).click()
        await expect(page.get_by_role("columnheader").first).to_have_text(by)
    await page.get_by_role("link", name="Long over").click()
    await expect(page.get_by_role("dialog", name="Long over")).to_be_visible()
    await page.keyboard.press("Escape")

    await page.get_by_role("link", name="History").click()
    await page.get_by_role("searchbox").fill("over long")
    await expect(page.locator(".result")).to_have_count(1)
    await page.locator(".result").click()
    sheet = page.get_by_role("dialog", name="Long over")
    await expect(sheet.locator("[data-part=usage]")).to_contain_text("9,000")
    await expect(sheet.locator("[data-part=words]")).to_contain_text("Once upon a time")
    await expect(sheet.locator("[data-part=activity]")).to_contain_text(
        "Its activity is no longer stored"
    )
    await page.keyboard.press("Escape")
    await page.keyboard.press("Escape")

    await page.get_by_role("link", name="Hosts").click()
    await expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "50")
    real.hear()
    await expect(page.get_by_role("progressbar")).to_have_count(0)

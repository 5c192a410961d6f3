"""Commands whose characters could make them read as other ones: what is drawn of them, and what it takes to allow them."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from adsum_shared.cautions import cautions_of
from adsum_shared.characters import is_invisible, replace_invisible
from adsum_shared.state import SessionView
from tests.browser import fleets, held
from tests.browser.conftest import ASKED, PHONE, OpenPage, wall_ms
from tests.browser.standin import StandIn

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
]

READY = ".decide[data-ready=true]"
WIDE = {"width": 1440, "height": 900}
ARABIC_MARK = ": \u061c; python3 x.py \u061c # git log --oneline"
HEBREW = ": \u05d0; python3 x.py \u05d0 # git log --oneline"
SHOWN = {ARABIC_MARK: ": \\u{61c}; python3 x.py \\u{61c} # git log --oneline", HEBREW: HEBREW}

#: Where the first letters of some words are drawn, in reading order: line by line, from left to right.
PLACES = """(element, words) => {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const places = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    for (const word of words) {
      const at = node.data.indexOf(word);
      if (at < 0) continue;
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      const { x, y } = range.getBoundingClientRect();
      places.push({ word, x, y: Math.round(y / 4) });
    }
  return places.sort((a, b) => a.y - b.y || a.x - b.x).map(({ word }) => word);
}"""


def spoofed(command: str, **payload: Any) -> SessionView:
    whole = {"command": command, **payload}
    return held.held("a", wall_ms(), payload=whole, hold={"cautions": cautions_of(whole)})


async def at(open_page: OpenPage, hub: StandIn, view: SessionView, path: str, **more: Any) -> Page:
    hub.load([view], [fleets.host("alpha", wall_ms(), control="approve")])
    hub.activity[view.id] = []
    hub.me |= {"role": "operator"}
    ready = f".session {READY}" if path else f".card {READY}"
    return await open_page(path=path.format(view.id), ready=ready, **more)


async def reads_as(code: Locator, command: str) -> None:
    await expect(code).to_have_text(SHOWN[command])
    assert await code.evaluate(PLACES, ["python3", "x.py", "# git", "log"]) == [
        *("python3", "x.py", "# git", "log"),
    ]
    overridden = await code.evaluate("(e) => getComputedStyle(e).unicodeBidi")
    assert (await code.get_attribute("dir"), overridden) == ("ltr", "bidi-override")


@pytest.mark.parametrize("command", SHOWN, ids=["arabic mark", "hebrew letter"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["1440", "390"])
async def test_a_command_is_drawn_in_the_order_in_which_it_runs(
    open_page: OpenPage, hub: StandIn, viewport: Any, command: str
) -> None:
    view = spoofed(command)
    page = await at(open_page, hub, view, "", viewport=viewport)
    await reads_as(page.locator(".card .ask-text bdo"), command)
    page = await at(open_page, hub, view, "/sessions/{}", viewport=viewport)
    await reads_as(page.locator(".request-main bdo"), command)


async def test_what_nobody_sees_is_marked_and_takes_a_second_press(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await at(open_page, hub, spoofed(ARABIC_MARK), "")
    await expect(page.locator(".card mark[data-hidden=true]")).to_have_text(["\\u{61c}"] * 2)
    await expect(page.locator(".card .caution")).to_contain_text("invisible characters: U+061C")
    button = page.locator("[data-do=allow]")
    await button.dblclick()
    await expect(button).to_have_text("Press again: allow")
    await page.evaluate(ASKED)
    assert hub.commands == []


async def test_allow_always_and_a_swipe_take_a_second_press_too(
    open_page: OpenPage, hub: StandIn
) -> None:
    payload = {"command": ARABIC_MARK}
    hold = {"cautions": cautions_of(payload), "verbs": ("allow", "always"), "always": ("Bash",)}
    view = held.held("a", wall_ms(), payload=payload, hold=hold)
    page = await at(open_page, hub, view, "", viewport=PHONE)
    await held.swipe(page, "allow")
    await page.locator(f".swiped {READY} [data-do=allow-swiped]").click()
    await expect(page.locator(".swiped")).to_contain_text("Press again: tap to allow")
    await page.evaluate(ASKED)
    assert hub.commands == []
    page = await at(open_page, hub, view, "/sessions/{}")
    await page.locator("[data-do=always-open]").click()
    button = page.locator(f"{READY} > [data-do=always]")
    await button.click()
    await expect(button).to_have_text("Press again: allow always")
    await page.evaluate(ASKED)
    assert hub.commands == []


async def test_a_letter_beyond_ascii_is_marked_and_takes_one_press(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await at(open_page, hub, spoofed("git commit -m '漢 é'", description="👨‍👩‍👧 ❤️"), "")
    await expect(page.locator(".card mark")).to_have_text(["漢", "é"])
    await expect(page.locator(".card mark[data-hidden=true]")).to_have_count(0)
    await expect(page.locator(".ask-note")).to_have_text("👨‍👩‍👧 ❤️")
    await page.locator("[data-do=allow]").click()
    await expect(page.locator(".toasts .fate")).to_contain_text("Allow Bash")


async def test_blank_lines_are_folded_and_a_long_command_says_how_it_begins(
    open_page: OpenPage, hub: StandIn
) -> None:
    command = "python3 evil.py" + "\n" * 401 + "git status\n" * 12
    view = spoofed(command)
    page = await at(open_page, hub, view, "/sessions/{}", viewport=PHONE)
    await expect(page.locator(".request-main mark")).to_have_text("400 blank lines")
    await expect(page.locator(".extent")).to_have_text("413 lines; the first: python3 evil.py")
    box = await page.locator(f"{READY} [data-do=allow]").bounding_box()
    assert box is not None
    assert box["y"] < 1_200
    page = await at(open_page, hub, view, "", viewport=PHONE)
    await expect(page.locator(".card .extent")).to_contain_text("413 lines")


async def test_a_written_file_folds_its_blank_lines_and_shows_what_is_hidden(
    open_page: OpenPage, hub: StandIn
) -> None:
    content = "a = 1\u202e\n" + "\n" * 300 + "b = 2"
    payload = {"file_path": "/srv/ä.py", "content": content}
    hold = {"cautions": cautions_of(payload)}
    view = held.held("a", wall_ms(), payload=payload, tool="Write", role="write", hold=hold)
    page = await at(open_page, hub, view, "/sessions/{}")
    await expect(page.locator(".diff mark")).to_have_text(["\\u{202e}", "300 blank lines"])
    await expect(page.locator(".diff-path mark")).to_have_text("ä")
    await expect(page.locator(".caution").last).to_contain_text("path segment is not plain ASCII")


#: Each code point behind a letter on a line of its own, all in one text; what breaks lines is tested in Python.
BOTH = r"""import("/static/core/format.js").then(({ plain, visible }) => {
  const lines = Array.from({ length: 0x110000 }, (_, point) => `a${String.fromCodePoint(point)}`);
  lines[10] = lines[13] = "a";
  const bits = (isSo) => lines.map((line, point) => (isSo(line, point) ? "1" : "0")).join("");
  const changed = (show) => {
    const shown = show(lines.join("\n"), Infinity).split("\n");
    return bits((line, point) => shown[point] !== line);
  };
  return { code: changed(visible), prose: changed(plain), unassigned: bits((line) => /\p{Cn}/u.test(line)) };
})"""


async def test_python_and_the_page_hide_the_same_of_all_code_points(
    open_page: OpenPage, hub: StandIn
) -> None:
    page = await at(open_page, hub, spoofed("ls"), "")
    bits: dict[str, str] = await page.evaluate(BOTH)
    shown = {name: {at for at, bit in enumerate(row) if bit == "1"} for name, row in bits.items()}
    signs = [sign for sign in map(chr, range(0x110000)) if sign != "\r"]
    code = {ord(sign) for sign in signs if is_invisible(sign)}
    prose = {ord(sign) for sign in signs if replace_invisible(f"a{sign}", "?") != f"a{sign}"}
    unassigned = {ord(sign) for sign in signs if unicodedata.category(sign) == "Cn"}
    # What one of the two versions of Unicode has not assigned yet.
    newer = shown["unassigned"] ^ unassigned

    assert shown["code"] ^ code <= newer
    assert shown["prose"] ^ prose <= newer

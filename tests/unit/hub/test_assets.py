"""The page's files as they are sent: compressed, by ETag, without the comments, and nothing else."""

from __future__ import annotations

import gzip
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from adsum_hub.app import WEB
from adsum_hub.web.assets import Assets

PAGES = {"board": "/", "list": "/list", "session": "/sessions/"}
TABLE = "".join(f'{{ view: "{view}", path: "{path}" }},\n' for view, path in PAGES.items())
PAGE = "<!doctype html><html lang='en'></html>" + " " * 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "vendor").mkdir()
    (tmp_path / "core").mkdir()
    for name, text in {
        "index.html": PAGE,
        "login.html": "<!doctype html><html></html>",
        "sw.js": "// @ts-check\nself.x = self.adsum;\n",
        "app.js": "// why\nconst a = 1;\n" * 50,
        "core/routes.js": f"export const ROUTES = [\n{TABLE}];\n",
        "vendor/b.js": "// theirs\n" * 50,
        "wire.d.ts": "export {}",
        "vendor.lock.json": "{}",
        "manifest.webmanifest": "{}",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "icon-192.png").write_bytes(b"\x89PNG")
    return tmp_path


def client(folder: Path) -> httpx.AsyncClient:
    app = Starlette(routes=Assets(folder).routes())
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://hub")


async def get(folder: Path, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    async with client(folder) as hub:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await hub.request(method, path, headers={"accept-encoding": "", **named})


async def test_every_address_of_a_view_is_the_page(folder: Path) -> None:
    paths = ["/", "/list", "/sessions/box:1/2"]
    found = [await get(folder, path) for path in paths]

    assert {(each.status_code, each.headers["content-type"]) for each in found} == {
        (200, "text/html; charset=utf-8")
    }
    assert len({each.text for each in found}) == 1


BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_another_address_is_a_page_of_its_own_to_a_browser(folder: Path, method: str) -> None:
    page = await get(folder, "/")
    answer = await get(
        folder, "/nowhere", method, accept=BROWSER, if_none_match=page.headers["etag"]
    )

    assert answer.status_code == 404
    assert answer.text == ("" if method == "HEAD" else page.text)
    assert answer.headers == page.headers


@pytest.mark.parametrize(
    ("path", "method", "accept", "status"),
    [
        ("/nowhere", "GET", "*/*", 404),
        ("/nowhere", "POST", BROWSER, 404),
        ("/api/v1/nowhere", "GET", BROWSER, 404),
        ("/ingest", "GET", BROWSER, 404),
        ("/static/nowhere", "GET", BROWSER, 404),
        ("/list", "POST", BROWSER, 405),
    ],
)
async def test_to_whom_no_page_is_an_answer_gets_none(
    folder: Path, path: str, method: str, accept: str, status: int
) -> None:
    answer = await get(folder, path, method, accept=accept)

    assert answer.status_code == status
    assert "<html" not in answer.text


async def test_a_slash_too_many_still_leads_to_the_page(folder: Path) -> None:
    answer = await get(folder, "/list/", accept=BROWSER)

    assert (answer.status_code, answer.headers["location"]) == (307, "http://hub/list")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("app.js", "text/javascript; charset=utf-8"),
        ("icon-192.png", "image/png"),
        ("manifest.webmanifest", "application/manifest+json"),
    ],
)
async def test_a_file_says_what_it_is(folder: Path, name: str, kind: str) -> None:
    assert (await get(folder, f"/static/{name}")).headers["content-type"] == kind


@pytest.mark.parametrize(
    "path",
    ["wire.d.ts", "vendor.lock.json", "missing.js", "../app.js", "assets.py", "%2e%2e/app.py", ""],
)
async def test_nothing_else_is_served_and_that_is_told_in_words(folder: Path, path: str) -> None:
    answer = await get(folder, f"/static/{path}")

    assert answer.status_code == 404
    assert path == "../app.js" or answer.json()["next"] == "Reload the page."


async def test_who_takes_gzip_gets_it(folder: Path) -> None:
    plain = await get(folder, "/static/app.js")
    packed = await get(folder, "/static/app.js", accept_encoding="br, gzip;q=0.8")

    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == plain.text == "const a = 1;\n" * 50
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"])
    assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"


@pytest.mark.parametrize("accepted", ["identity", "br", ""])
async def test_who_does_not_take_it_does_not(folder: Path, accepted: str) -> None:
    answer = await get(folder, "/static/app.js", accept_encoding=accepted)

    assert "content-encoding" not in answer.headers


async def test_what_is_compressed_already_is_sent_as_it_is(folder: Path) -> None:
    answer = await get(folder, "/static/icon-192.png", accept_encoding="gzip")

    assert answer.content == b"\x89PNG"
    assert "vary" not in answer.headers


@pytest.mark.parametrize("accepted", ["gzip", ""])
async def test_what_is_known_is_not_sent_again(folder: Path, accepted: str) -> None:
    first = await get(folder, "/static/app.js", accept_encoding=accepted)
    tag = first.headers["etag"]
    assert not tag.startswith("W/")

    for asked in (tag, f"W/{tag}", f'"other", {tag}'):
        again = await get(folder, "/static/app.js", accept_encoding=accepted, if_none_match=asked)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    other = await get(folder, "/static/app.js", accept_encoding=accepted, if_none_match='"other"')
    assert other.status_code == 200


async def test_the_packed_form_has_a_tag_of_its_own(folder: Path) -> None:
    packed = await get(folder, "/static/app.js", accept_encoding="gzip")
    plain = await get(folder, "/static/app.js", if_none_match=packed.headers["etag"])

    assert plain.status_code == 200
    assert plain.headers["etag"] != packed.headers["etag"]


async def test_a_head_has_the_same_headers(folder: Path) -> None:
    for path in ("/", "/sw.js", "/static/app.js"):
        whole = await get(folder, path, accept_encoding="gzip")
        head = await get(folder, path, "HEAD", accept_encoding="gzip")

        assert head.headers == whole.headers


@pytest.mark.parametrize(
    ("source", "sent"),
    [
        ("// a\nx();\n", "x();\n"),
        ("  /** a */\n  x();\n", "  x();\n"),
        ("/**\n * a `b\n * 'c\n */\nx();\n", "x();\n"),
        ("x(); // stays\n", "x(); // stays\n"),
        ("/** @type {A} */ (x);\n/** a */\n", "/** @type {A} */ (x);\n"),
        ("x(\n  // a\n  y,\n);\n", "x(\n  y,\n);\n"),
    ],
)
async def test_comments_on_lines_of_their_own_are_not_sent(
    folder: Path, source: str, sent: str
) -> None:
    (folder / "app.js").write_text(source)

    assert (await get(folder, "/static/app.js")).text == sent


async def test_what_is_vendored_is_sent_as_it_is(folder: Path) -> None:
    assert (await get(folder, "/static/vendor/b.js")).text == "// theirs\n" * 50


async def test_a_change_of_any_file_is_another_version_of_page_and_worker(folder: Path) -> None:
    before = [(await get(folder, path)) for path in ("/", "/sw.js")]
    (folder / "app.js").write_text("const a = 2;\n")
    after = [(await get(folder, path)) for path in ("/", "/sw.js")]

    for old, new in zip(before, after, strict=True):
        assert old.headers["x-adsum-page"] != new.headers["x-adsum-page"]
        assert old.headers["etag"] != new.headers["etag"]
        assert new.headers["x-adsum-page"] in new.text
    assert Assets(folder).version == after[0].headers["x-adsum-page"]


async def test_the_worker_is_given_what_to_keep_and_the_addresses(folder: Path) -> None:
    told = (await get(folder, "/sw.js")).text.splitlines()[0]

    assert '"/static/app.js"' in told
    assert '"/static/icon-192.png"' in told
    assert '"session":"/sessions/"' in told
    assert "sw.js" not in told
    assert '"/static/index.html"' in told
    assert "login" not in told


async def test_what_is_kept_of_the_page_bears_its_own_policy(folder: Path) -> None:
    page, script = await get(folder, "/static/index.html"), await get(folder, "/static/app.js")

    assert page.text == (await get(folder, "/")).text
    assert "content-security-policy" not in page.headers  # the doors give it the whole one
    assert script.headers["content-security-policy"] == "default-src 'none'"


async def test_who_has_to_sign_in_gets_a_page_of_its_own(folder: Path) -> None:
    assert (await get(folder, "/login")).text == "<!doctype html><html></html>"


def test_the_real_files_are_packed_well() -> None:
    files = Assets(WEB).files
    shrunk = {
        name: len(each.zipped or b"") / len(each.plain)
        for name, each in files.items()
        if name.endswith((".js", ".css")) and len(each.plain) > 1000
    }

    assert max(shrunk.values()) < 0.7
    assert gzip.decompress(files["app.js"].zipped or b"") == files["app.js"].plain
    assert not [name for name in files if name.endswith((".d.ts", ".json"))]


def test_only_comments_are_left_out_of_the_real_scripts() -> None:
    files = Assets(WEB).files
    for path in WEB.rglob("*.js"):
        name = path.relative_to(WEB).as_posix()
        sent = iter(files[name].plain.decode().splitlines())
        current = next(sent, None)
        if name == "sw.js":
            current = next(sent, None)  # the hub's own line stands first
        for line in path.read_text().splitlines():
            if line == current:
                current = next(sent, None)
            else:
                assert line.lstrip().startswith(("//", "/*", "*")), f"{name}: {line}"
        assert current is None

"""Serves the page's files from memory: read once, compressed, and by ETag."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from adsum_hub.rest.api import Problem, as_json

#: What is served at all: neither the declarations of types nor the lock of what is vendored.
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
PACKED_ALREADY = frozenset({".png", ".woff2"})
PAGE = "index.html"
#: Whoever is not signed in loads nothing of the other page.
LOGIN = "login.html"
WORKER = "sw.js"
ROOT = "app.js"
#: The page's own table of its addresses, which are the ones that are answered with it.
ROUTES = "core/routes.js"
_ROUTE = re.compile(rb'view: "(\w+)", path: "([^"]+)"')
_IMPORT = re.compile(rb'\bfrom "(\.[^"]+)"')
#: They are a fifth of a first load, and whoever reads them has the source. Only what fills whole
#: lines, so a type within an expression stays; no template of the page has a line that looks so.
_COMMENT = re.compile(
    rb"^[ \t]*(?://[^\n]*|/\*\*(?:(?!\*/).)*\*/[ \t]*)\n", re.MULTILINE | re.DOTALL
)
#: Under paths of programs nobody gets a page, not even a person who tries.
PROGRAMS = ("/api/", "/ingest", "/openapi", "/metrics")
#: By this the worker knows whether what it keeps is what the page that comes was made for.
VERSION_HEADER = "x-adsum-page"
#: What the worker keeps for when the hub cannot be reached. The rest nobody looks at then.
KEPT = frozenset({".css", ".js", ".svg", ".woff2"})
KEPT_TOO = frozenset({PAGE, "icon-192.png", "icon-badge.png"})

Answer = Callable[[Request], Awaitable[Response]]


class Asset(NamedTuple):
    """zipped: None for what is compressed by its kind."""

    kind: str
    plain: bytes
    zipped: bytes | None
    etag: str


class NoSuchPage(Route):
    """Last of all routes: answers a browser with the page, where no program asks.

    An address with a slash too many is left to the router, which redirects to the one without.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope.get("path", "")
        if path.endswith("/") or path.startswith(PROGRAMS) or not _opens_a_page(scope):
            return Match.NONE, {}
        return super().matches(scope)


class Assets:
    """By path within the folder. version: a hash of all the page is made of. pages: by view's name."""

    def __init__(self, folder: Path) -> None:
        sources = {
            path.relative_to(folder).as_posix(): _source(path, folder)
            for path in sorted(folder.rglob("*"))
            if path.suffix in KINDS and path.is_file()
        }
        whole = hashlib.sha256()
        for name, content in sources.items():
            whole.update(f"{name}\0{len(content)}\0".encode() + content)
        self.version = whole.hexdigest()[:16]
        found = _ROUTE.findall(sources[ROUTES])
        self.pages = {view.decode(): path.decode() for view, path in found}
        # The page learns from it whether the hub has a newer one.
        page = sources[PAGE].replace(
            b"<html", b'<html data-version="%s"' % self.version.encode(), 1
        )
        script = b'    <script type="module"'
        sources[PAGE] = page.replace(script, _preloads(sources) + script, 1)
        sources[WORKER] = self._for_worker(sources) + sources[WORKER]
        self.files = {name: _asset(Path(name).suffix, each) for name, each in sources.items()}

    def _for_worker(self, sources: dict[str, bytes]) -> bytes:
        """Part of the worker's bytes, so a browser notices each upgrade."""
        files = [
            f"/static/{name}"
            for name in sources
            if name != WORKER and (Path(name).suffix in KEPT or name in KEPT_TOO)
        ]
        known = {"version": self.version, "files": files, "routes": self.pages}
        return f"self.adsum = {json.dumps(known, separators=(',', ':'))};\n".encode()

    def page_routes(self, page: Answer) -> list[Route]:
        """An address that ends with a slash is followed by an id."""
        paths = self.pages.values()
        return [
            Route(path + ("{id:path}" if path[1:].endswith("/") else ""), page) for path in paths
        ]

    def routes(self) -> list[Route]:
        worker = self._one(WORKER)
        return [
            *self.page_routes(self._one(PAGE)),
            Route("/login", self._one(LOGIN)),
            # Beneath /static it would rule over /static alone.
            Route("/sw.js", worker),
            Route("/static/{name:path}", self._static),
            NoSuchPage("/{path:path}", self._one(PAGE, 404)),
        ]

    def _one(self, name: str, status: int = 200) -> Answer:
        async def answer(request: Request) -> Response:
            response = _answer(self.files[name], request, status)
            response.headers[VERSION_HEADER] = self.version
            return response

        return answer

    async def _static(self, request: Request) -> Response:
        asset = self.files.get(request.path_params["name"])
        if asset is None:
            return as_json(Problem("There is no such file.", "Reload the page."), 404)
        response = _answer(asset, request)
        if not asset.kind.startswith("text/html"):
            # The page's whole policy would be a third of what fifty small files are sent with.
            response.headers["content-security-policy"] = "default-src 'none'"
        return response


def _source(path: Path, folder: Path) -> bytes:
    ours = path.suffix == ".js" and "vendor" not in path.relative_to(folder).parts
    return _COMMENT.sub(b"", path.read_bytes()) if ours else path.read_bytes()


def _preloads(sources: dict[str, bytes]) -> bytes:
    """All that the page's root imports: found import by import, each step would cost a round trip."""
    found = [ROOT]
    for name in found:  # which grows
        folder = PurePosixPath("/") / PurePosixPath(name).parent
        for path in _IMPORT.findall(sources[name]):
            wanted = os.path.normpath(folder / path.decode())[1:]
            if wanted not in found:
                found.append(wanted)
    return b"".join(
        b'    <link rel="modulepreload" href="/static/%s">\n' % each.encode() for each in found
    )


def _asset(suffix: str, plain: bytes) -> Asset:
    zipped = None if suffix in PACKED_ALREADY else gzip.compress(plain, 9, mtime=0)
    return Asset(KINDS[suffix], plain, zipped, hashlib.sha256(plain).hexdigest()[:24])


def _opens_a_page(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    return "text/html" in Headers(scope=scope).get("accept", "").lower()


def _answer(asset: Asset, request: Request, status: int = 200) -> Response:
    """An ETag is strong, so the compressed form has one of its own."""
    zipped = asset.zipped if "gzip" in request.headers.get("accept-encoding", "").lower() else None
    headers = {"etag": f'"{asset.etag}"', "cache-control": "no-cache"}
    if asset.zipped is not None:
        headers["vary"] = "accept-encoding"
    if zipped is not None:
        headers |= {"etag": f'"{asset.etag}-gz"', "content-encoding": "gzip"}
    # A proxy that compresses by itself may have made the tag a weak one.
    known = [tag.strip(" W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if status == 200 and headers["etag"] in known:
        return Response(None, 304, headers)
    body = asset.plain if zipped is None else zipped
    return Response(body, status, headers, asset.kind)

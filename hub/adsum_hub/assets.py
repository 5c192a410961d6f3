"""The page's files: read once, then served from memory, compressed and by ETag."""

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

from adsum_hub.comments import without_comments
from adsum_hub.rest.answers import Problem, as_json

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
#: Answered with the page itself, which reads its own address.
PAGES = (
    "/",
    "/list",
    "/by/host",
    "/by/project",
    "/hosts",
    "/usage",
    "/history",
    "/settings",
    "/sessions/{id:path}",
)
PAGE = "index.html"
#: Asked by programs, also where it is a person who tries: no page is an answer there.
PROGRAMS = ("/api/", "/ingest", "/openapi", "/metrics")
#: A page of its own: whoever is not let in yet loads nothing of the other.
LOGIN = "login.html"
WORKER = "sw.js"
ROOT = "app.js"
_IMPORT = re.compile(rb'\bfrom ?"(\.[^"]+)"')
#: Compressed for less than this it is not worth the unpacking.
WORTH = 0.9
#: By this the worker knows whether what it keeps is what the page that comes was made for.
VERSION_HEADER = "x-adsum-page"
#: Kept for when the hub cannot be reached. The rest nobody looks at then.
KEPT = frozenset({".css", ".js", ".svg", ".woff2"})
KEPT_TOO = frozenset({PAGE, "icon-192.png", "icon-badge.png"})

Answer = Callable[[Request], Awaitable[Response]]


class Asset(NamedTuple):
    """zipped: None where that saves nothing."""

    kind: str
    plain: bytes
    zipped: bytes | None
    etag: str


class Nowhere(Route):
    """Last of all: what a browser opens and nobody serves. Of what programs ask the app tells.

    An address with a slash too many is left to the router, which leads to the one without.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope.get("path", "")
        if path.endswith("/") or path.startswith(PROGRAMS) or not _opens_a_page(scope):
            return Match.NONE, {}
        return super().matches(scope)


class Assets:
    """By path within the folder. version: of all that the page is made of, so a hash of it."""

    def __init__(self, folder: Path) -> None:
        sources = {
            path.relative_to(folder).as_posix(): _sent(path, folder)
            for path in sorted(folder.rglob("*"))
            if path.suffix in KINDS and path.is_file()
        }
        whole = hashlib.sha256()
        for name, content in sources.items():
            whole.update(f"{name}\0{len(content)}\0".encode() + content)
        self.version = whole.hexdigest()[:16]
        # The page knows by it whether the hub has a newer one; the worker, what it is to keep.
        named = f'<html data-version="{self.version}"'.encode()
        page = sources[PAGE].replace(b"<html", named, 1)
        sources[PAGE] = page.replace(
            b'    <script type="module"', _preloads(sources) + b'    <script type="module"', 1
        )
        kept = [name for name in sources if _is_kept(name)]
        sources[WORKER] = _told(self.version, kept) + sources[WORKER]
        self.files = {name: _asset(Path(name).suffix, each) for name, each in sources.items()}

    def routes(self) -> list[Route]:
        page, worker = self._one(PAGE), self._one(WORKER)
        return [
            *(Route(path, page, include_in_schema=False) for path in PAGES),
            Route("/login", self._one(LOGIN), include_in_schema=False),
            # Beneath /static it would rule over /static alone.
            Route("/sw.js", worker, include_in_schema=False),
            Route("/static/{name:path}", self._static, include_in_schema=False),
            Nowhere("/{path:path}", self._one(PAGE, 404), include_in_schema=False),
        ]

    def _one(self, name: str, status: int = 200) -> Answer:
        async def answer(request: Request) -> Response:
            response = _answered(self.files[name], request, status)
            response.headers[VERSION_HEADER] = self.version
            return response

        return answer

    async def _static(self, request: Request) -> Response:
        asset = self.files.get(request.path_params["name"])
        if asset is None:
            return as_json(Problem("There is no such file.", "Load the page anew."), 404)
        response = _answered(asset, request)
        if not asset.kind.startswith("text/html"):
            # The page's whole policy would be a third of what fifty small files are sent with.
            response.headers["content-security-policy"] = "default-src 'none'"
        return response


def _sent(path: Path, folder: Path) -> bytes:
    if path.suffix == ".js" and "vendor" not in path.relative_to(folder).parts:
        return without_comments(path.read_text()).encode()
    return path.read_bytes()


def _preloads(sources: dict[str, bytes]) -> bytes:
    """All that the page's root leads to: found import by import, each step would cost a round trip."""
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


def _is_kept(name: str) -> bool:
    return name != WORKER and (Path(name).suffix in KEPT or name in KEPT_TOO)


def _told(version: str, kept: list[str]) -> bytes:
    """What the worker goes by. As it is part of its bytes, a browser sees each upgrade."""
    pages = [path.partition("{")[0] for path in PAGES]
    told = {"version": version, "files": [f"/static/{name}" for name in kept], "pages": pages}
    return f"self.adsum = {json.dumps(told, separators=(',', ':'))};\n".encode()


def _asset(suffix: str, plain: bytes) -> Asset:
    zipped = gzip.compress(plain, 9, mtime=0)
    if len(zipped) > WORTH * len(plain):
        return Asset(KINDS[suffix], plain, None, _etag(plain))
    return Asset(KINDS[suffix], plain, zipped, _etag(plain))


def _etag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]


def _opens_a_page(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    return "text/html" in Headers(scope=scope).get("accept", "").lower()


def _answered(asset: Asset, request: Request, status: int = 200) -> Response:
    """An ETag is strong, so the compressed form has one of its own."""
    zipped = asset.zipped if _takes_gzip(request.headers.get("accept-encoding", "")) else None
    etag = f'"{asset.etag}-gz"' if zipped is not None else f'"{asset.etag}"'
    headers = {"etag": etag, "cache-control": "no-cache"}
    if asset.zipped is not None:
        headers["vary"] = "accept-encoding"
    if status == 200 and _knows(request.headers.get("if-none-match", ""), etag):
        return Response(None, 304, headers)
    body = asset.plain if zipped is None else zipped
    if zipped is not None:
        headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(body))
    content = b"" if request.method == "HEAD" else body
    return Response(content, status, {**headers, "content-type": asset.kind})


def _knows(asked: str, etag: str) -> bool:
    """A proxy that packs by itself may have made the tag a weak one; for reading that is no matter."""
    known = {each.strip().removeprefix("W/") for each in asked.split(",")}
    return etag in known or "*" in known


def _takes_gzip(accepted: str) -> bool:
    weights = {}
    for each in accepted.lower().split(","):
        name, _, weight = each.partition(";")
        weights[name.strip()] = weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return weights.get("gzip", weights.get("*", False))

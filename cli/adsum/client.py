"""All HTTP of the command line: it finds the hub, shows a token, finds sessions, and says what a failure means."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from platformdirs import user_config_path, user_state_path

from adsum.outcome import CommandError, Exit, require
from adsum_shared.redact import clean
from adsum_shared.state import AWAITING_REVIEW, GROUP_OF, Group, History, SessionView
from adsum_shared.tls import wrong_tls

DEFAULT_URL = "http://127.0.0.1:47893"
LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - told apart, not bound
TIMEOUT_S = 10.0
READY_WITHIN_S = 3.0
TOKEN = re.compile(r"[!-~]{1,300}")


class SilentError(Exception):
    """Nobody answers there, or somebody else. The text is the reason.

    sent: the connection was open, so the request may have been carried out all the same.
    """

    def __init__(self, reason: str, *, sent: bool = True) -> None:
        super().__init__(reason)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """took_ms: from the request on an open connection to the last byte."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    took_ms: float

    @property
    def json(self) -> Any:
        """None: it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def refusal(self) -> str | None:
        """A hub's own words on why not, with the next step. None: they are not a hub's."""
        said = self.json
        if not isinstance(said, dict) or not {"error", "next"} <= said.keys():
            return None
        # A collector refuses in the same form, and says who it is.
        by_collector = self.headers.get("x-adsum") == "collector"
        return None if by_collector else f"{said['error']} {said['next']}".rstrip()


def request(
    url: str,
    path: str = "",
    body: Mapping[str, Any] | bytes | None = None,
    *,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    timeout_s: float = TIMEOUT_S,
) -> HttpResponse:
    """One request to anybody: POST if it has a body, else GET. Raises SilentError, with the cause.

    headers: beside those that a HubAddress brings. tls: instead of what `url` itself calls for.
    """
    parts, tls = urlsplit(url), tls or tls_to(url)
    all_headers = {"Accept": "application/json", **headers_for(url), **(headers or {})}
    if body is not None:
        all_headers["Content-Type"] = "application/json"
    address = (parts.hostname or "", parts.port)
    connection = (
        http.client.HTTPConnection(*address, timeout=timeout_s)
        if tls is None
        else http.client.HTTPSConnection(*address, timeout=timeout_s, context=tls)
    )
    sent = False
    try:
        connection.connect()
        sent, sent_at = True, time.perf_counter()
        text = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(
            method or ("GET" if body is None else "POST"), parts.path + path, text, all_headers
        )
        response = connection.getresponse()
        answer = response.read()
        took_ms = (time.perf_counter() - sent_at) * 1000
        return HttpResponse(response.status, response.headers, answer, took_ms)
    except (OSError, http.client.HTTPException) as error:
        raise SilentError(reason_of(error), sent=sent) from error
    finally:
        connection.close()


def readiness(url: str) -> dict[str, Any]:
    """The facts of `/readyz`, whether they say ready or not. Raises SilentError."""
    facts = request(url, "/readyz", timeout_s=READY_WITHIN_S).json
    if not isinstance(facts, dict) or "ready" not in facts:
        raise SilentError("another program answers there")
    return facts


class HubAddress(str):
    """A hub's URL, with what lets this command in there.

    A str, since that is what sentences and requests need of it.
    """

    state_dir: Path
    config: dict[str, Any]
    #: A file with who may have signed for it; None: whom the system trusts.
    ca: str | None = None
    #: The state directory that was named and is not there.
    missing: Path | None = None

    def headers(self) -> dict[str, str]:
        """Read each time: a hub that was started anew has a new token for this machine."""
        token = token_for(self, self.state_dir, self.config)
        return {"Authorization": f"Bearer {token}"} if token else {}


def headers_for(url: str) -> dict[str, str]:
    return url.headers() if isinstance(url, HubAddress) else {}


def tls_to(url: str) -> ssl.SSLContext | None:
    """None: it is not spoken to by https. Raises CommandError."""
    if not url.startswith("https:"):
        return None
    ca = url.ca if isinstance(url, HubAddress) else None
    again = " Put it back, or join anew: adsum join --again --ca FILE"
    return trusting(ca, f"{ca}, which this machine joined {url} with,", again)


def trusting(ca: str | None, named: str, step: str = "") -> ssl.SSLContext:
    """Who may have signed. named: the file, in a sentence. Raises CommandError."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        why = getattr(error, "strerror", None) or "it holds no certificate"
        raise CommandError(f"{named} cannot be used ({why}).{step}", Exit.USAGE) from error


def hub_url(flag: str | None, state_dir: Path | None) -> HubAddress:
    """--hub and ADSUM_HUB_URL (the flag holds either) > what runs here > what was joined > as `up`."""
    config = read_config()
    home = state_dir or _state_dir(config)
    joined, ca = joined_to(home)
    url = (flag or running_here(home) or joined or _configured(config)).rstrip("/")
    looks = f"It looks like {DEFAULT_URL}: correct --hub or ADSUM_HUB_URL."
    # A login in it, which no hub takes, holds a password that no error may show.
    shown = "What has a login in it" if "@" in url else repr(url)
    require(is_address(url), f"{shown} is no address of a hub. {looks}")
    address = HubAddress(url)
    address.state_dir, address.config = home, config
    address.ca = ca if url == joined else None
    address.missing = state_dir if state_dir and not state_dir.is_dir() else None
    return address


def is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    plain = bool(parts.hostname) and port != 0 and "@" not in parts.netloc
    return plain and parts.scheme in ("http", "https")


def fetch(
    url: str, path: str, query: Mapping[str, str] | None = None, *, timeout_s: float = TIMEOUT_S
) -> Any:
    """The decoded JSON of GET `path`. Raises CommandError with the exit code that fits."""
    return _decoded(url, _answer(url, path, query, timeout_s=timeout_s))


def send(url: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """The decoded JSON of a request that changes something. Raises as `fetch` does."""
    return _decoded(url, _answer(url, path, body=body or {}, method=method))


def fetch_csv(url: str, path: str, query: Mapping[str, str]) -> bytes:
    """The body of GET `path` as it comes: the hub makes it safe to open as a table."""
    answer = _answer(url, path, query, headers={"Accept": "text/csv"})
    if answer.status == 200 and answer.headers.get("Content-Type", "").startswith("text/csv"):
        return answer.body
    _decoded(url, answer)  # says why, unless it is an answer to another question
    raise _no_hub(url)


def _answer(
    url: str, path: str, query: Mapping[str, str] | None = None, **how: Any
) -> HttpResponse:
    try:
        return request(url, path + (f"?{urlencode(query)}" if query else ""), **how)
    except SilentError as error:
        raise unreachable(url, error.__cause__ or error) from error


def unreachable(url: str, error: BaseException) -> CommandError:
    if isinstance(error, ssl.SSLCertVerificationError):
        pinned = isinstance(url, HubAddress) and url.ca
        own = "adsum join --again --ca FILE" if pinned else "SSL_CERT_FILE=FILE"
        return CommandError(wrong_tls(urlsplit(url).hostname or url, error, own), Exit.AUTH)
    return CommandError(
        f"No hub answers at {url} ({reason_of(error)}). Start one on this machine with `adsum up`, or name "
        "another with --hub or ADSUM_HUB_URL.",
        Exit.UNREACHABLE,
    )


def reason_of(error: BaseException) -> str:
    """In a few words. asyncio puts the address into what is otherwise the system's own text."""
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _decoded(url: str, response: HttpResponse) -> Any:
    status, answer = response.status, response.json
    if status in (200, 202) and answer is not None:
        return answer
    reason = response.refusal
    if status in (401, 403):
        raise refused(url, reason or "it gives no reason")
    if reason is not None:
        raise CommandError(reason, _CODES.get(status, Exit.ERROR))
    if status == 422 and isinstance(answer, dict):
        why = _misunderstood(answer.get("detail"))
        raise CommandError(f"The hub does not understand the question: {why}", Exit.USAGE)
    raise _no_hub(url, f" (HTTP {status})")


_CODES = {400: Exit.USAGE, 422: Exit.USAGE, 410: Exit.TOO_LATE}


def refused(url: str, why: str = "it gives no reason") -> CommandError:
    if isinstance(url, HubAddress) and url.missing and not url.headers():
        why += f" There is no {url.missing}, where its token would lie: correct --state-dir or ADSUM_STATE_DIR."
    return CommandError(f"The hub at {url} refuses: {why}", Exit.AUTH)


def _misunderstood(detail: Any) -> str:
    """FastAPI gives a list of what is wrong with which parameter."""
    listed = detail if isinstance(detail, list) else []
    wrong = [each for each in listed if isinstance(each, dict) and each.get("loc")]
    return "; ".join(f"{each['loc'][-1]}: {each.get('msg')}" for each in wrong) or str(detail)


def _no_hub(url: str, why: str = "") -> CommandError:
    return CommandError(
        f"{url} answers, but not as a hub of Adsum{why}. Correct --hub or ADSUM_HUB_URL.",
        Exit.UNREACHABLE,
    )


def config_file() -> Path:
    return user_config_path("adsum") / "config.toml"


def read_config(chosen: Path | None = None) -> dict[str, Any]:
    """As AdsumSettings reads it; importing that would double the time to the first row.

    Raises CommandError: without what stands there another hub would be asked.
    """
    file = chosen or config_file()
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise CommandError(f"{file} cannot be read ({error.strerror}).", Exit.USAGE) from error
    except ValueError as error:
        raise CommandError(f"{file} is not TOML: {error}.", Exit.USAGE) from error


def _configured(config: dict[str, Any]) -> str:
    """Where a hub of this machine would listen, as HubSettings has it."""
    preset = urlsplit(DEFAULT_URL)
    host = os.environ.get("ADSUM_HUB_HOST") or str(config.get("hub_host") or LOOPBACK)
    port = os.environ.get("ADSUM_HUB_PORT") or str(config.get("hub_port") or preset.port)
    usable = port.strip().isdecimal() and 0 < int(port) < 65_536
    step = f"correct ADSUM_HUB_PORT, or hub_port in {config_file()}."
    require(usable, f"{port!r} is no port of a hub: {step}")
    host = LOOPBACK if host in EVERYWHERE else host
    return f"http://{f'[{host}]' if ':' in host else host}:{int(port)}"


def home_of(state_dir: Path | None) -> Path:
    """The state directory that a command works on; the flag holds the variable's as well."""
    return state_dir or _state_dir(read_config())


def _state_dir(config: dict[str, Any]) -> Path:
    chosen = config.get("state_dir")
    return Path(chosen).expanduser() if isinstance(chosen, str) else user_state_path("adsum")


def token_for(url: str, state_dir: Path, config: dict[str, Any]) -> str | None:
    """ADSUM_TOKEN > ADSUM_TOKEN_FILE > token_file of the TOML file > this machine's, to its own hub.

    Nothing else is ever shown this machine's: whoever listens at another address is not that hub.
    """
    if given := os.environ.get("ADSUM_TOKEN", "").strip():
        return _usable(given, "ADSUM_TOKEN")
    named = os.environ.get("ADSUM_TOKEN_FILE") or config.get("token_file")
    if named:
        file = Path(str(named)).expanduser()
        try:
            given = file.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise CommandError(
                f"The token file {file} cannot be read ({why}). Correct ADSUM_TOKEN_FILE, or "
                "token_file in config.toml.",
                Exit.USAGE,
            ) from error
        return _usable(given, str(file))
    if running_here(state_dir) != url:
        return None
    try:
        return (state_dir / "hub.token").read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None


def running_here(state_dir: Path) -> str | None:
    """The URL of the hub that runs on this machine, as it announced itself."""
    try:
        url = json.loads((state_dir / "hub.json").read_bytes())["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(url)


def joined_to(state_dir: Path) -> tuple[str | None, str | None]:
    """(URL, file with who may have signed for it) of the hub that this machine has joined.

    Not by `adsum.machine`, whose imports would double the time to the first row.
    """
    try:
        kept = json.loads((state_dir / "machine.json").read_bytes())
        return str(kept["hub"]), kept.get("ca")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, None


def _usable(token: str, where: str) -> str:
    # Said without any of it: what stands there may be another secret.
    require(
        TOKEN.fullmatch(token),
        f"What {where} holds is no token: a token is one word. `adsum hub tokens create` on "
        "the hub's machine makes one.",
    )
    return token


SESSIONS, HISTORY = "/api/v1/sessions", "/api/v1/history"
PAGE = 1000
CANDIDATES_MOST = 10
#: Of sessions that are over, which a search for an id may find by other words too.
HISTORY_MOST = 5000
#: As many cells as the widest list has of an id.
ID_SHOWN = 8
ACTIVITY_SHOWN = 15
#: A group in its own word, or in the words that lists and people use for it.
GROUPS = {
    **{group.value: group.value for group in Group},
    "needs-you": Group.NEEDS_YOU.value,
    "waiting": Group.NEEDS_YOU.value,
    "working": Group.AUTONOMOUS.value,
    "done": Group.DELIVERED.value,
}
GROUPS_SHOWN = ("needs_you (or waiting)", "working (or autonomous)", "delivered (or done)")

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Filter:
    """Of sessions that live. Raises CommandError for an unknown group or state."""

    group: str | None = None
    state: str | None = None
    host: str | None = None
    project: str | None = None
    needs_you: bool = False
    agent: str | None = None

    def __post_init__(self) -> None:
        if self.group is not None:
            group, known = GROUPS.get(self.group.casefold()), ", ".join(GROUPS_SHOWN)
            require(group, f"{self.group!r} is no group. --group is one of {known}.")
            object.__setattr__(self, "group", group)
        states = (*GROUP_OF, AWAITING_REVIEW)
        known_state = self.state is None or self.state in states
        require(known_state, f"{self.state!r} is no state. --state is one of {', '.join(states)}.")

    @property
    def query(self) -> dict[str, str]:
        """As the hub's REST interface takes it."""
        only = {"group": self.group, "state": self.state, "host": self.host, "agent": self.agent}
        return given(**only, project=self.project, needs_you="1" if self.needs_you else None)

    def wants(self, view: SessionView) -> bool:
        """The hub's own rule, for what comes over the WebSocket unfiltered."""
        group = Group.NEEDS_YOU.value if self.needs_you else self.group
        return (
            (group is None or view.state.group.value == group)
            and (
                self.state in (None, view.state.state)
                or (self.state == AWAITING_REVIEW and view.review is not None)
            )
            and (self.host is None or self.host in (view.host, view.host_id))
            and (self.project is None or self.project == view.project)
            and self.agent in (None, view.agent)
        )


def given(**parameters: str | None) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value is not None}


def order(views: Iterable[SessionView]) -> list[SessionView]:
    """The hub's order, which every client shows."""
    return sorted(views, key=lambda view: (view.rank, view.id))


def needs_you(view: SessionView) -> bool:
    """Of a machine that is offline nobody knows whether it still does."""
    return view.state.group is Group.NEEDS_YOU and view.reachability != "offline"


def exit_code(views: Iterable[SessionView], *, exit_status: bool, stale: bool = False) -> Exit:
    """Someone needs you > some of this may be stale, or all of it > all well."""
    code = Exit.PARTIAL if stale else Exit.OK
    for view in views:
        if exit_status and needs_you(view):
            return Exit.NEEDS_YOU
        if view.reachability != "live":
            code = Exit.PARTIAL
    return code


def fetch_sessions(url: str, query: Mapping[str, str]) -> dict[str, Any]:
    """The hub's answer of those that live. Raises CommandError."""
    return fetch_pages(url, SESSIONS, query)


def fetch_pages(
    url: str, path: str, query: Mapping[str, str], most: int = sys.maxsize
) -> dict[str, Any]:
    """The hub's answer, all pages in one. Raises CommandError when it is no such answer.

    Sessions that move up the list, or leave it, between two pages would hide others: where fewer
    came together than the hub has counted, all pages are read once more.
    """
    page, found, whole = _read_pages(url, path, query, most)
    if not whole:
        before = found
        page, found, whole = _read_pages(url, path, query, most)
        if not whole:  # it changes all the time, and no third reading need be better
            found = found | before | found  # in the later order, and as they are by now
    return {**page, "sessions": list(found.values())[:most]}


def _read_pages(
    url: str, path: str, query: Mapping[str, str], most: int
) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """The last page, all sessions by id, and whether they are as many as were ever counted."""
    found: dict[str, Any] = {}
    offset = counted = 0
    while True:
        part = {"limit": str(min(PAGE, most - offset)), "offset": str(offset)}
        page = fetch(url, path, {**query, **part})
        try:
            more, total = page["sessions"], page["total"]
            found |= {each["id"]: each for each in more}
            offset, counted = offset + len(more), max(counted, total)
        except (KeyError, TypeError) as error:
            raise _no_hub(url) from error
        # Without more: sessions went while we turned the page.
        if not more or offset >= min(most, total):
            return page, found, len(found) >= min(most, counted)


def path_of(view: SessionView) -> str:
    return f"{SESSIONS}/{quote(view.id)}"


def activity_path(view: SessionView) -> str:
    return f"{path_of(view)}/activity"


def typed(url: str, answer: Any, kind: type[_Answer]) -> _Answer:
    """Raises CommandError for what is no such answer of a hub."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise _no_hub(url) from error


def unknown_names(url: str, chosen: Filter) -> str:
    """The hub's sentences on a host, a project or an agent that nothing bears; "" if there is no such.

    Its history tells them, for whoever finds nothing there either.
    """
    query = given(host=chosen.host, project=chosen.project, agent=chosen.agent)
    notes = typed(url, fetch_pages(url, HISTORY, query, 1), History).notes if query else []
    return clean(" ".join(notes))


def put_aside(url: str, view: SessionView, verb: str) -> dict[str, Any]:
    """verb: dismiss, archive, or restore, which takes either back. Raises CommandError."""
    answer: dict[str, Any] = send(url, "POST", f"{path_of(view)}/{verb}")
    return answer


class UnknownSessionError(CommandError):
    """No session's id starts so."""


def session_named(url: str, wanted: str) -> SessionView:
    """Of those that live; else of those that are over. Raises CommandError."""
    views = typed(url, fetch_sessions(url, {})["sessions"], list[SessionView])
    try:
        return named(views, wanted)
    except UnknownSessionError:
        # The hub searches ids without their host, and more than ids.
        text = wanted.rpartition(":")[2] or wanted
        over = fetch_pages(url, HISTORY, {"q": text}, HISTORY_MOST)["sessions"]
        return named([*views, *typed(url, over, list[SessionView])], wanted)


def require_id(wanted: str) -> None:
    """Reject an empty or blank id, which would match every session. Raises CommandError."""
    require(
        wanted.strip(),
        "The session's id is empty, as of a variable that is not set. List ids: adsum agents",
    )


def named(views: Sequence[SessionView], wanted: str) -> SessionView:
    """The one session whose id, with or without its host, starts so. Raises CommandError."""
    require_id(wanted)
    exact = [view for view in views if wanted in (view.session_id, view.id)]
    found = exact or [
        v for v in views if v.session_id.startswith(wanted) or v.id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        near = _nearest(views, wanted)
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        raise UnknownSessionError(
            f"No session's id starts with {wanted!r}. {meant}All of them: adsum agents, and those "
            "that are over: adsum history"
        )
    lines = [
        f"  {view.id}  {clean(view.title) or '(untitled)'}  ({clean(view.host)})"
        for view in found[:CANDIDATES_MOST]
    ]
    if len(found) > CANDIDATES_MOST:
        lines.append(f"  … and {len(found) - CANDIDATES_MOST} more")
    raise CommandError(
        f"{len(found)} sessions' ids start with {wanted!r}; give more of it:\n" + "\n".join(lines)
    )


def _nearest(views: Sequence[SessionView], wanted: str) -> list[str]:
    """At most three starts of ids that are like the one given, for a slip of the pen."""
    length = max(len(wanted), 1)
    starts = {view.session_id[:length]: view.session_id for view in views}
    near = get_close_matches(wanted, list(starts), n=3, cutoff=0.6)
    return [clean(starts[each][: max(length, ID_SHOWN)]) for each in near]

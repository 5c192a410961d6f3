"""Reads what Claude Code says of itself, its registry and status line, and the amounts it writes.

The registry, `sessions/<pid>.json`, is undocumented and optional: anything may be missing, and
2.1.112 has no status at all. Files beside it that end in `.key` are secrets; nobody here reads them.
A field of the wrong type counts as missing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec

from adsum_collector.agents.claude_code.bodies import TEXT_MAX, decode_fields, lenient
from adsum_collector.agents.claude_code.hooks import TITLE_MAX, Common
from adsum_collector.agents.claude_code.tools import project_of
from adsum_collector.agents.records import NAME_MAX, NUMBER_MAX, one_line
from adsum_shared import signals as s
from adsum_shared.signals import AnySignal, KnownSignal, ModelCost

# Dollars, tokens and shares that the CLI writes; impossible ones are rejected.

#: Of one session: beyond, nobody has spent or counted, and sums would drown in it.
DOLLARS_MAX: Final = 1_000_000
TOKENS_MAX: Final = 10**12
#: Of one prompt, and of what one may hold.
CONTEXT_MAX: Final = 10**9
#: Of one session; the dearest are kept.
MODELS_MAX: Final = 32
#: The model of messages that the CLI itself made up.
SYNTHETIC: Final = "<synthetic>"

Dollars = Annotated[float, msgspec.Meta(ge=0, le=DOLLARS_MAX)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)]
Room = Annotated[int, msgspec.Meta(ge=0, le=CONTEXT_MAX)]

_URL = re.compile(r"https?://[^\s<>\"'`\\\x00-\x1f\x7f]{1,512}")


class ModelUsage(msgspec.Struct, rename="camel"):
    """What the CLI counted of one model."""

    cost: Dollars = msgspec.field(name="costUSD", default=0.0)
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_input_tokens: Tokens = 0
    cache_creation_input_tokens: Tokens = 0


class _Prompt(msgspec.Struct):
    input_tokens: Room | None = None
    cache_creation_input_tokens: Room | None = None
    cache_read_input_tokens: Room | None = None


def costs_of(models: dict[str, ModelUsage]) -> dict[str, ModelCost]:
    """By model, the dearest first."""
    real = [(name, each) for name, each in models.items() if name and name != SYNTHETIC]
    real.sort(key=lambda told: (-told[1].cost, told[0]))
    return {
        name[:NAME_MAX]: ModelCost(
            cost_usd=each.cost,
            input_tokens=each.input_tokens,
            output_tokens=each.output_tokens,
            cache_read_tokens=each.cache_read_input_tokens,
            cache_write_tokens=each.cache_creation_input_tokens,
        )
        for name, each in real[:MODELS_MAX]
    }


def prompt_size(usage: Any) -> int | None:
    """How many tokens a message's prompt had, those from the cache too."""
    try:
        told = msgspec.convert(usage, _Prompt)
    except msgspec.ValidationError:
        return None
    parts = (told.input_tokens, told.cache_creation_input_tokens, told.cache_read_input_tokens)
    return sum(part or 0 for part in parts) or None


def web_address(text: str | None) -> str | None:
    """The address of a page; nothing else becomes a link."""
    return text if text and _URL.fullmatch(text) else None


T = TypeVar("T")
Fields = Mapping[str, msgspec.Raw]

#: A limit can be overdrawn, but not by so much.
Share = Annotated[float, msgspec.Meta(ge=0, le=1_000)]
#: Before the year 2100.
Seconds = Annotated[float, msgspec.Meta(ge=0, le=4_102_444_800)]
LIMIT: Final = re.compile(r"[a-z0-9_]{1,32}")
LIMITS_MAX: Final = 8
NO: Final = msgspec.Raw(b"false")
#: The oldest versions of which it is known that their registry reports every dialog: in a terminal, and
#: over the stdio protocol by which editors and SDKs run the CLI (four entrypoints measured).
DIALOGS_FROM: Final = (2, 1, 330)
STDIO_DIALOGS_FROM: Final = (2, 1, 332)
#: A background job's id, and what its state file says while a sandboxed command wants access to a host.
JOB: Final = re.compile("[0-9a-f]{4,40}")
NEEDS_HOST: Final = re.compile(r"allow network: (\S{1,255})")
Pid = Annotated[float, msgspec.Meta(gt=0, lt=1 << 31)]
Stamp = Annotated[float, msgspec.Meta(gt=0, le=NUMBER_MAX)]


class RegistryError(ValueError):
    """A file that names no session: empty while it is being written (2.1.112), or not ours."""


def signals_from_registry(
    content: bytes, seen: int, needs: Callable[[str], str] = lambda _job: ""
) -> list[KnownSignal]:
    """All that one file says, as of when it was last true by its own account, at the latest now.

    needs: what a background job waits for by its own state file, which is written 0.01 s before or after.

    Raises RegistryError, and nothing else. The name is one the CLI made up; as it comes from the
    registry, any other title beats it.
    """
    try:
        entry = decode_fields(content)
    except ValueError as error:
        raise RegistryError(f"not a JSON object: {error}") from error
    session_id = _text(entry, "sessionId")
    if session_id is None or len(session_id) > NAME_MAX:
        raise RegistryError(f"`sessionId` is no string of 1 to {NAME_MAX} characters")
    pid = int(_number(entry, "pid", Pid) or 0) or None
    changed, updated, started = (
        int(_number(entry, name, Stamp) or 0)
        for name in ("statusUpdatedAt", "updatedAt", "startedAt")
    )
    status, cwd = _name(entry, "status"), _text(entry, "cwd")
    common: dict[str, Any] = {"session_id": session_id, "seen": seen, "source": "registry"}
    spare = lenient(entry.get("spare", NO), bool)
    dated = common | {"at": min(changed or updated or started or seen, seen)}
    found: list[KnownSignal] = [
        s.StatusReported(
            **dated,
            status=status,
            waiting_for=_name(entry, "waitingFor") if status else None,
            pid=pid,
            started=started,
            dialogs=_tells_of_dialogs(entry),
            # Over the stdio protocol it says `idle` while a background command runs.
            shells=_text(entry, "entrypoint") in (None, "cli"),
            host=_host(entry, needs),
        ),
        s.MetaChanged(
            **dated,
            title=one_line(_text(entry, "name"), TITLE_MAX),
            cwd=cwd,
            project=project_of(cwd),
            version=_name(entry, "version"),
        ),
    ]
    if spare:  # the agents' daemon keeps a process in reserve: no session yet
        found = [s.SessionEnded(**common, at=seen, reason=s.SPARE)]
    if pid is not None:
        found.insert(0, s.ProcessSeen(**common, at=seen, pid=pid, started=started))
    return found


def _host(entry: Fields, needs: Callable[[str], str]) -> str | None:
    job = _name(entry, "jobId") or ""
    if _name(entry, "waitingFor") != "sandbox request" or not JOB.fullmatch(job):
        return None
    host = NEEDS_HOST.fullmatch(needs(job))
    return host[1] if host else ""


def _tells_of_dialogs(entry: Fields) -> bool:
    """Whether `waiting` is written for every dialog of this session.

    A plain `-p` asks nobody, so it never waits. (Rejected: that it has told of one before, for all; the first form of a session was then on no
    screen, and called people for as long as a hook of their own ran before it.)
    """
    told = re.match(r"(\d+)\.(\d+)\.(\d+)", _name(entry, "version") or "")
    version = tuple(map(int, told.groups())) if told else ()
    in_terminal = _text(entry, "entrypoint") == "cli"
    return version >= (DIALOGS_FROM if in_terminal else STDIO_DIALOGS_FROM)


def signals_from_statusline(raw: bytes, seen: int) -> Sequence[AnySignal]:
    """A tick: a sign of life, and what it says of the session. Raises ValueError.

    Nothing in it tells of work: the CLI draws its status line at the start, after an answer, when
    the window or the mode changes, and by the clock.
    """
    fields = decode_fields(raw)
    session_id = _text(fields, "session_id")
    if session_id is None or len(session_id) > NAME_MAX:
        raise ValueError(f"`session_id` is no string of 1 to {NAME_MAX} characters")
    common = Common(
        session_id=session_id,
        at=seen,
        seen=seen,
        source="statusline",
        agent_id=None,
        prompt_id=None,
    )
    told = (_meta(fields, common), _cost(fields, common), _gauges(fields, common))
    return [s.Alive(**common, event="tick"), *(signal for signal in told if signal)]


def _meta(fields: Fields, common: Common) -> s.MetaChanged | None:
    """A title is one that a human gave or the model made up; it does not say which."""
    workspace = _object(fields, "workspace")
    cwd = _text(workspace, "current_dir") or _text(fields, "cwd")
    worktree = _text(_object(fields, "worktree"), "name") or _text(workspace, "git_worktree")
    nothing = s.MetaChanged(**common)
    meta = msgspec.structs.replace(
        nothing,
        ai_title=one_line(_text(fields, "session_name"), TITLE_MAX),
        cwd=cwd,
        project=project_of(cwd),
        model=_text(_object(fields, "model"), "id"),
        version=_text(fields, "version"),
        transcript=_text(fields, "transcript_path"),
        worktree=one_line(worktree, NAME_MAX),
        pr=web_address(_text(_object(fields, "pr"), "url")),
    )
    return None if meta == nothing else meta


def _cost(fields: Fields, common: Common) -> s.CostReported | None:
    """None of nothing spent yet: a session that was resumed begins at nothing, and has cost."""
    told = _number(_object(fields, "cost"), "total_cost_usd", Dollars)
    return s.CostReported(**common, cost_usd=told) if told else None


def _gauges(fields: Fields, common: Common) -> s.GaugesReported | None:
    window = _object(fields, "context_window")
    usage = window.get("current_usage")
    nothing = s.GaugesReported(**common)
    gauges = msgspec.structs.replace(
        nothing,
        context_tokens=prompt_size(lenient(usage, dict[str, Any])) if usage is not None else None,
        context_size=_number(window, "context_window_size", Room) or None,
        limits=_limits(_object(fields, "rate_limits")) or None,
    )
    return None if gauges == nothing else gauges


def _limits(told: Fields) -> list[s.RateLimit]:
    """`five_hour`, `seven_day`, `spend_limit`, and whichever come next."""
    found: list[s.RateLimit] = []
    for name in told:
        limit = _object(told, name)
        used = _number(limit, "used_percentage", Share)
        if used is not None and LIMIT.fullmatch(name):
            resets = _number(limit, "resets_at", Seconds) or 0
            found.append(s.RateLimit(name, used, int(resets * 1000)))
    return found[:LIMITS_MAX]


def _number(fields: Fields, name: str, kind: type[T]) -> T | None:
    raw = fields.get(name)
    return lenient(raw, kind) if raw is not None else None


def _text(fields: Fields, name: str) -> str | None:
    raw = fields.get(name)
    return ((lenient(raw, str) or "")[:TEXT_MAX] or None) if raw is not None else None


def _name(fields: Fields, name: str) -> str | None:
    return (_text(fields, name) or "")[:NAME_MAX] or None


def _object(fields: Fields, name: str) -> Fields:
    raw = fields.get(name)
    return (lenient(raw, dict[str, msgspec.Raw]) or {}) if raw is not None else {}

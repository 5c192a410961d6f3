"""Translates each type of transcript line into signals: work, session, and usage.

A step reads one line, and the `Context` that earlier lines of its file left. Pure and total.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from adsum_collector.agents.claude_code import tools
from adsum_collector.agents.claude_code.bodies import TEXT_MAX, lenient
from adsum_collector.agents.claude_code.hooks import (
    ERROR_MAX,
    NO_PROMPTS,
    PROMPT_MAX,
    SYSTEM_PROMPTS,
    TITLE_MAX,
    UNSEEN,
    Call,
    Common,
    about_child,
    call_finished,
    call_started,
    child_in,
    children_of,
    ends_of,
    name_of,
    notified_children,
    request_opened,
    task_completed,
    task_created,
    wake_up,
)
from adsum_collector.agents.claude_code.status import (
    SYNTHETIC,
    Dollars,
    ModelUsage,
    costs_of,
    prompt_size,
    web_address,
)
from adsum_collector.agents.claude_code.tools import project_of
from adsum_collector.agents.records import NAME_MAX, Private, deliveries, one_line, shorten
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal

T = TypeVar("T")

INTERRUPTED: Final = "[Request interrupted by user"
#: A Stop hook that sends the agent back to work.
SENT_BACK: Final = "Stop hook feedback:"
#: What is left of a prompt that another hook refused: its own hook fired, its turn never begins. The
#: line bears no prompt id.
BLOCKED: Final = "UserPromptSubmit operation blocked by hook"
#: A prompt that is none: it has the terminal summarise the session, in its turn of the queue.
COMPACT: Final = "/compact"
#: What a team mate at rest sends to its lead, and the mate's name.
RESTING_MATE: Final = re.compile(
    r'<teammate-message teammate_id="([^"]{1,64})"[^>]*>\s*\{"type":"idle_notification"'
)
#: How a child ended that wakes nobody.
STOPPED: Final = frozenset({"stopped", "killed"})
#: How an answer ends a turn. `tool_use` and `pause_turn` do not; after `max_tokens` the CLI itself
#: asks for the rest. Most lines of a streamed answer bear none.
ENDS: Final = ("end_turn", "stop_sequence", "refusal")
RETRIES_MAX: Final = 1000
RETRY_MS_MAX: Final = 24 * 3600 * 1000
#: Longer than what leaves a machine by default, since a secret is masked before a text is cut.
LAST_WORDS_MAX: Final = 1_000
#: What a directory that is no repository has for a branch, and a detached one.
NO_BRANCH: Final = "HEAD"
ODD_COST: Final = "odd cost"
AHEAD: Final = "date in the future"

#: Calls whose results are awaited; a turn of more parallel calls was never seen.
CALLS_MAX = 32
#: Of what is carried, in characters; and of the blocks that one line holds.
CONTEXT_MAX = 64 << 10
BLOCKS_MAX = 256


class Context(msgspec.Struct, omit_defaults=True):
    """What the lines so far leave to those that follow, in one file.

    at: the latest timestamp, ms. told: digests of what was reported last of the session itself.
    used: tokens of the last prompt. begun: of a subagent's file, that it has begun. ahead: the last
    timestamp is of a day that has not come. queue: of each that waits for its turn, whether it compacts.
    answer: the latest message of the model, and the prompt that it answers. mates: child ids of team
    mates, by name.
    """

    at: int = 0
    prompt_id: str | None = None
    calls: dict[str, Call] = {}
    told: dict[str, str] = {}
    used: int = 0
    headless: bool = False
    begun: bool = False
    ahead: bool = False
    queue: list[bool] = []
    answer: tuple[str, str] | None = None
    mates: dict[str, str] = {}

    @classmethod
    def of(cls, text: str) -> Context:
        """A text of another version, or none, begins anew."""
        try:
            return msgspec.json.decode(text, type=cls) if text else cls()
        except msgspec.DecodeError:
            return cls()

    def encoded(self, private: Private) -> str:
        """private: it is kept on disk, so nothing is in it that no signal may say."""
        calls = {name: private(call) for name, call in self.calls.items()}
        text = msgspec.json.encode(msgspec.structs.replace(self, calls=calls)).decode()
        if len(text) <= CONTEXT_MAX:
            return text
        return msgspec.json.encode(msgspec.structs.replace(self, calls={}, told={})).decode()

    def news(self, values: Mapping[str, str | None]) -> dict[str, str]:
        """Those that differ from what was reported last; from now on they are that.

        None: not known. An empty text: it is no more, which is news if it once was.
        """
        news: dict[str, str] = {}
        for name, value in values.items():
            if value is None or (not value and name not in self.told):
                continue
            mark = _digest(value)
            if self.told.get(name) != mark:
                self.told[name] = mark
                news[name] = value
        return news

    def remember(self, tool_use_id: str, call: Call) -> None:
        self.calls[tool_use_id] = call
        while len(self.calls) > CALLS_MAX:
            del self.calls[next(iter(self.calls))]


class TranscriptLine:
    """Fields of another type than expected count as missing: the CLI changes them at will.

    faults: what should say something and does not.
    """

    def __init__(self, fields: dict[str, msgspec.Raw]) -> None:
        self._fields = fields
        self._message: dict[str, Any] | None = None
        self.faults: list[str] = []
        self.type = self.name("type") or ""
        self.session_id = self.text("sessionId")

    def get(self, name: str, kind: type[T]) -> T | None:
        raw = self._fields.get(name)
        return None if raw is None else lenient(raw, kind)

    def text(self, name: str) -> str | None:
        return (self.get(name, str) or "")[:TEXT_MAX] or None

    def name(self, name: str) -> str | None:
        return (self.get(name, str) or "")[:NAME_MAX] or None

    def flag(self, name: str) -> bool:
        return self.get(name, bool) is True

    def raw(self, name: str) -> bytes | None:
        """The field of whatever type, None if there is none."""
        return bytes(self._fields[name]) if name in self._fields else None

    def blocks(self) -> list[dict[str, Any]]:
        """The message's content; a plain text is one block of text."""
        content = self.message("content")
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        return (
            [each for each in content[:BLOCKS_MAX] if isinstance(each, dict)]
            if isinstance(content, list)
            else []
        )

    def message(self, name: str) -> Any:
        if self._message is None:  # it can be megabytes, and is asked for several times
            self._message = self.get("message", dict[str, Any]) or {}
        return self._message.get(name)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


Step = Callable[[TranscriptLine, Context, Common], list[KnownSignal]]


def user(line: TranscriptLine, known: Context, common: Common) -> list[KnownSignal]:
    """What came back from tools, or a prompt: a human's, the CLI's own, or none at all."""
    found: list[KnownSignal] = []
    texts: list[str] = []
    for block in line.blocks():
        if block.get("type") == "tool_result":
            found += _tool_result(block, line, known, common)
        elif block.get("type") == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
    return found + _prompt("\n".join(texts), line, known, common)


def _prompt(text: str, line: TranscriptLine, known: Context, common: Common) -> list[KnownSignal]:
    start = text.lstrip()
    if not start or line.flag("isCompactSummary"):
        return []
    if start.startswith(INTERRUPTED):
        # After Esc a prompt from the queue has begun by then, and lends the line its own id.
        message, prompt_id = known.answer or ("", None)
        of = prompt_id if line.name("interruptedMessageId") == message else common["prompt_id"]
        return [replace(s.TurnInterrupted(**common), prompt_id=of)]
    if common["agent_id"] is not None:
        return []  # a subagent's prompt begins its run, see `child_begins`
    if start.startswith(NO_PROMPTS):
        return [s.Alive(**common, event=s.COMMAND)]
    if line.flag("isMeta") and not start.startswith(SENT_BACK):
        return []
    if start.startswith(SYSTEM_PROMPTS) or line.text("promptSource") == "system":
        ended = _notified(start, common)
        if ended and all(isinstance(e, s.ChildFinished) and e.status in STOPPED for e in ended):
            return ended  # after a kill and a resume: children of the run before, and no turn
        # It opens a turn, or joins the one that runs.
        return [
            *_resting(start, known, common),
            *ended,
            s.PromptSubmitted(**common, origin="system"),
        ]
    return [s.PromptSubmitted(**common, text=shorten(text, PROMPT_MAX))]


def _resting(text: str, known: Context, common: Common) -> list[KnownSignal]:
    """Return the end of each team mate that reports to its lead that it rests."""
    mates = [known.mates[name] for name in RESTING_MATE.findall(text) if name in known.mates]
    about = about_child(common)
    return [s.ChildFinished(**about, child_id=mate, notified=True) for mate in mates]


def _notified(text: str, common: Common) -> list[KnownSignal]:
    """The children of which this text reports to their parent; it is about them, not of them."""
    return notified_children(text.lstrip(), about_child(common))


def child_begins(
    line: TranscriptLine, known: Context, common: Common, sidecar: bytes | None
) -> list[KnownSignal]:
    """A subagent is given its first task or, after its end, another.

    Lines marked as meta are copies of its parent's.
    """
    child_id = common["agent_id"]
    texts = [block.get("text") for block in line.blocks() if block.get("type") == "text"]
    if child_id is None or line.type != "user" or not texts or line.flag("isMeta"):
        return []
    if isinstance(texts[0], str) and texts[0].lstrip().startswith(INTERRUPTED):
        return []
    given = {} if known.begun or sidecar is None else lenient(sidecar, dict[str, Any]) or {}
    known.begun = True
    return [
        s.ChildStarted(
            **about_child(common),
            child_id=child_id,
            type=one_line(given.get("agentType")),
            description=one_line(given.get("description")),
        )
    ]


def assistant(line: TranscriptLine, known: Context, common: Common) -> list[KnownSignal]:
    texts = [block.get("text") for block in line.blocks() if block.get("type") == "text"]
    said = ends_of("\n".join(text for text in texts if isinstance(text, str)) or None)
    if line.flag("isApiErrorMessage"):
        return [s.TurnFailed(**common, error=line.name("error") or "unknown", message=said)]
    found: list[KnownSignal] = []
    message = name_of(line.message("id"))
    known.answer = (message, known.prompt_id) if message and known.prompt_id else None
    for block in line.blocks():
        if block.get("type") == "tool_use":
            found += _tool_call(block, known, common)
        else:
            found.append(s.Alive(**common, event=s.MESSAGE))
    if line.message("stop_reason") in ENDS:
        found.append(s.TurnEnded(**common, last_message=said))
    return found


def _tool_call(block: dict[str, Any], known: Context, common: Common) -> list[KnownSignal]:
    tool_use_id, tool = name_of(block.get("id")), name_of(block.get("name"))
    if tool_use_id is None or tool is None:
        return []
    given = block.get("input")
    value = given if isinstance(given, dict) else {}
    call = Call.of(tool, value)
    known.remember(tool_use_id, call)
    started = call_started(common, call, tool_use_id, value)
    if tools.role_of(tool) not in tools.REQUEST_KINDS:
        return [started]
    return [started, request_opened(common, call, tool_use_id, value)]


def _tool_result(
    block: dict[str, Any], line: TranscriptLine, known: Context, common: Common
) -> list[KnownSignal]:
    tool_use_id = name_of(block.get("tool_use_id"))
    if tool_use_id is None:
        return []
    call = known.calls.pop(tool_use_id, None) or Call(UNSEEN)
    outcome = line.get("toolUseResult", dict[str, Any]) or {}
    ok = block.get("is_error") is not True
    said = None if ok else _result_text(block.get("content"))
    child_id, kind = child_in(call.tool, outcome)
    mate = name_of(outcome.get("name"))
    if child_id is not None and mate is not None and len(known.mates) < CALLS_MAX:
        known.mates[mate] = child_id
    finished = call_finished(
        common,
        call,
        tool_use_id,
        ok=ok,
        error=shorten(said, ERROR_MAX) if said else None,
        is_interrupt=outcome.get("interrupted") is True or INTERRUPTED in (said or ""),
        denied=line.text("toolDenialKind") is not None,
        answered=bool(outcome.get("answers")),
        child_id=child_id,
        background=kind is not None,
        **_decided(line),
        delivered=deliveries(outcome.get("stdout")) if call.delivers and ok else None,
    )
    change, tasks = outcome.get("statusChange"), task_created(common, outcome.get("task"))
    if not tasks and isinstance(change, dict) and change.get("to") == "completed":
        tasks = task_completed(common, outcome.get("taskId"))
    children = [*children_of(common, call, child_id, kind), *wake_up(common, call, outcome)]
    return [finished, *children, *tasks]


def _decided(line: TranscriptLine) -> dict[str, Any]:
    """Who let the call run: the only record of it, a hook of ours, or somebody at the keyboard."""
    told = line.get("permissionDecision", dict[str, Any]) or {}
    source, decision = told.get("source"), told.get("decision")
    known = isinstance(source, str) and decision in ("accept", "reject")
    if not known and line.flag("toolDenialBeforeRun"):
        # a No at the keyboard, Esc, and a hook's denial that ends the turn: all alike
        kind = line.text("toolDenialKind")
        return {"decided_by": kind, "accepted": False} if kind == "user-rejected" else {}
    # Rules and modes decide most calls; nobody waits to hear so.
    if not known or source == "config":
        return {}
    return {"decided_by": name_of(source), "accepted": decision == "accept"}


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def system(line: TranscriptLine, _known: Context, common: Common) -> list[KnownSignal]:
    match line.text("subtype"):
        case "turn_duration" if common["agent_id"] is None:
            return [s.TurnEnded(**common, final=True)]
        case "stop_hook_summary" if common["agent_id"] is None and not line.get("hookErrors", list):
            # Old CLIs write no length. One of these hooks may have sent the agent on with an error.
            return [s.TurnEnded(**common, final=True)]
        case "api_error":
            retry = s.RetryScheduled(
                **common,
                attempt=_clamped(line.get("retryAttempt", int), RETRIES_MAX) or 1,
                max=_clamped(line.get("maxRetries", int), RETRIES_MAX),
                in_ms=_clamped(line.get("retryInMs", float), RETRY_MS_MAX) or None,
            )
            return [retry]
        case "compact_boundary":
            trigger = (line.get("compactMetadata", dict[str, Any]) or {}).get("trigger")
            return [s.CompactionFinished(**common, trigger=name_of(trigger))]
        case "informational" if (line.text("content") or "").startswith(BLOCKED):
            return [replace(s.TurnInterrupted(**common), prompt_id=None)]
        case "agents_killed":
            # Ctrl-C kills every subagent, and the line names none of them.
            return [
                s.ChildFinished(**about_child(common), child_id=s.ALL_CHILDREN, status="killed")
            ]
        case _:
            return []


def _clamped(number: float | None, most: int) -> int | None:
    return None if number is None else int(min(max(number, 0), most))


def attachment(line: TranscriptLine, known: Context, common: Common) -> list[KnownSignal]:
    """A prompt typed while a turn ran has joined it; so may a background task's report."""
    held = line.get("attachment", dict[str, Any]) or {}
    if held.get("type") != "queued_command":
        return []
    prompt = held.get("prompt")
    text = prompt if isinstance(prompt, str) else ""
    ended = [*_resting(text, known, common), *_notified(text, common)]
    return [*ended, s.PromptDequeued(**common)]


def queue_operation(line: TranscriptLine, known: Context, common: Common) -> list[KnownSignal]:
    content, operation = line.get("content", str) or "", line.text("operation")
    compacts = content.split(maxsplit=1)[:1] == [COMPACT]
    if operation != "enqueue":
        if operation == "dequeue" and known.queue:
            compacts = known.queue.pop(0)
        elif operation == "remove" and compacts in known.queue:
            known.queue.remove(compacts)
            compacts = False
        else:
            known.queue, compacts = [], False
        # Its own hook would print into the terminal, so here alone it is told that it begins.
        begun = [s.CompactionStarted(**common, trigger="manual")] if compacts else []
        return [s.PromptDequeued(**common), *begun]
    known.queue = [*known.queue[1 - CALLS_MAX :], compacts]
    if not content.lstrip().startswith("<task-notification>"):
        return [s.PromptSubmitted(**common, origin="queued")]
    # The report still waits in the queue, so its parent does not know. A child that somebody
    # stopped does not wake its parent: its report waits for the next prompt.
    return [
        replace(each, notified=each.status in STOPPED)
        if isinstance(each, s.ChildFinished)
        else each
        for each in _notified(content, common)
    ]


def about_session(line: TranscriptLine, known: Context, common: Common) -> list[KnownSignal]:
    """The lines that hold one fact about the session itself."""
    said: dict[str, str | None] = {
        "title": one_line(line.text("customTitle"), TITLE_MAX),
        "ai_title": one_line(line.text("aiTitle"), TITLE_MAX),
        "mode": line.name("permissionMode"),
        "pr": web_address(line.text("prUrl")),
        "worktree": _worktree(line),
    }
    return _changed({ABOUT[line.type]: said[ABOUT[line.type]]}, known, common)


def _worktree(line: TranscriptLine) -> str | None:
    """Its name; "" once the session has left it, None if the line does not say."""
    if line.raw("worktreeSession") == b"null":
        return ""
    name = (line.get("worktreeSession", dict[str, Any]) or {}).get("worktreeName")
    return one_line(name, NAME_MAX)


def surroundings(
    line: TranscriptLine, known: Context, common: Common, said: Sequence[KnownSignal]
) -> list[KnownSignal]:
    """Every line says where it was written, by which version; only what has changed is reported.

    said: by this line, of the turn: what a human asked, and how a turn was answered.
    """
    entrypoint = line.text("entrypoint")
    if entrypoint is not None:
        known.headless = entrypoint.startswith("sdk")
    cwd, branch = line.text("cwd"), line.text("gitBranch")
    model = line.message("model") if line.type == "assistant" else None
    name, team = line.name("agentName"), line.name("teamName")
    found = {
        "mate": f"{name}@{team}"[:NAME_MAX] if name and team else None,
        "cwd": cwd,
        "project": project_of(cwd),
        "branch": branch if branch != NO_BRANCH else None,
        "version": line.name("version"),
        "model": name_of(model) if model != SYNTHETIC else None,
    }
    for signal in said:
        if isinstance(signal, s.PromptSubmitted):  # only a human's has a text
            found["last_prompt"] = one_line(signal.text, LAST_WORDS_MAX)
        elif isinstance(signal, s.TurnEnded) and signal.last_message:
            found["last_answer"] = signal.last_message.strip() or None
    return _changed(found, known, common)


def _changed(values: dict[str, str | None], known: Context, common: Common) -> list[KnownSignal]:
    news = known.news(values)
    return [replace(s.MetaChanged(**common), **news)] if news else []


def cost_state(line: TranscriptLine, known: Context, common: Common) -> list[KnownSignal]:
    """The cost report is written: the last thing written before the process lets go of the session.

    A headless run does that a little before it is over.
    """
    over = s.SessionEnded(**common, reason="run_over" if known.headless else "closed")
    return [*_cost(line, known, common), over]


def _cost(line: TranscriptLine, known: Context, common: Common) -> list[KnownSignal]:
    """A total that is none is left out; so are all models if one of them is odd.

    So is what was spent on days that have not come: the tokens of these days are not counted either.
    """
    if known.ahead:
        line.faults.append(AHEAD)
        return []
    total = line.get("totalCostUSD", Dollars)
    absent = line.raw("modelUsage") in (None, b"null")
    models = {} if absent else line.get("modelUsage", dict[str, ModelUsage])
    if total is None or models is None:
        line.faults.append(ODD_COST)
    costs = costs_of(models or {})
    if total is None or not (total or costs) or not known.news({"cost": repr((total, costs))}):
        return []
    return [s.CostReported(**common, cost_usd=total, models=costs or None)]


def context_used(line: TranscriptLine, known: Context, common: Common) -> list[KnownSignal]:
    """By the last answer of the main agent. Answers of others have a context of their own."""
    if line.type != "assistant" or line.flag("isSidechain") or line.flag("isApiErrorMessage"):
        return []
    used = None if line.message("model") == SYNTHETIC else prompt_size(line.message("usage"))
    if used is None or used == known.used:
        return []
    known.used = used
    return [s.GaugesReported(**common, context_tokens=used)]


#: Types of line that hold one fact about the session, to its field in `meta.changed`.
ABOUT: Final = {
    "custom-title": "title",
    "ai-title": "ai_title",
    "permission-mode": "mode",
    "pr-link": "pr",
    "worktree-state": "worktree",
}

STEPS: Final[dict[str, Step]] = {
    **dict.fromkeys(ABOUT, about_session),
    "user": user,
    "assistant": assistant,
    "system": system,
    "attachment": attachment,
    "queue-operation": queue_operation,
    "progress": lambda _line, _known, common: [s.Alive(**common, event="progress")],
    # It goes on in the agents' daemon, under another id and with a copy of this file.
    "continued-in": lambda _line, _known, common: [s.SessionEnded(**common, reason=s.LEFT)],
    "cost-state": cost_state,
    # It has entered or left a worktree, and its transcript moves to that directory's project.
    "relocated": lambda line, known, common: _changed(
        {"cwd": line.text("relocatedCwd")}, known, common
    ),
}

#: Types of line that mean nothing to us; others are counted, so that a new one is noticed.
IGNORED: Final = frozenset(
    {
        "agent-name",
        "agent-setting",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "bridge-session",
        "file-history-delta",
        "file-history-snapshot",
        "frame-link",
        "last-prompt",
        "mode",  # not of permissions: `normal`, of which nobody knows another
        "summary",
        "tag",
        "tools-used",
    }
)

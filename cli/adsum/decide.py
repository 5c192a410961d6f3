"""`adsum approve`, `deny`, `answer`, `plan`, `defer`, `prompt`, `queue`, `interrupt`: acts on a session, and waits for the effect."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import psutil

from adsum.client import fetch, fetch_sessions, hub_url, named, path_of, send, typed
from adsum.outcome import CommandError, Exit, put, put_json, require, say
from adsum_collector.agents import known_agents
from adsum_shared.characters import escape_code, fold_blank_lines
from adsum_shared.commands import ALLOWING, EXTEND, EXTEND_EVERY_S
from adsum_shared.redact import clean
from adsum_shared.state import CommandView, QueuedView, RequestView, SessionView

#: What each command says, by what the request takes: the first of them.
VERBS = {
    "approve": ("allow",),
    "always": ("always",),
    "deny": ("deny",),
    "answer": ("answer", "elicit"),
    "plan": ("plan",),
    "defer": ("defer",),
}
OUTCOMES = {
    "took_effect": "took effect",
    "sent": "sent, but what came of it is not known yet",
    "under_way": "under way at its machine",
    "given": "on its way, but its machine has not answered yet",
    "overruled": "overruled: the terminal was first",
    "too_late": "too late",
    "refused": "refused by its machine",
    "awaits_second": "counted: it takes another person, who decides the same",
    "seconded": "took effect, together with another person's",
    "queued": "waits, and is said when its turn is over",
    "withdrawn": "taken back",
    "expired": "expired, nothing was done",
}
_CODES = {
    "took_effect": Exit.OK,
    "sent": Exit.PARTIAL,
    "given": Exit.PARTIAL,
    "under_way": Exit.PARTIAL,
    "awaits_second": Exit.PARTIAL,
    "seconded": Exit.OK,
    "queued": Exit.OK,
    "overruled": Exit.OVERRULED,
    "too_late": Exit.TOO_LATE,
}
#: Of several the gravest is the command's.
GRAVITY = (Exit.OK, Exit.PARTIAL, Exit.OVERRULED, Exit.TOO_LATE, Exit.ERROR)
SURE = "This request may be misread, see the reasons above. Allow it anyway? [y/N]"
#: So many lines and fewer are seen together with the question.
SHORT = 12
#: Of a request's own id. Fewer digits are a number.
LEAST_ID = 4
ATTACH = "Answer it at its terminal: adsum attach"
#: A variable that is not set must not decide whatever request is open.
UNNAMED = (
    "With --yes, or without a terminal, `adsum {}` needs a session's id. Is a shell variable "
    "empty? List the sessions that ask: adsum agents --needs-you"
)


class OpenRequest(NamedTuple):
    view: SessionView
    request: RequestView
    verb: str


@dataclass(frozen=True, slots=True)
class DecisionAsked:
    """The arguments of a decision. name: a key of VERBS. sessions: id prefixes; none: a person chooses."""

    name: str
    sessions: Sequence[str] = ()
    text: str | None = None
    stop: bool = False
    mode: str | None = None
    edit: Path | None = None
    answers: Sequence[str] = ()
    note: str | None = None
    yes: bool = False
    wait_s: float = 12.0
    as_json: bool = False
    hub: str | None = None
    state_dir: Path | None = None
    #: asks on the terminal; None: nobody is there to be asked
    ask: Callable[[str], str] | None = field(default=None)


def asker() -> Callable[[str], str] | None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(question: str) -> str:
        say(question)
        return sys.stdin.readline().strip()

    return ask


def decide(asked: DecisionAsked) -> Exit:
    """Raises CommandError before anything is decided."""
    chosen_by_hand = asked.ask is not None and not asked.yes
    require(asked.sessions or chosen_by_hand, UNNAMED.format(_command(asked)))
    url = hub_url(asked.hub, asked.state_dir)
    views = typed(url, fetch_sessions(url, {})["sessions"], list[SessionView])
    chosen = list(_chosen(asked, views))
    if not (asked.yes or asked.ask):
        put("\n".join(map(request_text, chosen)), to=sys.stderr)
        raise CommandError(
            "Nobody can be asked here whether to decide this: give --yes.", Exit.USAGE
        )
    told: list[tuple[OpenRequest, dict[str, Any]]] = []
    with held_open(url, chosen if chosen_by_hand else ()):
        for each in chosen:
            put(request_text(each), to=sys.stderr)  # beside the data
            body = decision_of(each) | _parameters(asked, each)
            # An empty line is no yes: nobody decides by a key too many.
            if asked.yes or asked.ask is None or _is_agreed(asked.ask, each, body):
                told.append((each, body))
            else:
                say("Nothing is decided.")
    given = [(each, give(url, each.view, body)) for each, body in told]
    until = time.monotonic() + asked.wait_s
    ended = [(each, awaited(url, each.view, command, until)) for each, command in given]
    if asked.as_json:
        found = [{"session": each.view.id, **as_json(command)} for each, command in ended]
        put_json({"schema": 1, "commands": found})
    for each, command in [] if asked.as_json else ended:
        put(f"{each.view.session_id[:8]} on {clean(each.view.host)}: {in_words(command)}")
    if not ended:
        return Exit.ERROR
    return max((_CODES.get(it.outcome, Exit.ERROR) for _, it in ended), key=GRAVITY.index)


@contextlib.contextmanager
def held_open(url: str, wanted: Iterable[OpenRequest]) -> Iterator[None]:
    """Have forms held, which would be given back to the terminal, while a person reads them here."""
    held = ((each, each.request.hold) for each in wanted)
    forms = [each for each, hold in held if hold is not None and EXTEND in hold.verbs]
    over = threading.Event()

    def extend() -> None:
        while True:
            for each in forms:
                body = decision_of(each) | {"verb": EXTEND}
                with contextlib.suppress(CommandError):  # whoever decides is told
                    send(url, "POST", f"{path_of(each.view)}/commands", body)
            if over.wait(EXTEND_EVERY_S):
                return

    if forms and running_agent() is None:
        threading.Thread(target=extend, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _is_agreed(ask: Callable[[str], str], each: OpenRequest, body: dict[str, Any]) -> bool:
    """Return whether the person agrees. A request that may be misread takes two answers to be allowed."""
    questions = [_question(each, body), *([SURE] if is_doubtful(each) else [])]
    return all(ask(question).lower() in ("y", "yes") for question in questions)


def is_doubtful(wanted: OpenRequest) -> bool:
    hold = wanted.request.hold
    return wanted.verb in ALLOWING and hold is not None and bool(hold.cautions)


def decision_of(wanted: OpenRequest) -> dict[str, Any]:
    """What a hub is asked, but for what goes with the verb."""
    body = {"verb": wanted.verb, "request_id": wanted.request.id}
    return body | ({"binding": wanted.request.hold.binding} if wanted.request.hold else {})


def in_words(command: CommandView) -> str:
    words = OUTCOMES.get(command.outcome, clean(command.outcome))
    why = f" ({clean(command.reason)})" if command.reason else ""
    return f"{command.verb}: {words}{why}"


def as_json(command: CommandView) -> dict[str, Any]:
    return {name: getattr(command, name) for name in command.__struct_fields__}


def _chosen(asked: DecisionAsked, views: Sequence[SessionView]) -> Iterator[OpenRequest]:
    """Raises CommandError: nothing asks so, or it cannot be told which."""
    if not asked.sessions:
        found = [each for view in views for each in takes(asked.name, view)]
        require(found, f"No session asks anything that `adsum {_command(asked)}` could decide.")
        yield _one_of(asked, found)
    for wanted in asked.sessions:
        session, marked, which = wanted.partition("#")
        view = named(views, session)
        found = list(takes(asked.name, view))
        if not found:
            raise CommandError(why_not(asked, view))
        yield _one_of(asked, [each for each in found if not marked or _is(each, which)], found)


def _command(asked: DecisionAsked) -> str:
    return "approve --always" if asked.name == "always" else asked.name


def takes(name: str, view: SessionView) -> Iterator[OpenRequest]:
    """What this session asks that could be decided by a command, of VERBS."""
    for request in view.requests:
        verbs = request.hold.verbs if request.hold is not None else ()
        verb = next((each for each in VERBS[name] if each in verbs), None)
        if verb is not None:
            yield OpenRequest(view, request, verb)


def why_not(asked: DecisionAsked, view: SessionView) -> str:
    name = f"Session {clean(view.session_id)[:8]}"
    if not view.requests:
        return f"{name} asks nothing just now."
    holds = [each.hold for each in view.requests if each.hold is not None]
    if not holds:
        return f"What {name.lower()} asks cannot be answered from elsewhere. {ATTACH}"
    if asked.name != "deny" and all(hold.outdated for hold in holds):
        machine = clean(view.host)
        return f"The collector on {machine} is too old to check what you were shown, or it asked before the hub was upgraded. Upgrade Adsum on {machine}: adsum upgrade"
    if asked.name != "deny" and all(hold.partial for hold in holds):
        return f"Not all that {name.lower()} asks is shown here, so it cannot be allowed here. {ATTACH}"
    takes = ", ".join(sorted({verb for hold in holds for verb in hold.verbs} - {EXTEND}))
    if asked.name == "approve" and "plan" in takes:
        return f"{name} asks about a plan. Read and approve it: adsum plan {clean(view.session_id)[:8]}"
    return f"{name} asks nothing that `adsum {_command(asked)}` could decide; it takes {takes}."


def _is(wanted: OpenRequest, which: str) -> bool:
    """which: its number at its session, or the start of its own id."""
    begins = len(which) >= LEAST_ID and wanted.request.id.startswith(which)
    return begins or which == str(_number(wanted))


def _number(wanted: OpenRequest) -> int:
    """Return its place among all open requests of its session, whichever command is typed."""
    return wanted.view.requests.index(wanted.request) + 1


def _one_of(
    asked: DecisionAsked, found: Sequence[OpenRequest], others: Sequence[OpenRequest] = ()
) -> OpenRequest:
    """others: listed if none is found. Raises CommandError."""
    if len(found) == 1:
        return found[0]
    names = [f"{clean(each.view.session_id)[:8]}#" for each in found or others]
    lines = [
        f"{number}  {name}{_number(each)}  {clean(each.request.id)[:8]}  {': '.join(_heads(each))}"
        for number, (name, each) in enumerate(zip(names, found or others, strict=True), 1)
    ]
    listed = "\n".join(f"  {line}" for line in lines)
    title = "Several requests are open" if found else "No open request has that number or id"
    number = asked.ask(f"{title}:\n{listed}\nWhich?") if asked.ask and found else ""
    if number.isascii() and number.isdecimal() and 0 < int(number) <= len(found):
        return found[int(number) - 1]
    first = (found or others)[0]
    step = (
        f"Name one: adsum {_command(asked)} {names[0]}{_number(first)}, or "
        f"{names[0]}{clean(first.request.id)[:8]}, which stays the same when another is answered"
    )
    raise CommandError(f"{title}:\n{listed}\n{step}.", Exit.USAGE)


def _heads(wanted: OpenRequest) -> dict[str, None]:
    """A session's title and what it asks, once where both are the same, as of a plan."""
    view, request = wanted.view, wanted.request
    asks = clean(escape_code(request.summary or request.tool or request.kind))
    return dict.fromkeys((clean(view.title) or "(untitled)", asks))


def request_text(wanted: OpenRequest) -> str:
    """The whole of it: nobody decides what they have not seen."""
    view, request = wanted.view, wanted.request
    place = request.hold.cwd if request.hold else view.cwd
    lines = [
        "",
        f"{clean(view.session_id)[:8]}  {clean(view.title) or '(untitled)'}",
        f"on {clean(view.host)}, in {escape_code(place or '?')}",
        f"asks: {clean(request.kind)} {clean(request.tool)}".rstrip(),
    ]
    for name, value in (request.payload or {}).items():
        if name == "questions" and request.hold is not None and "answer" in request.hold.verbs:
            lines += map(_listed, value)
            continue
        body = fold_blank_lines(escape_code(value if isinstance(value, str) else _plain(value)))
        lines.append(f"  {escape_code(name)}:{chr(10) if chr(10) in body else ' '}{body}")
    if wanted.verb == "always" and request.hold is not None:
        lines.append(f"from now on, in this session: {escape_code(', '.join(request.hold.always))}")
    lines += _cautions(request)
    return "\n".join(lines)


def _cautions(request: RequestView) -> Iterator[str]:
    hold = request.hold
    if hold is not None and hold.persons > 1:
        names = f" ({clean(', '.join(hold.agreed))})" if hold.agreed else ""
        yield f"{len(hold.agreed)} of {hold.persons}{names} have allowed it: it takes that many persons"
    if hold is not None and hold.unverified:
        yield "unverified: no hook or transcript of this session shows this request"
    if hold is not None:
        yield from hold.cautions


def _plain(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=1)


def _question(wanted: OpenRequest, body: dict[str, Any]) -> str:
    words = {"allow": "Allow it", "always": "Allow it, always", "deny": "Deny it"}
    words |= {"plan": "Have this plan carried out", "defer": "Give it back to the terminal"}
    labels = ", ".join(each for labels in body.get("answers", {}).values() for each in labels)
    words["answer"] = f"Answer so: {escape_code(labels)}"
    return f"{words.get(wanted.verb, 'Answer so')}{extent_of(wanted.request)}? [y/N]"


def extent_of(request: RequestView) -> str:
    """Say how long the longest text is and how it begins, where that may have scrolled out of sight."""
    texts = [value for value in (request.payload or {}).values() if isinstance(value, str)]
    lines = max((text.splitlines() for text in texts), key=len, default=[])
    if len(lines) <= SHORT:
        return ""
    first = escape_code(next((line for line in lines if line.strip()), ""))
    return f" ({len(lines)} lines, the first: {first[:COLUMNS]})"


def _parameters(asked: DecisionAsked, wanted: OpenRequest) -> dict[str, Any]:
    """What goes with the verb. Raises CommandError."""
    payload = wanted.request.payload or {}
    if wanted.verb == "deny":
        return _without_none(text=asked.text, stop=asked.stop or None)
    if wanted.verb == "plan":
        return _without_none(text=_edited(asked.edit), mode=asked.mode)
    if wanted.verb == "answer":
        return _answers(asked, payload.get("questions") or [])
    if wanted.verb == "elicit":
        schema = payload.get("requested_schema") or {}
        return {"content": _filled(asked, schema.get("properties") or {})}
    return {}


def _without_none(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _edited(file: Path | None) -> str | None:
    try:
        return None if file is None else file.read_text("utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise CommandError(f"{file} cannot be read ({why}).", Exit.USAGE) from error


def _answers(asked: DecisionAsked, questions: Sequence[Any]) -> dict[str, Any]:
    """One of `--answer` for each question, in their order; else each is asked for."""
    given = list(asked.answers)
    if not given and asked.ask is not None:
        one = len(questions) == 1
        given = [asked.ask(_wanted_of(each, "" if one else each["question"])) for each in questions]
    require(
        len(given) == len(questions),
        f"It asks {len(questions)} question(s): give --answer once for each, a number or words.",
    )
    answers = {
        str(each["question"]): labels_in(text, each)
        for each, text in zip(questions, given, strict=True)
    }
    notes = {str(questions[0]["question"]): asked.note} if asked.note and questions else None
    return _without_none(answers=answers, notes=notes)


def _listed(question: Any) -> str:
    """With all that is said of each option."""
    lines = [f"  {escape_code(str(question['question']))}"]
    for number, each in enumerate(question.get("options") or [], 1):
        rest = [str(value) for name, value in each.items() if name != "label" and value]
        lines.append(
            "  ".join([f"    {number}", *map(escape_code, (str(each.get("label")), *rest))])
        )
    return "\n".join(lines)


def _wanted_of(question: Any, name: str) -> str:
    several = " (several: 1,3)" if question.get("multiSelect") is True else ""
    return f"{escape_code(name)} A number, or words{several}:".lstrip()


def labels_in(text: str, question: Any) -> list[str]:
    """The labels that a number or words stand for; what is none of them is free text.

    Raises CommandError for a number that none of them has: it is a slip.
    """
    labels = [str(each.get("label")) for each in question.get("options") or []]
    known = {label.casefold(): label for label in labels}
    known = {str(number): label for number, label in enumerate(labels, 1)} | known
    several = question.get("multiSelect") is True
    parts = [part.strip().casefold() for part in (text.split(",") if several else [text])]
    for part in parts:
        slip = labels and part.isdecimal() and part not in known
        require(not slip, f"No option has the number {part[:10]}: there are {len(labels)}.")
    if all(part in known for part in parts):
        return list(dict.fromkeys(known[part] for part in parts))
    return [text.strip()]


def _filled(asked: DecisionAsked, fields: dict[str, Any]) -> dict[str, Any]:
    """`--answer FIELD=VALUE` for each; else each is asked for. An empty one is left out."""
    given = dict(each.partition("=")[::2] for each in asked.answers)
    if not given and asked.ask is not None:
        given = {
            name: asked.ask(
                f"{escape_code(str(about.get('title') or name))} ({about.get('type')}):"
            )
            for name, about in fields.items()
        }
    require(
        not given.keys() - fields.keys(),
        f"Give --answer FIELD=VALUE, of the fields {', '.join(map(escape_code, fields))}.",
    )
    return {name: _value(name, text, fields[name]) for name, text in given.items() if text}


def _value(name: str, text: str, about: Any) -> Any:
    """Raises CommandError."""
    kind = about.get("type")
    try:
        if kind == "boolean":
            return {"true": True, "yes": True, "false": False, "no": False}[text.lower()]
        return {"integer": int, "number": float}.get(kind, str)(text)
    except (KeyError, ValueError) as error:
        raise CommandError(f"{escape_code(name)} is no {kind}: {text!r}.", Exit.USAGE) from error


#: Claude Code sets this variable, and its session id, in every process that it starts.
CLAUDE_CODE = "CLAUDECODE"
#: They run an agent that is a script.
_INTERPRETERS = ("node", "bun", "deno")


def agent_of(env: Mapping[str, str], commands: Iterable[Sequence[str]]) -> str | None:
    """Return the title of the agent that runs this. commands: the words of each ancestor process."""
    agents = known_agents()
    variables = [(each.session_variable, each.title) for each in agents if each.session_variable]
    titles = [title for name, title in (*variables, (CLAUDE_CODE, "Claude Code")) if env.get(name)]
    programs = {(each.resume or each.name).split(" ")[0]: each.title for each in agents}
    for words in commands:
        names = [PurePath(each).name.removesuffix(".js") for each in words if each[:1] != "-"]
        at = 1 if names[:1] and names[0] in _INTERPRETERS else 0
        titles += [programs[name] for name in names[at : at + 1] if name in programs]
    return next(iter(titles), None)


def running_agent() -> str | None:
    """Return the title of the agent that this process runs in."""

    def commands() -> Iterator[Sequence[str]]:
        for parent in psutil.Process().parents():
            with contextlib.suppress(psutil.Error):  # another user's, or gone
                yield parent.cmdline()

    return agent_of(os.environ, commands())


def give(url: str, view: SessionView, body: dict[str, Any]) -> CommandView:
    """Raises CommandError, also where an agent runs this: it must not decide for a person by accident."""
    agent = running_agent()
    if agent is not None:
        raise CommandError(
            f"Nothing is decided: {agent} runs this command, and a person must. Run it in a terminal that no "
            "agent started, or decide on the page: adsum open"
        )
    answer = send(url, "POST", f"{path_of(view)}/commands", body)
    return typed(url, answer.get("command"), CommandView)


def awaited(
    url: str,
    view: SessionView,
    command: CommandView,
    until: float,
    enough: Collection[str] = (),
) -> CommandView:
    """What has become of it by then, or once its outcome is enough. Raises CommandError."""
    path = f"{path_of(view)}/commands/{command.id}"
    while (left := until - time.monotonic()) > 0 and command.outcome not in enough:
        wait = min(left, 0.5 if enough else 5.0)
        told = fetch(url, path, {"wait": f"{wait:.1f}"})
        command = typed(url, told.get("command"), CommandView)
        if told.get("final") or command.outcome == "awaits_second":
            break
    return command


#: Nothing more is waited for: it is said when the turn is over, which may take hours.
ENOUGH = frozenset({"queued"})
COLUMNS = 80
MOST_STDIN = 64 << 10


@dataclass(frozen=True, slots=True)
class ActionAsked:
    """What was typed. session: the start of an id."""

    verb: str
    session: str
    text: str | None = None
    item: str | None = None
    place: int | None = None
    wait_s: float = 12.0
    as_json: bool = False
    hub: str | None = None
    state_dir: Path | None = None


def act(asked: ActionAsked) -> Exit:
    """Raises CommandError before anything is done."""
    url, view = _session_of(asked)
    body: dict[str, Any] = {"verb": asked.verb}
    if asked.text is not None:
        body["text"] = text_of(asked.text)
    if asked.item is not None:
        body["item"] = item_of(view.queue, asked.item).id
    if asked.place is not None:
        require(asked.place > 0, "Places are counted from 1, which is said next.")
        body["place"] = asked.place - 1
    command = give(url, view, body)
    command = awaited(url, view, command, time.monotonic() + asked.wait_s, ENOUGH)
    if asked.as_json:
        put_json({"schema": 1, "commands": [{"session": view.id, **as_json(command)}]})
    else:
        put(f"{view.session_id[:8]} on {clean(view.host)}: {in_words(command)}")
    return _CODES.get(command.outcome, Exit.ERROR)


def show_queue(asked: ActionAsked) -> None:
    """What waits for a session, the next first. Raises CommandError."""
    _, view = _session_of(asked)
    if asked.as_json:
        items = [{n: getattr(each, n) for n in each.__struct_fields__} for each in view.queue]
        put_json({"schema": 1, "session": view.id, "queue": items})
        return
    for number, each in enumerate(view.queue, 1):
        head = f"{number:>2}  {each.id[:8]}  {clean(each.by)}  "
        now = "(being said) " if each.state != "waiting" else ""
        text = " ".join(escape_code(each.text).split())
        line = f"{head}{now}{text}"
        put(line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…")
    if not view.queue:
        put(f"Nothing waits for session {clean(view.session_id)[:8]}.")


def item_of(queue: Sequence[QueuedView], wanted: str) -> QueuedView:
    """By its number in the list, or the start of its id. Raises CommandError."""
    if wanted.isascii() and wanted.isdecimal() and 0 < int(wanted) <= len(queue):
        return queue[int(wanted) - 1]
    found = [each for each in queue if each.id.startswith(wanted)] if wanted else []
    if len(found) == 1:
        return found[0]
    why = "Several items begin so" if found else "No such item waits"
    raise CommandError(
        f"{why}: {escape_code(wanted)[:40]}. What waits: adsum queue ID --list", Exit.USAGE
    )


def text_of(given: str) -> str:
    """- stands for what comes on standard input. Raises CommandError."""
    if given != "-":
        return given
    raw = sys.stdin.buffer.read(MOST_STDIN + 1)
    require(len(raw) <= MOST_STDIN, "What comes on standard input is too long for a prompt.")
    try:
        return raw.decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise CommandError("What comes on standard input is no text.", Exit.USAGE) from error


def _session_of(asked: ActionAsked) -> tuple[str, SessionView]:
    url = hub_url(asked.hub, asked.state_dir)
    views = typed(url, fetch_sessions(url, {})["sessions"], list[SessionView])
    return url, named(views, asked.session)

"""How a session of Claude Code is acted on: its requests decided, its prompts typed, itself put aside and resumed.

Pure. The bodies, the screen and the keys are those that the real CLI was seen to obey; whatever is not sound
is refused here. A decision that is not sound leaves the dialog: a wrong `updatedInput` has the call denied,
and a bare `allow` is ignored for questions and plans. Never built: input of a tool other than a question or a
plan (it would run what neither screen nor model shows), rules that the CLI did not suggest, a mode
beyond acceptEdits. A screen that looks otherwise than in 2.1.330 has no input box, and nothing is typed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from adsum_collector.agents.base import (
    Asked,
    Keyboard,
    PastCall,
    PastDecision,
    Registered,
    RunWords,
)
from adsum_collector.agents.claude_code import tools
from adsum_collector.agents.claude_code.bodies import (
    HookBody,
    HookError,
    decode_fields,
    decode_hook,
    lenient,
)
from adsum_collector.agents.claude_code.status import JOB
from adsum_collector.agents.records import require_text
from adsum_shared.characters import CONTROL, without_invisible
from adsum_shared.commands import Command, Decision, NotObeyedError

#: Of an input, in bytes of JSON. What is longer nobody reads before they allow it.
INPUT_MAX: Final = 64 << 10
#: Of a name.
NAME_MAX: Final = 80
RULES_MAX: Final = 20
#: In which a plan may be carried out. `auto` would be taken too, and asks nobody.
MODES: Final = ("default", "acceptEdits")
#: Of a permission whose input is whole.
VERBS: Final = ("allow", "deny", "defer")
_FIELDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def asked_in(body: bytes) -> Asked | None:
    try:
        hook = decode_hook(body)
    except HookError:
        return None
    found = ASKED.get(hook.event)
    return found(hook) if found else None


def _permission(hook: HookBody) -> Asked | None:
    tool, raw = hook.whole("tool_name"), hook.raw("tool_input")
    given = lenient(raw, dict[str, Any]) if len(raw) <= INPUT_MAX else None
    if not tool:
        return None
    verbs = ["deny"]
    always: tuple[str, ...] = ()
    if given is not None:
        role = tools.role_of(tool)
        if role == "question":
            verbs = [*(["answer"] if _questions(given) else []), "deny"]
        elif role == "plan":
            verbs = [*(["plan"] if isinstance(given.get("plan"), str) else []), "deny"]
        else:
            always = tuple(map(_in_words, _rules(_suggestions(hook))))
            verbs = ["allow", *(["always"] if always else []), "deny"]
    asked = _asked(hook, tool, (given, raw), verbs, always)
    return asked if tools.role_of(tool) in tools.REQUEST_KINDS else _of_tool(asked)


def _of_tool(asked: Asked) -> Asked:
    """With what a rule can be held against."""
    subject = tools.subject(asked.tool, asked.given) if asked.whole else None
    role = tools.role_of(asked.tool)
    return msgspec.structs.replace(asked, role=role, subject=subject)


REFUSED: Final = b'"user-rejected"'


def past_in(line: bytes) -> Sequence[PastCall | PastDecision]:
    """Calls of tools as their permission would have been asked, and what people said to them."""
    if not any(each in line for each in (b'"tool_use"', b'"permissionDecision"', REFUSED)):
        return ()
    told = lenient(line, dict[str, Any]) or {}
    message = told.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = [each for each in content if isinstance(each, dict)] if type(content) is list else []
    if told.get("type") == "assistant":
        calls = (each for each in blocks if each.get("type") == "tool_use")
        return [found for each in calls if (found := _past_call(told, each))]
    decision = told.get("permissionDecision")
    if told.get("toolDenialKind") == "user-rejected":  # a No at the keyboard is no decision's
        decision = {"decision": "reject"} if told.get("toolDenialBeforeRun") is True else None
    if not isinstance(decision, dict) or decision.get("source") == "config":
        return ()  # of a rule or mode of the CLI's own nobody was asked
    named = [str(each.get("tool_use_id")) for each in blocks if each.get("type") == "tool_result"]
    return [PastDecision(each, decision.get("decision") == "accept") for each in named]


def _past_call(told: Mapping[str, Any], block: Mapping[str, Any]) -> PastCall | None:
    tool, given, cwd = block.get("name"), block.get("input"), told.get("cwd")
    known = isinstance(tool, str) and isinstance(given, dict) and isinstance(cwd, str)
    if not known or tools.role_of(str(tool)) in tools.REQUEST_KINDS:
        return None
    try:
        at = int(datetime.fromisoformat(str(told.get("timestamp"))).timestamp() * 1000)
    except ValueError:
        at = 0
    session_id, verbs = str(told.get("sessionId")), msgspec.convert(VERBS, tuple[Decision, ...])
    asked = Asked("PermissionRequest", session_id, str(cwd), str(tool), dict(given or {}), verbs)
    return PastCall(str(block.get("id")), at, _of_tool(asked))


def _elicitation(hook: HookBody) -> Asked | None:
    """A form of an MCP server. One that leads to a web page is answered there."""
    server = hook.name("mcp_server_name") or "mcp"
    form = ("message", "mode", "url", "elicitation_id", "requested_schema")
    parts = {name: hook.raw(name) for name in form if name in hook.fields}
    schema = hook.get("requested_schema", dict[str, Any])
    fits = sum(map(len, parts.values())) <= INPUT_MAX
    given = {name: lenient(raw, object) for name, raw in parts.items()} if fits else None
    verbs = ["elicit"] if given and _form(schema) and hook.text("mode") in (None, "form") else []
    asked = _asked(hook, server, (given, b"".join(parts.values())), [*verbs, "deny"])
    return msgspec.structs.replace(asked, hidden=True)


ASKED: Final = {"PermissionRequest": _permission, "Elicitation": _elicitation}


def _asked(
    hook: HookBody,
    tool: str,
    whole: tuple[dict[str, Any] | None, bytes],
    verbs: list[str],
    always: tuple[str, ...] = (),
) -> Asked:
    """whole: the input, as read and as sent. A decision is bound to either, to the latter by its hash."""
    given, raw = whole
    marks = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    return Asked(
        event=hook.event,
        session_id=hook.session_id,
        cwd=hook.whole("cwd") or "",
        tool=tool,
        given=marks if given is None else given,
        verbs=msgspec.convert((*verbs, "defer"), tuple[Decision, ...]),
        agent_id=hook.name("agent_id"),
        always=always,
        whole=given is not None,
        extra=_suggestions(hook),
    )


def _suggestions(hook: HookBody) -> list[Any]:
    return hook.get("permission_suggestions", list[Any]) or []


def _rules(suggestions: list[Any]) -> list[dict[str, str]]:
    """Those that the CLI suggests. Other suggestions change a mode, or add directories.

    A rule without content is for the whole tool: only that of a server is that narrow.
    """
    rules = []
    for each in suggestions:
        whole = isinstance(each, dict) and each.get("type") == "addRules"
        if not whole or each.get("behavior") != "allow" or not isinstance(each.get("rules"), list):
            continue
        for rule in each["rules"]:
            try:
                words = msgspec.convert(rule, dict[str, str])
            except msgspec.ValidationError:
                return []  # of rules that belong together, not a part
            tool, content = words.get("toolName"), words.get("ruleContent")
            if not tool or words.keys() - {"toolName", "ruleContent"}:
                return []
            if not content and not tools.server_of(tool):
                return []
            rules.append(words)
    return rules if len(rules) <= RULES_MAX else []


def _in_words(rule: Mapping[str, str]) -> str:
    content = rule.get("ruleContent")
    return f"{rule['toolName']}({content})" if content else rule["toolName"]


def _questions(given: Mapping[str, Any]) -> dict[str, bool]:
    """Question -> whether it takes several answers; empty if they cannot be told apart."""
    questions = given.get("questions")
    found: dict[str, bool] = {}
    for each in questions if isinstance(questions, list) else ():
        text = each.get("question") if isinstance(each, dict) else None
        if not isinstance(text, str) or not text or text in found:
            return {}
        found[text] = each.get("multiSelect") is True
    return found


def _form(schema: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """Its fields; empty if one is of a kind that no form has."""
    fields = (schema or {}).get("properties")
    if not isinstance(fields, dict):
        return {}
    known = (isinstance(each, dict) and each.get("type") in _FIELDS for each in fields.values())
    return fields if all(known) else {}


def answer_of(asked: Asked, command: Command) -> bytes:
    """Raises NotObeyedError."""
    if command.verb not in asked.verbs:
        raise NotObeyedError(f"{asked.tool} does not take `{command.verb}` from elsewhere")
    if command.verb == "defer":
        return b""
    told = {"hookEventName": asked.event}
    if asked.event == "Elicitation":
        body = told | _elicited(asked, command)
    else:
        body = told | {"decision": DECISIONS[command.verb](asked, command)}
    return msgspec.json.encode({"hookSpecificOutput": body})


def _allow(_asked: Asked, _command: Command) -> dict[str, Any]:
    return {"behavior": "allow"}


def _always(asked: Asked, _command: Command) -> dict[str, Any]:
    """For this session: the other destinations write into files, one of them the repository's."""
    rules = _rules(asked.extra)
    added = {"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}
    return {"behavior": "allow", "updatedPermissions": [added]}


def _deny(_asked: Asked, command: Command) -> dict[str, Any]:
    """It says who, as the screen does not. With `interrupt` the CLI passes no message on."""
    message = f"Denied by {_name(command)} with Adsum."
    if reason := require_text(command.text, "the reason"):
        message = f"{message[:-1]}: {reason}"
    told = {"behavior": "deny", "message": message}
    return {**told, "interrupt": True} if command.stop else told


def _answer(asked: Asked, command: Command) -> dict[str, Any]:
    questions, given = _questions(asked.given), command.answers or {}
    for question, several in questions.items():
        chosen = [require_text(each, "an answer") for each in given.get(question, [])]
        if not chosen or not all(chosen):
            raise NotObeyedError(f"not answered: {question[:NAME_MAX]}")
        if len(chosen) > 1 and not several:
            raise NotObeyedError(f"one answer only: {question[:NAME_MAX]}")
    notes = command.notes or {}
    if (given.keys() | notes.keys()) - questions.keys():
        raise NotObeyedError("an answer is to no question that was asked")
    answers = {question: ", ".join(given[question]) for question in questions}
    told = {"questions": asked.given["questions"], "answers": answers}
    if said := {q: {"notes": note} for q, note in notes.items() if require_text(note, "a note")}:
        told |= {"annotations": said}
    return {"behavior": "allow", "updatedInput": told}


def _plan(asked: Asked, command: Command) -> dict[str, Any]:
    """The input is echoed whole: without it the CLI ignores the decision."""
    if command.mode not in (None, *MODES):
        raise NotObeyedError(f"a plan is approved with {' or '.join(MODES)}, nothing beyond")
    plan = asked.given["plan"] if command.text is None else command.text
    if not plan.strip() or CONTROL.search(plan):
        raise NotObeyedError("the plan is empty, or holds control characters")
    told: dict[str, Any] = {"behavior": "allow", "updatedInput": {**asked.given, "plan": plan}}
    if command.mode is not None:
        mode = {"type": "setMode", "mode": command.mode, "destination": "session"}
        told |= {"updatedPermissions": [mode]}
    return told


def _elicited(asked: Asked, command: Command) -> dict[str, Any]:
    if command.verb == "deny":
        return {"action": "decline"}
    schema = asked.given.get("requested_schema") or {}
    fields, content = _form(schema), command.content or {}
    if missing := [each for each in schema.get("required") or [] if each not in content]:
        raise NotObeyedError(f"not filled in: {', '.join(map(str, missing))[:NAME_MAX]}")
    for name, value in content.items():
        if name not in fields:
            raise NotObeyedError(f"the form has no field {name[:NAME_MAX]!r}")
        kind, choices = fields[name]["type"], fields[name].get("enum")
        fits = type(value) in _FIELDS[kind]  # True is an int as well
        if not fits or (isinstance(choices, list) and value not in choices):
            raise NotObeyedError(f"{name[:NAME_MAX]!r} is no {kind} that the form takes")
        if isinstance(value, str):
            require_text(value, name[:NAME_MAX])
    return {"action": "accept", "content": content}


DECISIONS: Final = {
    "allow": _allow,
    "always": _always,
    "deny": _deny,
    "answer": _answer,
    "plan": _plan,
}


def _name(command: Command) -> str:
    return CONTROL.sub("", command.by).replace("\n", " ").strip()[:NAME_MAX] or "somebody"


#: What is dim in the box is a placeholder or a suggestion, which nobody has typed.
_DIM = re.compile(r"\x1b\[2m.*?(\x1b\[(?:0|22)m|$)")
_SGR = re.compile(r"\x1b\[[0-9;]*m")
#: The box stands between two of these; a text that is higher than the box scrolls inside.
_RULE = re.compile(r"─+( ↑ \d+ more )?─{20,}")
_MARK = "\u276f"
#: The row under the box that names the mode of vim.
_VIM = re.compile(r"\s*-- (INSERT|VISUAL)\b")
BOX_ROWS_MAX = 45
#: Enter would take a completion behind these, or begin a new line.
_COMPLETES = re.compile(r"(\\|:\w*|@\S*|/\S*)$")


class _Box(NamedTuple):
    """text: what the box shows of it. scrolled: that is the end alone. below: the rows under it."""

    text: str
    scrolled: bool
    below: Sequence[str]


def _box_on(screen: str) -> _Box | None:
    """None where no box is: a dialog, a menu, the transcript's viewer."""
    raw = screen.splitlines()
    shown = [_SGR.sub("", _DIM.sub("", line)) for line in raw]
    plain = [_SGR.sub("", line) for line in raw]
    rules = [row for row, line in enumerate(plain) if _RULE.match(line)]
    for above, below in pairwise(rules):
        scrolled, first = "↑" in plain[above], shown[above + 1].lstrip()
        if below - above < BOX_ROWS_MAX and (scrolled or first.startswith(_MARK)):
            lines = [first if scrolled else first[len(_MARK) :], *shown[above + 2 : below]]
            text = "\n".join(line.strip("\u00a0 ") for line in lines).strip()
            return _Box(text, scrolled, plain[below + 1 :])
    return None


def box_on(screen: str) -> str | None:
    box = _box_on(screen)
    return box and box.text


def is_scrolled(screen: str) -> bool:
    box = _box_on(screen)
    return box is not None and box.scrolled


def vim_mode_on(screen: str) -> str | None:
    box = _box_on(screen)
    marks = (_VIM.match(row) for row in (box.below if box else ()))
    return next((mark[1] for mark in marks if mark), None)


def as_typed(text: str) -> str:
    """What is typed for it. Raises NotObeyedError: it would be a command, not a prompt."""
    require_prompt(text)
    # a tab is a key that completes
    typed = text.replace("\t", "    ")
    return f"{typed} " if _COMPLETES.search(typed) else typed


def require_prompt(text: str) -> None:
    """Reject a text whose first visible character starts a command. Raises NotObeyedError."""
    text = without_invisible(text)
    if text.lstrip()[:1] in ("/", "!", "#"):
        raise NotObeyedError("it begins as a command, with / or ! or #: commands are not sent")


def inbox_in(entry: bytes) -> Path | None:
    """Where a process takes messages of other sessions, by its own entry in the registry."""
    try:
        raw = decode_fields(entry).get("messagingSocketPath")
    except ValueError:
        return None
    path = lenient(raw, str) if raw is not None else None
    return Path(path) if path and path.startswith("/") and "\0" not in path else None


def message_to_inbox(text: str, by: str) -> bytes:
    """One line. The CLI tells the model that it comes from another session, so it says from whom."""
    require_prompt(text)
    name = " ".join(by.split())[:NAME_MAX] or "somebody"
    content = f"From {name} with Adsum: {text}"
    told = {"type": "user", "message": {"role": "user", "content": content}}
    return msgspec.json.encode(told) + b"\n"


KEYBOARD = Keyboard(
    newline="C-j",
    submit="Enter",
    stash="C-s",
    interrupt="Escape",
    box=box_on,
    typed=as_typed,
    scrolled=is_scrolled,
    vim_mode=vim_mode_on,
)


#: How many words follow a flag: none, one, one that does not look like a flag, or all such.
_NONE, _ONE, _MAYBE, _MANY = "", "1", "?", "*"
#: What a resumed run must be given again, or it would see, or be allowed, something else.
_AGAIN: Final = {
    **dict.fromkeys(
        (
            *("--ax-screen-reader", "--bare", "--brief", "--chrome", "--disable-slash-commands"),
            *("--exclude-dynamic-system-prompt-sections", "--ide", "--no-chrome", "--restricted"),
            *("--safe-mode", "--strict-mcp-config", "--verbose"),
        ),
        _NONE,
    ),
    **dict.fromkeys(
        (
            *("--agent", "--agents", "--append-system-prompt", "--append-system-prompt-file"),
            *("--autocompact", "--effort", "--fallback-model", "--model", "--name", "-n"),
            *("--plugin-dir", "--plugin-url", "--setting-sources", "--settings"),
            *("--system-prompt", "--system-prompt-file", "--system-prompt-snapshot"),
        ),
        _ONE,
    ),
    **dict.fromkeys(
        (
            *("--add-dir", "--allowedTools", "--allowed-tools", "--betas", "--disallowedTools"),
            *("--disallowed-tools", "--mcp-config", "--tools"),
        ),
        _MANY,
    ),
    "--prompt-suggestions": _MAYBE,
}
#: What belongs to the run that ended. The mode comes back by itself, as it was last.
_ONCE: Final = {
    **dict.fromkeys(("-c", "--continue", "--fork-session", "--tmux"), _NONE),
    **dict.fromkeys(("--session-id", "--permission-mode", "--debug-file"), _ONE),
    **dict.fromkeys(
        ("-r", "--resume", "-w", "--worktree", "--from-pr", "-d", "--debug", "--remote-control"),
        _MAYBE,
    ),
    "--file": _MANY,
}
#: Never again: whoever wants this types it.
_BYPASS: Final = {
    "--dangerously-skip-permissions": _NONE,
    "--allow-dangerously-skip-permissions": _NONE,
}
_TAKES: Final = {**_AGAIN, **_ONCE, **_BYPASS}
_BYPASS_MODE: Final = "bypassPermissions"
_SETTINGS: Final = ("--settings", "--agents")
WITHOUT_BYPASS: Final = "it skipped permissions, and asks for them now"

_KEPT_ENV: Final = re.compile(
    r"HOME|USER|LOGNAME|SHELL|PATH|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|EDITOR|VISUAL|SSH_AUTH_SOCK|IS_SANDBOX"
    r"|CLAUDE_CONFIG_DIR|CLAUDE_CODE_\w+|ANTHROPIC_\w+|AWS_\w+|GOOGLE_\w+|CLOUD_ML_REGION|VERTEX_\w+"
    r"|(BASH|MCP|DISABLE|MAX|NODE|NVM|VIRTUAL_ENV|CONDA|PYENV|JAVA|GO|CARGO|RUSTUP)\w*"
    r"|\w+_PROXY|\w+_proxy|ADSUM_\w+"
)
#: The ended run's own.
_ITS_OWN: Final = re.compile(
    r"CLAUDE_CODE_(SESSION_\w+|MESSAGING_\w+|CHILD_\w+|ENTRYPOINT|EXECPATH|SSE_PORT)"
)


def run_words(
    words: Sequence[str], env: Mapping[str, str], read: Callable[[str], bytes]
) -> RunWords:
    """What of a run is repeated. words: those behind the program. Raises NotObeyedError.

    A flag that is not known may be one that restricts: such a run is not put aside. read: what the
    file of a path holds; it raises OSError, ValueError.
    """
    flags: list[str] = []
    lost: list[str] = []
    at = 0
    while at < len(words) and words[at] != "--":
        flag, equals, value = words[at].partition("=")
        if not flag.startswith("-"):
            at += 1  # the first prompt
            continue
        if flag not in _TAKES:
            raise NotObeyedError(f"it was started with {flag[:40]}, which is not known here")
        end = at + 1 if equals else _end_of(words, at + 1, _TAKES[flag])
        given = [value] if equals else list(words[at + 1 : end])
        if flag in _BYPASS or (flag == "--permission-mode" and _BYPASS_MODE in given):
            lost = [WITHOUT_BYPASS]
        elif flag in _AGAIN:
            for each in given if flag in _SETTINGS else ():
                _require_no_bypass(flag, each, read)
            flags += words[at:end]
        at = end
    kept = {
        name: value
        for name, value in env.items()
        if _KEPT_ENV.fullmatch(name) and not _ITS_OWN.fullmatch(name)
    }
    return RunWords(tuple(flags), kept, tuple(lost))


def _require_no_bypass(flag: str, given: str, read: Callable[[str], bytes]) -> None:
    """given: JSON, or the file that holds it. Raises NotObeyedError, also if it cannot be read."""
    try:
        content = given.encode() if given.lstrip().startswith("{") else read(given)
        # written anew, as a sign may stand there by its number
        said = msgspec.json.encode(msgspec.json.decode(content)).decode()
    except (OSError, ValueError, RecursionError) as error:
        raise NotObeyedError(
            f"its {flag} cannot be read, and may skip permissions ({error})"
        ) from error
    if _BYPASS_MODE in said:
        raise NotObeyedError(f"its {flag} skip permissions, which is not done again from here")


def _end_of(words: Sequence[str], at: int, takes: str) -> int:
    """Behind the words of a flag, by the rules of the CLI's own parser."""
    if takes == _ONE:
        return min(at + 1, len(words))
    most = {_NONE: at, _MAYBE: at + 1, _MANY: len(words)}[takes]
    while at < min(most, len(words)) and not words[at].startswith("-"):
        at += 1
    return at


def resuming(session_id: str, flags: Sequence[str], text: str | None) -> list[str]:
    """The words behind the program that take it up again. Raises NotObeyedError."""
    if text is None:
        return ["--resume", session_id, *flags]
    require_prompt(text)
    return ["--resume", session_id, *flags, "--", text]


class RegistryEntry(msgspec.Struct, rename="camel"):
    session_id: str
    pid: int
    cwd: str
    proc_start: str = ""
    status: str | None = None
    status_updated_at: float = 0
    kind: str = ""
    entrypoint: str = ""
    job_id: str = ""


_decode_entry = msgspec.json.Decoder(RegistryEntry).decode


def registered(content: bytes) -> Registered | None:
    try:
        told = _decode_entry(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if "\0" in told.cwd + told.session_id:
        return None  # no name of a file
    attended = told.kind == "interactive" and told.entrypoint == "cli"
    at = int(told.status_updated_at)
    of_its_own = told.kind == "bg" and JOB.fullmatch(told.job_id)
    attach = ("claude", "attach", told.job_id) if of_its_own else ()
    return Registered(
        told.session_id, told.pid, told.proc_start, told.status, at, told.cwd, attended, attach
    )


def has_conversation(directory: Path, session_id: str) -> bool:
    """A session in which nothing was said has no file, and cannot be taken up again."""
    found: Any = (directory / "projects").glob(f"*/{session_id}.jsonl")
    return any(found)

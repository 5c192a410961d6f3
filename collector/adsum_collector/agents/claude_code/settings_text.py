"""Puts our hooks and status line into the text of Claude Code's settings. Pure."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from adsum_collector.agents import hook_entries
from adsum_collector.agents.hook_entries import hooks_in, runs_shim, with_groups, without_hooks
from adsum_collector.agents.installer import (
    HOLD_TIMEOUT_S,
    HOLD_WORD,
    HOOK_PATH,
    Mode,
    StatusLine,
    Target,
    Transport,
    Version,
)

#: Whose hook it is, and how its process is known.
SHIM_WORDS: Final = ("claude_code", "CLAUDE_PID", "claude", "node", "bun")
STATUSLINE_NAME: Final = "adsum_collector/agents/claude_code/statusline_wrapper.py"

#: Older versions cannot post hooks at all.
FIRST_WITH_HTTP: Final[Version] = (2, 1, 63)
#: The session registry reports `status`, a witness of every turn's end.
FIRST_WITH_STATUS: Final[Version] = (2, 1, 269)
#: What is assumed when no Claude Code is found to ask.
ASSUMED: Final[Version] = (2, 1, 112)

#: Event -> first version that knows it; 0 is older than http hooks. An unknown name opens a
#: blocking dialog in older versions, so nothing is installed that the version does not know.
#:
#: Left out on purpose: WorktreeCreate (its hook *replaces* the creation of worktrees),
#: PreModelSwitch (a slow hook blocks the switch), PreSkillShellCommand (2.1.332: its answer decides
#: what a skill runs), MessageDisplay (fires for every few lines of text), PostToolBatch,
#: UserPromptExpansion, InstructionsLoaded, ConfigChange, DirectoryAdded, FileChanged, Setup (tell
#: nothing that another event or the transcript does not).
#:
#: SessionStart takes a command only, and in 2.1.112 an async one leaves an `async_hook_response`
#: line in the user's transcript (in 2.1.330 none). When that ended is not known, so it is hooked
#: from the first version whose registry names a session's status, and costs older ones little: the
#: registry names their process too, and the first prompt the session.
SINCE: Final[dict[str, Version]] = {
    "SessionStart": FIRST_WITH_STATUS,
    "UserPromptSubmit": (0,),
    "PreToolUse": (0,),
    "PermissionRequest": (0,),
    "PermissionDenied": (2, 1, 89),
    "PostToolUse": (0,),
    "PostToolUseFailure": (0,),
    "Notification": (0,),
    "SubagentStart": (0,),
    "SubagentStop": (0,),
    "TeammateIdle": (0,),
    "TaskCreated": (2, 1, 84),
    "TaskCompleted": (0,),
    "Elicitation": (2, 1, 76),
    "ElicitationResult": (2, 1, 76),
    "PreCompact": (0,),
    "PostCompact": (2, 1, 76),
    "CwdChanged": (2, 1, 83),
    "PostModelSwitch": (2, 1, 251),
    "Stop": (0,),
    "StopFailure": (2, 1, 78),
    "SessionEnd": (0,),
}

#: A typed /compact prints a line for each hook of these two into the user's terminal, whatever the
#: hook's type; an automatic one prints nothing (measured on 2.1.330). So only those are hooked, and
#: a typed one shows as work until the transcript tells more.
SHOWN_WHEN_TYPED: Final = frozenset({"PreCompact", "PostCompact"})

#: Any hook on Stop, of any type, makes the CLI write a `system/stop_hook_summary` line into the
#: user's transcript at the end of every turn; no other event of ours leaves a line (measured on
#: 2.1.330, SubagentStop included). Where the registry reports `status` it witnesses the same turn's
#: end, so Stop is left out, unless the user has a hook there: then the line is written anyway.
TRACED: Final = "Stop"

#: Never posted, on no machine: SessionStart takes a command only, and an answer to the others is a
#: human's answer. Whoever listens on the port while no collector does could give it.
BY_SHIM: Final = frozenset(
    {"SessionStart", "PermissionRequest", "PermissionDenied", "Elicitation", "ElicitationResult"}
)

#: What a human answers, and so may somebody elsewhere where the machine's owner agrees. By versions
#: whose registry tells that the keyboard was first: else a card would stay while the tool runs. A run
#: with -p waits for its hooks and asks nobody else; ATTENDED is 0 in it.
ATTENDED: Final = "CLAUDE_CODE_SESSION_ATTENDED"
FORMS: Final = "Elicitation"
HELD: Final = frozenset({"PermissionRequest", FORMS})

#: Before, a command that the CLI does not wait for leaves an `async_hook_response` line in the
#: user's transcript (2.1.112: one for each; a command that is waited for and prints nothing leaves
#: none). So it is waited for there. When that ended is not known, hence the first version that gets
#: a SessionStart.
FIRST_WITH_QUIET_ASYNC: Final = FIRST_WITH_STATUS


def events_for(version: Version, users_own: frozenset[str] = frozenset()) -> list[str]:
    """The events to subscribe to, in the order they are written. users_own: hooked by others."""
    return [
        event
        for event, since in SINCE.items()
        if since <= version
        and (event != TRACED or version < FIRST_WITH_STATUS or event in users_own)
    ]


def holdable(version: Version) -> frozenset[str]:
    return HELD if version >= FIRST_WITH_STATUS else frozenset()


def is_posted(event: str, transport: Transport) -> bool:
    return transport == "http" and event not in BY_SHIM


def entry_for(event: str, target: Target, version: Version) -> dict[str, Any]:
    """One matcher group with our single hook."""
    posted = is_posted(event, target.transport)
    # At its end the CLI kills what it does not wait for (seen on a busy machine).
    waited = version < FIRST_WITH_QUIET_ASYNC or event == "SessionEnd"
    hook = _http_hook(target) if posted else _shim_hook(target, version, waited=waited)
    if target.holds and event in holdable(version):
        hook = _holding_hook(target, version)
        if event == FORMS:
            hook["timeout"] = target.form_timeout_s
    group: dict[str, Any] = {"hooks": [hook]}
    return {"matcher": "auto"} | group if event in SHOWN_WHEN_TYPED else group


def is_ours(hook: object) -> bool:
    """True for a hook some `adsum hooks install` wrote, with whichever port, token or Python."""
    if isinstance(hook, dict) and hook.get("type") == "http":
        return is_our_url(hook.get("url"))
    return runs_shim(hook)


def is_our_url(url: object) -> bool:
    if not isinstance(url, str):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    return local and parts.path == HOOK_PATH and port != 0


def _http_hook(target: Target) -> dict[str, Any]:
    # A hung receiver stalls the agent for the whole time-out, so it is short.
    return {
        "type": "http",
        "url": target.url,
        "timeout": 2,
        "headers": {"Authorization": f"Bearer {target.token}"},
    }


def _shim_hook(target: Target, version: Version, *, waited: bool) -> dict[str, Any]:
    words = [target.python, "-I", "-S", str(target.shim), str(target.socket), *SHIM_WORDS]
    if version < FIRST_WITH_QUIET_ASYNC:
        return {"type": "command", "command": shlex.join(words), "timeout": 2}
    # These versions take `args`, so that no shell has to quote them.
    command = {"type": "command", "command": words[0], "args": words[1:]}
    return {**command, "timeout": 2} if waited else {**command, "async": True, "timeout": 5}


def _holding_hook(target: Target, version: Version) -> dict[str, Any]:
    """The dialog shows meanwhile; a subagent's and a server's form do not."""
    hook = _shim_hook(target, version, waited=True)
    return {**hook, "args": [*hook["args"], f"{HOLD_WORD}={ATTENDED}"], "timeout": HOLD_TIMEOUT_S}


ALLOWED_URLS = "allowedHttpHookUrls"


def added(base: str | None, target: Target, version: Version) -> str:
    """The text with our hooks in it. None or blank: a file of our own."""
    text = "{}\n" if base is None or hook_entries.is_blank(base) else base
    settings = hook_entries.parse(text)
    allowed = settings.get(ALLOWED_URLS)
    posts = target.transport == "http"
    if posts and isinstance(allowed, list) and not permits(allowed, target.url):
        text = hook_entries.append(text, hook_entries.find(text, ALLOWED_URLS), target.url)
    events = events_for(version, users_own(settings))
    return with_groups(text, {event: entry_for(event, target, version) for event in events})


def stripped(text: str) -> str:
    """The text without our hooks, and without the brackets that held nothing else."""
    if hook_entries.is_blank(text):
        return text
    allowed = hook_entries.parse(text).get(ALLOWED_URLS)
    urls = enumerate(allowed if isinstance(allowed, list) else ())
    for index in reversed([index for index, url in urls if is_our_url(url)]):
        text = hook_entries.drop(text, ALLOWED_URLS, index)
    return without_hooks(text, is_ours)


def users_own(settings: dict[str, Any]) -> frozenset[str]:
    return frozenset(event for event, hook in hooks_in(settings) if not is_ours(hook))


def tokens_in(settings: dict[str, Any]) -> frozenset[str]:
    """What our hooks send as Authorization; empty for one that sends nothing."""
    posted = (
        hook for _, hook in hooks_in(settings) if is_ours(hook) and hook.get("type") == "http"
    )
    headers = (hook.get("headers") for hook in posted)
    return frozenset(
        str(each.get("Authorization", "")) if isinstance(each, dict) else "" for each in headers
    )


def permits(patterns: list[Any], url: str) -> bool:
    return any(
        isinstance(pattern, str)
        and re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), url) is not None
        for pattern in patterns
    )


KEY: Final = "statusLine"

# A quote stands in single quotes the way `shlex.quote` has it; how JSON spells it is kept.
_QUOTES = re.compile(r"\\u0027|\\.|'")
_QUOTED = {"'": "'\\\"'\\\"'", "\\u0027": "'\\\"\\u0027\\\"'"}
_UNQUOTES = re.compile(r"'\\\"('|\\u0027)\\\"'")


def statusline_in(settings: dict[str, Any]) -> StatusLine:
    if KEY not in settings:
        return StatusLine("none")
    line = settings[KEY]
    command = line.get("command") if isinstance(line, dict) else None
    # A NUL cannot be handed to any program: such a command never ran.
    if not isinstance(command, str) or line.get("type") != "command" or "\0" in command:
        return StatusLine("other")
    if STATUSLINE_NAME not in command:
        return StatusLine("own", command)
    return _read(command)


def wrapped(text: str, target: Target, mode: Mode) -> str:
    """The text with our wrapper around the user's status line. Only its command is written."""
    line = statusline_in(hook_entries.parse(text))
    wrapper = target.shim.parent.parent / STATUSLINE_NAME  # of the same installation as the shim
    words = ["exec", target.python, "-I", "-S", str(wrapper), str(target.socket)]
    if line.kind == "none" and mode == "fill":
        entry = {"type": "command", "command": shlex.join(words)}
        return hook_entries.append(text, hook_entries.root(text), entry, KEY)
    literal = _command_literal(text) if line.kind == "own" and mode != "leave" else None
    if literal is None:
        return text
    inner = _QUOTES.sub(lambda found: _QUOTED.get(found[0], found[0]), text[literal][1:-1])
    return _replaced(text, literal, f"\"{_prefix(words)}'{inner}'\"")


def unwrapped(text: str) -> str:
    """The text with the user's own status line again; undoes `wrapped`, whoever wrapped it."""
    if hook_entries.is_blank(text):
        return text
    line = statusline_in(hook_entries.parse(text))
    if line.kind == "filled":
        return hook_entries.drop(text, KEY)
    literal = _command_literal(text) if line.kind == "wrapped" else None
    if literal is None:
        return text
    start = f"\"{_prefix(line.words)}'"
    inner = _UNQUOTES.sub(r"\1", text[literal][len(start) : -2])
    if text[literal].startswith(start) and _decoded(f'"{inner}"') == line.command:
        return _replaced(text, literal, f'"{inner}"')
    # Written anew by another program since: the command is the same, its spelling is lost.
    return _replaced(text, literal, json.dumps(line.command, ensure_ascii=False))


def _read(command: str) -> StatusLine:
    """Of a command that names our wrapper."""
    try:
        words = shlex.split(command)
    except ValueError:
        return StatusLine("altered")
    shaped = words[:1] + words[2:4] == ["exec", "-I", "-S"] and len(words) in (6, 8)
    if not shaped or not words[4].endswith(STATUSLINE_NAME) or words[6:7] not in ([], ["--"]):
        return StatusLine("altered")
    if len(words) == 6:
        return StatusLine("filled", None, tuple(words))
    return StatusLine("wrapped", words[7], tuple(words[:6]))


def _prefix(words: Sequence[str]) -> str:
    """How our part of the command is written between JSON's quotes."""
    return json.dumps(f"{shlex.join(words)} -- ", ensure_ascii=False)[1:-1]


def _command_literal(text: str) -> slice | None:
    """Where the command stands, with its quotes. None: it stands twice, and the last one counts."""
    inside = hook_entries.children(text, hook_entries.find(text, KEY))
    inside = [child for child in inside if child.key == "command"]
    return slice(inside[0].value_at, inside[0].end) if len(inside) == 1 else None


def _replaced(text: str, place: slice, literal: str) -> str:
    return text[: place.start] + literal + text[place.stop :]


def _decoded(literal: str) -> object:
    try:
        return hook_entries.parse(literal)
    except hook_entries.JsonTextError:
        return None

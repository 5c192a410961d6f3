"""How a session of Claude Code is put aside and taken up again: its registry entry, flags, environment."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from adsum_collector.agents.base import Registered, RunWords
from adsum_shared.commands import NotObeyedError

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
    if text.lstrip()[:1] in ("/", "!", "#"):
        raise NotObeyedError("commands are not sent: type it at the terminal")
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


_decode = msgspec.json.Decoder(RegistryEntry).decode
_JOB = re.compile("[0-9a-f]{4,40}")


def registered(content: bytes) -> Registered | None:
    try:
        told = _decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if "\0" in told.cwd + told.session_id:
        return None  # no name of a file
    attended = told.kind == "interactive" and told.entrypoint == "cli"
    at = int(told.status_updated_at)
    of_its_own = told.kind == "bg" and _JOB.fullmatch(told.job_id)
    attach = ("claude", "attach", told.job_id) if of_its_own else ()
    return Registered(
        told.session_id, told.pid, told.proc_start, told.status, at, told.cwd, attended, attach
    )


def has_conversation(directory: Path, session_id: str) -> bool:
    """A session in which nothing was said has no file, and cannot be taken up again."""
    found: Any = (directory / "projects").glob(f"*/{session_id}.jsonl")
    return any(found)

"""The built-in domains `sdlc`, `creative` and `research`, and what they read from a view. Pure."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from adsum_hub.domains.contract import LABEL_MAX, Display
from adsum_shared.state import Chip, SessionView

_PULL_REQUEST = re.compile(r"https?://\S+/(?:pull|merge_requests|pull-requests)/(\d{1,9})")


class ToolCall(NamedTuple):
    """One call of a tool. error: None if it succeeded, or is still under way."""

    role: str
    summary: str
    error: str | None


def tool_call(raw: Any) -> ToolCall | None:
    """None for what is no such thing: contexts are made by a core of any version."""
    if not isinstance(raw, dict) or not isinstance(raw.get("tool"), str):
        return None
    role, summary, error = raw.get("role"), raw.get("summary"), raw.get("error")
    return ToolCall(
        role if isinstance(role, str) else "other",
        summary if isinstance(summary, str) else "",
        error if isinstance(error, str) else None,
    )


def at_hand(session: SessionView) -> ToolCall | None:
    """The call that the state is about."""
    return tool_call(session.state.context)


def finished_calls(session: SessionView) -> list[ToolCall]:
    """What was done in the turn that has ended, oldest first."""
    context = session.state.context
    raw = context.get("tools_used") if context is not None else None
    return (
        [found for each in raw or () if (found := tool_call(each))] if isinstance(raw, list) else []
    )


def pull_request(session: SessionView) -> str | None:
    """Its number, from its address."""
    found = _PULL_REQUEST.match(session.pr or "")
    return found[1] if found else None


def named(before: str, name: str | None, after: str = "") -> str:
    """A label around a name that an agent chose: what is not printable goes, the end is cut."""
    plain = "".join(char for char in name or "" if char.isprintable()).strip()
    room = LABEL_MAX - len(before) - len(after) - 2
    if not plain:
        return f"{before}{after}"
    plain = plain if len(plain) <= room else plain[: room - 1] + "…"
    return f"{before} {plain}{after}"


# What a shell command's first line is about, and what its exit tells: nothing rather than a guess.


class Step(NamedTuple):
    """One recognised command. certain: if the whole line succeeded, so did this."""

    kind: str
    certain: bool


class CommandLine(NamedTuple):
    """steps: the recognised ones. blamed: whose failure a failure of the line is; None: unclear.

    elsewhere: it changes directory or branch, so the branch we know may not be the one it is about.
    """

    steps: tuple[Step, ...] = ()
    blamed: str | None = None
    elsewhere: bool = False

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(step.kind for step in self.steps)


_TESTS = (
    r"(?:pytest|py\.test|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|playwright test)\b"
    r"|(?:cargo|go|swift|mix|deno|dotnet|bun|rails|rake|mvn|gradle|gradlew) (?:nextest|test)\b"
    r"|(?:npm|pnpm|yarn|bun) (?:run )?(?:test|t)(?::\S+)?(?= |$)"
    r"|unittest\b"
)
_CHECKS = (
    r"(?:ruff|mypy|pyright|eslint|tsc|flake8|pylint|lint-imports|golangci-lint|shellcheck)\b"
    r"|cargo (?:clippy|fmt|check)\b|go vet\b|(?:npm|pnpm|yarn|bun) (?:run )?(?:lint|typecheck)\b"
)
_BUILDS = (
    r"(?:cargo|go|swift|dotnet|docker|gradle|gradlew) build\b|(?:npm|pnpm|yarn|bun) (?:run )?build\b"
    r"|make(?: all| build)?$|cmake --build\b|mvn (?:package|install)\b"
)
_GIT = r"git (?:--no-pager |-c \S+ |-C \S+ )*"

#: Kind, and how such a command begins. The first that fits.
_KINDS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in {
        "commit": _GIT + r"commit\b",
        "push": _GIT + r"push\b",
        "rebase": _GIT + r"(?:rebase\b|pull (?:--rebase|-r)\b)",
        "merge": _GIT + r"merge\b",
        "undo": _GIT + r"reset\b",
        "open": r"gh pr create\b|glab mr create\b",
        "review": r"gh pr (?:diff|review|checks)\b|glab mr diff\b",
        "tests": _TESTS,
        "make tests": r"make (?:test|unit)(?=[ -]|$)",
        "checks": _CHECKS,
        "build": _BUILDS,
        "export": r"(?:pandoc|pdflatex|xelatex|lualatex|latexmk|typst compile|inkscape|weasyprint)\b",
    }.items()
)
#: These do not do it, or do the opposite.
_NOT = re.compile(
    r" (?:--(?:help|version|dry-run|collect-only|list|abort|quit|web|fix-dry-run)|-h)(?= |$)"
)
#: What stands before a command without being it.
_LEAD = re.compile(
    r"(?:[A-Za-z_]\w*=\S* +|(?:sudo|time|env|command|npx|bunx|uvx|exec) +|timeout \S+ +"
    r"|(?:uv|poetry|pdm|hatch|pipenv|rye) run +(?:-q |--\S+ )*|bundle exec +|(?:python|py)\S* (?:-\w+ )*-m +"
    r"|(?:\./|\S*/bin/|bin/)(?=\w))"
)
_SETUP = re.compile(r"(?:cd|export|source|\.|set|pushd|mkdir|echo|sleep|clear)(?: |$)")
_ELSEWHERE = re.compile(
    r"(?:cd|pushd) |" + _GIT + r"(?:checkout|switch|worktree)\b|git .*?-C |gh pr checkout\b"
)


@lru_cache(maxsize=4096)
def read_line(line: str) -> CommandLine:
    """Of a command's first line, as a tool's summary holds it, cut at a length nobody promises."""
    parts, joints, unclosed = split(line)
    cut = line.endswith("…") and not unclosed
    found = [_kind_of(part) for part in parts]
    steps = tuple(
        Step(kind, not cut and _is_certain(joints, at))
        for at, kind in enumerate(found)
        if kind is not None
    )
    elsewhere = any(_ELSEWHERE.match(part) for part in parts)
    whole = not cut and not unclosed
    return CommandLine(steps, _blamed(parts, joints, found) if whole else None, elsewhere)


def _kind_of(part: str) -> str | None:
    while lead := _LEAD.match(part):
        part = part[lead.end() :]
    kind = next((kind for kind, begins in _KINDS if begins.match(part)), None)
    return None if kind is None or _NOT.search(part) else kind


def _is_certain(joints: list[str], at: int) -> bool:
    """It ran and succeeded if the line did: none of what follows can hide its failure."""
    before = joints[at - 1] if at else ";"
    after = joints[at] if at < len(joints) else "&&"
    return before != "||" and after == "&&" and all(each in {"&&", "|"} for each in joints[at:])


def _blamed(parts: list[str], joints: list[str], found: list[str | None]) -> str | None:
    """The last command, if nothing before it could have failed instead."""
    if len(joints) >= len(parts):
        return None
    if joints and joints[-1] != ";" and not all(_SETUP.match(part) for part in parts[:-1]):
        return None
    return found[-1]


def split(line: str) -> tuple[list[str], list[str], bool]:
    """Commands, what joins them, and whether a quote is still open, as that of a long message is.

    The shell's own rules as far as they matter here. shlex was tried: it gives up on an open quote,
    and half of all commits are written with one.
    """
    parts, joints, start, at = [], [], 0, 0
    quote, depth = "", 0
    while at < len(line):
        char = line[at]
        if char == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "#" and line[at - 1 : at] in {"", " "}:
            line = line[:at]
            break
        elif depth <= 0 and (joint := _joint(line, at)):
            parts.append(line[start:at].strip())
            joints.append(joint)
            at += len(joint) - 1
            start = at + 1
        at += 1
    if rest := line[start:].strip():
        parts.append(rest)
    return parts, joints, bool(quote)


def _joint(line: str, at: int) -> str:
    two = line[at : at + 2]
    if two in {"&&", "||"}:
        return two
    if line[at] == "&" and (line[at - 1 : at] == ">" or line[at + 1 : at + 2] == ">"):
        return ""  # part of a redirection
    return line[at] if line[at] in ";|&" else ""


# sdlc: commits, pull requests, tests, reviews and rebases of those who write software.

#: While it runs: label, icon, and whether the branch's name belongs to it.
RUNNING: dict[str, tuple[str, str, bool]] = {
    "tests": ("Running tests", "circle-dashed", False),
    "make tests": ("Running tests", "circle-dashed", False),
    "checks": ("Checking the code", "search", False),
    "build": ("Building", "wrench", False),
    "commit": ("Committing to", "git-branch", True),
    "push": ("Pushing", "git-branch", True),
    "rebase": ("Rebasing", "git-branch", True),
    "merge": ("Merging into", "git-branch", True),
    "open": ("Opening a pull request", "git-branch", False),
    "review": ("Reviewing a pull request", "search", False),
}
#: The same without a branch.
WITHOUT_BRANCH = {"Committing to": "Committing", "Merging into": "Merging"}

#: A runner's word that it ran and a test failed. Others say that it could not even start, was
#: killed, or ran out of time. Make and scripts of its kind exit with theirs for any reason.
FAILING = re.compile(r"Exit code (?:1|101)\b")
STOPPED = {"rebase": "Rebase stopped", "merge": "Merge stopped"}

#: The states of a turn that is over.
RESTED = frozenset({"idle", "task_complete"})
WRITERS = frozenset({"edit", "write"})
FAILING_CHIP = Chip("Tests failing", "bad")


def sdlc(session: SessionView) -> Display | None:
    state = session.state.state
    label: str | None = None
    icon: str | None = None
    chips: list[Chip] = []
    if state == "acting":
        label, icon = _sdlc_running(session)
    elif state in {"retrying", "error"}:
        label, icon = _sdlc_failed(session)
    elif state in {"delegating", "waiting_for_agent"}:
        label, icon = _reviewing(session)
    elif state in RESTED:
        label, icon, chips = _sdlc_done(session)
        if label is None and session.review is not None:  # as of a turn before the latest
            label, icon = named("To review:", session.review.label), "git-branch"
    number = pull_request(session)
    if number is not None and label != f"PR #{number} opened":
        chips.append(Chip(f"PR #{number}"))
    if label is None and not chips:
        return None
    return Display(label=label, icon=icon, chips=tuple(chips))


def _command(done: ToolCall) -> CommandLine | None:
    return read_line(done.summary) if done.role == "shell" else None


def _branch(session: SessionView, line: CommandLine) -> str | None:
    """None where it may be another's: HEAD is no branch, and a `cd` leads anywhere."""
    return None if line.elsewhere or session.branch in {None, "HEAD"} else session.branch


def _sdlc_running(session: SessionView) -> tuple[str | None, str | None]:
    """Of a line with several kinds nobody knows which of them is running."""
    done = at_hand(session)
    line = _command(done) if done is not None else None
    if line is None:
        return None, None
    kinds = line.kinds
    kind = "commit" if kinds == {"commit", "push"} else next(iter(kinds), "")
    if (len(kinds) > 1 and kind != "commit") or kind not in RUNNING:
        return None, None
    label, icon, about_branch = RUNNING[kind]
    branch = _branch(session, line) if about_branch else None
    return (named(label, branch) if branch else WITHOUT_BRANCH.get(label, label)), icon


def _sdlc_failed(session: SessionView) -> tuple[str | None, str | None]:
    done = at_hand(session)
    if done is None:
        return None, None
    if _tests_failed(done):
        return "Tests failing", "octagon-x"
    line = _command(done)
    stopped = STOPPED.get(line.blamed or "") if line is not None else None
    if stopped is not None and FAILING.match(done.error or ""):
        return stopped, "git-branch"
    return None, None


def _tests_failed(done: ToolCall) -> bool:
    line = _command(done)
    blamed = line is not None and line.blamed == "tests"
    return blamed and bool(FAILING.match(done.error or ""))


def _reviewing(session: SessionView) -> tuple[str | None, str | None]:
    """All that works for it are reviewers by their type."""
    running = [child for child in session.children if child.status == "running"]
    if running and all("review" in (child.type or "").lower() for child in running):
        return "Reviewing the changes", "search"
    return None, None


def _sdlc_done(session: SessionView) -> tuple[str | None, str | None, list[Chip]]:
    """The latest commit or pull request of the turn, and tests that were left failing."""
    committed = opened = failing = moved = False
    branch: str | None = None
    for done in finished_calls(session):
        if done.role in WRITERS:
            failing = False  # nobody has tried since
        line = _command(done)
        if line is None:
            continue
        moved = moved or line.elsewhere
        if line.kinds & {"tests", "make tests"}:
            failing = _tests_failed(done)
        if done.error is not None:
            continue
        if "undo" in line.kinds:
            committed = False
        sure = {step.kind for step in line.steps if step.certain}
        if "commit" in sure and "undo" not in line.kinds:
            committed, opened, branch = True, False, _branch(session, line)
        opened = opened or "open" in sure
    chips = [FAILING_CHIP] if failing else []
    if opened:
        number = pull_request(session)
        label = f"PR #{number} opened" if number is not None else "Pull request opened"
        return label, "git-branch", chips
    if committed:
        # The branch is the one of now: after a change of it, not the one that was committed to.
        label = named("Committed to", branch) if branch and not moved else "Committed"
        return label, "git-branch", chips
    return ("Tests failing", "octagon-x", []) if failing else (None, None, [])


# creative: drafts, revisions and exports of those who write texts or draw.

#: What people read or look at. A project's code is not this domain's business.
WORKS = re.compile(
    r"[^/\\]+\.(?:md|markdown|txt|rst|adoc|tex|typ|docx|odt|rtf|fountain|html|svg)$", re.IGNORECASE
)


#: By the role of a call: while it runs, and afterwards.
MAKING = {"write": ("Drafting", "Draft ready:"), "edit": ("Revising", "Revision ready:")}


def creative(session: SessionView) -> Display | None:
    """Of the finished calls the last that this domain knows."""
    state, calls, over = session.state.state, [at_hand(session)], False
    if state == "awaiting_approval":
        return Display(label="Outline ready for feedback", icon="clipboard-check")
    if state in RESTED:
        calls, over = [each for each in finished_calls(session) if each.error is None], True
    elif state != "acting":
        return None
    return next((made for each in reversed(calls) if each and (made := _made(each, over))), None)


def _made(call: ToolCall, over: bool) -> Display | None:  # noqa: FBT001 - an index
    if call.role in MAKING and WORKS.fullmatch(call.summary):
        return Display(label=named(MAKING[call.role][over], call.summary), icon="pen-line")
    line = read_line(call.summary) if call.role == "shell" else CommandLine()
    if over and Step("export", certain=True) in line.steps:
        return Display(label="Draft exported", icon="package-check")
    if not over and line.kinds == {"export"}:
        return Display(label="Exporting the draft", icon="package-check")
    return None


# research: searching, reading sources and writing up, of those who look things up.

READERS = frozenset({"read", "search"})
SOUGHT = frozenset({"web_search", "fetch"})


def research(session: SessionView) -> Display | None:
    state, done = session.state.state, at_hand(session)
    if state == "acting" and done is not None:
        return _researching(done)
    if state == "awaiting_approval":
        return Display(label="Research plan ready for review", icon="clipboard-check")
    calls = [each for each in finished_calls(session) if each.error is None]
    # Findings only where something was looked up: a chat about nothing in particular has none.
    if state not in RESTED or not any(each.role in SOUGHT for each in calls):
        return None
    reports = [each.summary for each in calls if _is_report(each)]
    label = named("Report ready:", reports[-1]) if reports else "Findings ready"
    return Display(label=label, icon="clipboard-check")


def _researching(done: ToolCall) -> Display | None:
    if done.role == "web_search":
        return Display(label=named("Searching:", done.summary), icon="search")
    if done.role == "fetch":
        return Display(label=named("Reading", _site(done.summary) or "a source"), icon="search")
    if done.role in READERS:
        return Display(label="Reading sources", icon="search")
    return (
        Display(label=named("Writing up", done.summary), icon="pen-line")
        if _is_report(done)
        else None
    )


def _is_report(done: ToolCall) -> bool:
    return done.role in WRITERS and WORKS.fullmatch(done.summary) is not None


def _site(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


BUILT_IN: dict[str, Callable[[SessionView], Display | None]] = {
    "sdlc": sdlc,
    "creative": creative,
    "research": research,
}

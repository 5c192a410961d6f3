"""What a shell command's first line is about, and what its exit tells: nothing rather than a guess."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Step(NamedTuple):
    """One recognised command. certain: if the whole line succeeded, so did this."""

    kind: str
    certain: bool


class Line(NamedTuple):
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
def read_line(line: str) -> Line:
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
    return Line(steps, _blamed(parts, joints, found) if whole else None, elsewhere)


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

"""Leaving out of a script the comments that stand on lines of their own. Pure.

They are a good part of what a first load would transfer, and whoever reads them has the source. No
compiler: what cannot be told for certain is sent as it is.
"""

from __future__ import annotations

import re

_CODE = re.compile(
    r"""
      (?P<comment> //[^\n]* | /\*.*?\*/ )
    | (?P<text> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<pattern> /(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w* )
    | (?P<word> [\w$]+ )
    | (?P<space> \s+ )
    | (?P<mark> . )
    """,
    re.DOTALL | re.VERBOSE,
)
#: The text of a template, up to its end or to code within it.
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(?:(?P<end>`)|(?P<code>\$\{))", re.DOTALL)
#: After these a slash begins a pattern; after any other word it divides.
_BEFORE_PATTERN = re.compile(
    "return|typeof|case|in|of|do|else|instanceof|new|void|delete|throw|await|yield"
)


def without_comments(source: str) -> str:
    """The source itself where a quote, a template or a bracket is not what it seems to be."""
    kept, at = [], 0
    for start, end in _comments(source) or ():
        line, rest = source.rfind("\n", 0, start) + 1, source.find("\n", end) + 1 or len(source)
        # A type that stands in the midst of a line stays there.
        if line >= at and not (source[line:start] + source[end:rest]).strip():
            kept.append(source[at:line])
            at = rest
    return "".join(kept) + source[at:]


def _comments(source: str) -> list[tuple[int, int]] | None:
    """Where each begins and ends; None if that cannot be told."""
    found: list[tuple[int, int]] = []
    opened: list[str] = []
    at, before = 0, ""
    while at < len(source):
        token = (_TEMPLATE if opened[-1:] == ["`"] else _CODE).match(source, at)
        if token is None:
            return None
        kind, word = str(token.lastgroup), token[0]
        if kind == "pattern" and not _begins_pattern(before):
            kind, word = "mark", "/"
        at += len(word)
        if kind == "comment":
            found.append(token.span())
        elif kind != "space":
            before = {"code": "${", "end": "`"}.get(kind, word)
            if kind in ("mark", "code", "end") and not _opens_or_closes(opened, kind, before):
                return None
    return None if opened else found


def _opens_or_closes(opened: list[str], kind: str, mark: str) -> bool:
    """opened: brackets `{`, templates, and code `${` within one. False: it cannot be so."""
    if kind == "end" or mark == "}":
        return bool(opened) and opened.pop() in (("`",) if kind == "end" else ("{", "${"))
    if mark in ("{", "${", "`"):
        opened.append(mark)
    return mark not in ('"', "'")  # alone, so without its other one


def _begins_pattern(before: str) -> bool:
    """before: the last word or mark. After `)` and `}` nobody can tell without a parser."""
    if before == "${":
        return True
    if before[:1].isalnum() or before[:1] in ("_", "$"):
        return _BEFORE_PATTERN.fullmatch(before) is not None
    return before[:1] not in (")", "]", "}", "`", "'", '"')

"""Signs by which a title or a label could take over a terminal, forge a line or hide a word."""

from __future__ import annotations

HOSTILE = (
    "\x1b[2J", "\x1b]0;title\x07", "\x1b", "\x9b31m", "\x9d0;x\x9c", "\x85", "\x7f", "\x00", "\b", "\v", "\f",
    "\r", "\n", "\t", "\u2028", "\u2029", "\u202e", "\u202a", "\u2066", "\u2069", "\u200e", "\u200f",
    "\u061c", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\U000e0041", "\ud800", "\udfff",
)  # fmt: skip
#: All of them in one name, with a formula before them.
NAME = "=cmd|' /C calc'!A0" + "x".join(HOSTILE) + "end"
_SHOWN = frozenset("\n\t\r")


def is_plain(text: str) -> bool:
    """Whether a terminal would print all of it, and take its lines for lines."""
    hidden = {sign for each in HOSTILE for sign in each if not sign.isprintable()} - _SHOWN
    return not hidden.intersection(text) and "\r" not in text.replace("\r\n", "\n")

"""Text that is safe to show: no sign in it moves a cursor, turns a line round or forges one. Pure.

Titles, labels, projects and models are whatever somebody called them. What a terminal would obey or
nobody would see becomes a space; in JSON it is escaped, so that the value stays what it was.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

#: Signs after which a joiner is part of writing: emoji, and scripts in which letters change by it.
_JOINED: Final = "\u0600-\u06ff\u0900-\u0dff\u2600-\u27bf\ufe0f\U0001f000-\U0001faff"
#: Controls (C1 too), directions, signs of no width, tags, what separates lines, lone surrogates.
_HIDDEN: Final = (
    "\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_JOINER: Final = f"(?<![{_JOINED}])[\u200c\u200d]"
_IN_LINE: Final = re.compile(f"(?:[\x00-\x1f{_HIDDEN}]|{_JOINER})+")
_IN_TEXT: Final = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f{_HIDDEN}]|\r(?!\n)|{_JOINER}")
_IN_JSON: Final = re.compile(f"[{_HIDDEN}\u200c\u200d]")


def clean(text: str | None) -> str:
    """One line of it."""
    return _IN_LINE.sub(" ", text or "").strip()


def safe(text: str) -> str:
    """As it is laid out: its lines and tabs stay."""
    return text if text.isprintable() else _IN_TEXT.sub(" ", text)


def to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    """Its signs as they are read, but for those that `safe` takes out: these are escaped."""
    written = json.dumps(value, ensure_ascii=False, indent=indent, **options)
    return _IN_JSON.sub(lambda sign: json.dumps(sign[0])[1:-1], written)

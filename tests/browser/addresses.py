"""Addresses of pages, as `expect` waits for them: an address changes a moment after what it is about."""

from __future__ import annotations

import re


def ending(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text) + "$")

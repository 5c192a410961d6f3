"""Names that stand beside numbers of tokens, so that none of them can cost the tokens."""

from __future__ import annotations

import re
from typing import Final

ODD_NAME: Final = "odd name"
#: What a model is called that has no name.
UNNAMED: Final = "unknown"
#: As long as the hub takes it.
MODEL_MAX: Final = 200
#: Kept in mind at most: there are some dozens, unless somebody makes them up.
MOST: Final = 1000

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
_REGION: Final = re.compile(r"[\w.-]{1,40}")


class _Models(dict[str, str]):
    """Each as it is told."""

    def __missing__(self, name: str) -> str:
        printable = _UNPRINTABLE.sub("", name).strip()
        fitting = printable[:MODEL_MAX].strip() or UNNAMED
        if len(self) < MOST:
            self[name] = fitting
        return fitting


class _Regions(dict[str, str]):
    """Those that can be none are none."""

    def __missing__(self, name: str) -> str:
        fitting = name if _REGION.fullmatch(name) else ""
        if len(self) < MOST:
            self[name] = fitting
        return fitting


MODELS: Final = _Models()
REGIONS: Final = _Regions()

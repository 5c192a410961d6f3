"""A model's id, as agents, gateways and clouds spell it, as the names that a price may be under."""

from __future__ import annotations

import re
from typing import Final

import msgspec

MILLION: Final = "[1m]"
#: What local messages of Claude Code bear in a model's place.
NOBODY: Final = "<synthetic>"

#: Who passes the request on, where that leaves the price as it is. Other gateways have their own.
_PATHS: Final = re.compile(r"^(arn:.*/|(openrouter/)?anthropic/|vertex_ai/|bedrock/)+")
#: Bedrock's regions. `us-gov` is none of them: what it costs on top is not told in one place.
_REGION: Final = re.compile(r"^((us|eu|apac|au|jp|ca|in|global)\.)?anthropic\.")
#: Snapshots, releases and aliases of one Claude model at one price. All else may be another model,
#: so no entry is the prefix of an id: neither for `-fast` nor for the `-5` of `claude-opus-5-5`.
_SNAPSHOT: Final = re.compile(
    r"([-@](\d{8}|\d{4}-\d\d-\d\d|latest|default)|-thinking|-v\d+(:\d+)?)+$"
)
_POINT: Final = re.compile(r"(?<=\d)\.(?=\d)")
_LONGEST: Final = 300


class Names(msgspec.Struct, frozen=True):
    """exact: as it was spelt. bare: without all that does not change the price.

    regional: it must stay in one part of the world. million: it asked for so long a context.
    """

    exact: str
    bare: str
    regional: bool = False
    million: bool = False


def names_of(model: str) -> Names | None:
    """None for what is no model."""
    exact = model.strip().lower()
    if exact in ("", NOBODY) or len(exact) > _LONGEST:
        return None
    bare = _PATHS.sub("", exact.removesuffix(MILLION))
    regional = False
    if region := _REGION.match(bare):
        regional = region[2] != "global"
        bare = bare[region.end() :]
    if bare.startswith("claude-"):
        # Of others' ids these endings are a part: kimi-k2-thinking, deepseek-v3.
        bare = _POINT.sub("-", _SNAPSHOT.sub("", bare))
    return Names(exact, bare, regional, exact.endswith(MILLION))

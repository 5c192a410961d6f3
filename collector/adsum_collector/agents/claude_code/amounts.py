"""Reads the dollars, tokens and shares that the CLI writes, and rejects impossible ones."""

import re
from typing import Annotated, Any, Final

import msgspec

from adsum_collector.agents.words import NAME_MAX
from adsum_shared.signals import ModelCost

#: Of one session: beyond, nobody has spent or counted, and sums would drown in it.
DOLLARS_MAX: Final = 1_000_000
TOKENS_MAX: Final = 10**12
#: Of one prompt, and of what one may hold.
CONTEXT_MAX: Final = 10**9
#: Of one session; the dearest are kept.
MODELS_MAX: Final = 32
#: The model of messages that the CLI itself made up.
SYNTHETIC: Final = "<synthetic>"

Dollars = Annotated[float, msgspec.Meta(ge=0, le=DOLLARS_MAX)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)]
Room = Annotated[int, msgspec.Meta(ge=0, le=CONTEXT_MAX)]

_URL = re.compile(r"https?://[^\s<>\"'`\\\x00-\x1f\x7f]{1,512}")


class ModelUsage(msgspec.Struct, rename="camel"):
    """What the CLI counted of one model."""

    cost: Dollars = msgspec.field(name="costUSD", default=0.0)
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_input_tokens: Tokens = 0
    cache_creation_input_tokens: Tokens = 0


class _Prompt(msgspec.Struct):
    input_tokens: Room | None = None
    cache_creation_input_tokens: Room | None = None
    cache_read_input_tokens: Room | None = None


def costs_of(models: dict[str, ModelUsage]) -> dict[str, ModelCost]:
    """By model, the dearest first."""
    real = [(name, each) for name, each in models.items() if name and name != SYNTHETIC]
    real.sort(key=lambda told: (-told[1].cost, told[0]))
    return {
        name[:NAME_MAX]: ModelCost(
            cost_usd=each.cost,
            input_tokens=each.input_tokens,
            output_tokens=each.output_tokens,
            cache_read_tokens=each.cache_read_input_tokens,
            cache_write_tokens=each.cache_creation_input_tokens,
        )
        for name, each in real[:MODELS_MAX]
    }


def prompt_size(usage: Any) -> int | None:
    """How many tokens a message's prompt had, those from the cache too."""
    try:
        told = msgspec.convert(usage, _Prompt)
    except msgspec.ValidationError:
        return None
    parts = (told.input_tokens, told.cache_creation_input_tokens, told.cache_read_input_tokens)
    return sum(part or 0 for part in parts) or None


def web_address(text: str | None) -> str | None:
    """The address of a page; nothing else becomes a link."""
    return text if text and _URL.fullmatch(text) else None

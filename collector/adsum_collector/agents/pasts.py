"""What the signals of a session's head and tail tell of its past, whichever agent's they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from adsum_collector.agents.records import Past
from adsum_collector.agents.words import NAME_MAX, one_line
from adsum_shared.signals import AnySignal, MetaChanged, PromptSubmitted

#: Later than any time that a line may bear.
NEVER: Final = 1 << 53
_META: Final = tuple(set(Past.__struct_fields__) & set(MetaChanged.__struct_fields__))


def past_of(signals: Sequence[AnySignal]) -> Past | None:
    """signals: as they were seen at NEVER, so that what bears no time is told apart."""
    told: dict[str, Any] = {}
    for signal in signals:
        if isinstance(signal, MetaChanged):
            told |= {name: value for name in _META if (value := getattr(signal, name)) is not None}
    prompts = [each.text for each in signals if isinstance(each, PromptSubmitted) and each.text]
    times = [each.at for each in signals if 0 < each.at < NEVER]
    past = Past(
        **told,
        first_prompt=one_line(prompts[0], NAME_MAX) if prompts else None,
        started=min(times, default=0),
        ended=max(times, default=0),
    )
    return past if past != Past() else None

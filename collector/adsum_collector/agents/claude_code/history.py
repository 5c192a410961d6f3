"""What a session was about, from the head and the tail of its transcript alone. Pure and total."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from adsum_collector.agents.claude_code.line import Context
from adsum_collector.agents.claude_code.line_meta import PROMPT_MAX
from adsum_collector.agents.claude_code.lines import signals_from_lines
from adsum_collector.agents.claude_code.tools import one_line
from adsum_collector.agents.transcript import Past
from adsum_collector.agents.transcript_file import TranscriptFile
from adsum_shared.signals import AnySignal, CostReported, MetaChanged, PromptSubmitted

#: Later than any time a line may bear: what is as late bears none.
NEVER: Final = 1 << 53
#: Said by the tail or not at all: the head's last is not the session's.
LAST: Final = ("last_prompt", "last_answer")


def history(head: Sequence[bytes], tail: Sequence[bytes], whose: TranscriptFile) -> Past | None:
    """See `adsum_collector.agent.Transcripts`. Of a field told in both, the tail's word counts."""
    first = signals_from_lines(head, whose, "", NEVER, None)
    between = Context.of(first.context)
    told = _meta(first.signals)
    if tail != head:
        # also if these are the only prompt and answer all over again
        between.told = {name: mark for name, mark in between.told.items() if name not in LAST}
        told = {name: value for name, value in told.items() if name not in LAST}
    last = signals_from_lines(tail, whose, between.encoded(lambda call: call), NEVER, None)
    told |= _meta(last.signals)
    books = [each for each in (*first.signals, *last.signals) if isinstance(each, CostReported)]
    times = [each.at for each in (*first.signals, *last.signals)] + [Context.of(last.context).at]
    times = [at for at in times if 0 < at < NEVER]
    past = Past(
        **{name: value or None for name, value in told.items()},
        first_prompt=_first_prompt(first.signals),
        # without the prompt before it, which would tell of a turn
        cost=replace(books[-1], prompt_id=None) if books else None,
        started=times[0] if times else 0,
        ended=max(times, default=0),
    )
    return past if past != Past() else None


def _meta(signals: Sequence[AnySignal]) -> dict[str, Any]:
    """Field by field, the last that was told; an empty text means that it is no more."""
    found: dict[str, Any] = {}
    for signal in signals:
        if isinstance(signal, MetaChanged):
            fields = msgspec.structs.asdict(signal)
            found |= {name: fields[name] for name in META if fields[name] is not None}
    return found


def _first_prompt(signals: Sequence[AnySignal]) -> str | None:
    prompts = [
        signal.text
        for signal in signals
        if isinstance(signal, PromptSubmitted) and signal.origin == "typed"
    ]
    return one_line(prompts[0], PROMPT_MAX) if prompts else None


META: Final = tuple(set(Past.__struct_fields__) & set(MetaChanged.__struct_fields__))

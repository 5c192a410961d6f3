"""One thing that `adsum doctor` looked at, and what it found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

Result = Literal["ok", "warn", "fail", "skip"]

#: What the sentence begins with that says what to do. Before it stand the cause and what it means.
_STEP = re.compile(
    r"(?:Next:|Add|Ask|Begin|Check|Close|Correct|Free|Give|Have|Install|Let|Look|Make|Name|Open|Put|"
    r"Raise|Remove|Renew|Restart|Run|Save|See|Set|Start|Stop|Take|Then|Try|Update|Upgrade|Use|Wait|`)"
    r"(?=[ `a-z])"
)

#: One heading for each id stands there.
DOCS = "docs/doctor.md"


@dataclass(frozen=True, slots=True)
class Finding:
    """what: one sentence. fix: the next step, None where there is nothing to do."""

    id: str
    result: Result
    what: str
    fix: str | None = None
    details: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": self.id,
            "result": self.result,
            "what": self.what,
            "fix": self.fix,
            "docs": f"{DOCS}#{self.id}",
        }
        return {**told, "details": list(self.details)} if self.details else told


def from_text(check: str, result: Result, text: str) -> Finding:
    """From a text as our errors have it: first what is wrong, then the next step.

    What a foreign program said stands in brackets and may be several sentences.
    """
    ends = [m.end() for m in re.finditer(r"\. ", text) if not _is_open(text[: m.start()])]
    steps = (end for end in ends if _STEP.match(text, end))
    end = next(steps, ends[0] if ends else len(text))
    what, fix = text[:end].rstrip(), text[end:].removeprefix("Next: ")
    return Finding(check, result, what.removesuffix(".") + ".", fix or None)


def _is_open(text: str) -> bool:
    """Within brackets."""
    return text.count("(") > text.count(")")

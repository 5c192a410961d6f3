"""The committed score: no figure may get worse unnoticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: Where more is better; elsewhere less is.
MORE = frozenset({"settled", "ended", "time_weighted_percent"})
#: What is compared. Percentages of spans follow from the counts, ceilings from the traces alone.
JUDGED = (
    *("settled", "ended", "time_weighted_percent", "false_needs_you_s", "missed_needs_you_s"),
    *("flickers", "unlabelled_sessions", "delay_p50_ms", "delay_p99_ms"),
)
#: These say what was measured; where they differ, nothing can be compared.
SIZES = ("segments", "ended_segments")


def accept(path: Path, found: dict[str, Any]) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n")


def against(path: Path, found: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What is worse than the committed score and what is better, each in a sentence."""
    try:
        held: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        return [f"no committed score to compare with: {error}"], []
    worse: list[str] = []
    better: list[str] = []
    for name in sorted({*held, *found}):
        if name not in held or name not in found:
            where = "measured" if name in found else "committed"
            worse.append(f"{name}: only {where}")
            continue
        sizes = [size for size in SIZES if held[name][size] != found[name][size]]
        worse += [f"{name}: {_moved(size, held[name], found[name])}" for size in sizes]
        for figure in () if sizes else JUDGED:
            old, new = held[name][figure], found[name][figure]
            if old != new:
                said = f"{name}: {_moved(figure, held[name], found[name])}"
                (better if (new > old) == (figure in MORE) else worse).append(said)
    better = [f"better than committed (--accept keeps it): {said}" for said in better]
    return worse, better


def _moved(figure: str, held: dict[str, Any], found: dict[str, Any]) -> str:
    return f"{figure} from {held[figure]} to {found[figure]}"

"""docs/accuracy.md says what is so: the committed figures, and tests that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "accuracy.md").read_text()
SCORES = [
    json.loads((ROOT / "bench" / name).read_text()) for name in ("score.json", "score_long.json")
]
FIGURES = (
    *("settled_ceiling_percent", "time_weighted_percent", "time_weighted_ceiling_percent"),
    *("false_needs_you_s", "missed_needs_you_s"),
)
#: Words with underscores that name no test.
WORDS = {"known_to", "idle_prompt", "permission_prompt", "needs_permission", "session_ended"}


def test_its_tables_show_the_committed_scores() -> None:
    rows = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| .* of \d+, ", line)]
    committed = [figures for score in SCORES for figures in score.values()]
    for cells, figures in zip(rows, committed, strict=True):
        ended = f"{figures['ended']} of {figures['ended_segments']}"
        assert cells[1].startswith(f"{figures['settled']} of {figures['segments']}, ")
        assert cells[3] == ended
        shown = [float(cells[n].split()[0]) for n in (2, 4, 5)]
        shown += [float(seconds) for seconds in cells[6].removesuffix(" s").split(" / ")]
        for figure, name in zip(shown, FIGURES, strict=True):
            assert abs(figure - figures[name]) <= 0.05 + 1e-9
        assert int(cells[7]) == figures["flickers"]
        delays = cells[8].removesuffix(" ms |").split(" / ")
        assert [int(ms) for ms in delays] == [figures["delay_p50_ms"], figures["delay_p99_ms"]]


def test_every_test_it_names_exists() -> None:
    sources = {path.stem: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    defined = re.findall(r"def test_(\w+)", "\n".join(sources.values()))
    named = re.findall(r"`…?([a-z0-9]+(?:_[a-z0-9]+)+)…?`", PAGE.split("## Traps")[1])
    missing = [
        name
        for name in named
        if name not in sources
        and name not in WORDS
        and not name.startswith(("i_", "h_"))
        and not any(name.strip("_") in test for test in defined)
    ]

    assert len(named) > 40
    assert missing == []

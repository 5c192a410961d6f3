"""Every check of the doctor has a heading of its own where its results point."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from adsum.doctor.checks import DOCS
from adsum_shared.state import WitnessName

ROOT = Path(__file__).parents[3]


def test_every_check_is_explained_where_it_points() -> None:
    sources = "\n".join(
        path.read_text() for path in (ROOT / "cli" / "adsum" / "doctor").glob("*.py")
    )
    checks = set(re.findall(r'(?:Finding|from_text)\(\s*"([a-z-]+)"', sources))
    assert {"collector", "hub", "redis", "hooks"} <= checks
    checks |= {f"witness-{name}" for name in (*get_args(WitnessName), "shim", "usage")}
    headings = set(re.findall(r"^#+ ([a-z-]+)$", (ROOT / DOCS).read_text(), re.MULTILINE))
    assert checks <= headings

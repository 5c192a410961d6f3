"""The generated references say what commands, settings and messages are today."""

from __future__ import annotations

import difflib

import pytest

from scripts import schemas
from scripts.reference import DOCS, cli, configuration


@pytest.mark.parametrize(("name", "text"), [("cli.md", cli), ("configuration.md", configuration)])
def test_a_reference_is_up_to_date(name: str, text: object) -> None:
    assert callable(text)
    same = (DOCS / name).read_text("utf-8") == text()
    assert same, f"docs/{name} is stale: python -m scripts.reference"


def test_the_schemas_are_up_to_date() -> None:
    kept = {file.name: file.read_text("utf-8") for file in (DOCS / "schemas").iterdir()}
    written = schemas.written()
    stale = [
        line
        for name in sorted(kept.keys() | written.keys())
        for line in difflib.unified_diff(
            kept.get(name, "").splitlines(), written.get(name, "").splitlines(), name, name, n=0
        )
    ]

    assert not stale, "\n".join(["docs/schemas is stale: python -m scripts.reference", *stale[:40]])


def test_nothing_is_no_default() -> None:
    assert "Default: ``" not in cli()

"""The generated references say what the commands and settings are today."""

from __future__ import annotations

import pytest

from scripts.reference import DOCS, cli, configuration


@pytest.mark.parametrize(("name", "text"), [("cli.md", cli), ("configuration.md", configuration)])
def test_a_reference_is_up_to_date(name: str, text: object) -> None:
    assert callable(text)
    same = (DOCS / name).read_text("utf-8") == text()
    assert same, f"docs/{name} is stale: python -m scripts.reference"

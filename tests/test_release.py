"""What a release changes in README and docs, and what the page about versions says of each format."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from adsum_collector.spool.spool_file import VERSION as SPOOL_VERSION
from adsum_hub.domains.contract import API_VERSION
from adsum_hub.rest.api import SCHEMA
from adsum_shared.envelope import VERSION
from adsum_shared.streams import SCHEMA_NUMBER
from scripts.docs_site import repository

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
START = (ROOT / "docs" / "start.md").read_text("utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")


def test_the_first_release_adds_address_and_commands_at_once() -> None:
    checklist = (ROOT / "docs" / "releasing.md").read_text("utf-8")
    is_released = repository(PROJECT) is not None

    assert "- [ ] `[project.urls]` in pyproject.toml has `Repository`" in checklist
    assert "- [ ] README.md, *Try it*, begins with `uvx adsum up`." in checklist
    assert "- [ ] docs/start.md, *Get it*, names `uv tool install adsum`" in checklist
    assert bool(re.search(r"^uvx adsum up\b", README, re.MULTILINE)) is is_released
    assert ("uv tool install adsum\n" in START) is is_released
    assert ("on no package index yet" not in START) is is_released


def test_the_repositorys_address_stands_in_pyproject_alone() -> None:
    address = repository(PROJECT)
    if address is None:
        return
    text_files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/adsum*/**/*.py")]

    assert not [path.name for path in text_files if address in path.read_text("utf-8")]


def test_the_docs_site_takes_the_address_from_pyproject() -> None:
    assert repository("[project.urls]\n") is None
    assert repository('[project.urls]\nRepository = "https://a.example.net"\n') == (
        "https://a.example.net"
    )
    assert "urls" in tomllib.loads(PROJECT)["project"]


@pytest.mark.parametrize(
    ("interface", "numbers"),
    [
        ("batches in a machine's stream", f"`v` {VERSION}"),
        ("the hub's data in Redis", f"`schema` {SCHEMA_NUMBER}"),
        ("spool files", f"`user_version` {SPOOL_VERSION}"),
        ("REST", f"`/api/v1`, `schema` {SCHEMA}"),
        ("plugins", f"`adsum_domain_api` {API_VERSION}"),
    ],
)
def test_the_page_about_versions_has_todays_numbers(interface: str, numbers: str) -> None:
    page = (ROOT / "docs" / "versions.md").read_text("utf-8")

    assert f"| {interface} | {numbers} |" in page

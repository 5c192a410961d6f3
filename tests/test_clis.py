"""Versions of the agents' CLIs: documents, recordings and the upgrade agree with tests/clis.toml."""

from __future__ import annotations

import json
import re
from pathlib import Path

from scripts.upgrade_clis import PINS, upgraded
from tests.real_cli.cli_rig import CLIS

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "plugin").rglob("*.md")]
#: How the versions of each CLI look in a text.
LOOKS = {"claude_code": r"\b2\.1\.\d{3}\b", "codex": r"\b0\.1\d\d(?:\.\d+)?\b"}
CLAUDE, CODEX = CLIS["claude_code"], CLIS["codex"]
RANGES = [f"{pin['oldest']} to {pin['version']}" for pin in (CLAUDE, CODEX)]
#: What documents say of the versions that are tested.
SENTENCES = {
    "docs/agents.md": " | ".join(
        ["| versions seen", *RANGES, CLIS["gemini"]["version"], CLIS["opencode"]["version"]]
    ),
    "docs/codex.md": f"Seen with versions {RANGES[1]}.",
    "docs/accuracy.md": f"drives Claude Code {CLAUDE['version']} and {CLAUDE['oldest']} through",
}


def test_documents_name_the_versions_that_are_tested() -> None:
    for page, sentence in SENTENCES.items():
        assert sentence in (ROOT / page).read_text("utf-8"), page


def test_no_document_names_a_newer_version() -> None:
    """Older ones are history: a figure that was measured, or the first version that does something."""
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue
        for agent, look in LOOKS.items():
            for version in re.findall(look, page.read_text("utf-8")):
                assert _numbers(version) <= _numbers(CLIS[agent]["version"]), f"{page}: {version}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_recordings_are_of_the_version_that_is_named() -> None:
    for pin in CLIS.values():
        for meta in (ROOT / pin["recordings"]).glob("*/meta.json") if "recordings" in pin else ():
            assert json.loads(meta.read_text("utf-8"))["cli_version"] == pin["version"], meta


def test_an_upgrade_writes_the_newest_versions_of_what_is_installed_and_nothing_else() -> None:
    newest = dict.fromkeys(CLIS, "9.8.7")

    text, lines = upgraded(PINS.read_text("utf-8"), newest)

    expected = PINS.read_text("utf-8")
    for pin in (CLAUDE, CODEX):
        expected = expected.replace(f'version = "{pin["version"]}"', 'version = "9.8.7"')
    assert text == expected
    assert lines == [
        f"claude_code: {CLAUDE['version']} -> 9.8.7",
        f"codex: {CODEX['version']} -> 9.8.7",
        f"gemini: {CLIS['gemini']['version']} stays; 9.8.7 needs new sessions in tests/data/traces_gemini",
        f"opencode: {CLIS['opencode']['version']} stays; 9.8.7 needs new sessions in tests/data/traces_opencode",
    ]


def test_an_upgrade_with_nothing_newer_changes_nothing() -> None:
    current = {agent: pin["version"] for agent, pin in CLIS.items()}

    text, lines = upgraded(PINS.read_text("utf-8"), current)

    assert text == PINS.read_text("utf-8")
    assert lines == [f"{agent}: {version}, the newest" for agent, version in current.items()]

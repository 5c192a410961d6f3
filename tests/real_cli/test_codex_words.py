"""Words of the real Codex that tests/data/codex_words.json does not hold, listed at the end of the run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.real_cli.codex_rig import CodexHome
from tests.real_cli.conftest import unknown_words
from tests.real_cli.test_codex_hooks import MODES, home, session

__all__ = ["home"]
pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(120)]

KNOWN = Path(__file__).parents[1] / "data" / "codex_words.json"
SCHEMA = "codex_app_server_protocol"


@pytest.mark.parametrize("home", MODES[:1], indirect=True)
def test_what_is_new_is_listed(home: CodexHome, news: list[str], tmp_path: Path) -> None:
    """List unknown words without failing. They change no state, but a maintainer should see them."""
    session(home)
    words = protocol_words(home, tmp_path) | rollout_words(home)
    assert all(words.values())
    news += unknown_words(f"Codex {home.version}", KNOWN, words)


def protocol_words(home: CodexHome, folder: Path) -> dict[str, set[str]]:
    """What the program itself says of its hooks and of what its background server sends."""
    command = [home.program, "app-server", "generate-json-schema", "--out", folder]
    subprocess.run(command, env=home.env, check=True, capture_output=True, timeout=30)
    types: dict[str, Any] = json.loads((folder / f"{SCHEMA}.schemas.json").read_text("utf-8"))
    v2 = json.loads((folder / f"{SCHEMA}.v2.schemas.json").read_text("utf-8"))

    def methods(name: str) -> set[str]:
        kinds = types["definitions"][name]["oneOf"]
        return {method for kind in kinds for method in kind["properties"]["method"]["enum"]}

    return {
        "hook events": {*v2["definitions"]["HookEventName"]["enum"]},
        "server notifications": methods("ServerNotification"),
        "server requests": methods("ServerRequest"),
    }


def rollout_words(home: CodexHome) -> dict[str, set[str]]:
    """What the lines of its sessions hold."""
    lines = [json.loads(line) for path in home.rollouts() for line in path.read_text().splitlines()]
    return {
        "rollout lines": {
            f"{line['type']} {line['payload'].get('type', '')}".strip() for line in lines
        },
        "fields of lines": {field for line in lines for field in line["payload"]},
    }

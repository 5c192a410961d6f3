#!/usr/bin/env python3
"""Stands for the program of Codex: says its version, lists hooks, and writes down which are trusted.

Hooks are listed and written down as 0.169.0 does it. FAKE_CODEX of the environment: JSON, its version,
what it warns of once hooks of ours stand there, and which request it refuses.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

TOLD = {"version": "0.169.0", "warns": [], "refuses": ""} | json.loads(
    os.environ.get("FAKE_CODEX", "{}")
)


def program(folder: Path) -> Path:
    """It, to be run by this Python."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "codex"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n')
    path.chmod(0o755)
    return path


def listed(home: Path) -> dict[str, Any]:
    path, found, warnings = home / "hooks.json", [], []
    try:
        events = dict(json.loads(path.read_text()).get("hooks", {}))
    except (OSError, ValueError, TypeError, AttributeError):
        events = {}  # it would warn
    config = home / "config.toml"
    known = tomllib.loads(config.read_text()) if config.exists() else {}
    for event, groups in events.items():
        label = re.sub("(?<!^)(?=[A-Z])", "_", event).lower()
        for at, group in enumerate(groups):
            for index, hook in enumerate(group["hooks"]):
                key = f"{path}:{label}:{at}:{index}"
                digest = hashlib.sha256(json.dumps([event, hook]).encode()).hexdigest()
                state = known.get("hooks", {}).get("state", {}).get(key, {})
                says = {None: "untrusted", digest: "trusted"}.get(
                    state.get("trusted_hash"), "modified"
                )
                found.append({"key": key, "currentHash": digest, "trustStatus": says})
                warnings = TOLD["warns"] if "shim.py" in hook["command"] else warnings
    return {"data": [{"cwd": "/", "hooks": found, "warnings": warnings, "errors": []}]}


def write(home: Path, edits: list[dict[str, Any]]) -> dict[str, Any]:
    config = home / "config.toml"
    text = config.read_text() if config.exists() else ""
    for edit in edits:
        for key, state in edit["value"].items():
            if "[hooks.state]" not in text:
                text += ("\n" if text else "") + "[hooks.state]\n"
            text += f'\n[hooks.state."{key}"]\ntrusted_hash = "{state["trusted_hash"]}"\n'
    config.write_text(text)
    return {"status": "ok"}


def main() -> None:
    if "--version" in sys.argv:
        print(f"codex-cli {TOLD['version']}")
        return
    home = Path(os.environ["CODEX_HOME"])
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        answers = {
            "initialize": lambda: {"userAgent": "fake"},
            "hooks/list": lambda: listed(home),
            "config/batchWrite": lambda: write(home, asked["params"]["edits"]),  # noqa: B023 - called here
        }
        answer: dict[str, Any] = {"error": {"message": "as told"}}
        if asked["method"] != TOLD["refuses"]:
            answer = {"result": answers[asked["method"]]()}
        print(json.dumps({"method": "hooks/changed", "params": {}}))  # to be passed over
        print(json.dumps({"id": asked["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()

"""What lets a command into a hub: a token that was given, or this machine's own for its own hub."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from adsum.outcome import CommandError, Exit

TOKEN = re.compile(r"[!-~]{1,300}")


def token_for(url: str, state_dir: Path, config: dict[str, Any]) -> str | None:
    """ADSUM_TOKEN > ADSUM_TOKEN_FILE > token_file of the TOML file > this machine's, to its own hub.

    Nothing else is ever shown this machine's: whoever listens at another address is not that hub.
    """
    if given := os.environ.get("ADSUM_TOKEN", "").strip():
        return _usable(given, "ADSUM_TOKEN")
    named = os.environ.get("ADSUM_TOKEN_FILE") or config.get("token_file")
    if named:
        file = Path(str(named)).expanduser()
        try:
            given = file.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise CommandError(
                f"The token file {file} cannot be read ({why}). Correct ADSUM_TOKEN_FILE, or "
                "token_file in config.toml.",
                Exit.USAGE,
            ) from error
        return _usable(given, str(file))
    if running_here(state_dir) != url:
        return None
    try:
        return (state_dir / "hub.token").read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None


def running_here(state_dir: Path) -> str | None:
    """The URL of the hub that runs on this machine, as it announced itself."""
    try:
        url = json.loads((state_dir / "hub.json").read_bytes())["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(url)


def joined_to(state_dir: Path) -> tuple[str | None, str | None]:
    """(URL, file with who may have signed for it) of the hub that this machine has joined.

    Not by `adsum.joined`, whose imports would double the time to the first row.
    """
    try:
        kept = json.loads((state_dir / "machine.json").read_bytes())
        return str(kept["hub"]), kept.get("ca")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, None


def _usable(token: str, where: str) -> str:
    # Said without any of it: what stands there may be another secret.
    if TOKEN.fullmatch(token) is None:
        raise CommandError(
            f"What {where} holds is no token: a token is one word. `adsum hub tokens create` on "
            "the hub's machine makes one.",
            Exit.USAGE,
        )
    return token

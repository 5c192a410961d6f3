"""What starting a command costs: nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Each takes longer to import than a command may take to say what it is for.
HEAVY = {
    *("adsum_collector", "adsum_hub", "fastapi", "httpx", "psutil", "pydantic_settings", "redis"),
    *("msgspec", "rich", "ssl", "textual", "uvicorn", "websockets"),
}


@pytest.mark.parametrize("words", [["agents", "--help"], ["--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['adsum', *{words!r}]; from adsum.app import run; run(); "
        "print('', *sorted({name.partition('.')[0] for name in sys.modules}), sep='\\n')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: adsum" in ended.stdout
    assert not HEAVY & set(ended.stdout.splitlines())

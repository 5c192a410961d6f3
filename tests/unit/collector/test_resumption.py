"""What of a run of Claude Code is repeated, and what never is."""

from __future__ import annotations

import json

import pytest

from adsum_collector.agents.claude_code.resumption import (
    WITHOUT_BYPASS,
    registered,
    resuming,
    run_words,
)
from adsum_shared.commands import NotObeyedError


def read_none(path: str) -> bytes:
    raise FileNotFoundError(path)


AGAIN = {
    "none": ([], []),
    "a model": (["--model", "opus"], ["--model", "opus"]),
    "with an equals sign": (["--model=opus"], ["--model=opus"]),
    "many directories": (["--add-dir", "/a", "/b", "--verbose"], ["--add-dir", "/a", "/b", "--verbose"]),
    "what restricts": (
        ["--restricted", "--disallowedTools", "Bash", "WebFetch", "--strict-mcp-config"],
        ["--restricted", "--disallowedTools", "Bash", "WebFetch", "--strict-mcp-config"],
    ),
    "a word like a flag": (
        ["--append-system-prompt", "--be brief", "hi"],
        ["--append-system-prompt", "--be brief"],
    ),
    "not the prompt": (["fix it", "--model", "opus", "and that"], ["--model", "opus"]),
    "not the prompt behind --": (["--model", "opus", "--", "--add-dir"], ["--model", "opus"]),
    "not whose it was": (["--resume", "abc", "-c", "--session-id", "x", "--fork-session"], []),
    "not the mode": (["--permission-mode", "acceptEdits"], []),
    "not the optional word": (["-w", "tree", "--debug", "api", "--verbose"], ["--verbose"]),
}  # fmt: skip


@pytest.mark.parametrize(("words", "flags"), AGAIN.values(), ids=AGAIN)
def test_what_is_repeated(words: list[str], flags: list[str]) -> None:
    assert list(run_words(words, {}, read_none).flags) == flags


@pytest.mark.parametrize(
    "words",
    [
        ["--dangerously-skip-permissions"],
        ["--allow-dangerously-skip-permissions"],
        ["--permission-mode", "bypassPermissions"],
        ["--permission-mode=bypassPermissions"],
    ],
)
def test_a_bypass_is_never_repeated_and_that_is_said(words: list[str]) -> None:
    told = run_words([*words, "--model", "opus"], {}, read_none)

    assert (told.flags, told.lost) == (("--model", "opus"), (WITHOUT_BYPASS,))


def test_settings_that_bypass_are_not_repeated_by_leaving_them_out() -> None:
    """What else they say may restrict."""
    settings = '{"permissions": {"defaultMode": "bypassPermissions", "deny": ["Bash"]}}'

    with pytest.raises(NotObeyedError, match="skip permissions"):
        run_words(["--settings", settings], {}, read_none)


BYPASS = '{"permissions": {"defaultMode": "bypassPermissions"}}'
FILES = {
    "skip": (BYPASS, "skip permissions"),
    "skip, in other signs": (BYPASS.replace("bypass", "byp\\u0061ss"), "skip permissions"),
    "are no JSON": ("defaultMode: bypass", "cannot be read"),
}


@pytest.mark.parametrize("flag", ["--settings", "--agents"])
@pytest.mark.parametrize(("content", "why"), FILES.values(), ids=FILES)
def test_files_are_looked_into_for_a_bypass(flag: str, content: str, why: str) -> None:
    files = {"my.json": content.encode()}

    for words in ([flag, "my.json"], [f"{flag}=my.json"]):
        with pytest.raises(NotObeyedError, match=why):
            run_words(words, {}, files.__getitem__)


def test_settings_that_cannot_be_read_may_skip_permissions() -> None:
    with pytest.raises(NotObeyedError, match="cannot be read"):
        run_words(["--settings", "my.json"], {}, read_none)


def test_a_file_of_settings_that_restricts_is_named_again() -> None:
    files = {"my.json": json.dumps({"permissions": {"deny": ["Bash"]}}).encode()}
    words = ("--settings", "my.json")

    assert run_words(words, {}, files.__getitem__).flags == words


def test_a_registry_that_names_what_is_no_path_names_nothing() -> None:
    told = {"sessionId": "0a1b2c3d-0000", "pid": 1, "cwd": "/a"}

    assert registered(json.dumps(told).encode()) is not None
    assert registered(json.dumps(told | {"cwd": "/a\0b"}).encode()) is None


def test_a_flag_that_nobody_knows_may_restrict() -> None:
    with pytest.raises(NotObeyedError, match="--no-network"):
        run_words(["--no-network"], {}, read_none)


def test_of_the_environment_only_what_is_known_comes_back() -> None:
    env = {
        "HOME": "/home/ann",
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CONFIG_DIR": "/c",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "https_proxy": "http://p",
        "CLAUDE_CODE_SESSION_ID": "s",
        "CLAUDE_CODE_MESSAGING_SOCKET": "/x",
        "CLAUDECODE": "1",
        "TMUX": "/tmp/tmux",
        "GITHUB_TOKEN": "t",
    }

    assert list(run_words([], env, read_none).env) == list(env)[:6]


def test_a_message_that_begins_like_a_flag_is_a_message() -> None:
    assert resuming("id", ["--verbose"], "-p") == ["--resume", "id", "--verbose", "--", "-p"]


@pytest.mark.parametrize("text", ["/clear", " !ls", "#note"])
def test_commands_are_not_said(text: str) -> None:
    with pytest.raises(NotObeyedError, match="commands"):
        resuming("id", [], text)

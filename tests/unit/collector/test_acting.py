"""How a session of Claude Code is acted on: which decisions it takes, how it is given a prompt, put aside and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Asked
from adsum_collector.agents.claude_code.acting import (
    INPUT_MAX,
    WITHOUT_BYPASS,
    answer_of,
    as_typed,
    asked_in,
    box_on,
    inbox_in,
    message_to_inbox,
    registered,
    resuming,
    run_words,
)
from adsum_shared.commands import NotObeyedError
from tests.control import FEATURES, QUESTION, RULES, asked_by, command_for, permission

PLAN = {"plan": "# Plan\n1. do", "planFilePath": "/home/u/.claude/plans/p.md"}
ASK = {"questions": [QUESTION, FEATURES]}
ANSWERS = {"Which colour?": ["Blue"], "Which features?": ["Logging", "Tracing"]}
FORM = {
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}


def elicitation(**more: Any) -> bytes:
    body = {"hook_event_name": "Elicitation", "session_id": "s", "cwd": "/w"}
    body |= {"mcp_server_name": "rig", "message": "Who?", "requested_schema": FORM}
    return json.dumps(body | more).encode()


def decision(asked: Asked, verb: str, **more: Any) -> Any:
    printed = json.loads(answer_of(asked, command_for(asked, verb, **more)))
    told = printed["hookSpecificOutput"]
    assert told["hookEventName"] == "PermissionRequest"
    return told["decision"]


@pytest.mark.parametrize(
    ("body", "verbs"),
    [
        (permission(), ("allow", "deny", "defer")),
        (permission(permission_suggestions=RULES), ("allow", "always", "deny", "defer")),
        (permission("AskUserQuestion", ASK), ("answer", "deny", "defer")),
        (permission("AskUserQuestion", {"questions": []}), ("deny", "defer")),
        (permission("AskUserQuestion", {"questions": [QUESTION, QUESTION]}), ("deny", "defer")),
        (permission("ExitPlanMode", PLAN), ("plan", "deny", "defer")),
        (permission("ExitPlanMode", {}), ("deny", "defer")),
        (permission(given={"command": "x" * INPUT_MAX}), ("deny", "defer")),
        (elicitation(), ("elicit", "deny", "defer")),
        (elicitation(mode="url", url="https://x"), ("deny", "defer")),
        (
            elicitation(requested_schema={"properties": {"a": {"type": "object"}}}),
            ("deny", "defer"),
        ),
    ],
)
def test_what_each_request_takes(body: bytes, verbs: tuple[str, ...]) -> None:
    assert asked_by(body).verbs == verbs


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", permission(hook_event_name="PreToolUse"), permission("")]
)
def test_what_asks_nothing_is_not_held(body: bytes) -> None:
    assert asked_in(body) is None


def test_the_bodies_are_those_that_the_cli_obeys() -> None:
    bash = asked_by(permission(permission_suggestions=RULES))
    plan, ask = (
        asked_by(permission("ExitPlanMode", PLAN)),
        asked_by(permission("AskUserQuestion", ASK)),
    )
    rules = [{"toolName": "Bash", "ruleContent": "make test"}]
    added = {"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}
    joined = {"Which colour?": "Blue", "Which features?": "Logging, Tracing"}
    notes = {"Which colour?": {"notes": "dark, please"}}
    mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}

    assert answer_of(bash, command_for(bash)) == (
        b'{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}'
    )
    assert bash.always == ("Bash(make test)",)
    assert decision(bash, "always") == {"behavior": "allow", "updatedPermissions": [added]}
    assert decision(bash, "deny", text="use build/ instead.") == {
        "behavior": "deny",
        "message": "Denied by ann with Adsum: use build/ instead.",
    }
    assert decision(bash, "deny", stop=True)["interrupt"] is True
    assert decision(ask, "answer", answers=ANSWERS, notes={"Which colour?": "dark, please"}) == {
        "behavior": "allow",
        "updatedInput": {
            "questions": [QUESTION, FEATURES],
            "answers": joined,
            "annotations": notes,
        },
    }
    assert decision(plan, "plan") == {"behavior": "allow", "updatedInput": PLAN}
    assert decision(plan, "plan", mode="acceptEdits", text="# Other") == {
        "behavior": "allow",
        "updatedInput": {**PLAN, "plan": "# Other"},
        "updatedPermissions": [mode],
    }
    assert answer_of(bash, command_for(bash, "defer")) == b""


def test_the_bodies_of_a_form() -> None:
    form = asked_by(elicitation())

    accepted = answer_of(form, command_for(form, "elicit", content={"name": "Ada", "age": 36}))
    declined = answer_of(form, command_for(form, "deny"))

    assert json.loads(accepted)["hookSpecificOutput"] == {
        "hookEventName": "Elicitation",
        "action": "accept",
        "content": {"name": "Ada", "age": 36},
    }
    assert json.loads(declined)["hookSpecificOutput"]["action"] == "decline"


@pytest.mark.parametrize(
    ("body", "verb", "more"),
    [
        (permission(), "always", {}),
        (permission(), "answer", {"answers": {}}),
        (permission(), "plan", {"mode": "acceptEdits"}),
        (permission(), "deny", {"text": "\x1b[2J"}),
        (permission(), "deny", {"text": "x" * 5000}),
        (permission("AskUserQuestion", ASK), "allow", {}),
        (permission("AskUserQuestion", ASK), "answer", {"answers": {"Which colour?": ["Red"]}}),
        (permission("AskUserQuestion", ASK), "answer", {}),
        (
            permission("AskUserQuestion", ASK),
            "answer",
            {"answers": ANSWERS | {"Which colour?": []}},
        ),
        (
            permission("AskUserQuestion", ASK),
            "answer",
            {"answers": ANSWERS | {"Which colour?": [""]}},
        ),
        (
            permission("AskUserQuestion", ASK),
            "answer",
            {"answers": ANSWERS | {"Which colour?": ["Red", "Blue"]}},
        ),
        (permission("AskUserQuestion", ASK), "answer", {"answers": ANSWERS | {"Other?": ["x"]}}),
        (
            permission("AskUserQuestion", ASK),
            "answer",
            {"answers": ANSWERS, "notes": {"Other?": "x"}},
        ),
        (permission("ExitPlanMode", PLAN), "allow", {}),
        (permission("ExitPlanMode", PLAN), "plan", {"mode": "bypassPermissions"}),
        (permission("ExitPlanMode", PLAN), "plan", {"mode": "auto"}),
        (permission("ExitPlanMode", PLAN), "plan", {"text": " "}),
        (elicitation(), "elicit", {"content": {}}),
        (elicitation(), "elicit", {"content": {"name": "a", "other": 1}}),
        (elicitation(), "elicit", {"content": {"name": 1}}),
        (elicitation(), "elicit", {"content": {"name": "a", "age": True}}),
        (elicitation(), "allow", {}),
    ],
)
def test_what_is_not_sound_is_refused_and_not_sent(body: bytes, verb: str, more: Any) -> None:
    asked = asked_by(body)

    with pytest.raises(NotObeyedError):
        answer_of(asked, command_for(asked, verb, **more))


@pytest.mark.parametrize(
    "suggestion",
    [
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        {"type": "addDirectories", "directories": ["/tmp"], "destination": "session"},
        {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash"}]},
        {
            "type": "addRules",
            "behavior": "deny",
            "rules": [{"toolName": "Bash", "ruleContent": "x"}],
        },
        {
            "type": "addRules",
            "behavior": "allow",
            "rules": [{"toolName": "Bash", "ruleContent": 1}],
        },
        {"type": "addRules", "behavior": "allow", "rules": "Bash"},
        "addRules",
    ],
)
def test_always_is_offered_for_rules_alone(suggestion: Any) -> None:
    assert "always" not in asked_by(permission(permission_suggestions=[suggestion])).verbs


def test_a_servers_tool_may_be_allowed_as_a_whole() -> None:
    rule = {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "mcp__rig__echo"}]}
    asked = asked_by(permission("mcp__rig__echo", {}, permission_suggestions=[rule]))

    assert asked.always == ("mcp__rig__echo",)


def test_of_a_long_input_every_byte_counts_though_it_is_not_shown() -> None:
    one = asked_by(permission(given={"command": "x" * INPUT_MAX + "a"}))
    two = asked_by(permission(given={"command": "x" * INPUT_MAX + "b"}))

    assert not one.whole
    assert one.given != two.given


RULE = "─" * 60
MARK = "\u276f\u00a0"


def screen(*box: str, above: str = RULE) -> str:
    return "\n".join(["● All is well.", "", above, *box, RULE, "  ? for shortcuts", ""])


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (screen(MARK), ""),
        (screen(f"{MARK}half a thought"), "half a thought"),
        (screen(f"{MARK}one", "  two", "", "  four"), "one\ntwo\n\nfour"),
        (screen(f'{MARK}\x1b[2mTry "fix the tests"\x1b[0m'), ""),
        (screen(f"\x1b[1m{MARK}\x1b[22mbold\x1b[0m"), "bold"),
        (screen("the end", above=f"──── ↑ 12 more {RULE}"), "the end"),
        (screen("│ Do you want to proceed? │"), None),
        (screen("! ls"), None),
        ("\u276f 1. Yes\n  2. No", None),
        ("", None),
        (f"{RULE}\n{MARK}cut off", None),
    ],
)
def test_a_box_is_read_or_it_is_none(shown: str, text: str | None) -> None:
    assert box_on(shown) == text


@pytest.mark.parametrize(
    "text", ["/clear", "  !ls", "#note", "\n/x", "\u200b!ls", "\ufeff \u2060/x"]
)
def test_what_the_terminal_takes_for_a_command_is_no_prompt(text: str) -> None:
    for take in (as_typed, lambda it: message_to_inbox(it, "ann")):
        with pytest.raises(NotObeyedError, match="commands are not sent"):
            take(text)


def test_a_prompt_that_begins_with_a_direction_is_typed() -> None:
    assert as_typed("\u200f\u05e9\u05dc") == "\u200f\u05e9\u05dc"


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("go on", "go on"),
        ("see :smile", "see :smile "),
        ("ask @docs", "ask @docs "),
        ("in /tmp", "in /tmp "),
        ("a line\\", "a line\\ "),
        ("a\tb", "a    b"),
    ],
)
def test_enter_takes_no_completion_in_the_place_of_the_prompt(text: str, typed: str) -> None:
    assert as_typed(text) == typed


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"messagingSocketPath": "/run/x.sock"}, Path("/run/x.sock")),
        ({"messagingSocketPath": "x.sock"}, None),
        ({"messagingSocketPath": 7}, None),
        ({"messagingSocketPath": "/run/\0x.sock"}, None),
        ({}, None),
    ],
)
def test_its_inbox_is_where_its_own_entry_says(entry: Any, path: Path | None) -> None:
    assert inbox_in(json.dumps(entry).encode()) == path
    assert inbox_in(b"[") is None


def test_a_message_is_one_line_and_says_from_whom() -> None:
    raw = message_to_inbox("go on\nplease", "ann\n<b>")

    assert raw.count(b"\n") == 1
    assert json.loads(raw)["message"] == {
        "role": "user",
        "content": "From ann <b> with Adsum: go on\nplease",
    }


def test_other_agents_are_typed_nothing() -> None:
    others = known_agents()[1:]

    assert others
    assert not any(each.keyboard or each.inbox(b"{}") for each in others)
    assert "no background server" in (others[0].out_of_reach("a session of a terminal") or "")


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

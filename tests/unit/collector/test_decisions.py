"""What a request of Claude Code takes, and what its hook prints: byte for byte as the CLI obeys it."""

import json
from typing import Any

import pytest

from adsum_collector.agents.base import Asked
from adsum_collector.agents.claude_code.decisions import INPUT_MAX, answer_of, asked_in
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

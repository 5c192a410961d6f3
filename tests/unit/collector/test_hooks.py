"""What each hook of Claude Code says, and that nothing it can send loses the event."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from adsum_collector.agents.claude_code.bodies import HookError, decode_hook
from adsum_collector.agents.claude_code.hooks import signals_from_hook
from adsum_shared import signals as s

SEEN = 1_800_000_000_000
EVENTS = (  # noqa: SIM905 - read as one list
    "SessionStart Setup InstructionsLoaded UserPromptSubmit UserPromptExpansion MessageDisplay "
    "PreToolUse PermissionRequest PermissionDenied PostToolUse PostToolUseFailure PostToolBatch "
    "Notification SubagentStart SubagentStop TaskCreated TaskCompleted TeammateIdle Stop "
    "StopFailure PreCompact PostCompact PreModelSwitch PostModelSwitch ConfigChange CwdChanged "
    "DirectoryAdded FileChanged WorktreeCreate WorktreeRemove Elicitation ElicitationResult "
    "SessionEnd"
).split()


def body(event: str, **fields: Any) -> bytes:
    return json.dumps({"session_id": "S", "hook_event_name": event, **fields}).encode()


def said(event: str, **fields: Any) -> list[s.KnownSignal]:
    return signals_from_hook(body(event, **fields), SEEN)


def one(event: str, **fields: Any) -> Any:
    found = [x for x in said(event, **fields) if not isinstance(x, s.MetaChanged)]
    assert len(found) == 1
    return found[0]


# -- the door ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'{"session_id": "S"', "not a JSON object"),
        (b"{}", "`session_id` is missing"),
        (
            b'{"session_id": 7, "hook_event_name": "Stop"}',
            "`session_id` must be a non-empty string",
        ),
        (b'{"session_id": "", "hook_event_name": "Stop"}', "`session_id` must be a non-empty"),
        (b'{"session_id": "S"}', "`hook_event_name` is missing"),
        (b'{"session_id": "S", "hook_event_name": null}', "`hook_event_name` must be"),
        (b'{"session_id": "\xff", "hook_event_name": "Stop"}', "session_id"),
        (b"\xff\xfe", "not a JSON object"),
    ],
)
def test_a_body_that_is_no_hooks_is_refused_by_name(raw: bytes, words: str) -> None:
    with pytest.raises(HookError, match=words):
        decode_hook(raw)


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_is_understood_with_nothing_but_its_name(event: str) -> None:
    found = said(event)

    assert found
    assert all((x.session_id, x.at, x.seen, x.source) == ("S", SEEN, SEEN, "hook") for x in found)


@pytest.mark.parametrize("junk", [7, [], {"a": 1}, None, True, "text", [{"id": []}], [None]])
@pytest.mark.parametrize("event", [*EVENTS, "SomethingNew"])
def test_a_field_of_the_wrong_type_loses_no_event(event: str, junk: object) -> None:
    names = (  # noqa: SIM905 - read as one list
        "prompt_id agent_id agent_type cwd tool_name tool_input tool_response tool_use_id source "
        "prompt reason error background_tasks session_crons tool_calls permission_suggestions "
        "last_assistant_message task_id task_subject is_interrupt model permission_mode trigger "
        "transcript_path notification_type message mcp_server_name new_cwd to_model"
    ).split()

    found = said(event, **dict.fromkeys(names, junk))
    assert found
    assert all(s.decode_signal(s.encode_signal(x)) == x for x in found)


def test_an_unknown_event_is_a_sign_of_life_under_its_name() -> None:
    assert one("TeleportStarted", depth=3) == s.Alive(
        session_id="S", at=SEEN, seen=SEEN, event="TeleportStarted"
    )


def test_half_an_emoji_at_the_end_of_a_cut_text_loses_no_event() -> None:
    call = body("PreToolUse", tool_name="Bash", tool_use_id="t1", tool_input={"command": "@"})
    asked = body("PermissionRequest", tool_name="Bash", tool_input={"command": "@"})
    started, *_ = signals_from_hook(call.replace(b"@", b"echo \\ud83d"), SEEN)
    opened, *_ = signals_from_hook(asked.replace(b"@", b"echo \\ud83d"), SEEN)

    assert isinstance(started, s.ToolStarted)
    assert isinstance(opened, s.RequestOpened)
    assert (started.summary, started.digest) == ("echo ?", opened.digest)


@pytest.mark.parametrize("depth", [500, 100_000])
def test_an_input_nested_without_end_loses_no_event_or_is_refused(depth: int) -> None:
    raw = body("PreToolUse", tool_name="X", tool_use_id="t1", tool_input="@")
    deep = raw.replace(b'"@"', b'{"a":' * depth + b"1" + b"}" * depth)
    with contextlib.suppress(HookError):
        assert isinstance(signals_from_hook(deep, SEEN)[0], s.ToolStarted)


# -- turns ---------------------------------------------------------------------------------------


def test_a_prompt_carries_its_text_and_turn() -> None:
    found = one("UserPromptSubmit", prompt="Fix it\nplease", prompt_id="p1")

    assert (found.origin, found.text, found.prompt_id) == ("typed", "Fix it\nplease", "p1")


def test_a_task_notification_is_no_humans_and_ends_its_child() -> None:
    prompt = (
        "<task-notification>\n<task-id>b49y2ji0q</task-id>\n<status>failed</status>\n"
        "</task-notification>"
    )
    child, opened = said("UserPromptSubmit", prompt=prompt, prompt_id="p2")

    assert isinstance(child, s.ChildFinished)
    assert (child.child_id, child.status, child.notified) == ("b49y2ji0q", "failed", True)
    assert isinstance(opened, s.PromptSubmitted)
    assert (opened.origin, opened.text) == ("system", None)


@pytest.mark.parametrize(
    "prompt",
    [
        "<local-command-stdout>x",
        "<bash-input>ls</bash-input>",
        "<command-name>/model</command-name>",
    ],
)
def test_what_was_done_in_the_terminal_is_no_prompt(prompt: str) -> None:
    assert isinstance(one("UserPromptSubmit", prompt=prompt), s.Alive)


def test_a_custom_command_that_starts_a_turn_is_a_prompt() -> None:
    assert one("UserPromptSubmit", prompt="<command-message>review</command-message>").origin == (
        "typed"
    )


def test_stop_lists_what_still_runs() -> None:
    found = one(
        "Stop",
        last_assistant_message="Started.",
        background_tasks=[
            {"id": "a1", "type": "subagent", "status": "running", "description": "Look"},
            {"id": "b1", "type": "shell", "status": "running", "command": "sleep 4"},
            {"id": "m1", "type": "monitor", "status": "running"},
            {"id": "w1", "type": "cloud session", "status": "running"},
            {"type": "shell"},
            "junk",
        ],
        session_crons=[{"id": "c1", "schedule": "0 9 * * *", "recurring": True, "prompt": "hi"}],
    )

    assert [(task.id, task.kind) for task in found.background] == [
        ("a1", "agent"),
        ("b1", "shell"),
        ("m1", "monitor"),
        ("w1", "workflow"),
        ("c1", "cron"),
    ]
    assert found.background[1].description == "sleep 4"
    assert [task.status for task in found.background] == [*["running"] * 4, s.SCHEDULED]


def test_stop_of_an_old_cli_says_nothing_of_the_background() -> None:
    assert one("Stop").background is None
    assert one("Stop", background_tasks=[]).background == []


def test_a_long_last_message_keeps_head_and_tail() -> None:
    found = one("Stop", last_assistant_message="Summary. " + "x" * 9_000 + " Shall I go on?")

    assert len(found.last_message) < 1_300
    assert found.last_message.startswith("Summary.")
    assert found.last_message.endswith("Shall I go on?")


def test_stop_failure_names_the_error() -> None:
    found = one("StopFailure", error="rate_limit", last_assistant_message="API Error: 429")

    assert (found.error, found.message) == ("rate_limit", "API Error: 429")


# -- tools and requests --------------------------------------------------------------------------


def test_a_request_and_its_call_have_one_digest() -> None:
    call = {"tool_name": "Bash", "tool_input": {"command": "make", "description": "Build"}}
    turned = {"tool_name": "Bash", "tool_input": {"description": "Build", "command": "make"}}
    started = one("PreToolUse", tool_use_id="t1", **call)
    asked = one("PermissionRequest", permission_suggestions=[{"type": "setMode"}], **turned)
    other = one("PreToolUse", tool_use_id="t2", tool_name="Bash", tool_input={"command": "ls"})

    assert started.digest == asked.digest != other.digest
    assert (asked.request_kind, asked.tool, asked.tool_use_id) == ("permission", "Bash", None)
    assert asked.payload == call["tool_input"]
    assert asked.suggestions == [{"type": "setMode"}]


@pytest.mark.parametrize(
    ("tool", "value", "line"),
    [
        ("Bash", {"command": "make test\necho", "description": "Test"}, "make test"),
        ("Bash", {"description": "Test"}, "Test"),
        ("Edit", {"file_path": "/srv/app/main.py", "old_string": "a"}, "main.py"),
        ("Write", {"file_path": "C:\\app\\main.py"}, "main.py"),
        ("Grep", {"pattern": "TODO", "path": "/srv"}, "TODO"),
        ("Agent", {"description": "Look around", "prompt": "…"}, "Look around"),
        ("AskUserQuestion", {"questions": [{"question": "Which?"}]}, "Which?"),
        ("ExitPlanMode", {"plan": "# Plan\n1. x"}, "# Plan"),
        ("mcp__db__run", {"query": "select 1"}, "select 1"),
        ("Odd", {"n": 1}, None),
    ],
)
def test_a_call_is_summed_up_in_one_line(
    tool: str, value: dict[str, Any], line: str | None
) -> None:
    found = said("PreToolUse", tool_name=tool, tool_input=value, tool_use_id="t1")

    assert isinstance(found[0], s.ToolStarted)
    assert found[0].summary == line


@pytest.mark.parametrize(
    ("tool", "value", "timeout"),
    [
        ("Bash", {"command": "x"}, 120_000),
        ("Bash", {"command": "x", "timeout": 300_000}, 300_000),
        ("Bash", {"command": "x", "timeout": 9_000_000}, 600_000),
        ("Bash", {"command": "x", "run_in_background": True}, 0),
        ("WebFetch", {"url": "x"}, None),
    ],
)
def test_a_call_has_its_own_time_out(tool: str, value: dict[str, Any], timeout: int | None) -> None:
    assert (
        one("PreToolUse", tool_name=tool, tool_input=value, tool_use_id="t").timeout_ms == timeout
    )


def test_a_question_asks_from_its_first_witness_on() -> None:
    call = {"tool_name": "AskUserQuestion", "tool_input": {"questions": [{"question": "Which?"}]}}
    started, opened = said("PreToolUse", tool_use_id="t1", **call)
    asked = one("PermissionRequest", **call)

    assert isinstance(started, s.ToolStarted)
    assert isinstance(opened, s.RequestOpened)
    assert (opened.request_kind, opened.tool_use_id) == ("question", "t1")
    assert (asked.request_kind, asked.payload) == ("question", call["tool_input"])


def test_a_plan_is_shown_but_bounded() -> None:
    plan = {"plan": "# Plan\n" + "x" * 50_000, "planFilePath": "/p.md"}
    asked = one("PermissionRequest", tool_name="ExitPlanMode", tool_input=plan)

    assert asked.request_kind == "plan"
    assert len(asked.payload["plan"]) <= 8_000
    assert asked.payload["planFilePath"] == "/p.md"


def test_an_answered_question_says_so() -> None:
    call = {"tool_name": "AskUserQuestion", "tool_use_id": "t1", "tool_input": {"questions": []}}

    assert one("PostToolUse", **call, tool_response={"answers": {"Which?": "Red"}}).answered
    assert not one("PostToolUse", **call, tool_response={"answers": {}}).answered


def test_a_failed_and_a_denied_call() -> None:
    failed = one("PostToolUseFailure", tool_name="Bash", tool_use_id="t1", error="Exit code 3")
    denied = one("PermissionDenied", tool_name="Bash", tool_use_id="t1", reason="risky")

    assert (failed.ok, failed.denied, failed.error) == (False, False, "Exit code 3")
    assert (denied.ok, denied.denied, denied.error) == (False, True, "risky")


def test_a_batch_ends_each_of_its_calls() -> None:
    found = said(
        "PostToolBatch",
        tool_calls=[
            {"tool_name": "Bash", "tool_use_id": "t1", "tool_response": "x"},
            {"tool_name": "Read", "tool_use_id": "t2"},
            "junk",
        ],
    )

    assert [x.tool_use_id for x in found if isinstance(x, s.ToolFinished)] == ["t1", "t2"]


# -- children and tasks --------------------------------------------------------------------------


def test_an_agent_launched_in_the_background_is_a_child() -> None:
    finished, child = said(
        "PostToolUse",
        tool_name="Agent",
        tool_use_id="t1",
        tool_input={"description": "Look around", "subagent_type": "Explore"},
        tool_response={"status": "async_launched", "agentId": "a1"},
    )

    assert isinstance(finished, s.ToolFinished)
    assert (finished.background, finished.child_id) == (True, "a1")
    assert isinstance(child, s.ChildStarted)
    assert (child.child_id, child.child_kind, child.type) == ("a1", "agent", "Explore")


def test_an_agent_that_ran_in_the_foreground_has_reported() -> None:
    _, child = said(
        "PostToolUse",
        tool_name="Agent",
        tool_use_id="t1",
        tool_input={},
        tool_response={"status": "completed", "agentId": "a1"},
    )

    assert isinstance(child, s.ChildFinished)
    assert (child.child_id, child.notified) == ("a1", True)


def test_what_another_tool_calls_an_agents_id_is_no_child() -> None:
    (finished,) = said(
        "PostToolUse",
        tool_name="mcp__office__assign",
        tool_use_id="t1",
        tool_input={},
        tool_response={"status": "async_launched", "agentId": "a1"},
    )

    assert isinstance(finished, s.ToolFinished)
    assert (finished.background, finished.child_id) == (False, None)


@pytest.mark.parametrize("server", ["my files", "my__files", "db"])
def test_a_servers_call_and_its_form_name_the_same_server(server: str) -> None:
    tool = f"mcp__{server.replace(' ', '_')}__query__all"
    (started,) = said("PreToolUse", tool_name=tool, tool_use_id="t1", tool_input={})
    (form,) = said("Elicitation", mcp_server_name=server)

    assert isinstance(started, s.ToolStarted)
    assert isinstance(form, s.RequestOpened)
    assert started.server == form.server is not None


def test_a_background_shell_is_a_child_and_can_be_stopped() -> None:
    _, child = said(
        "PostToolUse",
        tool_name="Bash",
        tool_use_id="t1",
        tool_input={"command": "sleep 4", "run_in_background": True},
        tool_response={"stdout": "", "backgroundTaskId": "b1"},
    )
    _, stopped = said(
        "PostToolUse", tool_name="TaskStop", tool_use_id="t2", tool_input={"task_id": "b1"}
    )

    assert isinstance(child, s.ChildStarted)
    assert (child.child_id, child.child_kind, child.description) == ("b1", "shell", "sleep 4")
    assert isinstance(stopped, s.ChildFinished)
    assert (stopped.child_id, stopped.status) == ("b1", "killed")


def test_a_subagent_begins_and_ends_outside_itself() -> None:
    started = one("SubagentStart", agent_id="a1", agent_type="Explore")
    ended = one("SubagentStop", agent_id="a1", agent_type="Explore")

    assert (started.child_id, started.type, started.agent_id) == ("a1", "Explore", None)
    assert (ended.child_id, ended.agent_id) == ("a1", None)


def test_the_summariser_of_a_compaction_is_no_child() -> None:
    assert isinstance(one("SubagentStop", agent_id="a9", agent_type=""), s.Alive)


def test_what_happens_inside_a_subagent_carries_its_id() -> None:
    found = one("PreToolUse", agent_id="a1", tool_name="Bash", tool_use_id="t", tool_input={})

    assert found.agent_id == "a1"


def test_a_task_has_two_witnesses() -> None:
    hook = one("TaskCreated", task_id="1", task_subject="First")
    _, tool = said(
        "PostToolUse",
        tool_name="TaskCreate",
        tool_use_id="t1",
        tool_input={},
        tool_response={"task": {"id": "1", "subject": "First"}},
    )
    _, done = said(
        "PostToolUse",
        tool_name="TaskUpdate",
        tool_use_id="t2",
        tool_input={"taskId": "1", "status": "completed"},
    )

    assert hook == tool
    assert isinstance(done, s.TaskCompleted)
    assert done.task_id == "1"


# -- the session ---------------------------------------------------------------------------------


def test_session_start_tells_of_the_session() -> None:
    start, meta = said(
        "SessionStart",
        source="startup",
        model="claude-opus-5-5",
        cwd="/srv/app",
        transcript_path="/t.jsonl",
        session_title="Buttons",
    )

    assert isinstance(start, s.SessionStarted)
    assert isinstance(meta, s.MetaChanged)
    assert (meta.cwd, meta.project, meta.model) == ("/srv/app", "app", "claude-opus-5-5")
    assert (meta.transcript, meta.title, meta.mode) == ("/t.jsonl", "Buttons", None)


def test_a_prompt_tells_of_the_mode_and_a_tool_call_of_nothing_but_itself() -> None:
    _, meta = said("UserPromptSubmit", prompt="x", permission_mode="plan")
    assert isinstance(meta, s.MetaChanged)
    assert meta.mode == "plan"

    one("PostToolUse", tool_name="Bash", tool_use_id="t", cwd="/srv", permission_mode="plan")


def test_directory_and_model_changes() -> None:
    assert said("CwdChanged", old_cwd="/a", new_cwd="/srv/b") == [
        s.MetaChanged(session_id="S", at=SEEN, seen=SEEN, cwd="/srv/b", project="b")
    ]
    assert said("PostModelSwitch", to_model="m2") == [
        s.MetaChanged(session_id="S", at=SEEN, seen=SEEN, model="m2")
    ]


def test_a_notification_is_a_sign_of_life_only() -> None:
    found = one("Notification", notification_type="permission_prompt", message="needs you")

    assert found == s.Alive(
        session_id="S", at=SEEN, seen=SEEN, event="Notification", note="permission_prompt"
    )


@pytest.mark.parametrize("kind", ["permission_prompt", "worker_permission_prompt"])
def test_a_network_dialog_of_the_sandbox_has_no_hook_but_a_notification(kind: str) -> None:
    message = "A sandboxed command needs network access"
    alive, *asked = said("Notification", notification_type=kind, message=message)

    assert isinstance(alive, s.Alive)
    assert [(it.tool, it.request_id, it.summary) for it in asked] == (  # type: ignore[attr-defined]
        [(s.NETWORK, s.NETWORK, None)] if kind == "permission_prompt" else []
    )


@pytest.mark.parametrize(
    ("message", "tool", "host"),
    [
        ("anna needs permission for Bash", "Bash", None),
        ("anna needs network access to mate.example.com", s.NETWORK, "mate.example.com"),
    ],
)
def test_a_mate_in_a_pane_asks_by_its_leads_notification(
    message: str, tool: str, host: str | None
) -> None:
    _, before, asked = signals_from_hook(
        body(
            "Notification",
            session_id="0a1b2c3d-0000",
            notification_type="worker_permission_prompt",
            message=message,
        ),
        SEEN,
    )

    assert isinstance(asked, s.RequestOpened)
    assert (asked.tool, asked.summary) == (tool, host)
    assert asked.agent_id == "anna@session-0a1b2c3d"
    assert isinstance(before, s.RequestClosed)
    assert (before.request_id, before.at) == (asked.request_id, SEEN - 1)


def test_a_mate_in_its_leads_process_rests() -> None:
    found = one("TeammateIdle", agent_id="aanna-1", agent_type="anna", teammate_name="anna")

    assert isinstance(found, s.ChildFinished)
    assert (found.child_id, found.agent_id) == ("aanna-1", None)
    assert isinstance(one("TeammateIdle", teammate_name="anna"), s.Alive)


def test_a_mate_in_a_pane_names_its_team() -> None:
    (found,) = said("TeammateIdle", teammate_name="anna", team_name="session-0a1b2c3d")

    assert isinstance(found, s.MetaChanged)
    assert found.mate == "anna@session-0a1b2c3d"


def test_the_background_list_does_not_say_whether_a_mate_works() -> None:
    mate = {"id": "t1", "type": "teammate", "status": "running", "description": "Mate"}

    assert one("Stop", background_tasks=[mate]).background == [
        s.BackgroundTask("t1", "agent", s.MATE_LISTED, "Mate")
    ]


@pytest.mark.parametrize("asks", [True, False, None])
def test_a_proposed_goal_asks_only_where_the_answer_says_so(*, asks: bool | None) -> None:
    _, *asked = said(
        "PostToolUse",
        tool_name="SetGoal",
        tool_use_id="t1",
        tool_input={"condition": "all tests pass"},
        tool_response={"askUser": asks},
    )

    assert [(it.request_id, it.summary) for it in asked] == (  # type: ignore[attr-defined]
        [(s.GOAL, "all tests pass")] if asks else []
    )


def test_the_agent_of_the_process_in_reserve_starts_no_session() -> None:
    assert isinstance(one("SessionStart", source="startup", agent_type="claude"), s.Alive)
    assert isinstance(one("SessionStart", source="resume", agent_type="claude"), s.SessionStarted)
    assert isinstance(one("SessionStart", agent_type="general-purpose"), s.SessionStarted)


def test_compaction_and_the_session_start_it_causes() -> None:
    assert isinstance(one("PreCompact", trigger="manual"), s.CompactionStarted)
    assert one("SessionStart", source="compact").reason == "compact"
    assert isinstance(one("PostCompact", trigger="manual"), s.CompactionFinished)


def test_an_mcp_server_asks_and_is_answered() -> None:
    asked = one("Elicitation", mcp_server_name="db", message="Which table?")
    answer = one("ElicitationResult", mcp_server_name="db", action="accept")

    assert (asked.request_kind, asked.summary) == ("dialog", "Which table?")
    assert (answer.request_id, answer.outcome) == (asked.request_id, "accept")


def test_the_end_says_why() -> None:
    assert one("SessionEnd", reason="prompt_input_exit").reason == "prompt_input_exit"


@pytest.mark.parametrize(
    ("due", "until"), [(1_795_484_040_000, 1_795_484_040_000), (0, None), ("x", None)]
)
def test_a_scheduled_wake_up_names_its_time(due: object, until: int | None) -> None:
    call = {"tool_name": "ScheduleWakeup", "tool_use_id": "t1", "tool_input": {"reason": "look"}}
    found = said("PostToolUse", **call, tool_response={"scheduledFor": due})
    assert [each.until for each in found if isinstance(each, s.ChildStarted)] == [until] * bool(
        until
    )

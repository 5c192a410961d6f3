"""What each line of a transcript says, and that no line can stop the reading."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum_collector.agents.claude_code.lines import signals_from_lines, transcript_file
from adsum_collector.agents.records import Lines, TranscriptFile
from adsum_shared import signals as s
from tests.claude_lines import AT, SESSION, assistant, line, text, use, user

MAIN = TranscriptFile(SESSION)
SUB = TranscriptFile(SESSION, "a1")
SEEN = AT + 200


def result(content: Any = "ok", tool_use_id: str = "t1", **more: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": tool_use_id, "content": content, **more}]


def report(status: str | None) -> str:
    ended = f"<status>{status}</status>" if status else "<event>tick</event>"
    return f"<task-notification>\n<task-id>b7</task-id>\n{ended}</task-notification>"


def read(*raw: bytes, file: TranscriptFile = MAIN, context: str = "", **more: Any) -> Lines:
    return signals_from_lines(raw, file, context, SEEN, more.get("sidecar"))


def said(*raw: bytes, file: TranscriptFile = MAIN) -> list[Any]:
    return [x for x in read(*raw, file=file).signals if not isinstance(x, s.MetaChanged)]


def kinds(*raw: bytes, file: TranscriptFile = MAIN) -> list[str]:
    return [type(x).__name__ for x in said(*raw, file=file)]


UUID = "0f0f0f0f-0000-4000-8000-000000000001"

# -- whose file ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("-home-x/S.jsonl", TranscriptFile("S")),
        ("-home-x/S/subagents/agent-a5.jsonl", TranscriptFile("S", "a5")),
        ("-home-x/S/subagents/workflows/r1/agent-a5.jsonl", TranscriptFile("S", "a5")),
        ("-home-x/agent-a5.jsonl", None),  # long ago; whose it is, its path does not say
        ("-home-x/S/subagents/agent-acompact-1.jsonl", None),
        ("-home-x/S/subagents/agent-aside_question-1.jsonl", None),
        ("-home-x/S/subagents/agent-a5.meta.json", None),
        ("-home-x/S/tool-results/x.txt", None),
        ("-home-x/S/tool-results/agent-a5.jsonl", None),
        ("-home-x/memory/MEMORY.md", None),
        (f"group/-home-x/{UUID}.jsonl", TranscriptFile(UUID)),
        (f"a/b/group/-home-x/{UUID}.jsonl", TranscriptFile(UUID)),
        (f"group/-home-x/{UUID}/subagents/agent-a5.jsonl", TranscriptFile(UUID, "a5")),
        ("group/-home-x/S.jsonl", None),
        (f"group/-home-x/{UUID}/subagents/{UUID}.jsonl", None),
        ("S.jsonl", None),
    ],
)
def test_a_file_is_told_by_its_path(path: str, file: TranscriptFile | None) -> None:
    assert transcript_file(path) == file


# -- prompts -------------------------------------------------------------------------------------


def test_a_human_prompt_opens_a_turn_at_the_time_it_bears() -> None:
    (prompt,) = said(user("do it", promptId="p1", promptSource="typed"))
    assert prompt == s.PromptSubmitted(
        session_id=SESSION, at=AT, seen=SEEN, source="transcript", prompt_id="p1", text="do it"
    )


@pytest.mark.parametrize(
    "words",
    [
        "<command-name>/compact</command-name>",
        "<local-command-stdout>Compacted</local-command-stdout>",
        "<local-command-caveat>Caveat</local-command-caveat>",
        "<bash-input>ls</bash-input>",
        "<bash-stdout>x</bash-stdout>",
    ],
)
def test_what_was_done_in_the_terminal_is_a_command_and_no_prompt(words: str) -> None:
    (alive,) = said(user(words, isMeta=True))
    assert (type(alive), alive.event) == (s.Alive, s.COMMAND)


@pytest.mark.parametrize("words", ["", "  \n"])
def test_an_empty_prompt_is_none(words: str) -> None:
    assert said(user(words)) == []


@pytest.mark.parametrize("flag", ["isMeta", "isCompactSummary"])
def test_what_the_cli_tells_itself_is_no_prompt(flag: str) -> None:
    assert said(user("This session is being continued", **{flag: True})) == []


def test_a_custom_command_is_a_prompt() -> None:
    (prompt,) = said(user("<command-message>review</command-message>", origin={"kind": "human"}))
    assert prompt.origin == "typed"


def test_a_background_tasks_report_is_the_systems_prompt_and_ends_the_child() -> None:
    child, prompt = said(user(report("failed"), promptSource="system"))
    assert (child.child_id, child.status, child.notified) == ("b7", "failed", True)
    assert prompt.origin == "system"


def test_a_stop_hooks_feedback_opens_the_turn_again_although_it_is_meta() -> None:
    (prompt,) = said(user("Stop hook feedback:\n- tests fail", isMeta=True, promptId="p1"))
    assert prompt.origin == "system"


@pytest.mark.parametrize(
    "words", ["[Request interrupted by user]", "[Request interrupted by user for tool use]"]
)
def test_an_interruption_is_told_by_a_text(words: str) -> None:
    assert kinds(user([text(words)])) == ["TurnInterrupted"]


def test_an_interruption_is_of_the_answer_it_names_though_the_next_prompt_has_begun() -> None:
    """Esc takes the next prompt from the queue, and only then writes what it interrupted."""
    words = [text("[Request interrupted by user for tool use]")]
    answer = line("assistant", message={"id": "m1", "content": [use("Bash", command="make")]})
    lines = [user("go", promptId="p1"), answer, user("and then", promptId="p2")]

    named = said(*lines, user(words, promptId="p2", interruptedMessageId="m1"))[-1]
    unnamed = said(*lines, user(words, promptId="p2", interruptedMessageId="m0"))[-1]

    assert (type(named), named.prompt_id, unnamed.prompt_id) == (s.TurnInterrupted, "p1", "p2")


def test_the_words_of_an_interruption_inside_a_result_interrupt_nothing() -> None:
    """A tool may print them, and so does the result of an interrupted command."""
    raw = user(result("Exit code 137\n[Request interrupted by user for tool use]", is_error=True))
    (finished,) = said(raw)
    assert isinstance(finished, s.ToolFinished)
    assert finished.is_interrupt


# -- the queue -----------------------------------------------------------------------------------


def test_a_prompt_typed_in_a_turn_is_queued_and_taken_out() -> None:
    queued, taken = said(
        line("queue-operation", operation="enqueue", content="and then"),
        line("queue-operation", operation="dequeue"),
    )
    assert queued.origin == "queued"
    assert isinstance(taken, s.PromptDequeued)


@pytest.mark.parametrize("operation", ["remove", "popAll"])
def test_whatever_takes_prompts_out_of_the_queue_empties_it(operation: str) -> None:
    assert kinds(line("queue-operation", operation=operation)) == ["PromptDequeued"]


def test_a_compaction_typed_in_a_turn_begins_when_it_is_taken_out_of_the_queue() -> None:
    def queued(operation: str, **more: str) -> bytes:
        return line("queue-operation", operation=operation, **more)

    typed = [queued("enqueue", content=each) for each in ("/compact now", "and then")]
    absorbed, dequeued = queued("remove", content="and then"), queued("dequeue")
    assert kinds(*typed, absorbed, dequeued)[2:] == [
        "PromptDequeued",
        "PromptDequeued",
        "CompactionStarted",
    ]
    assert "CompactionStarted" not in kinds(
        *typed, queued("remove", content="/compact now"), dequeued
    )
    assert "CompactionStarted" not in kinds(*typed, queued("popAll"), dequeued)


def test_a_report_in_the_queue_ends_its_child_but_has_not_told_the_parent() -> None:
    (child,) = said(line("queue-operation", operation="enqueue", content=report("completed")))
    assert (child.child_id, child.notified) == ("b7", False)


@pytest.mark.parametrize("status", ["killed", "stopped"])
def test_a_child_that_somebody_stopped_does_not_wake_its_parent(status: str) -> None:
    """Its report stays in the queue until a human prompts; after a resume it comes as a prompt."""
    (child,) = said(line("queue-operation", operation="enqueue", content=report(status)))
    assert (child.status, child.notified) == (status, True)
    assert kinds(user(report(status), promptSource="system")) == ["ChildFinished"]


def test_an_event_of_a_monitor_is_not_its_end() -> None:
    changed, prompt = said(user(report(None), promptSource="system"))
    assert (type(changed), changed.child_id) == (s.ChildChanged, "b7")
    assert prompt.origin == "system"


def test_a_team_mate_works_on_until_it_reports_that_it_rests() -> None:
    outcome = {"status": "teammate_spawned", "agentId": "aanna-1", "name": "anna"}
    mail = (
        'Another Claude session sent a message:\n<teammate-message teammate_id="anna" color="blue">\n'
        '{"type":"idle_notification","from":"anna"}\n</teammate-message>'
    )
    use_agent = assistant(use("Agent", description="Mate"))
    *_, child, ended, prompt = said(
        use_agent,
        user(result(), toolUseResult=outcome),
        user(mail),
        user(mail.replace("idle", "x")),
    )[:-1]

    assert isinstance(child, s.ChildStarted)
    assert isinstance(ended, s.ChildFinished)
    assert (child.child_id, child.description) == (ended.child_id, "Mate")
    assert isinstance(prompt, s.PromptSubmitted)
    assert prompt.origin == "system"


def test_a_mates_report_may_join_a_turn_that_runs() -> None:
    outcome = {"status": "teammate_spawned", "agentId": "aanna-1", "name": "anna"}
    mail = (
        '<teammate-message teammate_id="anna">\n{"type":"idle_notification"}\n</teammate-message>'
    )
    joined = line("attachment", attachment={"type": "queued_command", "prompt": mail})

    *_, ended, _ = said(user(result(), toolUseResult=outcome), joined)
    assert isinstance(ended, s.ChildFinished)
    assert ended.child_id == "aanna-1"
    assert kinds(joined) == ["PromptDequeued"]  # of a mate whose start nobody read


def test_a_queued_command_that_joins_the_turn_has_left_the_queue() -> None:
    attachment = {"type": "queued_command", "prompt": "also this"}
    assert kinds(line("attachment", attachment=attachment)) == ["PromptDequeued"]


# -- tools ---------------------------------------------------------------------------------------


def test_a_call_and_its_result_make_one_tool() -> None:
    found = said(
        assistant(use("Bash", command="make test"), stop="tool_use"), user(result("all well"))
    )
    started, finished = found
    assert (started.tool, started.summary, started.timeout_ms) == ("Bash", "make test", 120_000)
    assert started.digest is None  # its input can differ from the hook's
    assert (finished.tool, finished.ok, finished.error) == ("Bash", True, None)


def test_a_failed_call_says_why() -> None:
    found = said(assistant(use("Bash", command="x")), user(result("Exit code 3", is_error=True)))
    assert (found[1].ok, found[1].error, found[1].denied) == (False, "Exit code 3", False)


def test_a_call_that_a_human_refused_is_denied_and_no_failure() -> None:
    raw = user(result("No", is_error=True), toolDenialKind="user-rejected")
    assert said(raw)[0].denied
    assert said(raw)[0].decided_by is None  # it may have run
    before = json.loads(raw) | {"toolDenialBeforeRun": True}
    (finished,) = said(json.dumps(before).encode())
    assert (finished.decided_by, finished.accepted) == ("user-rejected", False)


@pytest.mark.parametrize(
    ("tool", "kind"), [("AskUserQuestion", "question"), ("ExitPlanMode", "plan")]
)
def test_a_question_asks_from_its_call_on(tool: str, kind: str) -> None:
    asked = said(assistant(use(tool, questions=[{"question": "Red?"}], plan="# P")))[1]
    assert (asked.request_kind, asked.tool_use_id) == (kind, "t1")


def test_an_answered_question_is_answered() -> None:
    (finished,) = said(user(result(), toolUseResult={"answers": {"Red?": "Yes"}}))
    assert finished.answered


def test_a_result_without_its_call_still_ends_it() -> None:
    (finished,) = said(user(result(tool_use_id="t9")))
    assert (finished.tool, finished.tool_use_id) == ("tool", "t9")


def test_the_context_carries_calls_from_one_read_to_the_next() -> None:
    first = read(assistant(use("Bash", command="ls")))
    second = signals_from_lines([user(result())], MAIN, first.context, SEEN, None)
    assert [x.tool for x in second.signals if isinstance(x, s.ToolFinished)] == ["Bash"]


# -- children and tasks --------------------------------------------------------------------------


def test_an_agent_launched_in_the_background_starts_a_child() -> None:
    call = assistant(use("Agent", description="Look", subagent_type="Explore"))
    told = {"status": "async_launched", "agentId": "a1"}
    finished, child = said(call, user(result(), toolUseResult=told))[1:]
    assert (finished.child_id, finished.background) == ("a1", True)
    assert (child.child_id, child.child_kind) == ("a1", "agent")
    assert (child.type, child.description) == ("Explore", "Look")


def test_a_scheduled_wake_up_is_a_child_until_its_time() -> None:
    call = assistant(use("ScheduleWakeup", delaySeconds=60, reason="to look again"))
    child = said(call, user(result(), toolUseResult={"scheduledFor": 1_795_484_040_000}))[-1]
    assert (child.child_id, child.child_kind) == ("wake-up", "cron")
    assert (child.until, child.description) == (1_795_484_040_000, "to look again")

    over = {"scheduledFor": 0, "stopped": True, "cancelledWakeups": 1}
    assert isinstance(said(call, user(result(), toolUseResult=over))[-1], s.ChildFinished)
    assert isinstance(
        said(call, user(result(), toolUseResult={"scheduledFor": 0}))[-1], s.ToolFinished
    )


def test_an_agent_in_the_foreground_is_over_with_its_call() -> None:
    told = {"status": "completed", "agentId": "a1"}
    finished, child = said(user(result(), toolUseResult=told))
    assert not finished.background
    assert isinstance(child, s.ChildFinished)
    assert child.notified


def test_a_background_shell_starts_a_child_named_by_its_command() -> None:
    call = assistant(use("Bash", command="npm run dev", run_in_background=True))
    child = said(call, user(result(), toolUseResult={"backgroundTaskId": "b7"}))[-1]
    assert (child.child_id, child.child_kind, child.description) == ("b7", "shell", "npm run dev")


@pytest.mark.parametrize(("tool", "kind"), [("Monitor", "monitor"), ("Workflow", "workflow")])
def test_a_monitor_and_a_workflow_are_children_of_their_own_kind(tool: str, kind: str) -> None:
    child = said(assistant(use(tool)), user(result(), toolUseResult={"taskId": "m1"}))[-1]
    assert (child.child_id, child.child_kind) == ("m1", kind)


def test_a_stopped_task_is_a_killed_child() -> None:
    child = said(assistant(use("TaskStop", task_id="b7")), user(result()))[-1]
    assert (child.child_id, child.status, child.notified) == ("b7", "killed", True)


def test_ctrl_c_kills_every_subagent_without_naming_one() -> None:
    (killed,) = said(line("system", subtype="agents_killed"))
    assert (killed.child_id, killed.status) == (s.ALL_CHILDREN, "killed")


def test_tasks_are_witnessed_by_the_results_of_their_tools() -> None:
    created, completed = (
        said(user(result(), toolUseResult=told))[-1]
        for told in (
            {"task": {"id": "1", "subject": "First"}},
            {"taskId": "1", "statusChange": {"from": "pending", "to": "completed"}},
        )
    )
    assert created == s.TaskCreated(
        session_id=SESSION, at=AT, seen=SEEN, source="transcript", task_id="1", subject="First"
    )
    assert (completed.task_id, type(completed)) == ("1", s.TaskCompleted)


# -- a subagent's own file -----------------------------------------------------------------------


def test_a_subagents_lines_are_its_own() -> None:
    found = said(
        user("Look around", isSidechain=True),
        assistant(use("Bash", command="ls"), isSidechain=True),
        assistant(text("All is well."), stop="end_turn", isSidechain=True),
        file=SUB,
    )
    assert [type(x) for x in found] == [s.ChildStarted, s.ToolStarted, s.Alive, s.TurnEnded]
    assert [x.agent_id for x in found] == [None, "a1", "a1", "a1"]


def test_the_file_beside_it_names_a_subagent() -> None:
    sidecar = b'{"agentType": "Explore", "description": "Look around", "toolUseId": "t1"}'
    found = read(user("go"), file=SUB, sidecar=sidecar).signals[0]
    assert isinstance(found, s.ChildStarted)
    assert (found.type, found.description) == ("Explore", "Look around")


def test_copies_of_the_parents_lines_begin_no_child() -> None:
    assert said(user("Look around", isMeta=True), file=SUB) == []


def test_an_interrupted_subagent_is_not_begun_again() -> None:
    assert kinds(user([text("[Request interrupted by user]")]), file=SUB) == ["TurnInterrupted"]


# -- ends of turns -------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["end_turn", "stop_sequence", "refusal"])
def test_the_last_answer_ends_the_turn_with_its_words(stop: str) -> None:
    alive, ended = said(assistant(text("Done. Shall I?"), stop=stop))
    assert alive.event == s.MESSAGE
    assert (ended.last_message, ended.background) == ("Done. Shall I?", None)


@pytest.mark.parametrize("stop", [None, "tool_use", "pause_turn", "max_tokens"])
def test_other_answers_do_not_end_it(stop: str | None) -> None:
    assert kinds(assistant(text("word"), stop=stop)) == ["Alive"]


def test_a_turns_duration_ends_it_for_good() -> None:
    (ended,) = said(line("system", subtype="turn_duration", durationMs=5))
    assert (type(ended), ended.final) == (s.TurnEnded, True)
    assert not said(assistant(text("Done."), stop="end_turn"))[1].final


def test_so_does_the_summary_of_the_users_stop_hooks_unless_one_sent_the_agent_on() -> None:
    (ended,) = said(line("system", subtype="stop_hook_summary", hookErrors=[]))
    assert (type(ended), ended.final) == (s.TurnEnded, True)
    assert said(line("system", subtype="stop_hook_summary", hookErrors=["look again"])) == []
    assert said(line("system", subtype="stop_hook_summary", hookErrors=[]), file=SUB) == []


def test_a_prompt_that_another_hook_refused_begins_no_turn() -> None:
    content = "UserPromptSubmit operation blocked by hook:\n[x]: no"
    raw = line("system", subtype="informational", content=content)
    found = said(user("before", promptId="p1"), raw)[1]
    assert (type(found), found.prompt_id) == (s.TurnInterrupted, None)
    assert kinds(line("system", subtype="informational", content="Tip: use /help")) == []


def test_an_api_error_message_fails_the_turn() -> None:
    raw = assistant(text("API Error: 500"), isApiErrorMessage=True, error="server_error")
    (failed,) = said(raw)
    assert (failed.error, failed.message) == ("server_error", "API Error: 500")


def test_a_retry_is_scheduled() -> None:
    raw = line("system", subtype="api_error", retryAttempt=2, maxRetries=10, retryInMs=555.4)
    (retry,) = said(raw)
    assert (retry.attempt, retry.max, retry.in_ms) == (2, 10, 555)


def test_a_compact_boundary_ends_a_compaction() -> None:
    (done,) = said(line("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"}))
    assert done.trigger == "auto"


@pytest.mark.parametrize(("entrypoint", "reason"), [("cli", "closed"), ("sdk-cli", "run_over")])
def test_closed_books_are_a_sessions_end(entrypoint: str, reason: str) -> None:
    found = said(assistant(text("x"), entrypoint=entrypoint), line("cost-state", at=None))
    assert (found[-1].reason, found[-1].at) == (reason, AT)


def test_a_session_moved_to_the_background_goes_on_under_another_name() -> None:
    assert said(line("continued-in", continuedInSessionId="T"))[0].reason == s.LEFT


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw", [b"{", b"[1]", b"null", b"\x00" * 40, b'{"type": "user"', b"[" * 5000]
)
def test_a_line_that_is_no_json_is_counted_and_the_next_one_read(raw: bytes) -> None:
    found = read(raw, user("go on"))
    assert found.faults == {"no JSON": 1}
    assert [type(each) for each in found.signals] == [s.PromptSubmitted, s.MetaChanged]


def test_broken_utf8_costs_only_the_broken_letter() -> None:
    found = read(user("caf\u00e9").replace(b"\\u00e9", b"\xe9"), b"\xff\xfe")
    prompt = found.signals[0]
    assert isinstance(prompt, s.PromptSubmitted)
    assert prompt.text == "caf\ufffd"
    assert found.faults == {"not UTF-8": 2, "no JSON": 1}


def test_another_sessions_line_is_counted_and_moves_nobody() -> None:
    """Sessions resumed by old CLIs begin with copies of the other session's lines."""
    found = read(user("hers", sessionId="another"))
    assert (found.signals, found.faults) == ([], {"another session's line": 1})


def test_an_unknown_type_is_counted() -> None:
    found = read(line("teleport", target="moon"))
    assert (found.signals, found.faults) == ([], {"unknown type of line": 1})


def test_what_the_client_keeps_for_itself_is_no_fault() -> None:
    found = read(line("api-request-blob"), line("mode", at=None, mode="normal"), b"", b"  ")
    assert (found.signals, found.faults) == ([], {})


def test_a_time_yet_to_come_counts_as_now() -> None:
    assert said(user("x", at=AT + 10**9))[0].at == SEEN


@pytest.mark.parametrize("bad", ["soon", "", 7, None, "9999999-01-01T00:00:00Z"])
def test_a_line_without_a_time_is_as_old_as_the_one_before(bad: Any) -> None:
    found = said(user("a"), user("b", at=None, timestamp=bad))
    assert [x.at for x in found] == [AT, AT]


def test_a_context_of_another_version_begins_anew() -> None:
    found = signals_from_lines([user("x")], MAIN, '{"calls": 7}', SEEN, None)
    assert isinstance(found.signals[0], s.PromptSubmitted)


_ODD = (
    None,
    True,
    -1,
    10**30,
    0.5,
    "",
    "x",
    "\ud83d",
    [],
    [None],
    ["x"],
    {},
    {"type": 7},
    {"x": []},
)
_odd = st.sampled_from(_ODD)
_FIELDS = {
    *("subtype", "message", "content", "toolUseResult", "timestamp", "promptId", "isMeta"),
    *("attachment", "operation", "compactMetadata", "retryInMs", "retryAttempt", "aiTitle"),
    *("entrypoint", "cwd", "error", "customTitle", "permissionMode", "promptSource"),
    *("totalCostUSD", "modelUsage", "prUrl", "worktreeSession"),
}
_TYPES = (
    *("user", "assistant", "system", "attachment", "queue-operation", "ai-title", "cost-state"),
    *("pr-link", "worktree-state", "custom-title"),
)
_SUBTYPES = ("api_error", "compact_boundary", "turn_duration", "agents_killed")
_block = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking"])},
    optional=dict.fromkeys(("text", "id", "name", "input", "tool_use_id", "is_error"), _odd),
)
_usage = st.dictionaries(
    st.sampled_from(["input_tokens", "cache_read_input_tokens"]), _odd | st.integers()
)
_message = st.fixed_dictionaries(
    {},
    optional={
        "content": st.lists(_block, max_size=3) | _odd,
        "model": _odd,
        "usage": _odd | _usage,
    },
)
_line = st.fixed_dictionaries(
    {"type": st.sampled_from(_TYPES), "message": _message},
    optional={
        **dict.fromkeys(sorted(_FIELDS - {"message"}), _odd),
        "subtype": st.sampled_from(_SUBTYPES),
    },
)


@given(
    st.lists(_line | st.dictionaries(st.sampled_from(sorted(_FIELDS)), _odd), max_size=3),
    st.sampled_from([MAIN, SUB]),
    st.binary(max_size=30),
)
def test_nothing_a_line_can_hold_stops_the_reading(
    lines: list[dict[str, Any]], file: TranscriptFile, sidecar: bytes
) -> None:
    raw = [json.dumps(each).encode() for each in lines]
    found = signals_from_lines(raw, file, "", SEEN, sidecar)
    for signal in found.signals:
        s.encode_signal(signal)
        assert signal.session_id == SESSION
    again = signals_from_lines([], file, found.context, SEEN, None)
    assert again.context == found.context

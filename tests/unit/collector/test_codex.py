"""What Codex writes and posts, as signals: turns, calls, questions, plans, and whose lines they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adsum_collector.agents.codex.agent import Codex
from adsum_collector.agents.records import Lines, TranscriptFile
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import judge
from adsum_shared import signals as s
from adsum_shared.signals import AnySignal, RateLimit

#: Ids begin with the time at which they were given.
BEFORE, ROOT, TURN, CHILD, CHILDS_TURN = (
    f"01a207c6-0000-7000-8000-00000000000{number}" for number in range(5)
)
START = 1_795_426_800_000
MODEL = "gpt-6.1-sol"


def stamp(ms: int) -> str:
    return f"2026-11-23T09:40:{ms // 1000:02}.{ms % 1000:03}Z"


def line(ms: int, kind: str, ordinal: int | None = None, **payload: Any) -> bytes:
    told = {"timestamp": stamp(ms), "type": kind, "payload": payload}
    return json.dumps(told | ({"ordinal": ordinal} if ordinal is not None else {})).encode()


def event(ms: int, what: str, **payload: Any) -> bytes:
    return line(ms, "event_msg", type=what, **payload)


def response(ms: int, what: str, **payload: Any) -> bytes:
    return line(ms, "response_item", type=what, **payload)


def item(ms: int, what: str, **fields: Any) -> bytes:
    return event(ms, "item_completed", turn_id=TURN, item={"type": what, **fields})


def meta(thread: str = ROOT, **fields: Any) -> bytes:
    usual = {"session_id": ROOT, "cwd": "/src/boat", "cli_version": "0.169.0", "source": "cli"}
    return line(0, "session_meta", id=thread, **(usual | fields))


def context(**fields: Any) -> bytes:
    usual = {"cwd": "/src/boat", "model": MODEL, "approvals_reviewer": "user"}
    return line(2, "turn_context", turn_id=TURN, **(usual | fields))


def begins(ms: int = 1, turn: str = TURN) -> bytes:
    return event(ms, "task_started", turn_id=turn)


def read(*lines: bytes, thread: str = ROOT, context: str = "", codex: Codex | None = None) -> Lines:
    return (codex or Codex()).read(
        lines, TranscriptFile(thread), context, START + 60_000, None, lambda struct: struct
    )


def kinds(signals: list[AnySignal]) -> list[str]:
    return [str(type(signal).__struct_config__.tag) for signal in signals]


def only(signals: Any, kind: type[Any]) -> Any:
    (found,) = (signal for signal in signals if isinstance(signal, kind))
    return found


def hook(event: str, at: int = START, codex: Codex | None = None, **body: Any) -> list[AnySignal]:
    usual = {"session_id": ROOT, "turn_id": TURN, "hook_event_name": event}
    return list((codex or Codex()).hook(json.dumps(usual | body).encode(), at))


def state(signals: list[AnySignal], at: int = START + 60_000) -> str:
    facts: Facts | None = None
    for signal in signals:
        facts = fold(facts, signal)
    assert facts is not None
    return judge(facts, at).state.state


def test_a_rollout_is_known_by_its_name() -> None:
    of = Codex().transcripts.file_of
    assert of(f"2026/11/23/rollout-2026-11-23T09-40-00-{ROOT}.jsonl") == TranscriptFile(ROOT)
    assert of("2026/11/23/notes.jsonl") is None
    assert of("history.jsonl") is None


def test_a_turn_is_told_from_its_begin_to_its_end() -> None:
    said = read(
        meta(git={"branch": "main"}),
        begins(),
        context(),
        item(3, "UserMessage", content=[{"type": "text", "text": "mend the boat"}]),
        response(4, "message", role="developer", content="not of the turn"),
        response(5, "message", role="assistant", content=[]),
        event(6, "task_complete", turn_id=TURN, last_agent_message="Mended."),
    )
    assert said.faults == {}
    assert only(said.signals, s.SessionStarted).reason == "startup"
    told = [each for each in said.signals if isinstance(each, s.MetaChanged)]
    assert (told[0].version, told[0].branch, told[0].project) == ("0.169.0", "main", "boat")
    assert told[1].model == MODEL
    assert told[-1].last_answer == "Mended."
    assert [p.text for p in said.signals if isinstance(p, s.PromptSubmitted)] == [
        None,
        "mend the boat",
    ]
    assert {p.prompt_id for p in said.signals if isinstance(p, s.TurnEnded)} == {TURN}
    assert state(said.signals) == "idle"


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (event(9, "turn_aborted", turn_id=TURN, reason="interrupted"), "idle"),
        (
            event(
                9,
                "task_complete",
                turn_id=TURN,
                error={"message": "slow down", "codex_error_info": {"too_many": {"status": 429}}},
            ),
            "error",
        ),
    ],
)
def test_a_turn_can_end_otherwise(end: bytes, shown: str) -> None:
    signals = read(meta(), begins(), context(), end).signals
    assert state(signals) == shown
    if shown == "error":
        assert only(signals, s.TurnFailed).error == "too_many"


def test_a_command_has_one_name_by_whichever_witness() -> None:
    key = "call_1"
    old = read(
        meta(),
        begins(),
        response(5, "function_call", name="exec_command", call_id=key, arguments='{"cmd": "ls"}'),
    ).signals
    hooked = hook("PreToolUse", tool_name="Bash", tool_use_id=key, tool_input={"command": "ls"})
    for signals in (old, hooked):
        started = only(signals, s.ToolStarted)
        assert (started.tool, started.role, started.summary) == ("Bash", "shell", "ls")


def test_a_failed_command_is_no_error_of_the_session() -> None:
    signals = read(
        meta(),
        begins(),
        item(9, "CommandExecution", id="exec-1", command=["bash", "-lc", "make"], exit_code=2),
    ).signals
    finished = only(signals, s.ToolFinished)
    assert (finished.ok, finished.error) == (False, "exit code 2")
    assert state(signals) == "thinking"


def test_an_approval_waits_until_the_last_call_of_its_turn_is_answered() -> None:
    command = {"command": "mkdir sub"}
    before = read(
        meta(),
        begins(),
        context(),
        response(4, "custom_tool_call", name="exec", call_id="c", input="await …"),
    )
    at = before.signals[-1].at + 1
    asked = [
        *before.signals,
        *hook("PreToolUse", at, tool_name="Bash", tool_use_id="exec-1", tool_input=command),
        *hook(
            "PermissionRequest",
            at + 1,
            tool_name="Bash",
            tool_input={**command, "description": "May I?"},
        ),
    ]
    assert state(asked) == "needs_permission"

    def answered(text: str) -> list[AnySignal]:
        output = response(9_000, "custom_tool_call_output", call_id="c", output=text)
        return [*asked, *read(output, context=before.context).signals]

    assert state(answered("Script running with cell ID 1")) == "needs_permission"
    assert state(answered("Script completed\nrejected by user")) in ("acting", "thinking")
    done = hook("PostToolUse", at + 9, tool_name="Bash", tool_use_id="exec-1", tool_input=command)
    assert state([*asked, *done]) in ("acting", "thinking")


def test_nobody_is_asked_what_another_model_reviews() -> None:
    codex = Codex()
    read(meta(), begins(), context(approvals_reviewer="auto_review"), codex=codex)
    asked = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    assert kinds(hook("PermissionRequest", codex=codex, **asked))[0] == "alive"
    read(context(), context=read(meta(), begins()).context, codex=codex)
    assert kinds(hook("PermissionRequest", codex=codex, **asked))[0] == "request.opened"


def test_a_question_asks_until_it_is_answered() -> None:
    asked = '{"questions": [{"question": "Which colour?"}]}'
    call = response(4, "function_call", name="request_user_input", call_id="q", arguments=asked)
    before = read(meta(), begins(), call)
    assert only(before.signals, s.RequestOpened).summary == "Which colour?"
    assert state(before.signals) == "awaiting_input"
    answer = response(9, "function_call_output", call_id="q", output='{"answers": {}}')
    after = read(answer, context=before.context)
    assert state([*before.signals, *after.signals]) == "thinking"


@pytest.mark.parametrize(
    ("told", "shown", "summary"),
    [
        (item(5, "Plan", text="# Paint it\n\n1. Red."), "awaiting_approval", "Paint it"),
        (
            item(5, "AgentMessage", questions=[{"title": "Which colour?"}]),
            "awaiting_input",
            "Which colour?",
        ),
    ],
)
def test_what_is_asked_after_a_turn_is_asked_until_the_next(
    told: bytes, shown: str, summary: str
) -> None:
    ended = event(7, "task_complete", turn_id=TURN)
    before = read(meta(), begins(), told, ended)
    asked = only(before.signals, s.RequestOpened)
    assert asked.summary == summary
    # The hook on the end of that turn may be heard later than its line.
    late = hook("Stop", asked.at + 30)
    assert state([*before.signals, *late]) == shown
    assert state([*late, *before.signals]) == shown
    after = read(begins(20_000, CHILD), context=before.context)
    assert state([*before.signals, *late, *after.signals]) == "thinking"


def spawned(thread: str = CHILD, **fields: Any) -> bytes:
    said = {"subagent": {"thread_spawn": {"parent_thread_id": ROOT, "agent_role": "scout"}}}
    return meta(thread, source=said, thread_source="subagent", **fields)


@pytest.mark.parametrize("numbered", [True, False])
def test_a_subagent_copies_its_parents_lines_and_none_is_told_twice(numbered: bool) -> None:
    """numbered: its file says at which line its own history begins."""
    own = {"subagent_history_start_ordinal": 3} if numbered else {}
    said = read(
        spawned(agent_path="/lead/paint", **own),
        line(1, "session_meta", id=ROOT, session_id=ROOT, cwd="/src/boat"),
        line(2, "event_msg", 2, type="task_started", turn_id=TURN),
        event(2, "turn_aborted", turn_id=TURN),
        line(3, "event_msg", 4, type="task_started", turn_id=CHILDS_TURN),
        event(9, "task_complete", turn_id=CHILDS_TURN),
        thread=CHILD,
    )
    assert not said.is_session
    assert {each.session_id for each in said.signals} == {ROOT}
    assert kinds(said.signals) == ["child.started", "child.started", "child.finished"]
    first = said.signals[0]
    assert isinstance(first, s.ChildStarted)
    assert (first.child_id, first.type, first.description) == (CHILD, "scout", "paint")


def test_a_review_of_the_clients_own_is_no_session() -> None:
    hidden = meta(CHILD, thread_source="guardian_review", source={"subagent": "guardian"})
    said = read(hidden, begins(turn=CHILDS_TURN), thread=CHILD)
    assert not said.signals
    assert not said.is_session
    codex = Codex().transcripts
    assert codex.history([hidden], [hidden], TranscriptFile(CHILD)) is None
    # Of a file that is read from its tail on, its head says so.
    context = codex.opening([hidden], TranscriptFile(CHILD))
    assert not read(begins(turn=CHILDS_TURN), thread=CHILD, context=context).signals


def test_a_fork_that_repeats_its_parents_lines_tells_of_its_own() -> None:
    said = read(
        meta(CHILD, session_id=CHILD, forked_from_id=ROOT),
        begins(turn=TURN),
        event(2, "task_complete", turn_id=TURN),
        begins(3, turn=CHILDS_TURN),
        thread=CHILD,
    )
    assert only(said.signals, s.SessionStarted).reason == "fork"
    assert only(said.signals, s.PromptSubmitted).prompt_id == CHILDS_TURN
    refers = meta(CHILD, session_id=CHILD, forked_from_id=ROOT, history_base={"thread_id": ROOT})
    assert only(read(refers, begins(turn=BEFORE), thread=CHILD).signals, s.PromptSubmitted)


def test_a_prompt_entered_in_mid_turn_waits_for_nothing() -> None:
    signals = [
        *hook("UserPromptSubmit", START, prompt="paint it"),
        *hook("UserPromptSubmit", START + 5_000, prompt="red"),
        *hook("Stop", START + 9_000),
    ]
    assert state(signals) == "idle"


def test_a_turn_whose_lines_are_read_is_over_when_the_users_own_hooks_have_run() -> None:
    codex = Codex()
    begun = read(meta(), begins(), context(), codex=codex)
    stopping = [*begun.signals, *hook("Stop", START + 5_000, codex=codex)]
    assert state(stopping, START + 30_000) == "thinking"
    ended = event(30_000, "task_complete", turn_id=TURN)
    done = read(ended, context=begun.context, codex=codex)
    late = hook("Stop", START + 30_001, codex=codex)  # one that nobody waits for
    assert state([*stopping, *done.signals, *late]) == "idle"


def test_a_turn_whose_lines_are_not_read_is_over_with_its_hook() -> None:
    codex = Codex()
    read(meta(), begins(turn=BEFORE), codex=codex)  # an earlier one
    began = hook("UserPromptSubmit", codex=codex)
    assert state([*began, *hook("Stop", START + 5, codex=codex)]) == "idle"


def test_a_request_of_the_model_that_failed_is_tried_again() -> None:
    begun = hook("UserPromptSubmit", prompt="paint it")
    failed = [*begun, *hook("PostModelRequest", START + 9, status="failed")]
    assert state(failed, START + 10) == "retrying"
    done = hook("PostModelRequest", START + 20, status="completed")
    assert state([*failed, *done], START + 30) == "thinking"


def test_hooks_inside_a_subagent_open_no_turn_of_its_parents() -> None:
    inside = {"agent_id": CHILD, "turn_id": CHILDS_TURN}
    signals = [
        *hook("UserPromptSubmit", START),
        *hook("SubagentStart", START + 1, agent_type="scout", **inside),
        *hook("Stop", START + 2),
        *hook("PreToolUse", START + 3, tool_name="Bash", tool_use_id="e", tool_input={}, **inside),
    ]
    assert state(signals, START + 1_000) == "waiting_for_agent"
    over = hook("SubagentStop", START + 2_000, agent_type="scout", **inside)
    assert state([*signals, *over], START + 3_000) == "idle"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"session_id": 1}', b'{"a":' * 100_000, b'\xff{"session_id"']
)
def test_what_is_no_hook_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Codex().hook(body, START)


@pytest.mark.parametrize(
    "raw", [b"not json", b"[1]", b'{"type": "event_msg", "payload": 3}', b'{"type": "novel"}']
)
def test_lines_that_are_none_are_counted(raw: bytes) -> None:
    said = read(meta(), raw)
    assert sum(said.faults.values()) == 1


def test_a_client_newer_than_we_know_is_counted_and_disturbs_nothing() -> None:
    newer = meta(cli_version="9.1.0", history_mode="woven", schema_version=12)
    strange = (event(4, "dreamt", of="sheep"), item(5, "Sculpture", stone=1), line(6, "loom", x=1))
    said = read(newer, begins(), *strange, event(7, "task_complete", turn_id=TURN))

    assert said.faults == {"unknown type of line": 1}
    assert only(said.signals, s.SessionStarted)
    assert only(said.signals, s.TurnEnded)
    versions = {each.version for each in said.signals if isinstance(each, s.MetaChanged)}
    assert "9.1.0" in versions
    assert kinds(hook("DreamEnd", loom=3)) == ["alive"]


def test_a_clock_that_was_ahead_dates_nothing_later_than_it_was_read() -> None:
    tomorrow = 86_400_000
    said = read(meta(), begins(tomorrow), event(tomorrow, "task_complete", turn_id=TURN))

    assert {signal.at for signal in said.signals} <= {START, START + 60_000}
    assert state(said.signals) == "idle"


@pytest.mark.parametrize(
    "what", ["item_completed", "task_complete", "token_count", "agent_message"]
)
@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [1], {"type": 4}])
def test_fields_of_another_type_count_as_missing(what: str, value: Any) -> None:
    fields = dict.fromkeys(("item", "turn_id", "error", "info", "last_agent_message"), value)
    assert read(meta(), begins(), event(3, what, **fields)).faults == {}
    for event_name in ("PreToolUse", "PermissionRequest", "Stop", "SessionStart", "Novel"):
        wrong = dict.fromkeys(("tool_name", "tool_input", "cwd", "source", "agent_id"), value)
        assert hook(event_name, **wrong)


def test_what_the_head_and_the_tail_tell_of_a_session_of_the_past() -> None:
    lines = [
        meta(),
        begins(),
        context(),
        item(3, "UserMessage", content=[{"type": "text", "text": "mend the boat"}]),
        event(6, "task_complete", turn_id=TURN, last_agent_message="Mended."),
    ]
    past = Codex().transcripts.history(lines, lines, TranscriptFile(ROOT))
    assert past is not None
    assert (past.first_prompt, past.last_answer) == ("mend the boat", "Mended.")
    assert (past.model, past.version, past.ended - past.started) == (MODEL, "0.169.0", 6)


def limits(ms: int, plan: str | None = None, **told: Any) -> bytes:
    windows = {"primary": None, "secondary": None, **told}
    return event(ms, "token_count", info=None, rate_limits={"plan_type": plan, **windows})


def test_a_plan_tells_its_limits_by_their_windows_when_they_change() -> None:
    five = {"used_percent": 34.0, "window_minutes": 299, "resets_at": START // 1000}
    week = {"used_percent": 5, "window_minutes": 10_080, "resets_at": None}
    plan = {"plan": "pro", "primary": five, "secondary": week}
    said = read(meta(), limits(1, **plan), limits(2, **plan), limits(3)).signals
    first, last = (each for each in said if isinstance(each, s.GaugesReported))

    assert (first.plan, last.plan, last.limits) == ("pro", "", None)
    assert first.limits == [RateLimit("five_hour", 34.0, START), RateLimit("seven_day", 5.0)]


def test_limits_without_a_plans_name_or_of_one_model_alone_are_told_too() -> None:
    odd = {"used_percent": 1.0, "window_minutes": 180}
    strange = {"used_percent": "much"}
    said = only(
        read(meta(), limits(1, limit_id="spark", primary=odd, secondary=strange)).signals,
        s.GaugesReported,
    )

    assert (said.plan, said.limits) == ("ChatGPT", [RateLimit("3_hour_spark", 1.0)])
    assert not [e for e in read(meta(), limits(1)).signals if isinstance(e, s.GaugesReported)]


@pytest.mark.parametrize(
    ("command", "code", "found"),
    [
        (
            "git add -A && git commit -qm x; git commit -m y",
            0,
            [s.Delivery("commit", "1a2b3c4", "main")],
        ),
        ("git commit -m y", 1, None),
        ("cat log", 0, None),
    ],
)
def test_what_a_command_has_committed_is_told(command: str, code: int, found: Any) -> None:
    asked = json.dumps({"cmd": command})
    said = f"Chunk ID: 1\nProcess exited with code {code}\nOutput:\n[main 1a2b3c4] Fix\n 1 file changed\n"
    signals = read(
        meta(),
        begins(),
        response(4, "function_call", name="exec_command", call_id="c", arguments=asked),
        response(5, "function_call_output", call_id="c", output=said),
    ).signals

    assert only(signals, s.ToolFinished).delivered == found

"""`adsum approve`, `deny`, `answer`, `plan`: what is shown, what is sent, how each outcome is told apart."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adsum.decide import agent_of, asker, labels_in
from adsum.outcome import CommandError
from adsum_shared import streams
from tests.deciding import FORM, QUESTIONS, FakeMachine
from tests.hub_processes import HubProcess, started
from tests.integration.conftest import Run
from tests.support import wait_until

pytestmark = pytest.mark.redis


@pytest.fixture
def hub(home: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubProcess]:
    hub = HubProcess(home / "hub", redis_url, demo="on")
    with started(hub):
        monkeypatch.setenv("ADSUM_HUB_URL", hub.url)
        yield hub


@pytest.fixture
def machine(redis_url: str) -> Iterator[FakeMachine]:
    machine = FakeMachine(redis_url)
    machine.start()
    yield machine
    machine.stop()


def asked(hub: HubProcess, count: int = 1) -> None:
    def all_held() -> bool:
        views = hub.get("/api/v1/sessions")["sessions"]
        return sum("hold" in each for view in views for each in view.get("requests", ())) == count

    asyncio.run(wait_until(all_held))


def test_the_whole_command_is_shown_and_the_effect_is_waited_for(
    run: Run, hub: HubProcess, machine: FakeMachine
) -> None:
    machine.asks(payload={"command": "make\n  clean\u202e # x", "description": "Clean"})
    asked(hub)
    code, out, err = run("approve", "s", "--yes")

    assert (code, out) == (0, "s on lab: allow: took effect\n")
    assert "  command:\nmake\n  clean\\u{202e} # x\n" in err
    assert [(each.verb, each.request_id) for each in machine.obeyed] == [("allow", "r1")]
    assert run("approve", "s", "--yes")[0] == 1
    assert len(machine.obeyed) == 1


def test_without_a_session_nothing_is_decided_unless_a_person_is_asked(
    run: Run, hub: HubProcess, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.asks()
    asked(hub)
    for verb in ("approve", "deny", "answer", "plan"):
        for given in (("--yes",), (), ("", "--yes"), (" ", "--yes")):
            code, _, err = run(verb, *given)
            assert (code, "adsum agents" in err) == (2, True), (verb, given, err)
    monkeypatch.setattr("adsum.decide.asker", lambda: lambda _question: "y")
    code, _, err = run("approve", "--yes")

    assert (code, "needs a session's id" in err) == (2, True)
    assert machine.obeyed == []
    assert run("approve")[0] == 0


def test_a_hub_without_sign_in_signs_nothing_and_is_not_trusted(
    run: Run, home: Path, redis_url: str, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(HubProcess(home / "hub", redis_url, sign_in="on")):

        def shows_its_key() -> bool:
            return bool(machine.redis.exists(streams.COMMAND_KEYS))

        asyncio.run(wait_until(shows_its_key))
    hub = HubProcess(home / "hub", redis_url)
    with started(hub):
        monkeypatch.setenv("ADSUM_STATE_DIR", str(hub.state_dir))
        machine.asks()
        asked(hub)
        decided, trusted = run("approve", "s", "--yes"), run("control", "approve", "--yes")

        assert hub.get("/api/v1/command-keys")["keys"] == {}
        assert not shows_its_key(), "nor by way of Redis"
    for code, _, err in (decided, trusted):
        assert (code, "without ADSUM_SIGN_IN=off" in err) == (1, True), err
    assert machine.obeyed == []


@pytest.mark.parametrize(
    ("agent", "more"), [("claude", {}), ("codex", {}), ("bash", {"CLAUDECODE": "1"})]
)
def test_what_an_agent_runs_decides_nothing(
    hub: HubProcess, machine: FakeMachine, home: Path, agent: str, more: dict[str, str]
) -> None:
    machine.asks()
    asked(hub)
    for words in ("approve s --yes", "prompt s go"):
        script = f"exec -a {agent} bash -c '{sys.executable} -m adsum {words}; exit $?'"
        done = subprocess.run(
            ["/bin/bash", "-c", script],
            capture_output=True,
            text=True,
            env={**os.environ, **more, "PATH": "/bin:/usr/bin"},
            check=False,
        )
        assert done.returncode == 1
        assert "in a terminal that no agent started" in done.stderr
    assert machine.obeyed == []


@pytest.mark.parametrize(
    ("env", "words", "title"),
    [
        ({"CLAUDE_CODE_SESSION_ID": "s"}, (), "Claude Code"),
        ({"CODEX_THREAD_ID": "t"}, (), "Codex"),
        ({}, ("node", "--x", "/usr/bin/gemini"), "Gemini CLI"),
        ({}, ("/usr/local/bin/opencode",), "OpenCode"),
        ({"CLAUDECODE": ""}, ("vim", "claude"), None),
        ({}, (), None),
    ],
)
def test_an_agent_is_known_by_its_variables_and_its_program(
    env: dict[str, str], words: tuple[str, ...], title: str | None
) -> None:
    assert agent_of(env, [("-bash",), words, ("systemd",)]) == title


def test_a_plan_is_approved_by_its_own_verb_alone(
    run: Run, hub: HubProcess, machine: FakeMachine
) -> None:
    machine.asks("b2", "r2", "plan", "deny", request_kind="plan", payload={"plan": "# Plan"})
    asked(hub)
    code, _, err = run("approve", "b2", "--yes")

    assert (code, err) == (
        1,
        "adsum: Session b2 asks about a plan. Read and approve it: adsum plan b2\n",
    )
    assert machine.obeyed == []


def replies_with(monkeypatch: pytest.MonkeyPatch, *replies: str) -> list[str]:
    """Answers at the terminal in this order. Returns the questions, also those asked later."""
    questions: list[str] = []
    left = iter(replies)

    def ask(question: str) -> str:
        questions.append(question)
        return next(left)

    monkeypatch.setattr("adsum.decide.asker", lambda: ask)
    return questions


def test_a_command_that_may_read_as_another_is_escaped_and_asked_about_twice(
    run: Run, hub: HubProcess, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.asks(payload={"command": ": \u061c; python3 x.py \u061c # git log --oneline"})
    asked(hub)
    questions = replies_with(monkeypatch, "y", "n", "y", "y")
    code, _, err = run("approve")

    assert "  command: : \\u{61c}; python3 x.py \\u{61c} # git log --oneline\n" in err
    assert "The request contains invisible characters: U+061C.\n" in err
    assert [question.split("? ")[0][-15:] for question in questions] == [
        "Allow it",
        "Allow it anyway",
    ]
    assert (code, machine.obeyed) == (1, [])
    assert run("approve")[0] == 0


def test_a_long_command_says_beside_the_question_how_it_begins(
    run: Run, hub: HubProcess, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.asks(payload={"command": "python3 evil.py" + "\n" * 401 + "git log\n" * 208})
    asked(hub)
    questions = replies_with(monkeypatch, "n")
    code, _, err = run("approve")

    assert questions == ["Allow it (609 lines, the first: python3 evil.py)? [y/N]"]
    assert "\n[400 blank lines]\n" in err
    assert (code, machine.obeyed) == (1, [])


def test_what_became_of_it_is_told_apart(run: Run, hub: HubProcess, machine: FakeMachine) -> None:
    for name, outcomes, code, said in (
        ("a1", ("sent",), 5, "allow: sent, but what came of it is not known yet"),
        ("b2", ("sent", "overruled"), 6, "allow: overruled: the terminal was first"),
        ("c3", ("too_late",), 7, "allow: too late"),
        ("d4", ("refused",), 1, "allow: refused by its machine"),
        ("e5", ("expired",), 1, "allow: expired, nothing was done"),
    ):
        machine.outcomes = outcomes
        machine.asks(name, f"r-{name}")
        asked(hub)
        found = run("approve", name, "--yes", "--wait", "2" if code == 5 else "10")

        assert found[:2] == (code, f"{name} on lab: {said}\n")


def test_nobody_is_asked_where_nobody_is_and_a_key_too_many_is_no_yes(
    run: Run, hub: HubProcess, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.asks()
    asked(hub)
    code, _, err = run("deny", "s")
    assert (code, "give --yes" in err) == (2, True)
    assert "  command: make clean\n" in err, "it is shown all the same"

    assert asker() is None
    monkeypatch.setattr("adsum.decide.asker", lambda: lambda _question: "")
    code, out, err = run("approve")
    assert (code, out) == (1, "")
    assert "Nothing is decided." in err
    assert machine.obeyed == []


def test_several_sessions_are_decided_and_told_as_json(
    run: Run, hub: HubProcess, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        machine.asks(name, f"r-{name}")
    asked(hub, 2)
    monkeypatch.setattr("adsum.decide.asker", lambda: lambda _question: "")
    code, _, err = run("approve")
    assert code == 2
    assert "Several requests are open" in err
    monkeypatch.setattr("adsum.decide.asker", lambda: lambda _question: "y")

    code, out, _ = run("deny", "one", "two", "-m", "not now", "--stop", "--json")

    told = json.loads(out)["commands"]
    assert code == 0
    assert [(each["session"][-3:], each["outcome"]) for each in told] == [
        ("one", "took_effect"),
        ("two", "took_effect"),
    ]
    assert {(each.text, each.stop) for each in machine.obeyed} == {("not now", True)}


def test_one_of_several_requests_of_a_session_is_named_by_its_number_or_its_id(
    run: Run, hub: HubProcess, machine: FakeMachine
) -> None:
    for number, file in enumerate("abc", 1):
        machine.asks("s", f"cafe{number}", payload={"command": f"touch {file}"}, summary=file)
    asked(hub, 3)
    code, _, err = run("approve", "s", "--yes")
    assert (code, machine.obeyed) == (2, [])
    assert "  2  s#2  cafe2  work of s: b\n" in err
    assert "Name one: adsum approve s#1, or s#cafe1, which stays the same" in err
    for wrong in ("s#4", "s#", "s#caf", "s#cafe"):
        code, _, err = run("approve", wrong, "--yes")
        assert (code, "  3  s#3  cafe3  work of s: c\n" in err, machine.obeyed) == (2, True, [])

    assert run("approve", "s#2", "--yes")[0] == 0
    asked(hub, 2)
    assert run("deny", "s#cafe3", "--yes")[0] == 0

    assert [(each.verb, each.request_id) for each in machine.obeyed] == [
        ("allow", "cafe2"),
        ("deny", "cafe3"),
    ]


def test_always_and_plans_and_questions_and_forms_send_what_they_are_for(
    run: Run, hub: HubProcess, machine: FakeMachine, home: Path
) -> None:
    machine.asks("a1", "r1")
    machine.asks("b2", "r2", "plan", "deny", request_kind="plan", payload={"plan": "# Plan"})
    machine.asks("c3", "r3", "answer", request_kind="question", payload=QUESTIONS)
    machine.asks("d4", "r4", "elicit", "deny", request_kind="dialog", payload=FORM)
    asked(hub, 4)
    (home / "plan.md").write_text("# Another")

    code, _, err = run("approve", "a1", "--always", "--yes")
    assert (code, "in this session: Bash(make:*)" in err) == (0, True)
    assert run("plan", "b2", "--yes", "--mode", "default", "--edit", "plan.md")[0] == 0
    assert run("answer", "c3", "--yes", "-a", "Blue")[0] == 2
    assert run("answer", "c3", "--yes", "-a", "2", "-a", "1,b", "--note", "dark")[0] == 0
    assert run("answer", "d4", "--yes", "-a", "branch=x", "-a", "force=maybe")[0] == 2
    assert run("answer", "d4", "--yes", "-a", "branch=x", "-a", "force=true")[0] == 0

    always, plan, answer, form = machine.obeyed
    assert always.verb == "always"
    assert (plan.verb, plan.mode, plan.text) == ("plan", "default", "# Another")
    assert answer.answers == {"Which colour?": ["Blue"], "Which parts?": ["a", "b"]}
    assert answer.notes == {"Which colour?": "dark"}
    assert form.content == {"branch": "x", "force": True}


def test_a_form_is_held_while_its_question_waits_and_can_be_given_back(
    run: Run, hub: HubProcess, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs = "elicit", "deny", "defer", "extend"
    machine.asks("d4", "r4", *verbs, request_kind="dialog", payload=FORM)
    asked(hub)

    def ask(question: str) -> str:
        asyncio.run(wait_until(lambda: any(each.verb == "extend" for each in machine.obeyed)))
        return "x" if question.startswith("branch") else ""

    monkeypatch.setattr("adsum.decide.asker", lambda: ask)
    assert run("answer", "d4")[0] == 1
    assert {(each.verb, each.request_id) for each in machine.obeyed} == {("extend", "r4")}

    assert run("defer", "d4", "--yes")[:2] == (0, "d4 on lab: defer: took effect\n")
    assert machine.obeyed[-1].verb == "defer"


def test_what_cannot_be_decided_says_why(run: Run, hub: HubProcess, machine: FakeMachine) -> None:
    machine.asks("a1", "r1", payload={"command": "x [redacted:value:ab]"})
    machine.asks("b2", "r2", "deny")
    asked(hub, 2)
    partial = run("approve", "a1", "--yes")
    other = run("approve", "b2", "--yes")
    machine.control = "off"
    asyncio.run(wait_until(lambda: "control" not in hub.get("/api/v1/hosts")["hosts"][0]))
    off = run("deny", "b2", "--yes")

    assert (partial[0], "Not all that session a1 asks is shown" in partial[2]) == (1, True)
    assert (other[0], "it takes deny" in other[2]) == (1, True)
    assert (off[0], "adsum control approve" in off[2]) == (1, True)


def test_what_is_out_of_reach_is_not_decided_and_says_so(
    run: Run, hub: HubProcess, machine: FakeMachine
) -> None:
    machine.asks()
    asked(hub)
    nobody = run("approve", "nobody", "--yes")
    machine.go_away()
    asyncio.run(
        wait_until(lambda: hub.get("/api/v1/hosts")["hosts"][0]["reachability"] == "offline")
    )
    away = run("approve", "s", "--yes")

    assert (nobody[0], "No session's id starts with" in nobody[2]) == (1, True)
    assert (away[0], "lab is offline" in away[2]) == (1, True)
    assert machine.obeyed == []


def test_words_and_numbers_are_labels_and_all_else_is_free_text() -> None:
    single, several = QUESTIONS["questions"]

    assert labels_in("2", single) == ["Blue"]
    assert labels_in("red", single) == ["Red"]
    assert labels_in("Red, but darker", single) == ["Red, but darker"]
    assert labels_in("1, b,a", several) == ["a", "b"]
    assert labels_in("a, or so", several) == ["a, or so"]
    for text, question in (("9", single), ("1,3", several)):
        with pytest.raises(CommandError, match="there are 2"):
            labels_in(text, question)
    assert labels_in("9", {"question": "How many?"}) == ["9"]


def test_a_question_is_read_once_as_a_list_and_the_chosen_label_is_confirmed(
    run: Run, hub: HubProcess, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [{"label": "Red", "description": "as a rose"}, {"label": "Blue"}]
    payload = {"questions": [{"question": "Which colour?", "options": options}]}
    machine.asks("c3", "r3", "answer", request_kind="question", payload=payload)
    asked(hub)
    questions = replies_with(monkeypatch, "1", "n")
    err = run("answer", "c3")[2]

    assert "  Which colour?\n    1  Red  as a rose\n    2  Blue\n" in err
    assert "label" not in err
    assert questions == ["A number, or words:", "Answer so: Red? [y/N]"]


def test_what_is_called_as_its_session_is_named_once(
    run: Run, hub: HubProcess, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        about = {"request_kind": "plan", "summary": f"work of {name}"}
        machine.asks(name, f"r-{name}", "plan", payload={"plan": "# Plan"}, **about)
    asked(hub, 2)

    monkeypatch.setattr("adsum.decide.asker", lambda: lambda _question: "")
    assert "1  one#1  r-one  work of one\n" in run("plan")[2]

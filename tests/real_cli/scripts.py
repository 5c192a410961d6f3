"""What the scripted model says and asks for, turn by turn, by the name of the script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    name: str
    input: dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One answer of the model.

    wait: seconds before it, pause: seconds between words. status: an HTTP error instead, and as
    often as `times` says to each session; after that, the answer.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    pause: float = 0.0
    wait: float = 0.0
    status: int = 200
    times: int = 1_000_000


def shell(command: str, **more: Any) -> Call:
    return Call("Bash", {"command": command, "description": "Run a command", **more})


def nap(seconds: float) -> str:
    """A command that takes its time. (The CLI refuses a plain `sleep` of some seconds.)"""
    return f"python3 -c 'import time; time.sleep({seconds})'"


def agent(prompt: str, *, background: bool) -> Call:
    return Call(
        "Agent",
        {
            "description": "Look around",
            "subagent_type": "general-purpose",
            "prompt": prompt,
            "run_in_background": background,
        },
    )


def task(name: str, **given: Any) -> Turn:
    return Turn(calls=(Call(name, given),))


QUESTION = {
    "question": "Which colour should the button be?",
    "header": "Colour",
    "multiSelect": False,
    "options": [
        {"label": "Red", "description": "A red button"},
        {"label": "Blue", "description": "A blue button"},
    ],
}

FEATURES = {
    "question": "Which features do you want?",
    "header": "Features",
    "multiSelect": True,
    "options": [
        {"label": name, "description": f"With {name.lower()}"}
        for name in ("Logging", "Metrics", "Tracing")
    ],
}
STAMP = "date +%s.%N > stamp"

PLAN = "# Plan\n\n1. Do nothing\n"
#: stands for the file that the CLI has named for its plan
PLAN_FILE = "<plan file>"

SCRIPTS: dict[str, tuple[Turn, ...]] = {
    "text": (Turn("All is well."),),
    "bash": (Turn("I list the files.", (shell("echo hello; ls"),)), Turn("There they are.")),
    # Three calls in a row: six tool hooks in one turn.
    "chain": (*(Turn(calls=(shell(f"echo {n}"),)) for n in range(3)), Turn("Three steps taken.")),
    "perm": (Turn("I need a folder.", (shell("mkdir -p made/here"),)), Turn("The folder stands.")),
    "ask": (
        Turn("One question.", (Call("AskUserQuestion", {"questions": [QUESTION]}),)),
        Turn("Thanks for the answer."),
    ),
    "askm": (Turn(calls=(Call("AskUserQuestion", {"questions": [FEATURES]}),)), Turn("Thanks.")),
    "ask2": (
        Turn(calls=(Call("AskUserQuestion", {"questions": [QUESTION, FEATURES]}),)),
        Turn("Thanks."),
    ),
    "perm2": (Turn(calls=(shell("mkdir -p made/second"),)), Turn("Done with it.")),
    "perm3": (Turn(calls=(shell("mkdir -p made/third"),)), Turn("Done with it.")),
    "always": (Turn(calls=(shell("python3 -m compileall -h"),)), Turn("Checked once.")),
    "stamp": (Turn(calls=(shell(STAMP),)), Turn("Stamped.")),
    "stamps": (Turn(calls=(shell(STAMP),)), Turn("Stamped.")),
    "agents2": (
        Turn(
            "I send two.",
            (
                agent("Make it, play:innera", background=True),
                agent("Make it, play:innerb", background=True),
            ),
        ),
        Turn("They work in the background."),
        Turn("One has reported."),
        Turn("Both have reported."),
    ),
    "innera": (Turn(calls=(shell("touch by-a"),)), Turn("Made.")),
    "innerb": (Turn(calls=(shell("touch by-b"),)), Turn("Made, or not.")),
    "plan": (
        Turn("A plan.", (Call("Write", {"file_path": PLAN_FILE, "content": PLAN}),)),
        Turn(calls=(Call("ExitPlanMode", {"plan": PLAN}),)),
        Turn("The plan is carried out."),
    ),
    "agent": (
        Turn("I send a subagent.", (agent("Look around, play:inner", background=False),)),
        Turn("It reported back."),
    ),
    "agentbg": (
        Turn("I send a subagent.", (agent("Look around, play:innerslow", background=True),)),
        Turn("It works in the background."),
        Turn("It reported back."),
    ),
    "inner": (Turn("I begin.", (shell("echo inside"),)), Turn("Nothing to report.")),
    "innerslow": (Turn(calls=(shell(nap(1.2)),)), Turn("Nothing to report, late.")),
    "agentperm": (
        Turn("I send a subagent.", (agent("Make it, play:innerperm", background=True),)),
        Turn("It works in the background."),
        Turn("It has made it."),
    ),
    "team": (
        Turn(
            "I send a mate.",
            (
                Call(
                    "Agent",
                    agent("Make it, play:innerperm", background=True).input | {"name": "anna"},
                ),
            ),
        ),
        Turn("The mate works."),
        Turn("The mate has made it."),
    ),
    "innerperm": (Turn(calls=(shell("mkdir -p made/inside"),), wait=1.2), Turn("It is made.")),
    "bashbg": (
        Turn(calls=(shell(nap(2), run_in_background=True),)),
        Turn("It runs in the background."),
        Turn("It is through."),
    ),
    "bashbgperm": (
        Turn(calls=(shell(nap(2), run_in_background=True),)),
        Turn(calls=(shell("mkdir -p made/beside"),)),
        Turn("Made, beside the other."),
        Turn("Both are through."),
    ),
    "tasks": (
        task("TaskCreate", subject="First", description="The first", activeForm="Doing the first"),
        task("TaskCreate", subject="Other", description="The other", activeForm="Doing the other"),
        task("TaskUpdate", taskId="1", status="in_progress"),
        task("TaskUpdate", taskId="1", status="completed"),
        Turn("One of two is done."),
    ),
    "taskrest": (task("TaskUpdate", taskId="2", status="completed"), Turn("The rest is done.")),
    "slowtool": (Turn(calls=(shell(nap(30)),)), Turn("Slept.")),
    "slow": (Turn("One more line.\n\n" * 100, pause=0.1),),
    "talk": (Turn("One more line.\n\n" * 6, pause=0.1),),
    "mute": (Turn("At last.", wait=30),),
    "nap": (Turn(calls=(shell(nap(0.8)),)), Turn("Slept.")),
    "error": (Turn(status=400),),
    "busy": (Turn(calls=(shell(nap(1)),), status=529, times=2), Turn("It went through.")),
    "down": (Turn(status=500),),
    "permslow": (
        Turn(calls=(shell("mkdir -p made/there; " + nap(1.5)),)),
        Turn("It took its time."),
    ),
    # The model and the tool both take longer than the registry does to say so.
    "permlate": (
        Turn("I need a folder.", (shell("mkdir -p made/here; " + nap(1.5)),), wait=1.5),
        Turn("The folder stands."),
    ),
    "askslow": (
        Turn(calls=(Call("AskUserQuestion", {"questions": [QUESTION]}),)),
        Turn(calls=(shell(nap(1)),)),
        Turn("Painted."),
    ),
    "planslow": (
        Turn("A plan.", (Call("Write", {"file_path": PLAN_FILE, "content": PLAN}),)),
        Turn(calls=(Call("ExitPlanMode", {"plan": PLAN}),)),
        Turn("The plan is carried out. " * 4, pause=0.1),
    ),
}

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
    """One answer of the model. pause: seconds between words, status: an HTTP error instead."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    pause: float = 0.0
    status: int = 200


def shell(command: str, **more: Any) -> Call:
    return Call("Bash", {"command": command, "description": "Run a command", **more})


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
    ),
    "inner": (Turn("I begin.", (shell("echo inside"),)), Turn("Nothing to report.")),
    "innerslow": (Turn(calls=(shell("sleep 2; echo inside"),)), Turn("Nothing to report, late.")),
    "bashbg": (
        Turn(calls=(shell("sleep 4; echo ready", run_in_background=True),)),
        Turn("It runs in the background."),
    ),
    "tasks": (
        task("TaskCreate", subject="First", description="The first", activeForm="Doing the first"),
        task("TaskCreate", subject="Other", description="The other", activeForm="Doing the other"),
        task("TaskUpdate", taskId="1", status="in_progress"),
        task("TaskUpdate", taskId="1", status="completed"),
        Turn("One of two is done."),
    ),
    "slowtool": (Turn(calls=(shell("python3 -c 'import time; time.sleep(30)'"),)), Turn("Slept.")),
    "slow": (Turn("word " * 200, pause=0.1),),
    "error": (Turn(status=400),),
}

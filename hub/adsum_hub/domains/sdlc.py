"""Domain `sdlc`: commits, pull requests, tests, reviews and rebases of those who write software."""

from __future__ import annotations

import re

from adsum_hub.domains.commands import Line, read_line
from adsum_hub.domains.contract import API_VERSION, Display, hookimpl
from adsum_hub.domains.told import Deed, at_hand, deeds, named, pull_request
from adsum_shared.display import Chip
from adsum_shared.state import SessionView

adsum_domain_api = API_VERSION

#: While it runs: label, icon, and whether the branch's name belongs to it.
RUNNING: dict[str, tuple[str, str, bool]] = {
    "tests": ("Running tests", "circle-dashed", False),
    "make tests": ("Running tests", "circle-dashed", False),
    "checks": ("Checking the code", "search", False),
    "build": ("Building", "wrench", False),
    "commit": ("Committing to", "git-branch", True),
    "push": ("Pushing", "git-branch", True),
    "rebase": ("Rebasing", "git-branch", True),
    "merge": ("Merging into", "git-branch", True),
    "open": ("Opening a pull request", "git-branch", False),
    "review": ("Reviewing a pull request", "search", False),
}
#: The same without a branch.
NAMELESS = {"Committing to": "Committing", "Merging into": "Merging"}

#: A runner's word that it ran and a test failed. Others say that it could not even start, was
#: killed, or ran out of time. Make and scripts of its kind exit with theirs for any reason.
FAILING = re.compile(r"Exit code (?:1|101)\b")
STOPPED = {"rebase": "Rebase stopped", "merge": "Merge stopped"}

WRITERS = frozenset({"edit", "write"})
FAILING_CHIP = Chip("Tests failing", "bad")


@hookimpl
def interpret(session: SessionView) -> Display | None:
    state = session.state.state
    label: str | None = None
    icon: str | None = None
    chips: list[Chip] = []
    if state == "acting":
        label, icon = _running(session)
    elif state in {"retrying", "error"}:
        label, icon = _failed(session)
    elif state in {"delegating", "waiting_for_agent"}:
        label, icon = _reviewing(session)
    elif state in {"idle", "task_complete"}:
        label, icon, chips = _done(session)
    number = pull_request(session)
    if number is not None and label != f"PR #{number} opened":
        chips.append(Chip(f"PR #{number}"))
    if label is None and not chips:
        return None
    return Display(label=label, icon=icon, chips=tuple(chips))


def _line(done: Deed) -> Line | None:
    return read_line(done.summary) if done.role == "shell" else None


def _branch(session: SessionView, line: Line) -> str | None:
    """None where it may be another's: HEAD is no branch, and a `cd` leads anywhere."""
    return None if line.elsewhere or session.branch in {None, "HEAD"} else session.branch


def _running(session: SessionView) -> tuple[str | None, str | None]:
    """Of a line with several kinds nobody knows which of them is running."""
    done = at_hand(session)
    line = _line(done) if done is not None else None
    if line is None:
        return None, None
    kinds = line.kinds
    kind = "commit" if kinds == {"commit", "push"} else next(iter(kinds), "")
    if (len(kinds) > 1 and kind != "commit") or kind not in RUNNING:
        return None, None
    label, icon, about_branch = RUNNING[kind]
    branch = _branch(session, line) if about_branch else None
    return (named(label, branch) if branch else NAMELESS.get(label, label)), icon


def _failed(session: SessionView) -> tuple[str | None, str | None]:
    done = at_hand(session)
    if done is None:
        return None, None
    if _tests_failed(done):
        return "Tests failing", "octagon-x"
    line = _line(done)
    stopped = STOPPED.get(line.blamed or "") if line is not None else None
    if stopped is not None and FAILING.match(done.error or ""):
        return stopped, "git-branch"
    return None, None


def _tests_failed(done: Deed) -> bool:
    line = _line(done)
    blamed = line is not None and line.blamed == "tests"
    return blamed and bool(FAILING.match(done.error or ""))


def _reviewing(session: SessionView) -> tuple[str | None, str | None]:
    """All that works for it are reviewers by their type."""
    running = [child for child in session.children if child.status == "running"]
    if running and all("review" in (child.type or "").lower() for child in running):
        return "Reviewing the changes", "search"
    return None, None


def _done(session: SessionView) -> tuple[str | None, str | None, list[Chip]]:
    """The latest commit or pull request of the turn, and tests that were left failing."""
    committed = opened = failing = moved = False
    branch: str | None = None
    for done in deeds(session):
        if done.role in WRITERS:
            failing = False  # nobody has tried since
        line = _line(done)
        if line is None:
            continue
        moved = moved or line.elsewhere
        if line.kinds & {"tests", "make tests"}:
            failing = _tests_failed(done)
        if done.error is not None:
            continue
        if "undo" in line.kinds:
            committed = False
        sure = {step.kind for step in line.steps if step.certain}
        if "commit" in sure and "undo" not in line.kinds:
            committed, opened, branch = True, False, _branch(session, line)
        opened = opened or "open" in sure
    chips = [FAILING_CHIP] if failing else []
    if opened:
        number = pull_request(session)
        label = f"PR #{number} opened" if number is not None else "Pull request opened"
        return label, "git-branch", chips
    if committed:
        # The branch is the one of now: after a change of it, not the one that was committed to.
        label = named("Committed to", branch) if branch and not moved else "Committed"
        return label, "git-branch", chips
    return ("Tests failing", "octagon-x", []) if failing else (None, None, [])

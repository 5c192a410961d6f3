"""Domain `creative`: drafts, revisions and exports of those who write texts or draw."""

from __future__ import annotations

import re

from adsum_hub.domains.commands import read_line
from adsum_hub.domains.contract import API_VERSION, Display, hookimpl
from adsum_hub.domains.told import Deed, at_hand, deeds, named
from adsum_shared.state import SessionView

adsum_domain_api = API_VERSION

#: What people read or look at. A project's code is not this domain's business.
WORKS = re.compile(
    r"[^/\\]+\.(?:md|markdown|txt|rst|adoc|tex|typ|docx|odt|rtf|fountain|html|svg)$", re.IGNORECASE
)


@hookimpl
def interpret(session: SessionView) -> Display | None:
    state = session.state.state
    if state == "acting":
        return _under_way(at_hand(session))
    if state == "awaiting_approval":
        return Display(label="Outline ready for feedback", icon="clipboard-check")
    if state in {"idle", "task_complete"}:
        return _finished(deeds(session))
    return None


def _work(done: Deed) -> str | None:
    """The file's name: a summary holds no more of a path."""
    return done.summary if WORKS.fullmatch(done.summary) else None


def _under_way(done: Deed | None) -> Display | None:
    if done is None:
        return None
    work = _work(done)
    if work is not None and done.role == "write":
        return Display(label=named("Drafting", work), icon="pen-line")
    if work is not None and done.role == "edit":
        return Display(label=named("Revising", work), icon="pen-line")
    if done.role == "shell" and read_line(done.summary).kinds == {"export"}:
        return Display(label="Exporting the draft", icon="package-check")
    return None


def _finished(done: list[Deed]) -> Display | None:
    """The last of the turn's deeds that this domain knows."""
    for each in reversed(done):
        if each.error is not None:
            continue
        work = _work(each)
        if work is not None and each.role == "write":
            return Display(label=named("Draft ready:", work), icon="pen-line")
        if work is not None and each.role == "edit":
            return Display(label=named("Revision ready:", work), icon="pen-line")
        steps = read_line(each.summary).steps if each.role == "shell" else ()
        if any(step.kind == "export" and step.certain for step in steps):
            return Display(label="Draft exported", icon="package-check")
    return None

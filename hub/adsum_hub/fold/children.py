"""Fold steps for what works on without the main agent, and for the tasks it set itself."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_hub.parts import CHILDREN_MAX, TASKS_MAX, Child, Task, earliest
from adsum_shared import signals as s

Changes = dict[str, Any]


def child_started(facts: Facts, signal: s.ChildStarted) -> Changes:
    held = facts.children.get(signal.child_id) or Child(signal.child_kind)
    merged = replace(
        held,
        kind=signal.child_kind,
        started=earliest(held.started, signal.at),
        restarted=max(held.restarted, signal.at),
        last=max(held.last, signal.at),
        type=held.type or signal.type,
        description=held.description or signal.description,
    )
    return put_child(facts, signal.child_id, merged)


def child_changed(facts: Facts, signal: s.ChildChanged) -> Changes:
    held = facts.children.get(signal.child_id) or Child(signal.child_kind, started=signal.at)
    return put_child(facts, signal.child_id, replace(held, last=max(held.last, signal.at)))


def child_finished(facts: Facts, signal: s.ChildFinished) -> Changes:
    if signal.child_id == s.ALL_CHILDREN:
        # Not by closing those we know: one may be told of later that had begun before.
        return {"killed": signal.at} if signal.at > facts.killed else {}
    return finish_child(
        facts, signal.child_id, signal, signal.status, signal.child_kind, notified=signal.notified
    )


def finish_child(
    facts: Facts,
    child_id: str,
    signal: s.Signal,
    status: str,
    kind: str = "agent",
    *,
    notified: bool = False,
) -> Changes:
    held = facts.children.get(child_id) or Child(kind)
    merged = replace(
        held,
        finished=max(held.finished, signal.at),
        notified=max(held.notified, signal.at) if notified else held.notified,
        last=max(held.last, signal.at),
        status=status if signal.at > held.finished else held.status,
    )
    return put_child(facts, child_id, merged)


def listed(
    children: dict[str, Child], entry: s.BackgroundTask, signal: s.TurnEnded
) -> dict[str, Child]:
    """A Stop names what still runs, and is itself a witness of it."""
    held = children.get(entry.id) or Child(entry.kind, started=signal.at, restarted=signal.at)
    merged = replace(
        held,
        last=max(held.last, signal.at),
        description=held.description or entry.description,
    )
    if entry.status not in ("running", "pending"):
        merged = replace(merged, finished=max(merged.finished, signal.at), status=entry.status)
    return children if merged == children.get(entry.id) else {**children, entry.id: merged}


def put_child(facts: Facts, child_id: str, child: Child) -> Changes:
    if child == facts.children.get(child_id):
        return {}
    return {"children": bounded_children({**facts.children, child_id: child})}


def bounded_children(children: dict[str, Child]) -> dict[str, Child]:
    if len(children) > CHILDREN_MAX:
        oldest = min(children, key=lambda key: (children[key].running, children[key].last))
        children = {key: child for key, child in children.items() if key != oldest}
    return children


def task_created(facts: Facts, signal: s.TaskCreated) -> Changes:
    held = facts.tasks.get(signal.task_id, Task())
    merged = replace(
        held,
        created=earliest(held.created, signal.at),
        subject=held.subject or signal.subject,
    )
    return put_task(facts, signal.task_id, merged)


def task_completed(facts: Facts, signal: s.TaskCompleted) -> Changes:
    """Fires in mid-turn for to-do items, so it decides nothing here: it counts at the turn's end."""
    held = facts.tasks.get(signal.task_id, Task())
    merged = replace(
        held,
        completed=earliest(held.completed, signal.at),
        subject=held.subject or signal.subject,
    )
    return put_task(facts, signal.task_id, merged)


def put_task(facts: Facts, task_id: str, task: Task) -> Changes:
    if task == facts.tasks.get(task_id):
        return {}
    tasks = {**facts.tasks, task_id: task}
    if len(tasks) > TASKS_MAX:
        oldest = min(tasks, key=lambda key: (not tasks[key].completed, tasks[key].created))
        del tasks[oldest]
    return {"tasks": tasks}

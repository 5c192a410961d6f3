"""Where the main agent's turn stands by hooks and transcript alone: open, or closed and how."""

from __future__ import annotations

import msgspec

from adsum_hub.facts import Facts
from adsum_hub.limits import LAUNCH, START_SLACK
from adsum_hub.parts import LATENESS, Tool, Turn
from adsum_hub.resolve.gathered import Calls, Turns


class Standing(msgspec.Struct, frozen=True):
    """opened: the latest opener (0: no turn known); closed: the close that ended it, 0 if open.

    began: when the turn of that opener began. how: ended, failed or interrupted.
    finished: the main agent's latest tool finish, and which. run: when the present run began.
    """

    opened: int = 0
    prompt_id: str = ""
    began: int = 0
    closed: int = 0
    how: str = ""
    turn: Turn | None = None
    source: str = "hook"
    finished: tuple[int, str] = (0, "")
    run: int = 0

    @property
    def open(self) -> bool:
        return bool(self.opened) and not self.closed


def run_began(facts: Facts) -> int:
    """The run of the session that counts: what happened before it is void. 0 = all there is.

    A run begins with a new process, or with `session.started(resume)` inside one. The resume's
    stamp is that of a shim that runs beside the session, so where the process has just been
    started, its start is the better word.
    """
    process = facts.process
    launched = process.started - START_SLACK if process and process.started else 0
    if process is not None and 0 < process.before <= process.started + START_SLACK:
        # A kill and a resume within a second: what the dead one was at is void all the same.
        launched = max(launched, process.before)
    if process is not None and not process.started and not process.first_of_all:
        launched = process.seen
    if not facts.resumed:
        return max(launched, 0)
    ends = [end.at for end in (facts.ended, facts.left) if end is not None]
    # The resume's stamp may be late, a process's end is not.
    ends += [process.gone + LATENESS] if process is not None and process.gone else []
    inside = any(launched < end <= facts.resumed for end in ends)
    if launched and launched <= facts.resumed <= launched + LAUNCH and not inside:
        return launched
    return max(launched, facts.resumed - LATENESS)


def rank(turns: dict[str, Turn], prompt_id: str, at: int) -> int:
    """Orders turns by the first that was heard of them; those without a name, by time."""
    turn = turns.get(prompt_id) if prompt_id else None
    return turn.first if turn is not None else at


def ends(turns: dict[str, Turn], key: str, turn: Turn, prompt_id: str, at: int) -> bool:
    """Whether this turn's close is the end of something of `prompt_id` that began at `at`.

    A Stop of the turn *before* can be stamped late, after the next prompt: its prompt id betrays
    it. A Stop with a younger id ends older turns too: a queued prompt is hooked under the id of
    the turn it waited for, and closes under its own. And so does one with an older id that is
    later than late: the report of a background task can join the turn that runs.
    """
    if not turn.closed or turn.closed < at:
        return False
    if key in ("", prompt_id) or not prompt_id or turn.closed > at + LATENESS:
        return True
    return turn.first >= rank(turns, prompt_id, at)


def over(told: Turns, prompt_id: str | None, at: int) -> int:
    """When the main agent's turn ended in which something began at `at`; 0 if it has not.

    By a close, or by a human's prompt of another turn: no hook fires on Esc or No, so the next
    prompt may be the first to tell.
    """
    if told.closed < at and told.typed <= at:
        return 0  # as below: nothing of either kind is that late
    key = prompt_id or ""
    found = told.over.get((key, at))
    if found is None:
        found = told.over[key, at] = _over(told.turns, key, at)
    return found


def _over(turns: dict[str, Turn], key: str, at: int) -> int:
    times = [turn.closed for name, turn in turns.items() if ends(turns, name, turn, key, at)]
    times += [
        turn.prompt
        for name, turn in turns.items()
        if turn.typed and name and name != key and turn.prompt > at
    ]
    return min(times, default=0)


def standing(facts: Facts, told: Turns, calls: Calls) -> Standing:
    """From the openers (prompts, tool starts) of the youngest turn, and what closed it.

    Finishes open nothing: they come late, and after the end.
    """
    turns, latest = told.turns, told.opener
    for key, (_, last) in calls.openers.items():
        latest = max(latest, (rank(turns, key, last), last, key))
    run = run_began(facts)
    _, opened, key = latest
    if not opened:
        return _never_opened(told, calls.finished, run)
    turn_of = turns.get(key)
    prompt = turn_of.prompt if turn_of is not None else 0
    first = calls.openers[key][0] if key in calls.openers else opened
    began = prompt if 0 < prompt <= opened else first
    closed, name = _closed_by(told, key, opened)
    if closed:
        turn = turns[name]
        how = how_closed(turn, opened)
        return Standing(opened, key, began, closed, how, turn, turn.source, calls.finished, run)
    if opened < run:
        # kill -9 and a resume: the old turn can have no end of its own.
        return Standing(
            opened, key, began, run, "interrupted", None, "process", calls.finished, run
        )
    source = _opened_by(facts, calls, opened)
    return Standing(opened, key, began, source=source, finished=calls.finished, run=run)


def _closed_by(told: Turns, key: str, opened: int) -> tuple[int, str]:
    """When, and by which turn's close."""
    if told.closed < opened:
        return 0, ""
    turns = told.turns
    closes = [
        (turn.closed, name) for name, turn in turns.items() if ends(turns, name, turn, key, opened)
    ]
    return max(closes, default=(0, ""))


def _never_opened(told: Turns, finished: tuple[int, str], run: int) -> Standing:
    """A close alone, whose opener nobody saw."""
    closes = [(turn.closed, name) for name, turn in told.turns.items() if turn.closed]
    if not closes:
        return Standing(finished=finished, run=run)
    closed, name = max(closes)
    turn = told.turns[name]
    how = how_closed(turn, 0)
    return Standing(closed, name, closed, closed, how, turn, turn.source, finished, run)


def how_closed(turn: Turn, opened: int) -> str:
    """A failed turn is also reported as ended, by another witness: the graver word holds."""
    if turn.failed and turn.failed >= opened:
        return "failed"
    if turn.interrupted and turn.interrupted >= opened:
        return "interrupted"
    return "ended"


def _opened_by(facts: Facts, calls: Calls, opened: int) -> str:
    if opened <= calls.latest:
        for tool in calls.tools.values():
            if tool.first == opened:
                return tool.source
    return "hook" if facts.hook_at >= opened else "transcript"


def main_tools(told: Turns, calls: Calls, run: int) -> list[tuple[str, Tool]]:
    """The main agent's open calls in the turn that runs, oldest first."""
    found = [
        (key, tool)
        for key, tool in calls.open
        if tool.first >= run and not over(told, tool.prompt_id, tool.first)
    ]
    return sorted(found, key=lambda item: (item[1].first, item[0])) if len(found) > 1 else found


def failed_tool(facts: Facts, stand: Standing, told: Turns) -> Tool | None:
    """The main agent's latest call, if it failed and nothing has happened since.

    (Rejected: PostToolUseFailure is an error at once, the first seed's reading.)
    """
    at, key = stand.finished
    if not at or max(stand.opened, facts.progress) > at:
        return None
    tool = facts.tools[key]
    if tool.ok or tool.denied or tool.is_interrupt:
        return None
    return None if over(told, tool.prompt_id, at) else tool


def last_main(facts: Facts, stand: Standing, told: Turns) -> int:
    """The newest thing that hooks or transcript said of the main agent.

    A prompt typed into the queue is none: it says that a human types, and not what the agent does.
    """
    heard = max(facts.progress, facts.compacting, facts.compacted)
    return max(stand.opened, stand.finished[0], told.closed, heard)

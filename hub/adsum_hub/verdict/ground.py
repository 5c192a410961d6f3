"""Derives from the facts what no time changes: turns, calls, requests, children, the turn's place.

Each part is found of one dictionary of the facts. Nearly every signal leaves all but one of them as
they are, so a part holds for as long as its dictionary is the very same object.

Nothing here, nor in facts, verdicts and views, can be part of a cycle, so the garbage collector need
not look at it (`gc=False`): that took a third of what verdict and view cost, 39 us of which 25 are left.
"""

from __future__ import annotations

import msgspec

from adsum_hub import facts as known
from adsum_hub.facts import Child, Facts, Request, Status, Tool, Turn, same_process
from adsum_shared.signals import GOAL, LATENESS, NETWORK

#: A process start is known to a second at worst (the kernel tells its boot time in seconds).
START_SLACK = 1_000
#: A resume this soon after its process started is that process's own beginning.
LAUNCH = 30_000


class Turns(msgspec.Struct, frozen=True, gc=False):
    """closed: the latest close. opener: the youngest turn's rank, its latest opener, its key.

    typed: the latest prompt that a human typed in a turn with a name, typed_at in any. final: the
    latest word that the user's own hooks on an end had run. 0 = none.
    """

    by_id: dict[str, Turn]
    closed: int
    opener: tuple[int, int, str]
    typed: int
    typed_at: int
    final: int = 0


class Calls(msgspec.Struct, frozen=True, gc=False):
    """latest: the youngest call. finished: the main agent's latest, and when. done: of these alone.

    openers: the main agent's first and last start by prompt id, and by whose word the last. open:
    its calls that have begun and not ended. timed: anybody's that also have a time-out.
    unanswered: questions that came back without answers.
    """

    by_id: dict[str, Tool] = {}
    done: Calls | None = None
    latest: int = 0
    ended: int = 0
    finished: tuple[str, Tool] | None = None
    openers: dict[str, tuple[int, int, str]] = {}
    open: list[tuple[str, Tool]] = []
    timed: list[Tool] = []
    unanswered: list[tuple[str, Tool]] = []


class Requests(msgspec.Struct, frozen=True, gc=False):
    """pending: those that nothing has closed. closed: the latest close of the others."""

    by_id: dict[str, Request]
    pending: list[tuple[str, Request]]
    closed: int


class Children(msgspec.Struct, frozen=True, gc=False):
    """running: those whose own last word is a start. oldest: the longest ago one of these was heard.

    finished: the latest word of one that has finished. 0 = none.
    """

    by_id: dict[str, Child]
    running: dict[str, Child]
    oldest: int
    finished: int


class Standing(msgspec.Struct, frozen=True, gc=False):
    """Where the main agent's turn stands by hooks and transcript alone: open, or closed and how.

    opened: the latest opener (0: no turn known); closed: the close that ended it, 0 if open.
    began: when the turn of that opener began. how: ended, failed or interrupted.
    """

    opened: int = 0
    began: int = 0
    closed: int = 0
    how: str = ""
    turn: Turn | None = None
    source: str = "hook"

    @property
    def open(self) -> bool:
        return bool(self.opened) and not self.closed


class Ground(msgspec.Struct, frozen=True, gc=False):
    """run: when the present run began. unclosed: what only the registry can have ended.

    last_closed: when the last of the other requests was over. heard: the newest thing that anybody
    said at all. tools: the main agent's open calls, oldest first.
    """

    facts: Facts
    turns: Turns
    calls: Calls
    requests: Requests
    children: Children
    status: Status | None
    run: int
    stand: Standing
    unclosed: list[tuple[str, Request]]
    last_closed: int
    heard: int
    tools: list[tuple[str, Tool]]

    @property
    def last_main(self) -> int:
        """The newest thing that hooks or transcript said of the main agent.

        A prompt typed into the queue is no word of it: that says that a human types.
        """
        facts, ended, closed = self.facts, self.calls.ended, self.turns.closed
        return max(
            self.stand.opened, ended, closed, facts.progress, facts.compacting, facts.compacted
        )


NO_CALLS = Calls()
NO_GROUND = Ground(
    Facts(""), Turns({}, 0, (0, 0, ""), 0, 0), NO_CALLS, Requests({}, [], 0), Children({}, {}, 0, 0),
    None, 0, Standing(), [], 0, 0, [],
)  # fmt: skip


def rests_on_the_same(a: Facts, b: Facts) -> bool:
    """Whether nothing differs but who was heard when, and what no verdict looks at.

    What a signal leaves as it is stays the very same object, numbers too. Nearly all facts that
    differ do so in the first line.
    """
    return (
        a.tools is b.tools and a.turns is b.turns and a.progress is b.progress and a.status is b.status
        and a.done is b.done and a.children is b.children and a.requests is b.requests
        and a.named is b.named and a.process is b.process and a.tasks is b.tasks
        and a.queued is b.queued and a.dequeued is b.dequeued and a.drained is b.drained
        and a.killed is b.killed and a.released is b.released and a.ended is b.ended
        and a.left is b.left and a.closing is b.closing and a.engaged is b.engaged
        and a.resumed is b.resumed and a.born is b.born and a.known is b.known
        and a.compacting is b.compacting and a.compacted is b.compacted
        and a.commanded is b.commanded and a.retry is b.retry and a.doubled is b.doubled
        and a.dismissed is b.dismissed and a.suspension is b.suspension and a.read is b.read
        and a.budget is b.budget and a.budget_answered is b.budget_answered
        and a.delivered is b.delivered
        and (a.meta is b.meta or a.about("mate") == b.about("mate"))
    )  # fmt: skip


def ground_of(facts: Facts, last: Ground | None = None) -> Ground:
    """last: of the same session, of which is taken over whatever holds."""
    last = last or NO_GROUND
    before = last.facts
    turns, calls, requests, children = last.turns, last.calls, last.requests, last.children
    if turns.by_id is not facts.turns:
        turns = gather_turns(facts.turns)
    if before.tools is not facts.tools or before.done is not facts.done:
        calls = calls_of(facts, calls)
    if requests.by_id is not facts.requests:
        requests = gather_requests(facts.requests)
    if children.by_id is not facts.children:
        children = gather_children(facts.children)
    if (
        before.process is facts.process
        and before.status is facts.status
        and before.named == facts.named
        and before.left is facts.left
        and before.ended is facts.ended
        and before.resumed == facts.resumed
    ):
        status, run = last.status, last.run
    else:
        status, run = valid(facts), run_began(facts)
    stand, tools = last.stand, last.tools
    if last.turns is not turns or last.calls is not calls or last.run != run:
        tools = main_tools(turns, calls, run)
        if last.turns is not turns or last.calls.openers != calls.openers or last.run != run:
            stand = standing(turns, calls, run)
    if requests.pending or calls.unanswered:
        unclosed, last_closed = unclosed_of(facts, turns, calls, requests, run, tools)
    else:
        unclosed, last_closed = [], requests.closed  # as above: most sessions ask nothing
    return Ground(
        facts, turns, calls, requests, children, status, run, stand, unclosed, last_closed,
        facts.updated_at, tools,
    )  # fmt: skip


def gather_turns(turns: dict[str, Turn]) -> Turns:
    opener = 0, 0, ""
    closed = typed = typed_at = final = 0
    for key, turn in turns.items():
        end = turn.closed
        if end > closed:
            closed = end
        if turn.final > final:
            final = turn.final
        prompt = at = turn.prompt
        if turn.reopened > at:
            at = turn.reopened
        if at:
            ranked = turn.first if key else at, at, key
            if ranked > opener:
                opener = ranked
        if turn.typed:
            if prompt > typed_at:
                typed_at = prompt
            if key and prompt > typed:
                typed = prompt
    return Turns(turns, closed, opener, typed, typed_at, final)


def calls_of(facts: Facts, last: Calls) -> Calls:
    """Those that ended a while ago are many and change seldom, so they are gathered apart."""
    done = last.done
    if done is None or done.by_id is not facts.done:
        done = gather_calls(facts.done, NO_CALLS)
    return gather_calls(facts.tools, done)


def gather_calls(tools: dict[str, Tool], done: Calls) -> Calls:  # noqa: C901, PLR0912 - as below
    """One plain loop without a call in it: it is what a signal costs most. done: those beside them."""
    latest, ended, finished, unanswered = done.latest, done.ended, done.finished, done.unanswered
    openers = dict(done.openers)
    begun: list[tuple[str, Tool]] = []
    timed: list[Tool] = []
    for each in tools.items():
        tool = each[1]
        first, end = tool.first, tool.finished
        if first > latest:
            latest = first
        if end:
            if tool.role == "question" and tool.ok and not (tool.answered or tool.denied):
                unanswered = [*unanswered, each]
        elif tool.started and tool.timeout_ms:
            timed.append(tool)
        if tool.agent_id is not None:
            continue
        if end > ended or (end == ended and finished is not None and each[0] > finished[0]):
            ended, finished = end, each
        if tool.started:
            if not end:
                begun.append(each)
            key = tool.prompt_id or ""
            held = openers.get(key)
            if held is None:
                openers[key] = first, first, tool.source
            elif first > held[1]:
                openers[key] = held[0], first, tool.source
            elif first < held[0]:
                openers[key] = first, held[1], held[2]
    return Calls(tools, done, latest, ended, finished, openers, begun, timed, unanswered)


def gather_requests(requests: dict[str, Request]) -> Requests:
    """A close whose request nobody has seen is none of a request."""
    pending: list[tuple[str, Request]] = []
    closed = 0
    for each in requests.items():
        request = each[1]
        if not request.kind:
            continue
        if not request.closed:
            pending.append(each)
        elif request.closed > closed:
            closed = request.closed
    return Requests(requests, pending, closed)


def gather_children(children: dict[str, Child]) -> Children:
    running: dict[str, Child] = {}
    oldest = finished = 0
    for key, child in children.items():
        end = child.finished
        if end and max(end, child.last) > finished:
            finished = max(end, child.last)
        # A tool start may be a hook stamped late, a start names the new run itself.
        if child.restarted > end or child.active > end + LATENESS:
            running[key] = child
            if child.last < oldest or not oldest:
                oldest = child.last
    return Children(children, running, oldest, finished)


def valid(facts: Facts) -> Status | None:
    """The registry's word, while it stands by it and its process is the session's living one.

    None read before it was left: that was of the command. (Rejected: none stamped before that; a
    file that is away for a moment bears the old stamp again.)
    """
    status, process, left = facts.status, facts.process, facts.left
    if status is None or (left is not None and left.at >= min(facts.named, status.seen)):
        return None
    if process is None or status.pid is None:
        return status
    living = not process.gone and same_process(process, status.pid, status.started)
    return status if living else None


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
    if process is not None and process.again and not (process.heir or process.first_of_all):
        # It came from another session: what the process before it was at is void once that was over.
        # (Not of one that was left with it, whose dialog stands, nor where it alone has ever had it.)
        over = [end.at for end in (facts.ended, facts.left) if end and end.at <= process.again]
        over += [process.before] if process.before <= process.again else []
        launched = max([launched, *over])
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
    closed = turn.closed
    if not closed or closed < at:
        return False
    if key in ("", prompt_id) or not prompt_id or closed > at + LATENESS:
        return True
    return turn.first >= rank(turns, prompt_id, at)


def over(told: Turns, prompt_id: str | None, at: int) -> int:
    """When the main agent's turn ended in which something began at `at`; 0 if it has not.

    By a close, or by a human's prompt of another turn: no hook fires on Esc or No, so the next
    prompt may be the first to tell.
    """
    if told.closed < at and told.typed <= at:
        return 0  # as below: nothing of either kind is that late
    key, turns = prompt_id or "", told.by_id
    times = [turn.closed for name, turn in turns.items() if ends(turns, name, turn, key, at)]
    times += [
        turn.prompt
        for name, turn in turns.items()
        if turn.typed and name and name != key and turn.prompt > at
    ]
    return min(times, default=0)


def standing(told: Turns, calls: Calls, run: int) -> Standing:
    """From the openers (prompts, tool starts) of the youngest turn, and what closed it.

    Finishes open nothing: they come late, and after the end.
    """
    turns = told.by_id
    youngest, opened, key = told.opener
    for name, starts in calls.openers.items():
        last = starts[1]
        if last + LATENESS < youngest:
            # No turn ranks later than its calls, but for a late hook, and but for one that only the
            # finish of such a call names: that came late, and makes an older turn no younger.
            continue
        turn_of = turns.get(name) if name else None
        first = turn_of.first if turn_of is not None else last
        if first > youngest or (first == youngest and (last, name) > (opened, key)):
            youngest, opened, key = first, last, name
    if not opened:
        return _never_opened(told)
    turn_of = turns.get(key)
    prompt = turn_of.prompt if turn_of is not None else 0
    begun, last, source = calls.openers.get(key, (opened, 0, ""))
    began = prompt if 0 < prompt <= opened else begun
    closed, turn = _closed_by(told, key, opened) if told.closed >= opened else (0, None)
    if turn is not None:
        return Standing(opened, began, closed, how_closed(turn, opened), turn, turn.source)
    if opened < run:
        # kill -9 and a resume: the old turn can have no end of its own.
        return Standing(opened, began, run, "interrupted", None, "process")
    # By the word of a call that opened it; nothing for a prompt, which both witnesses tell of.
    return Standing(opened, began, source=source if last == opened else "")


def _closed_by(told: Turns, key: str, opened: int) -> tuple[int, Turn | None]:
    """When, and by which turn's close."""
    closes = [
        (turn.closed, name)
        for name, turn in told.by_id.items()
        if turn.closed >= opened and ends(told.by_id, name, turn, key, opened)
    ]
    closed, name = max(closes, default=(0, ""))
    return closed, told.by_id[name] if closes else None


def _never_opened(told: Turns) -> Standing:
    """A close alone, whose opener nobody saw."""
    closes = [(turn.closed, name) for name, turn in told.by_id.items() if turn.closed]
    if not closes:
        return Standing()
    closed, name = max(closes)
    turn = told.by_id[name]
    return Standing(closed, closed, closed, how_closed(turn, 0), turn, turn.source)


def how_closed(turn: Turn, opened: int) -> str:
    """A failed turn is also reported as ended, by another witness: the graver word holds."""
    if turn.failed and turn.failed >= opened:
        return "failed"
    if turn.interrupted and turn.interrupted >= opened:
        return "interrupted"
    return "ended"


def opener_source(ground: Ground) -> str:
    stand = ground.stand
    return stand.source or ("hook" if ground.facts.hook_at >= stand.opened else "transcript")


def main_tools(told: Turns, calls: Calls, run: int) -> list[tuple[str, Tool]]:
    """The main agent's open calls in the turn that runs, oldest first."""
    if not calls.open:
        return calls.open
    found = [
        (key, tool)
        for key, tool in calls.open
        if tool.first >= run
        and (told.closed < tool.first >= told.typed or not over(told, tool.prompt_id, tool.first))
    ]
    return sorted(found, key=lambda item: (item[1].first, item[0])) if len(found) > 1 else found


def failed_tool(ground: Ground) -> Tool | None:
    """The main agent's latest call, if it failed and nothing has happened since.

    (Rejected: PostToolUseFailure is an error at once, the first seed's reading.)
    """
    at, finished = ground.calls.ended, ground.calls.finished
    if finished is None or ground.stand.opened > at or ground.facts.progress > at:
        return None
    tool = finished[1]
    if tool.ok or tool.denied or tool.is_interrupt:
        return None
    return None if over(ground.turns, tool.prompt_id, at) else tool


def closed_at(facts: Facts, told: Turns, request: Request) -> int:
    """When a witness ended it, 0 if none has.

    Sticky: only its own tool's finish, a decision, or the end of *its* agent's turn. A parallel
    tool, another agent's event or an assistant line must not. (Rejected: one time-out for all; it
    forgets a question the human takes three minutes to answer.)
    """
    if request.closed:
        return request.closed
    released = facts.released.get(request.request_id or "", 0)
    if released >= request.opened:
        return released
    form_of = request.server and request.kind == "dialog" and known.subagents_call(facts, request)
    if form_of and form_of.finished:
        return form_of.finished
    if request.request_id == GOAL:
        return told.typed_at if told.typed_at > request.opened else 0
    if request.tool == NETWORK and request.agent_id is None:
        ran = [tool.finished for tool in facts.calls.values() if tool.finished > request.opened]
        return min(
            [*ran, *filter(None, [over(told, request.prompt_id, request.opened)])], default=0
        )
    agent_id = form_of.agent_id if form_of else request.agent_id
    if agent_id is not None:
        # A subagent's request outlives its parent's Stop: seen, 1.4 s before it was answered.
        child = facts.children.get(agent_id)
        ended = child.finished if child is not None and not child.running else 0
        return ended if ended >= request.opened else 0
    unnamed = facts.turns.get("")
    if unnamed is not None and unnamed.typed and unnamed.prompt > request.opened:
        # Old CLIs name no prompt. But a dialog has the keyboard: who types has left it.
        return unnamed.prompt
    return over(told, request.prompt_id, request.opened)


def unclosed_of(
    facts: Facts,
    told: Turns,
    calls: Calls,
    requests: Requests,
    run: int,
    tools: list[tuple[str, Tool]],
) -> tuple[list[tuple[str, Request]], int]:
    """What is asked and no witness but the registry can have ended, oldest first.

    And when the last of the others was over.
    """
    asked = requests.pending
    if calls.unanswered:
        asked = asked + unasked_answers(facts, calls)
    over_at = {key: closed_at(facts, told, request) for key, request in asked}
    if any(request.kind == "dialog" for _, request in asked):
        over_at |= granted_by_forms(facts, told, asked, over_at)
    found = [item for item in asked if not over_at[item[0]] and item[1].opened >= run]
    if len(tools) > 1 and found:
        found = [item for item in found if not waits_its_turn(*item, tools)]
    if len(found) > 1:
        found.sort(key=lambda item: (item[1].opened, item[0]))
    return found, max([requests.closed, *over_at.values()])


def waits_its_turn(key: str, request: Request, tools: list[tuple[str, Tool]]) -> bool:
    """Whether another call of one message runs first. tools: the main agent's open calls.

    The transcript tells of all calls of a message at once, and a hook of each as it begins. So a
    question that no hook has told of is on no screen while a call runs of which one has.
    (Rejected: to believe the transcript at once; a question behind a build called people for as long
    as that took.)
    """
    if request.agent_id is not None or request.kind not in ("question", "plan"):
        return False
    hooked = [name for name, tool in tools if tool.hooked]
    return bool(hooked) and key not in hooked and any(name == key for name, _ in tools)


def granted_by_forms(
    facts: Facts, told: Turns, asked: list[tuple[str, Request]], over_at: dict[str, int]
) -> dict[str, int]:
    """Permissions that must have been granted, since their tool's server asks something: when.

    A server asks only for a call that runs. So its form proves what no event tells before the call
    has ended, and it stays proved when the form is closed. It proves nothing where another call of
    that server may have asked; of several it is the one asked for first, since dialogs wait for each
    other. (Rejected: the more urgent of both; that one was behind the form. Rejected: only what the
    registry says is on the screen; between the form and the next `busy` the permission came back.)
    """
    granted: dict[str, int] = {}
    forms = ((it.opened, it.server) for _, it in asked if it.kind == "dialog" and it.server)
    for at, server in sorted(forms):
        behind = [
            (request.opened, key)
            for key, request in asked
            if request.kind == "permission"
            and request.server == server
            and request.opened <= at
            and key not in granted
            and not 0 < over_at[key] < at
        ]
        waiting = {key for _, key in behind}
        if behind and not any(
            tool.server == server
            and tool.first <= at
            and key not in waiting
            and not 0 < (tool.finished or over(told, tool.prompt_id, tool.first)) < at
            for key, tool in facts.calls.items()
        ):
            granted[min(behind)[1]] = at
    return granted


def unasked_answers(facts: Facts, calls: Calls) -> list[tuple[str, Request]]:
    """A question that came back without answers and was never seen to ask.

    All that is left of the first seed's *a finished question means it waits for input*:
    that hook fires after the human has answered.
    """
    return [
        (
            key,
            Request(
                "question",
                tool.finished,
                tool=tool.tool,
                role=tool.role,
                tool_use_id=key,
                agent_id=tool.agent_id,
                prompt_id=tool.prompt_id,
                summary=tool.summary,
            ),
        )
        for key, tool in calls.unanswered
        if key not in facts.requests and max(facts.progress, calls.latest) <= tool.finished
    ]

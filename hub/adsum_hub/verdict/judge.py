"""judge(facts, now) -> Verdict: what a session is doing, what it asks, who runs, and until when.

Pure: `now` is milliseconds of the *host's* clock and comes in as a parameter, and so does the
session's verdict before, from which is taken over what still holds.
"""

from collections.abc import Set

import msgspec
from msgspec.structs import replace

from adsum_hub.facts import Child, Facts, Request, Turn
from adsum_hub.verdict.ground import Ground, ground_of, rests_on_the_same
from adsum_hub.verdict.reading import LIMITS, Clock, Limits, Reading, is_killed, read
from adsum_hub.verdict.rules import decide, final
from adsum_shared.signals import LATENESS
from adsum_shared.state import OVER, AgentState, Group

#: How long a prompt's own hook may keep us waiting beyond LATENESS: the latest of 78 recorded ones
#: came 2.1 s after its line's stamp.
GRACE = 5_000
#: How a human ends a session, before whose eyes it is then: /exit, /clear, /resume, /logout.
BY_HAND = frozenset({"prompt_input_exit", "clear", "resume", "logout", "left"})

NOBODY: frozenset[str] = frozenset()
NEEDS_YOU = Group.NEEDS_YOU  # looked up a thousand times a second, by an enum's own slow way


class Review(msgspec.Struct, frozen=True, gc=False):
    """What a turn that has ended left for a human to review. since: when the last of it was made.

    sha, branch: of the latest commit; pr: address. None: not told. opened: a pull request was.
    """

    commits: int
    since: int
    sha: str | None = None
    branch: str | None = None
    pr: str | None = None
    opened: bool = False


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """All times: the host's clock.

    requests: what a human is asked, oldest first. children: those at work. hooks: what is wrong
    with the session's hooks: `missing`, `doubled`. began: when a human last set it to work. heard: the
    latest word of any witness. until: nothing of this changes by itself
    before; None: not without a signal. ground: what the next one may be made of; judged: when it was.
    """

    state: AgentState
    requests: list[tuple[str, Request]]
    children: frozenset[str]
    hooks: str | None
    unread: bool
    began: int
    heard: int
    until: int | None
    ground: Ground | None = None
    judged: int = 0
    review: Review | None = None


def judge(facts: Facts, now: int, limits: Limits = LIMITS, last: Verdict | None = None) -> Verdict:
    if last is not None and _still_holds(last, facts, now, limits):
        return replace(last, heard=facts.updated_at)
    clock = Clock(now)
    ground = ground_of(facts, None if last is None else last.ground)
    reading = read(ground, clock, limits)
    state = decide(reading)
    over = state.state in OVER
    requests = reading.requests
    children: Set[str] = running(reading, state) if ground.children.running else NOBODY
    if last is not None:
        # The very same objects where they are equal: then the view of them holds as well.
        state = last.state if last.state == state else state
        requests = last.requests if last.requests == requests else requests
        children = last.children if last.children == children else children
    return Verdict(
        state,
        requests,
        children if isinstance(children, frozenset) else frozenset(children),
        hook_problem(ground, clock, over=over),
        unread(ground, state, requests, over=over),
        max(ground.turns.typed_at, facts.queued, facts.budget_answered) or facts.born,
        ground.heard,
        clock.until,
        # Of a session that is over most likely nothing comes any more, and there may be thousands.
        None if over else ground,
        now,
        review(ground, state, children) if facts.delivered and not requests else None,
    )


def _still_holds(last: Verdict, facts: Facts, now: int, limits: Limits) -> bool:
    """Whether a signal has done nothing but to show that somebody was heard: half of them do.

    A witness's word moves silence farther away and shows that hooks are there, and nothing of
    either was decided by what had been heard before.
    """
    if last.ground is None:
        return False
    opened, before = last.ground.stand.opened, last.ground.facts
    return (
        rests_on_the_same(before, facts)
        and last.judged <= now < (now + 1 if last.until is None else last.until)
        and now < last.heard + min(limits.transient, limits.stuck_after)
        and last.hooks is None
        and opened > 0
        and (before.hook_at >= opened or before.hook_at == facts.hook_at)
    )


# Children.


def running(reading: Reading, state: AgentState) -> Set[str]:
    """Those at work: none of a session that is over, and none that has been given up.

    A subagent that waits for a human is silent for as long as that takes. So is one whose call the
    main agent waits for; which of them the call is, nobody says before its end.
    """
    if state.state in OVER and final(reading) is not None:
        return NOBODY
    facts, ground = reading.facts, reading.ground
    if (
        ground.children.running is reading.children
        or ground.children.running.keys() <= reading.children.keys()
    ):
        return ground.children.running.keys()  # as below: nearly always
    asking = {request.agent_id for _, request in reading.requests}
    awaited = reading.open and any(tool.role == "agent" for _, tool in ground.tools)
    return frozenset(
        key
        for key, child in ground.children.running.items()
        if (facts.drained <= child.last or key in reading.children)
        and child.last >= ground.run
        and not is_killed(facts, child)
        and (key in reading.children or key in asking or (awaited and child.kind == "agent"))
    )


# Witnesses: how well the session's hooks are heard.


def hook_problem(ground: Ground, clock: Clock, *, over: bool) -> str | None:
    """over: the session has ended, so nothing of it is missing any more."""
    missing = None if over else missing_from(ground)
    if missing is not None and clock.passed(missing):
        return "missing"
    return "doubled" if ground.facts.doubled and is_doubled(ground.facts) else None


def missing_from(ground: Ground) -> int | None:
    """From when on the session's hooks count as missing; None while nothing speaks for that.

    A session whose hooks are gone may have nothing else to say for minutes. Counted from the
    *earliest* prompt that no hook told of, since in a session of short turns the latest is always
    within its grace.
    """
    facts = ground.facts
    if facts.hook_at and ground.turns.typed_at <= facts.hook_at + LATENESS:
        return None  # as below, and nearly always
    # Of what happened before a collector looked no hook could tell; a line is 0.2 s old when read.
    heard = max(facts.hook_at + LATENESS if facts.hook_at else 0, facts.known - LATENESS)
    # The registry is believed only where no hook was ever heard. (Rejected: any `busy` later than
    # the last hook; an approval at the terminal and a typed /compact make one too.)
    engaged = facts.engaged > heard and not facts.hook_at
    if ground.turns.typed_at <= heard and not engaged:
        return None  # as below
    prompts = [
        turn.prompt
        for turn in facts.turns.values()
        if turn.prompt > heard and turn.typed and not _may_have_waited(facts, turn.prompt)
    ]
    if engaged:
        prompts.append(facts.engaged)
    return min(prompts) + LATENESS + GRACE if prompts else None


def _may_have_waited(facts: Facts, prompt: int) -> bool:
    """A queued prompt's hook fires when it is typed, long before its turn begins."""
    began = prompt - LATENESS
    return 0 < facts.queued < began and not facts.queued <= facts.dequeued < began


def is_doubled(facts: Facts) -> bool:
    """A hook came twice, and no call of a later prompt has come once since.

    A call counts as come once when later hooks have come and its second delivery has not.
    """
    later = [turn.prompt for turn in facts.turns.values() if turn.prompt > facts.doubled]
    return not later or not any(
        tool.hooked >= min(later) and tool.hooked + LATENESS <= facts.hook_at
        for tool in facts.calls.values()
    )


# Unread: whether something has called for a human whom nobody has answered since.


def unread(
    ground: Ground, state: AgentState, requests: list[tuple[str, Request]], *, over: bool
) -> bool:
    """A state that calls for a human is unread until somebody prompts it, looks, or ends it.

    It outlives that state: an agent at rest that its own background task wakes is at work again,
    and one that ends is over, and still nobody has looked. So past calls count too, as far as
    facts tell of them. (Rejected: the facts alone; an error is one only when its grace is over,
    and a turn's end calls nobody while a shell that only the registry knows of goes on.)
    """
    facts = ground.facts
    looked = max(facts.read, ground.turns.typed_at)
    if facts.ended is not None or facts.left is not None:
        looked = max(looked, _ended_by_hand(facts))
    if calls(state):
        called = state.since
        for _, request in requests:
            called = max(called, request.opened)
        return called > looked
    if not over and ground.turns.closed <= looked:
        return False  # as below
    return _called_at(facts, looked, over=over) > looked


def calls(state: AgentState) -> bool:
    """Not one that is only slow, nor one that nobody has asked anything of yet."""
    if state.group is NEEDS_YOU:
        prompted = state.context is None or state.context.get("prompted") is not False
        return state.state != "stuck" and prompted
    return state.state == "task_complete"


# Review: what a turn that is over has made, and nobody has answered since.

#: A turn is over in these, where nothing is asked. Not in `error`, which is to be seen to first, and
#: not in `archived`: whoever dismissed it has seen it.
RESTED = frozenset(
    {"idle", "task_complete", "awaiting_input", "session_ended", "waiting_for_agent"}
)


def review(ground: Ground, state: AgentState, children: Set[str]) -> Review | None:
    """Commits and pull requests of calls that were made since a human last prompted the session.

    It stands beside the state and changes nothing of it: that a session waits for its next prompt is
    as true with a commit as without. (Rejected: a state of its own. It would take the place of
    `idle`, `task_complete` and `session_ended`, which are of two groups, and whoever sorts, notifies
    or measures by these would find another answer in the same situation.)

    The witness is what git and the forges' tools printed to the agent's own call. (Rejected: git of
    the working directory. Sessions share one, and humans commit there as well; and to ask git runs
    what the repository's configuration names. Rejected: that a command said `git commit`. It may
    have had nothing to commit.) So a commit that printed nothing is not seen, and one that was taken
    back within the turn still counts.

    The next prompt ends it: whoever writes has looked, or wants something else first. A turn that a
    background task began has none, and goes on with what came before it. While subagents work, more
    may come; a shell that goes on may be a server, which never ends.
    """
    facts = ground.facts
    if state.state not in RESTED or (state.state == "awaiting_input" and ground.stand.open):
        return None
    if any(facts.children[key].kind in ("agent", "workflow") for key in children):
        return None
    commits, since, opened = 0, 0, False
    sha = branch = pr = None
    for at, made in sorted(facts.delivered.values(), key=lambda each: each[0]):
        if at <= ground.turns.typed_at:
            continue
        since = at
        for each in made:
            if each.deed == "pull_request":
                opened, pr = True, each.ref
            else:
                commits += each.deed == "commit" or not commits  # an amended one that is older
                sha, branch = each.ref, each.branch
    return Review(commits, since, sha, branch, pr, opened) if since else None


def _ended_by_hand(facts: Facts) -> int:
    found = 0
    if facts.ended is not None and facts.ended.reason in BY_HAND:
        found = facts.ended.at
    if facts.left is not None and facts.left.reason in BY_HAND:
        found = max(found, facts.left.at)
    return found


def _called_at(facts: Facts, looked: int, *, over: bool) -> int:
    """When it was last at rest or asked something, before what it is now."""
    called = [
        _rested_at(facts, turn, over=over) for turn in facts.turns.values() if turn.closed > looked
    ]
    if over:
        called += [r.opened for r in facts.requests.values() if not r.closed]
    return max(called, default=0)


def _rested_at(facts: Facts, turn: Turn, *, over: bool) -> int:
    """Since when nothing ran between this turn's end and what came next; 0 if something always did.

    While the latest turn is not followed by anything, the state itself says whether it rests.
    """
    closed, after = turn.closed, _next_opener(facts, turn.closed)
    if not after and not over:
        return 0
    rested = closed
    for child in facts.children.values():
        if child.running and child.last >= closed:
            return 0
        if child.finished > closed and (not after or child.started < after):
            rested = max(rested, child.finished + LIMITS.wake)
    return rested if not after or rested < after else 0


def _next_opener(facts: Facts, closed: int) -> int:
    openers = [
        at for turn in facts.turns.values() for at in (turn.first, turn.prompt, turn.reopened)
    ]
    openers += [tool.started for tool in facts.calls.values() if tool.agent_id is None]
    return min((at for at in openers if at > closed), default=0)


def end_of(facts: Facts, child: Child) -> tuple[str, int]:
    """How and when a child that is not at work came to its end.

    An orphan, of whose end nobody told and which cannot be at work any more, has none of its own:
    it is when it was last heard.
    """
    killed = is_killed(facts, child)
    if child.until and child.running:
        return "completed", child.last
    if child.running and facts.drained <= child.last and not killed:
        return "orphaned", child.last
    if child.finished:
        return "completed" if child.status == "running" else child.status, child.finished
    if facts.drained > child.last:
        return "completed", facts.drained
    return "killed", facts.killed

"""Reads the facts at one instant: which requests are open, and who is at work."""

from typing import Any

import msgspec

from adsum_hub.facts import Child, Facts, Request, Status
from adsum_hub.verdict.ground import Children, Ground, Standing
from adsum_shared.signals import LATENESS, NETWORK
from adsum_shared.state import GROUP_OF, AgentState, StateSource

SOURCES: dict[str, StateSource] = {
    "hook": "hook",
    "statusline": "hook",
    "transcript": "transcript",
    "registry": "registry",
    "process": "process",
}


#: What the registry waits for where no hook opens a request. Claude Code writes these words only while no
#: permission dialog and no form is open, and a background command or a finished turn may cause them.
UNHOOKED = frozenset({"sandbox request", "goal proposal", "worker request"})


#: In the id of a team mate with a pane and a session of its own, between its name and its team.
IN_PANE = "@session-"


class Limits(msgspec.Struct, frozen=True):
    """The time limits of the state rules, in milliseconds, each with its reason."""

    #: No time: of one machine no more sessions are listed. Whoever takes a machine over makes 30,000
    #: in eight seconds, and every list and page would crawl.
    most_sessions: int = 2_000
    #: A failed tool may be recovered from this long before it counts as an error. 0 gives the
    #: first seed's immediate error; rejected as default, agents recover from a failing test.
    error_grace: int = 10_000
    #: Transient states without a witness for so long rest on what else is known (seed rule).
    transient: int = 60_000
    #: Nothing from any witness for so long, no open tool inside its own time-out, and the process
    #: stands still: a look every half minute finds a hang within three. While a model thinks, its
    #: API sends a ping about every 30 s (litellm#36024), so four are missing.
    stuck_after: int = 120_000
    #: The same where nobody has looked at the process. The CLI itself bears a silent model
    #: this long at least (2.1.330: 300 s between bytes by its source; 361 s measured before the
    #: first), and then says so: until then the model is inside its own time-out, as a tool is.
    #: (Rejected: `stuck_after`. A model may think for three minutes, and no hook or line tells.)
    model_silence: int = 300_000
    compaction: int = 600_000
    #: A child that finished wakes its parent within this time, unless the parent was told.
    wake: int = 5_000
    #: A subagent of which nothing is heard (its SubagentStop does not always come).
    child_silence: int = 300_000
    #: The registry is written up to half a second after the fact.
    registry_hold: int = 500
    #: On a machine under load it came up to 3.3 s after the fact (2.1.330, load 20 on two cores): what
    #: it said before may stand there so long.
    registry_late: int = 5_000
    #: A registry stamp this much newer than an opener cannot be a late report of before it.
    registry_ahead: int = 250
    #: What the registry says for less than this, it says in passing: a command is `busy` before it
    #: opens its dialog (25 ms measured), a permitted call before it opens a form (46 to 85 ms).
    passing: int = 200
    #: A `busy` stamped this much after a request opened is no late report of before it, and one that
    #: stands so long is none either: of a hundred dialogs on loaded machines the latest was `waiting`
    #: in the registry after 0.8 s. A notification waits as long.
    registry_missed: int = 1_000
    #: A headless run writes its cost report up to so long before it ends (1.5 s after an API error).
    closing: int = 2_000
    #: The user's own hooks on a turn's end, or before a dialog, may take so long, by the client's limit.
    own_hooks: int = 600_000
    #: A dialog's own hook comes within this time of the registry's `waiting`.
    nameless: int = 300


LIMITS = Limits()


class Clock(msgspec.Struct, gc=False):
    """The present, as far as rules may ask for it: whether an instant has come.

    until: the soonest instant that somebody asked for and that is still to come. Before it every
    answer given here stays the same, and so does whatever was made of these answers alone.
    """

    now: int
    until: int | None = None

    def passed(self, at: int) -> bool:
        if self.now >= at:
            return True
        if self.until is None or at < self.until:
            self.until = at
        return False


class Reading(msgspec.Struct, gc=False):
    """idle, busy, waiting: since when the registry's word applies, 0 if it does not.

    children: those that live, and may wake their parent.
    """

    ground: Ground
    facts: Facts
    clock: Clock
    limits: Limits
    status: Status | None
    stand: Standing
    requests: list[tuple[str, Request]]
    children: dict[str, Child]
    idle: int = 0
    busy: int = 0
    waiting: int = 0
    #: a turn of the main agent runs
    open: bool = False
    #: it has ended by the agent's word, and the user's own hooks on that may send the agent on
    stopping: bool = False


def read(ground: Ground, clock: Clock, limits: Limits) -> Reading:
    status, stand = ground.status, ground.stand
    gathered = ground.children
    children: dict[str, Child] = {}
    if gathered.by_id:
        children = alive(ground.facts, gathered, ground.run, status, clock, limits)
    requests = ground.unclosed
    if requests:
        requests = unanswered(ground, status, clock, limits)
    is_open = bool(stand.opened) and not stand.closed
    waiting = idle = busy = 0
    if status is None:
        pass
    elif status.status == "waiting":
        if not requests and not _cancelled(status, stand, children, clock, limits):
            waiting = nameless_since(status, ground.last_closed, stand.opened, clock, limits)
    elif status.status == "busy":
        if not children:
            busy = busy_since(status, ground, clock, limits)
        if is_open:
            idle = rested_since(status, stand.opened, clock, limits)
    elif is_open:
        idle = closed_since(status, stand.opened, clock, limits)
    stops = not is_open and not children and is_stopping(ground, status, clock, limits)
    runs = bool(busy) or (is_open and not idle) or stops
    return Reading(
        ground, ground.facts, clock, limits, status, stand, requests, children,
        idle, busy, waiting, runs, stops,
    )  # fmt: skip


def _cancelled(
    status: Status, stand: Standing, children: dict[str, Child], clock: Clock, limits: Limits
) -> bool:
    """Return whether the turn ended after `waiting`, with no child alive that could be asking.

    The registry's next word may be late, but not for ever. A dialog without a hook outlives its turn.
    """
    return (
        stand.closed > status.at
        and not children
        and status.waiting_for not in UNHOOKED
        and not clock.passed(stand.closed + limits.registry_late)
    )


def unanswered(
    ground: Ground, status: Status | None, clock: Clock, limits: Limits
) -> list[tuple[str, Request]]:
    """Of what is asked, what the registry does not mask.

    `idle` ends what the turn has asked. Where an agent asks at its turn's end, as for a plan, it is
    `idle` because of that.
    """
    if status is None:
        return ground.unclosed
    idle = closed_since(status, ground.stand.opened, clock, limits)
    return [
        (key, request)
        for key, request in ground.unclosed
        if not masked(request, asked_at(ground, key, request), status, clock, limits)
        and not (
            request.agent_id is None
            and idle >= request.opened
            and not 0 < ground.stand.closed <= request.opened
        )
    ]


# The CLI's registry: a mask and a last resort, never a competitor. Newer evidence with an id, by
# hook or transcript, always beats it. It alone sees Esc, No, an approval at the terminal, and
# dialogs that have no hook.


def asked_at(ground: Ground, key: str, request: Request) -> int:
    """When it came to the screen: with its call, of which the transcript may have told long before."""
    call = ground.facts.call(key)
    return max(request.opened, call.hooked) if call is not None else request.opened


def masked(request: Request, asked: int, status: Status, clock: Clock, limits: Limits) -> bool:
    """Answered at the terminal, as far as anyone can see. asked: see above.

    No event tells of an approval until the tool has finished, ten minutes later for a build. But
    `waiting` held after the request opened, and no longer. Never from any `busy`: its report
    can be 350 ms late, so it may be older than the dialog. But one stamped well after the request
    is a return from a `waiting` too short to have been read (seen on a loaded machine: a dialog
    answered within half a second stood for as long as its tool ran). (Rejected: to let either stand
    for half a second; between two dialogs of one batch it is `busy` for 0.2 to 0.4 s, and so long
    the screen shows its spinner.) And where the registry tells of dialogs and has not of this one,
    it is on no screen: a hook of the user's own decides in its place, for minutes. So it is with a
    subagent in the background, whose request is hooked before any dialog, with a question, which is
    known by its call, and with a server's form, whose hook comes as the user's own begin. (Not with
    the main agent's permissions: theirs stand there meanwhile. Nor with what a hook of ours holds:
    that is asked of a human elsewhere. Of a subagent's there is no dialog before that hook is over, so
    no word of the registry is about it.)

    Where every dialog is told of, that is so from the first instant: of 97 dialogs the registry's
    word was within 0.1 s of the screen, and the hook 0.02 to 0.4 s ahead of it. (Rejected: to show
    it for a second; each call of a human was false for so long as the user's own hook ran.) But no
    longer than the client lets a hook run: then the registry cannot be believed, as on a full disk.
    """
    if request.hold and request.agent_id is not None:
        return False
    if status.status == "waiting":
        if request.tool == NETWORK:  # one host at a time; the registry's own word has no host
            return status.released > asked or not request.summary
        return status.waiting_for in UNHOOKED and asked < status.at and not request.hold
    told_early = request.agent_id is not None or request.kind in ("question", "plan", "dialog")
    if status.status == "busy" and status.released <= asked and not request.hold:
        hidden = limits.own_hooks if told_early else limits.registry_late
        if status.dialogs and not clock.passed(asked + hidden):
            return True
        if told_early and status.released and not clock.passed(asked + limits.own_hooks):
            return clock.passed(asked + limits.registry_missed)
    if status.status == "busy" and status.at >= asked + limits.registry_missed:
        return clock.passed(status.at + limits.passing)
    released = status.released
    return released > asked and clock.passed(released + limits.passing)


def closed_since(status: Status, opened: int, clock: Clock, limits: Limits) -> int:
    """Since when the registry says that the turn opened at `opened` is over; 0 if it does not.

    `shell` is an end too: only a background shell is left. A prompt is hooked a moment before or
    after its `busy` is written, so an older `idle` that follows an older `busy` stands until that
    must have come, and one that is hardly younger must still stand half a second later. (Rejected:
    half a second for both; on loaded machines prompts and reports of subagents were shown as idle for
    a moment.) One that follows a `busy` as young as the prompt is not older: a hook of the user's
    own refuses a prompt that fast.
    """
    if status.status not in ("idle", "shell"):
        return 0
    if is_end(status.at, status.busy, opened, limits):
        return status.at
    before = status.at < opened and status.busy < opened - limits.registry_ahead
    late = limits.registry_late if before else limits.registry_hold
    held = max(status.at, opened) + late
    return held if clock.passed(held) else 0


def rested_since(status: Status, opened: int, clock: Clock, limits: Limits) -> int:
    """Return when the turn that began at `opened` ended, judged by a rest that a new `busy` followed; else 0.

    The registry reports a turn's end up to 0.6 s before the transcript. A `busy` in between most likely begins
    a new turn, so it is believed as late as after a known end. (Rejected: counting it for the open turn at once.
    A /compact typed within that time showed as work for 30 to 60 ms, as idle once the transcript reported the
    end, and as work again.)
    """
    if status.released > status.rested or clock.passed(status.busy + limits.passing):
        return 0
    return status.rested if is_end(status.rested, status.worked, opened, limits) else 0


def is_end(rested: int, busy: int, opened: int, limits: Limits) -> bool:
    """Whether a rest, after a `busy` that began at `busy`, is surely the end of the turn opened at `opened`."""
    own_busy = opened - limits.registry_ahead <= busy < rested
    return rested >= opened + limits.registry_ahead or (own_busy and rested >= opened)


def busy_since(status: Status, ground: Ground, clock: Clock, limits: Limits) -> int:
    """Since when it says that a turn runs of which no hook and no transcript knows.

    Its word may be a late one of the turn that has just ended, but not where it has been at rest
    since: then it is sooner believed. (A typed /compact is one: no hook that we install tells of it.
    Rejected: at once; /btw, /model and their like are busy for a moment before their dialog opens.
    Rejected: only one newer than all that was heard of the main agent; the user's own hooks run on
    after a compaction has said that it is over.)
    """
    if status.at <= ground.stand.opened or status.at <= ground.turns.closed:
        return 0
    rested = status.rested >= ground.turns.closed > 0
    hold = limits.passing if rested else limits.registry_hold
    return status.at if clock.passed(status.at + hold) else 0


def is_stopping(ground: Ground, status: Status | None, clock: Clock, limits: Limits) -> bool:
    """Whether the user's own hooks on the turn's end may still run.

    Our hook and the last line of the answer come when these begin, and they may take minutes and
    send the agent on. The registry stays `busy` for as long, and leaves it with the screen; the
    transcript tells when they have run, and its word counts even then, since `/model` in mid-turn
    leaves a `busy` behind for good. Without a registry nobody knows, but for a session in which they
    took long before. (Rejected: idle at once, and back with the hook's feedback; it called people
    to an agent that worked for up to 17 s. Rejected: to wait for `busy` to have stood half a second,
    as elsewhere; every end would flicker. Rejected without a registry: to wait for the transcript
    always; a run without a terminal never tells it, and every end would be shown later.)
    """
    stand, final = ground.stand, ground.turns.final
    if stand.how != "ended" or final >= max(stand.closed - LATENESS, stand.opened):
        return False
    if status is not None:
        if status.status != "busy" or status.at > stand.closed or leads_panes(ground):
            return False
        # A shell that it knew of before is likely to be its next word: nothing shall flicker.
        known = status.shell and not clock.passed(stand.closed + limits.registry_hold)
        return not known and not clock.passed(stand.closed + limits.own_hooks)
    slow = any(turn.final > turn.said + LATENESS > LATENESS for turn in ground.turns.by_id.values())
    return slow and not clock.passed(stand.closed + limits.transient)


def leads_panes(ground: Ground) -> bool:
    """Return whether it has a team mate in a pane: then its registry says `busy` also while all rest."""
    return any(IN_PANE in child for child in ground.children.by_id)


def nameless_since(
    status: Status, last_close: int, opened: int, clock: Clock, limits: Limits
) -> int:
    """Since when it waits for a human although no witness has opened a request.

    It may go from one dialog to the next without ceasing to wait. But a request that has closed since
    its word was most likely the one it waited for: that word is only late. (Rejected: to count a
    moment from the close; a form that was sent, and a plan that was accepted, came back as a nameless
    dialog on loaded machines.) A dialog without a hook has no such witness to wait for.
    """
    if status.waiting_for in UNHOOKED:
        return status.at
    held = max(status.waiting or status.at, opened) + limits.nameless
    if last_close:
        late = limits.registry_late if last_close >= status.at else limits.nameless
        held = max(held, last_close + late)
    return status.at if clock.passed(held) else 0


# Children: whatever works on without the main agent, and may wake it.


def alive(
    facts: Facts, children: Children, run: int, status: Status | None, clock: Clock, limits: Limits
) -> dict[str, Child]:
    """Children that run, or have finished so lately that their parent is about to wake up.

    A Stop does not end them: in the terminal every subagent runs in the background, the Stop
    comes first, then SubagentStop (which still lists itself as running), then a notification
    prompt and a second Stop. Nor does SubagentStop always come, so each child has a second end:
    the list in a later Stop, or five minutes of silence.
    """
    found: dict[str, Child] = {}
    word, said = (status.status, status.at) if status is not None else (None, 0)
    running, oldest = children.running, children.oldest
    if (
        word != "idle"
        and not facts.killed
        and oldest >= max(run, facts.drained)
        and not clock.passed(oldest + limits.child_silence)
    ):
        found, running = running, {}  # as below: nearly always none has been silent for so long
    for key, child in running.items():
        last = child.last
        if child.until:
            if last >= run and is_due(facts, child) and not clock.passed(child.until + limits.wake):
                found[key] = child
            continue
        if last < run or last < facts.drained or is_killed(facts, child):
            continue
        unseen = child.kind in ("shell", "monitor") and status is not None and not status.shells
        if word == "idle" and not unseen and clock.passed(max(said, last) + limits.registry_hold):
            continue
        # A server in the background says nothing for hours, a cron entry until its time comes; and
        # the registry stays `busy` while a subagent works, however silent.
        talks = child.kind == "agent" and not (word == "busy" and said <= last)
        if not talks or not clock.passed(last + limits.child_silence):
            found[key] = child
    drained = facts.drained
    if children.finished < drained or clock.passed(children.finished + limits.child_silence):
        return found  # of many that were told of, or have ended long ago, nothing is asked
    return found | _waking(facts, children, run, status, clock, limits)


def _waking(
    facts: Facts, children: Children, run: int, status: Status | None, clock: Clock, limits: Limits
) -> dict[str, Child]:
    """Those that have finished so lately that their parent is about to wake up."""
    word, said = (status.status, status.at) if status is not None else (None, 0)
    return {
        key: child
        for key, child in children.by_id.items()
        if word_of_end(facts, child) >= facts.drained  # asked first, since few have
        and key not in children.running
        and child.last >= run
        and not is_killed(facts, child)
        and _wakes_parent(facts, child, status, clock, limits)
        and not (word == "idle" and clock.passed(max(said, child.last) + limits.registry_hold))
    }


def is_due(facts: Facts, child: Child) -> bool:
    """Whether something scheduled is still to wake its parent.

    The registry is `idle` all the while, and a Stop lists it under another id, so neither ends it. A
    prompt typed since does: it may be what was scheduled, and else a human is there, to whom the
    end of that turn is to be told. (What Esc at rest takes back, nobody tells.)
    """
    return facts.typed_at <= child.restarted


def is_killed(facts: Facts, child: Child) -> bool:
    """Ctrl-C kills all subagents at once, and none of them wakes its parent."""
    killed = facts.killed
    return killed > child.restarted and killed > child.active and child.kind == "agent"


def word_of_end(facts: Facts, child: Child) -> int:
    """When it ended, or was listed as not reported yet; before `drained`, if a Stop lists it no more."""
    return max(child.finished, facts.drained) if child.last >= facts.drained else child.finished


def _wakes_parent(
    facts: Facts, child: Child, status: Status | None, clock: Clock, limits: Limits
) -> bool:
    """In the gap between its end and the notification that starts the parent's next turn.

    The user's own hooks on a subagent's end run in it, for minutes, and may send it on: its hook and
    its last line come before. The registry stays `busy` for as long, and the Stop of a turn that a human
    begins meanwhile lists it still. (Rejected: to wait as long without the registry; a report that is
    lost would hide a session that waits for its human.)
    """
    finished = word_of_end(facts, child)
    busy = status is not None and status.status == "busy" and status.at <= finished
    busy = busy and child.kind == "agent"
    gap = limits.child_silence if busy else limits.wake
    # A report that joins a running turn is stamped a little before the end it reports.
    told = child.notified + LATENESS if child.notified else 0
    if told >= finished or clock.passed(finished + gap):
        return False
    return busy or not any(turn.prompt >= finished for turn in facts.turns.values())


def state(
    name: str,
    label: str,
    since: int,
    confidence: float,
    source: str,
    context: dict[str, Any] | None = None,
) -> AgentState:
    told_by = SOURCES.get(source, "fallback")
    return AgentState(GROUP_OF[name], name, label, confidence, told_by, since, context)

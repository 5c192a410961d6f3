"""Fleets to show: every state, hosts in trouble, hostile words, thousands of sessions."""

from __future__ import annotations

from typing import Any

import msgspec

from adsum_hub.views import rank
from adsum_shared.state import (
    GROUP_OF,
    UNKNOWN_URGENCY,
    URGENCY,
    ActivityEntry,
    AgentState,
    ChildView,
    Group,
    HostAgent,
    HostView,
    HostWitness,
    Reachability,
    RequestView,
    SessionView,
    WitnessName,
    WitnessView,
)

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def session(
    name: str, state: str, label: str, *, now: int, age: int = MINUTE, **more: Any
) -> SessionView:
    """A session in `state` since `age` ms; more: any field of SessionView."""
    host = more.pop("host", "alpha")
    reachability: Reachability = more.pop("reachability", "live")
    group = more.pop("group", None) or GROUP_OF[state]
    urgency = URGENCY.get(state, UNKNOWN_URGENCY) if group is Group.NEEDS_YOU else None
    agent_state = AgentState(
        group=group, state=state, label=label, confidence=0.95, source="hook", since=now - age
    )
    return SessionView(
        id=f"{host}:{name}",
        host_id=host,
        host=host,
        session_id=name,
        agent="claude_code",
        state=agent_state,
        reachability=reachability,
        updated_at=now - min(age, 4 * MINUTE),
        rank=rank(agent_state, reachability, urgency, now - age),
        urgency=urgency,
        **{"project": name.split("-", maxsplit=1)[0], "witnesses": witnesses(now), **more},
    )


WITNESSES: tuple[WitnessName, ...] = ("hook", "transcript", "registry", "process", "statusline")


def witnesses(now: int, **problems: str) -> tuple[WitnessView, ...]:
    """Those of one session, all of them heard; problems: by witness."""
    return tuple(
        WitnessView(
            name=name,
            heard_at=0 if problems.get(name) == "missing" else now - n * 7 * SECOND,
            problem=problems.get(name),
        )
        for n, name in enumerate(WITNESSES)
    )


def host_witnesses(now: int, **unwell: HostWitness) -> tuple[HostWitness, ...]:
    """Those of one machine: heard, but for a status line that nobody has set up."""
    return tuple(
        unwell.get(name)
        or (
            HostWitness(name=name)
            if name == "statusline"
            else HostWitness(name=name, state="ok", heard_at=now - n * 3 * SECOND)
        )
        for n, name in enumerate((*WITNESSES, "shim"))
    )


def activity(now: int, count: int = 12) -> list[ActivityEntry]:
    """A story of work, over and over, oldest first; its last entry is a minute old."""
    story = (
        ("prompt.submitted", "Make the refund test pass on every run", None),
        ("tool.started", "Bash: pytest -x tests/refunds -k settle --count 50", None),
        ("tool.finished", "Bash failed: 3 of 50 runs failed", None),
        ("child.started", "Find who else writes settled_at", "c1"),
        ("tool.started", "Grep: settled_at", "c1"),
        ("tool.finished", "Grep", "c1"),
        ("child.finished", "Find who else writes settled_at: completed", "c1"),
        ("tool.started", "Edit: refunds/settle.py", None),
        ("tool.finished", "Edit", None),
        ("alive", "Notification: Claude needs your permission to use Bash", None),
        ("request.opened", "permission: Bash psql $STAGING_URL", None),
        ("agent.dreamt", "of electric sheep", None),
    )
    return [ActivityEntry(now - (count - n) * MINUTE, *story[n % len(story)]) for n in range(count)]


CLAUDE = HostAgent("claude_code", "Claude Code", "claude --resume")


def host(name: str, now: int, reachability: Reachability = "live", **more: Any) -> HostView:
    ago = {"live": 2 * SECOND, "late": 21 * SECOND, "offline": 4 * MINUTE}[reachability]
    known = {"witnesses": host_witnesses(now), "version": "0.3.0", "agents": (CLAUDE,), **more}
    return HostView(id=name, label=name, reachability=reachability, last_seen=now - ago, **known)


def permission(command: str, now: int, age: int, description: str | None = None) -> RequestView:
    return RequestView(
        id="r1",
        kind="permission",
        tool="Bash",
        opened_at=now - age,
        summary=command,
        payload={"command": command, "description": description},
    )


def waiting(now: int) -> list[SessionView]:
    question = RequestView(
        id="q1",
        kind="question",
        opened_at=now - 8 * MINUTE,
        payload={
            "questions": [
                {
                    "question": "Should deleted invoices stay visible to auditors?",
                    "header": "Audit",
                    "options": [
                        {"label": "Keep, read-only", "description": "…"},
                        {"label": "Hide, keep in export", "description": "…"},
                        {"label": "Delete after 30 days", "description": "…"},
                    ],
                },
                {"question": "And for support staff?", "options": []},
            ]
        },
    )
    plan = RequestView(
        id="p1",
        kind="plan",
        tool="ExitPlanMode",
        opened_at=now - 3 * MINUTE,
        payload={
            "plan": "# Move sessions to Redis\n\n1. Add a SessionStore port with two adapters\n"
            "2. Write both for one release, read from Postgres\n3. Switch reads behind a flag\n"
            "4. Drop the table once no reads are left for a week\n\nRisk: logins during the switch."
        },
    )
    return [
        session(
            "search-ranking",
            "awaiting_input",
            "Asked you a question",
            now=now,
            age=8 * MINUTE,
            title="Soft-delete for invoices",
            project="billing",
            branch="feature/soft-delete",
            model="claude-sonnet-4-5-20250929",
            requests=(question,),
            unread=True,
        ),
        session(
            "payments-1",
            "needs_permission",
            "Needs permission: Bash",
            now=now,
            age=4 * MINUTE + 7000,
            host="beta",
            title="Fix the flaky refund test",
            project="payments-api",
            cwd="~/src/payments-api",
            branch="fix/refund-race",
            model="claude-opus-4-1-20250805",
            unread=True,
            requests=(
                permission(
                    "psql $STAGING_URL -c 'ALTER TABLE refunds ADD COLUMN settled_at timestamptz'",
                    now,
                    4 * MINUTE,
                    "Add the missing column to the staging database",
                ),
            ),
        ),
        session(
            "web-2",
            "needs_permission",
            "Needs permission: Bash",
            now=now,
            age=40 * SECOND,
            title="Upgrade to the new router",
            project="web",
            branch="chore/router",
            model="claude-sonnet-4-5-20250929",
            requests=(permission("npm install --save-exact @app/router@7.2.0", now, 40000),),
            children=(
                ChildView(
                    id="c1",
                    kind="agent",
                    status="running",
                    started_at=now - 90 * SECOND,
                    type="Explore",
                    description="Find every use of the old router",
                ),
            ),
        ),
        session(
            "auth-3",
            "awaiting_approval",
            "Plan ready for review",
            now=now,
            age=3 * MINUTE,
            host="beta",
            title="Sessions out of Postgres",
            project="auth",
            model="claude-opus-4-1-20250805",
            requests=(plan,),
            unread=True,
        ),
        session(
            "infra-1",
            "error",
            "Failed: rate limit",
            now=now,
            age=2 * MINUTE,
            title="Rotate the signing keys",
            project="infra",
        ),
        session(
            "ml-1",
            "budget_exceeded",
            "Over budget: $12.40 of $10.00",
            now=now,
            age=17 * MINUTE,
            title="Tune the reranker",
            project="ml",
        ),
        session(
            "data-1",
            "stuck",
            "No sign of life for 6 min",
            now=now,
            age=6 * MINUTE,
            host="beta",
            title="Backfill the events table",
            project="data",
            incomplete=True,
        ),
        session(
            "docs-1",
            "idle",
            "Waiting for your next prompt",
            now=now,
            age=HOUR + 4 * MINUTE,
            title="Rewrite the quick start",
            project="docs",
        ),
        session("tmp-1", "idle", "Interrupted", now=now, age=26 * HOUR, title=None, project=None),
    ]


def working(now: int) -> list[SessionView]:
    finished = (
        ("shell", "completed", None, "npm ci"),
        ("agent", "failed", "Explore", "Find the abandoned endpoints"),
    )
    done = tuple(
        ChildView(
            id=f"d{n}",
            kind=kind,
            status=status,
            type=type_,
            started_at=now - 6 * MINUTE,
            finished_at=now - n * 50 * SECOND,
            description=words,
        )
        for n, (kind, status, type_, words) in enumerate(finished, start=1)
    )
    children = tuple(
        ChildView(
            id=f"c{n}",
            kind="agent",
            status="running",
            type="general-purpose",
            started_at=now - n * 20 * SECOND,
            description=words,
        )
        for n, words in enumerate(
            (
                "Map the public API",
                "Read the migration guide",
                "Check the changelog",
                "List the breaking changes",
                "Look for other uses",
            ),
            start=1,
        )
    )
    server = ChildView(
        id="s1", kind="shell", status="running", started_at=now - HOUR, description="npm run dev"
    )
    by_state = {
        "delegating": (*children, *done),
        "waiting_for_agent": (server, *done),
        "thinking": done,
    }
    made = [
        ("thinking", "Generating response…", "Shrink the Docker image", 12 * SECOND),
        ("acting", "Running Bash: cargo test --workspace", "Port the parser", 3 * MINUTE),
        ("delegating", "Running 5 subagents", "Plan the v3 API", 2 * MINUTE),
        ("compacting", "Compacting context", "Merge the two schedulers", 30 * SECOND),
        ("retrying", "API retry 2 of 10", "Translate the onboarding mails", 5 * SECOND),
        ("waiting_for_agent", "Background work: npm run dev", "Dark mode for reports", 9 * MINUTE),
        ("queued", "Prompt queued", "Cache the exchange rates", 2 * SECOND),
        ("unknown", "Status unavailable", "Something from an older version", HOUR),
    ]
    sessions = [
        session(
            f"work-{n}",
            state,
            label,
            now=now,
            age=age,
            title=title,
            host="beta" if n % 2 else "alpha",
            branch="main" if n % 3 else None,
            model="claude-sonnet-4-5-20250929",
            children=by_state.get(state, ()),
        )
        for n, (state, label, title, age) in enumerate(made)
    ]
    strange = session(
        "new-1",
        "dreaming",
        "Dreaming of electric sheep",
        now=now,
        group=Group.AUTONOMOUS,
        title="A state from the future",
        age=7 * MINUTE,
    )
    return [*sessions, strange]


def delivered(now: int) -> list[SessionView]:
    return [
        session(
            "done-1",
            "task_complete",
            "Finished: all 4 tasks",
            now=now,
            age=6 * MINUTE,
            title="Add CSV export to reports",
            branch="feature/csv",
            unread=True,
        ),
        session(
            "done-2",
            "session_ended",
            "Session closed (logout)",
            now=now,
            age=50 * MINUTE,
            title="Bump the linters",
            host="beta",
        ),
        session(
            "done-3",
            "suspended",
            "Suspended; resumable",
            now=now,
            age=3 * HOUR,
            title="Explore event sourcing",
        ),
        session(
            "done-4",
            "archived",
            "Dismissed",
            now=now,
            age=30 * HOUR,
            title="Spike: websocket proxy",
        ),
    ]


Fleet = tuple[list[SessionView], list[HostView]]


def empty(now: int) -> Fleet:
    return [], [host("alpha", now)]


def full(now: int) -> Fleet:
    sessions = waiting(now) + working(now) + delivered(now)
    hosts = [host("alpha", now, sessions=12), host("beta", now, sessions=10)]
    return sessions, hosts


def unwell(now: int) -> dict[str, HostWitness]:
    hooks = HostWitness(
        name="hook",
        state="missing",
        note="Claude Code runs here and its settings hold no hooks of ours: "
        "run `adsum hooks install`.",
    )
    transcript = HostWitness(
        name="transcript",
        state="trouble",
        heard_at=now - 3 * HOUR,
        counts={"unreadable_line": 3, "too_long": 1},
        note="3 lines could not be read; their sessions are followed by the other witnesses.",
    )
    return {"hook": hooks, "transcript": transcript}


def broken(now: int) -> Fleet:
    """The full fleet with hosts in trouble, and two sessions whose hooks are."""
    sessions, hosts = full(now)
    problems = {"alpha:web-2": "missing", "alpha:work-2": "doubled"}
    for n, each in enumerate(sessions):
        if problem := problems.get(each.id):
            state = msgspec.structs.replace(each.state, source="transcript", confidence=0.8)
            heard = witnesses(now, hook=problem)
            sessions[n] = msgspec.structs.replace(each, state=state, witnesses=heard)
    gone = [
        session(
            "gone-1",
            "needs_permission",
            "Needs permission: Write",
            now=now,
            age=11 * MINUTE,
            host="gamma",
            reachability="offline",
            title="Split the monolith",
            requests=(permission("rm -r build && make", now, 11 * MINUTE),),
            unread=True,
        ),
        session(
            "gone-2",
            "acting",
            "Running Bash: make all",
            now=now,
            age=9 * MINUTE,
            host="gamma",
            reachability="offline",
            title="Build for arm64",
        ),
    ]
    late = session(
        "late-1",
        "thinking",
        "Generating response…",
        now=now,
        host="delta",
        reachability="late",
        title="Warm the caches",
    )
    trouble = [
        host("gamma", now, "offline", sessions=2),
        host("delta", now, "late", sessions=1),
        host(
            "epsilon",
            now,
            sessions=0,
            problem="its disk is full: new signals are refused until there is room",
        ),
        host("zeta", now, sessions=0, clock_offset_ms=-42_000),
        host("eta", now, sessions=0, witnesses=host_witnesses(now, **unwell(now))),
    ]
    return [*sessions, *gone, late], [*hosts, *trouble]


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "</h3><iframe src='https://evil.example/x'></iframe>",
    "javascript:alert(1)",
    "\u202egpj.exe\u202c ${alert(1)} {{7*7}}",
    "<svg/onload=alert(1)><style>@import url(https://evil.example/a.css)</style>",
)


def hostile(now: int) -> Fleet:
    """Markup and tricks in every field that an agent or a host can write."""
    sessions = []
    for n, text in enumerate(HOSTILE):
        request = RequestView(
            id=text,
            kind="permission" if n % 2 else "question",
            tool=text,
            opened_at=now,
            summary=text,
            agent_id=text,
            payload={
                "command": text,
                "description": text,
                "questions": [{"question": text, "options": [{"label": text}, text, 7, None]}],
            },
        )
        child = ChildView(
            id=text, kind=text, status=text, started_at=now, type=text, description=text
        )
        state = AgentState(
            group=Group.NEEDS_YOU,
            state=text,
            label=text,
            confidence=1,
            source="hook",
            since=now,
            context={"last_message": text},
        )
        view = SessionView(
            id=f"{text}:{n}",
            host_id=text,
            host=text,
            session_id=text,
            agent=text,
            state=state,
            reachability="live",
            updated_at=now,
            rank=n,
            title=text,
            project=text,
            cwd=text,
            branch=text,
            model=text,
            mode=text,
            version=text,
            requests=(request,),
            children=(child,),
            witnesses=(WitnessView(name="hook", heard_at=now, problem=text),),
        )
        sessions.append(view)
    hosts = [
        HostView(
            id=text,
            label=text,
            reachability="live",
            last_seen=now,
            problem=text,
            version=text,
            witnesses=(
                HostWitness(name=text, state=text, note=text, counts={text: 1}),
                HostWitness(name="hook", state="missing", note=text),
            ),
        )
        for text in HOSTILE
    ]
    return sessions, hosts


def crowd(now: int, count: int) -> Fleet:
    """`count` sessions, most of them at work."""
    states = ("needs_permission", "thinking", "acting", "acting", "thinking", "session_ended")
    sessions = [
        session(
            f"crowd-{n}",
            states[n % len(states)],
            f"Label {n}",
            now=now,
            age=n * SECOND,
            title=f"Session number {n}",
            host=f"host-{n % 40}",
            project=f"project-{n % 17}",
        )
        for n in range(count)
    ]
    return sessions, [host(f"host-{n}", now, sessions=count // 40) for n in range(40)]

"""The running fold: what changed is told once, timers fire by themselves, silence freezes them."""

from __future__ import annotations

import msgspec
import pytest

from adsum_hub.clock import LATE_MS, LIVE_MS
from adsum_hub.facts import Facts
from adsum_hub.host import KEEP_DELIVERED_MS
from adsum_hub.roster import Accounts, Roster
from adsum_hub.settings import HubSettings
from adsum_hub.snapshots import HostRecord, Snapshot
from adsum_hub.verdict.judge import GRACE
from adsum_shared.envelope import Batch, Beat, Gap
from adsum_shared.signals import (
    LATENESS,
    ChildStarted,
    ProcessGone,
    PromptSubmitted,
    RequestOpened,
    SessionEnded,
    SessionStarted,
    SessionSuspended,
    Signal,
    StatusReported,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from adsum_shared.state import HostWitness, SessionView, SuspendedView, WitnessView
from tests.domains import Asked, asking

HOST = "host-1"
#: The host's clock runs an hour ahead of the hub's.
AHEAD = 3_600_000


class Fleet:
    """One host, driven by hand. `now` is the hub's clock."""

    def __init__(self, snapshot: Snapshot | None = None, accounts: Accounts | None = None) -> None:
        self.now = 1_000_000
        self.seq = 0
        self.roster = Roster(accounts)
        self.roster.add(HOST, snapshot or Snapshot(), self.now)
        self.beat()

    def beat(self, **more: object) -> None:
        beat = Beat(HOST, "lab", self.now + AHEAD, "n", "sp", **more)  # type: ignore[arg-type]
        self.roster.hear(HOST, beat, 0, self.now)

    def happen(self, *signals: Signal) -> int:
        batch = Batch("sp", self.seq + 1, self.seq + len(signals), "n", self.now + AHEAD, signals)
        self.seq += len(signals)
        return self.roster.apply(HOST, batch, self.now)

    def later(self, ms: int, *, beating: bool = True) -> None:
        self.now += ms
        if beating:
            self.beat()
        self.roster.next_deadline()
        self.roster.tick(self.now)

    def told(self) -> dict[str, SessionView]:
        return {each.session_id: each for each in self.roster.take_changes(self.now).sessions}

    def prompt(self, session: str = "s") -> PromptSubmitted:
        at = self.now + AHEAD
        return PromptSubmitted(session_id=session, at=at, seen=at, prompt_id="p")

    def tool(self, session: str = "s") -> ToolStarted:
        at = self.now + AHEAD
        return ToolStarted(session_id=session, at=at, seen=at, tool="Bash", tool_use_id="t")

    def failure(self, session: str = "s") -> ToolFinished:
        at = self.now + AHEAD
        return ToolFinished(
            session_id=session, at=at, seen=at, tool="Bash", tool_use_id="t", ok=False
        )


def test_limits_that_were_set_hold_for_states_and_for_their_deadlines():
    fleet = Fleet(accounts=Accounts(limits=HubSettings(error_grace=0, stuck_after=20).limits))
    fleet.happen(fleet.prompt("fails"), fleet.prompt("hangs"), fleet.tool("fails"))
    fleet.happen(fleet.failure("fails"))
    assert fleet.told()["fails"].state.state == "error"

    fleet.later(19_000)
    fleet.later(2_000)

    assert fleet.told()["hangs"].state.state == "stuck"


def test_times_are_told_in_the_hubs_clock():
    fleet = Fleet()
    fleet.happen(fleet.prompt())

    view = fleet.told()["s"]

    assert view.state.since == fleet.now
    assert view.updated_at == fleet.now


def test_a_change_is_told_once():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.told()

    assert not fleet.roster.take_changes(fleet.now)


def test_a_batch_of_many_signals_is_one_change():
    fleet = Fleet()
    fleet.happen(fleet.prompt(), fleet.tool(), fleet.prompt("other"))

    changes = fleet.roster.take_changes(fleet.now)

    assert len(changes.sessions) == 2
    assert fleet.roster.revision == 1


def test_a_session_start_alone_is_not_listed():
    fleet = Fleet()
    at = fleet.now + AHEAD
    fleet.happen(SessionStarted(session_id="phantom", at=at, seen=at))

    assert fleet.told() == {}


def test_a_request_is_told_with_what_it_asks():
    fleet = Fleet()
    at = fleet.now + AHEAD
    request = RequestOpened(
        session_id="s", at=at, seen=at, request_kind="permission", tool="Bash", summary="rm -r x"
    )
    fleet.happen(fleet.prompt(), request)

    view = fleet.told()["s"]

    assert (view.state.state, view.urgency) == ("needs_permission", 1)
    assert [(each.summary, each.opened_at) for each in view.requests] == [("rm -r x", fleet.now)]


def test_a_session_nobody_has_prompted_keeps_nobody_waiting():
    fleet = Fleet()
    at = fleet.now + AHEAD
    fleet.happen(
        SessionStarted(session_id="new", at=at, seen=at),
        StatusReported(session_id="new", at=at, seen=at, source="registry", status="idle"),
        fleet.prompt("asked"),
        TurnEnded(session_id="asked", at=at + 1, seen=at + 1, prompt_id="p"),
    )

    told = fleet.told()

    assert (told["new"].state.label, told["new"].urgency) == ("Ready", 8)
    assert told["asked"].urgency == 7


def test_a_deadline_fires_by_itself():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.told()
    due = fleet.roster.next_deadline()
    assert due is not None

    told: set[str] = set()
    for _ in range(30):
        fleet.later(10_000)
        told |= {view.state.state for view in fleet.told().values()}

    assert "stuck" in told


def test_clients_are_told_that_a_silent_child_was_given_up():
    fleet = Fleet()
    at = fleet.now + AHEAD
    fleet.happen(fleet.prompt(), ChildStarted(session_id="s", at=at, seen=at, child_id="a1"))
    began = fleet.now
    (view,) = fleet.told().values()
    assert [child.status for child in view.children] == ["running"]

    told: list[tuple[int, str, int | None]] = []
    for _ in range(32):
        fleet.later(10_000)
        for view in fleet.told().values():
            told += [(fleet.now - began, c.status, c.finished_at) for c in view.children]

    orphaned = [each for each in told if each[1] == "orphaned"]
    assert orphaned[0] == (300_000, "orphaned", began)


def test_a_deadline_that_changed_nothing_does_not_spin():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.told()

    for _ in range(50):
        due = fleet.roster.next_deadline()
        if due is None:
            break
        assert due > fleet.now
        fleet.now = due
        fleet.beat()
        fleet.roster.tick(fleet.now)
        fleet.told()
    else:
        pytest.fail("deadlines never end")


def test_no_timer_of_a_silent_host_runs_out():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.told()

    for _ in range(20):
        fleet.later(60_000, beating=False)
        fleet.told()

    view = fleet.roster.views["host-1:s"]
    assert view.reachability == "offline"
    assert view.state.state != "stuck"


def test_a_late_hosts_timers_stand_with_its_clock():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.told()
    assert fleet.roster.next_deadline()

    fleet.later(LIVE_MS + 1, beating=False)
    fleet.told()

    assert fleet.roster.next_deadline() is None


def test_silence_greys_a_host_and_its_return_revives_it():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.told()

    fleet.later(LIVE_MS + 1, beating=False)
    late = fleet.told()["s"].reachability
    fleet.later(LATE_MS, beating=False)
    offline = fleet.told()["s"].reachability
    fleet.later(1)

    assert (late, offline, fleet.told()["s"].reachability) == ("late", "offline", "live")


def test_an_offline_host_leaves_the_live_counts():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.told()
    assert fleet.roster.summary().autonomous_count == 1

    fleet.beat(stopping=True)
    fleet.told()

    summary = fleet.roster.summary()
    assert (summary.autonomous_count, summary.offline_count) == (0, 1)


def test_a_hole_is_reported_and_nothing_of_the_batch_applied():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.seq += 3

    assert fleet.happen(fleet.prompt("late")) == 2
    assert "late" not in fleet.told()


def test_a_gap_marks_the_sessions_of_its_host_incomplete():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.told()

    sent_at = fleet.now + 1 + AHEAD
    fleet.roster.apply(HOST, Batch("sp", 2, 9, "n", sent_at, (), Gap("cap")), fleet.now + 1)

    assert fleet.told()["s"].incomplete


def test_delivered_sessions_leave_after_a_week_and_others_stay():
    fleet = Fleet()
    at = fleet.now + AHEAD
    fleet.happen(fleet.prompt("works"), fleet.prompt("done"))
    fleet.happen(SessionEnded(session_id="done", at=at, seen=at))
    fleet.told()
    fleet.later(KEEP_DELIVERED_MS + 1_000)

    fleet.roster.expire(fleet.now)

    assert fleet.roster.take_changes(fleet.now).gone == ("host-1:done",)
    assert "host-1:works" in fleet.roster.views


def test_of_a_forgotten_machine_no_calls_are_kept_for_domains():
    fleet = Fleet()
    fleet.roster.domains = domains = asking(silent=Asked(lambda _: None))
    at = fleet.now + AHEAD
    fleet.happen(fleet.prompt(), TurnEnded(session_id="s", at=at, seen=at, prompt_id="p"))
    assert fleet.told()["s"].state.state == "idle"
    assert domains._used

    fleet.roster.reload(HOST, Snapshot(), fleet.now)
    fleet.roster.hosts.let_go(HOST)

    assert fleet.roster.take_changes(fleet.now).gone == ("host-1:s",)
    assert not domains._used


def test_a_suspended_session_stays_listed_with_who_did_it_and_what_it_saves():
    fleet = Fleet()
    at = fleet.now + AHEAD
    fleet.happen(fleet.prompt("s"))
    ended = TurnEnded(session_id="s", at=at, seen=at, prompt_id="p1")
    told = SessionSuspended(session_id="s", at=at + 1, seen=at + 1, by="ann", freed_bytes=1 << 28)
    fleet.happen(ended, told, SessionEnded(session_id="s", at=at + 2, seen=at + 2))
    fleet.told()
    fleet.later(KEEP_DELIVERED_MS + 1_000)

    fleet.roster.expire(fleet.now)

    view = fleet.roster.views["host-1:s"]
    assert view.state.state == "suspended"
    assert view.suspended == SuspendedView(at + 1 - AHEAD, "ann", freed_bytes=1 << 28)


def test_a_restored_host_is_told_with_its_last_state_before_it_is_heard():
    fleet = Fleet()
    fleet.happen(fleet.prompt())
    fleet.told()
    host = fleet.roster.hosts[HOST]
    restored = Roster()

    restored.add(
        HOST, Snapshot(3, "1-1", {"sp": 1}, host.header().host, dict(host.facts)), fleet.now
    )

    view = restored.take_changes(fleet.now).sessions[0]
    assert view.host == "lab"
    assert view.state == fleet.roster.views["host-1:s"].state


def test_a_heartbeat_that_says_nothing_new_is_not_told():
    fleet = Fleet()
    fleet.told()

    fleet.later(2_000)

    assert not fleet.roster.take_changes(fleet.now)


def test_sessions_heard_of_before_their_host_get_its_name():
    fleet = Fleet()
    fleet.roster.hosts[HOST].label = HOST[:8]
    fleet.happen(fleet.prompt())
    fleet.told()

    fleet.beat()

    assert fleet.told()["s"].host == "lab"


def test_a_hosts_problem_is_told():
    fleet = Fleet()
    fleet.told()

    fleet.beat(problem="Redis refuses writes: out of memory.")

    hosts = fleet.roster.take_changes(fleet.now).hosts
    assert hosts[0].problem == "Redis refuses writes: out of memory."


def test_batches_that_lay_in_the_stream_for_hours_make_no_host_live():
    fleet = Fleet()
    fleet.now = 100_000_000
    roster = Roster()
    record = HostRecord("lab", last_seen=0, clock_offset_ms=AHEAD)
    roster.add(HOST, Snapshot(host=record), fleet.now)
    sent_at = fleet.now + AHEAD - 7_200_000
    prompt = PromptSubmitted(session_id="s", at=sent_at, seen=sent_at, prompt_id="p")

    roster.apply(HOST, Batch("sp", 1, 1, "n", sent_at, (prompt,)), fleet.now)

    view = roster.take_changes(fleet.now).hosts[0]
    assert (view.reachability, view.last_seen) == ("offline", fleet.now - 7_200_000)
    assert (view.clock_offset_ms, view.lag_ms) == (AHEAD, 7_200_000)


def test_deadlines_that_were_moved_wake_nobody():
    fleet = Fleet()
    for _ in range(500):
        fleet.now += 10
        fleet.happen(fleet.prompt())
        fleet.told()
        fleet.roster.next_deadline()
    fleet.later(100_000_000)
    fleet.told()

    assert fleet.roster.next_deadline() is None or len(fleet.roster._alarms) < 5


def test_a_session_that_comes_back_before_the_next_save_is_not_deleted_by_it():
    fleet = Fleet()
    at = fleet.now + AHEAD
    fleet.happen(fleet.prompt("s"), SessionEnded(session_id="s", at=at, seen=at))
    fleet.told()
    fleet.later(KEEP_DELIVERED_MS + 1_000)
    fleet.roster.expire(fleet.now)

    fleet.happen(fleet.prompt("s"))

    _, dirty, gone = fleet.roster.hosts[HOST].take_dirty()
    assert set(dirty) == {"s"}
    assert not gone


def test_an_empty_record_names_a_host_by_its_id():
    assert Roster().add("0123456789", Snapshot(host=HostRecord()), 0).label == "01234567"


def test_facts_of_a_snapshot_are_the_facts_that_were_saved():
    fleet = Fleet()
    fleet.happen(fleet.prompt(), fleet.tool())

    header, dirty, gone = fleet.roster.hosts[HOST].take_dirty()

    assert isinstance(dirty["s"], Facts)
    assert (header.applied, gone) == ({"sp": 2}, set())
    assert not fleet.roster.hosts[HOST].saved.dirty


def test_hooks_that_stop_coming_are_told_missing_by_the_clock_alone():
    fleet = Fleet()
    prompt = msgspec.structs.replace(fleet.prompt(), source="transcript")
    fleet.happen(prompt)
    assert fleet.told()["s"].witnesses == (WitnessView("transcript", fleet.now),)
    since, due = fleet.now, fleet.roster.next_deadline()
    assert due == since + LATENESS + GRACE

    fleet.later(due - since)

    missing = WitnessView("hook", 0, "missing")
    assert fleet.told()["s"].witnesses == (missing, WitnessView("transcript", since))


def test_a_session_that_is_over_is_not_told_to_miss_hooks():
    fleet = Fleet()
    at = fleet.now + AHEAD
    fleet.happen(
        msgspec.structs.replace(fleet.prompt(), source="transcript"),
        ProcessGone(session_id="s", at=at + 1, seen=at + 1, source="process", pid=7),
    )
    fleet.later(60_000)

    assert not any(each.problem for each in fleet.told()["s"].witnesses)


def test_a_hosts_witnesses_are_told_in_the_hubs_clock():
    fleet = Fleet()
    at = fleet.now + AHEAD
    fleet.beat(
        witnesses=(
            HostWitness("hook", "trouble", at - 5_000, {"HTTP 401": 2}, "Wrong token."),
            HostWitness("shim"),
        )
    )

    assert fleet.roster.take_changes(fleet.now).hosts[0].witnesses == (
        HostWitness("hook", "trouble", fleet.now - 5_000, {"HTTP 401": 2}, "Wrong token."),
        HostWitness("shim"),
    )


def test_a_witness_merely_heard_again_is_no_change_of_its_host():
    fleet = Fleet()
    fleet.beat(witnesses=(HostWitness("hook", "ok", fleet.now + AHEAD),))
    fleet.told()

    fleet.later(2_000, beating=False)
    fleet.beat(witnesses=(HostWitness("hook", "ok", fleet.now + AHEAD),))
    assert not fleet.roster.take_changes(fleet.now)

    fleet.beat(witnesses=(HostWitness("hook", "missing", fleet.now + AHEAD),))
    assert fleet.roster.take_changes(fleet.now).hosts[0].witnesses[0].state == "missing"


def test_a_label_is_one_machines_alone() -> None:
    """Whoever bore it first keeps it, as long as it is listed; also over a restart of the hub."""
    fleet = Fleet()
    for other in ("host-2", "host-3"):
        fleet.roster.add(other, Snapshot(), fleet.now)

    def beat(host_id: str, label: str) -> str:
        fleet.roster.hear(host_id, Beat(host_id, label, fleet.now, "n", "sp"), 0, fleet.now)
        return fleet.roster.hosts[host_id].label

    assert beat("host-2", "Lab") == "Lab~host-2"
    assert beat("host-3", "oak") == "oak"
    assert beat("host-3", "lab") == "lab~host-3"
    assert beat("host-3", "a\nb") == "host-3"
    assert beat("host-3", "x" * 101) == "host-3"
    fleet.beat()
    assert fleet.roster.hosts[HOST].label == "lab"
    again = Fleet(Snapshot(host=HostRecord(label="lab~host-1")))
    assert again.roster.hosts[HOST].label == "lab"
    fleet.roster.hosts.pop(HOST)
    assert beat("host-2", "Lab") == "Lab"

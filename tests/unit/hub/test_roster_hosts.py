"""Which hosts are reported: those that were heard at once, all others soon."""

from __future__ import annotations

from adsum_hub.host import Host
from adsum_hub.roster import HOSTS_MS, Roster
from adsum_hub.snapshots import Snapshot
from adsum_shared.envelope import Beat
from adsum_shared.state import HostView

T = 1_000


class WatchedHost(Host):
    """Counts how often somebody looks."""

    def __init__(self, host_id: str) -> None:
        super().__init__(host_id, Snapshot())
        self.looks = 0

    def view(self, now: int = 0) -> HostView:
        self.looks += 1
        return super().view(now)


def two_hosts() -> tuple[Roster, WatchedHost, WatchedHost]:
    roster = Roster()
    a, b = WatchedHost("a"), WatchedHost("b")
    roster.hosts |= {"a": a, "b": b}
    roster.take_changes(T)
    a.looks = b.looks = 0
    return roster, a, b


def test_a_host_that_was_heard_is_reported_at_once_and_no_other_is_looked_at():
    roster, _, b = two_hosts()
    roster.hear("a", Beat("a", "another", T, "n", "sp"), 0, T + 1)

    changes = roster.take_changes(T + 1)

    assert ([each.label for each in changes.hosts], changes.gone_hosts) == (["another"], ())
    assert b.looks == 0


def test_what_nobody_said_of_a_host_is_reported_soon():
    roster, a, _ = two_hosts()
    a.label = "another"

    assert not roster.take_changes(T + HOSTS_MS - 1)
    assert [each.label for each in roster.take_changes(T + HOSTS_MS).hosts] == ["another"]


def test_a_host_that_is_gone_is_reported_once():
    roster, _, _ = two_hosts()
    roster.hosts.let_go("a")

    assert roster.take_changes(T + 1).gone_hosts == ("a",)
    assert not roster.take_changes(T + 2)

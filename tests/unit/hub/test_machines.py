"""Which hosts are told of: those that were heard at once, all others soon."""

from __future__ import annotations

from dataclasses import dataclass

from adsum_hub.changes import HOSTS_MS, Machines
from adsum_shared.state import HostView


@dataclass
class Box:
    label: str
    looks: int = 0

    def view(self, now: int) -> HostView:
        self.looks += 1
        return HostView(self.label, self.label, "live", now)


def test_a_host_that_was_heard_is_told_of_at_once_and_no_other_is_looked_at():
    a, b = Box("a"), Box("b")
    machines = Machines({})
    machines.changes({"a": a, "b": b}, 1_000)
    a.label = "another"
    b.looks = 0
    machines.heard.add("a")

    changed, gone = machines.changes({"a": a, "b": b}, 1_001)

    assert ([each.label for each in changed], gone, b.looks) == (["another"], (), 0)


def test_what_nobody_said_of_a_host_is_told_soon():
    a = Box("a")
    machines = Machines({})
    machines.changes({"a": a}, 1_000)
    a.label = "another"

    assert machines.changes({"a": a}, 1_000 + HOSTS_MS - 1) == ((), ())
    assert [each.label for each in machines.changes({"a": a}, 1_000 + HOSTS_MS)[0]] == ["another"]


def test_a_host_that_is_gone_is_told_of_once():
    machines = Machines({})
    machines.changes({"a": Box("a")}, 1_000)

    assert machines.changes({}, 1_001) == ((), ("a",))
    assert machines.changes({}, 1_002) == ((), ())

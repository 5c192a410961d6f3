"""Networks that break: cut both ways, cut one way, slow and lossy; and what heals by itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.partition.fleet import Fleet, fleet, until
from tests.partition.machines import CUT, Wire, network, why_not

pytestmark = [pytest.mark.redis, pytest.mark.timeout(150)]

#: Within this time everybody is told that an unreachable part is offline.
HONEST_S = 15
HEALED_S = 15
#: How long the hubs' cut lasts: longer than a collector may be silent.
APART_S = 12
COLLECTORS = ["whole", "cut", "mute", "deaf"]


@pytest.fixture(autouse=True)
def _permitted() -> None:
    if reason := why_not():
        pytest.skip(reason)


def test_a_machine_cut_off_from_redis_is_late_then_offline_and_loses_nothing(tmp_path: Path):
    machines = ["redis", "hub1", "hub2", *COLLECTORS]
    with network(*machines) as switch, fleet(tmp_path, switch, COLLECTORS) as at:
        for name in COLLECTORS:
            until(lambda name=name: at.reaches(name) == {"live"}, 20, f"{name} live")
        switch.set("cut", "redis", CUT, both=True)
        switch.set("mute", "redis", CUT)
        switch.set("redis", "deaf", CUT)
        parted = time.monotonic()

        for state in ("late", "offline"):
            for name in COLLECTORS[1:]:
                left = parted + HONEST_S - time.monotonic()
                until(lambda n=name, s=state: at.reaches(n) == {s}, left, f"{name} {state}")
                print(f"{name}: {state} {time.monotonic() - parted:.1f} s after the cut")
        assert at.reaches("whole") == {"live"}

        heal(at, COLLECTORS[1:])
        at.require_all_once_and_in_order()
        at.require_one_application()
        for name in COLLECTORS:
            print(f"{name}: {at.hook_times(name)}")


def heal(at: Fleet, names: list[str]) -> None:
    """Says how long it took until each was live again and had delivered what waited."""
    waiting = {name: at.last(name) - at.applied(name) for name in names}
    at.switch.heal()
    healed = time.monotonic()
    for name in names:
        left = healed + HEALED_S - time.monotonic()
        until(lambda name=name: at.reaches(name) == {"live"}, left, f"{name} live again")
        at.catch_up(name, HEALED_S)
        took = time.monotonic() - healed
        print(f"{name}: {waiting[name]} signals caught up within {took:.1f} s of healing")


def test_a_hub_cut_off_from_redis_says_so_and_catches_up(tmp_path: Path):
    machines = ["redis", "hub1", "hub2", "one", "two"]
    with network(*machines) as switch, fleet(tmp_path, switch, ["one", "two"]) as at:
        for name in ("one", "two"):
            until(lambda name=name: at.reaches(name) == {"live"}, 20, f"{name} live")
        switch.set("hub1", "redis", CUT, both=True)
        switch.set("redis", "hub2", CUT)
        parted = time.monotonic()

        for hub in at.hubs:
            left = parted + HONEST_S - time.monotonic()
            until(lambda hub=hub: not at.ask(hub, "/readyz")["ready"], left, f"{hub} not ready")
            print(f"{hub}: said so {time.monotonic() - parted:.1f} s after the cut")
            assert at.ask(hub, "/readyz")["problem"]
        time.sleep(max(0.0, parted + APART_S - time.monotonic()))

        heal(at, ["one", "two"])
        for hub in at.hubs:
            until(lambda hub=hub: at.ask(hub, "/readyz")["ready"], HEALED_S, f"{hub} ready")
        at.require_all_once_and_in_order()


def test_a_slow_and_lossy_network_is_only_slow(tmp_path: Path):
    """A round trip of 300 ms; one packet in twenty is lost, each way."""
    machines, longest = ["redis", "hub1", "hub2", "one", "two"], 0.0
    with network(*machines) as switch, fleet(tmp_path, switch, ["one", "two"]) as at:
        switch.set_all(Wire(delay_s=0.15, loss=0.05))
        for name in ("one", "two"):
            until(lambda name=name: at.reaches(name) == {"live"}, 30, f"{name} live")
        ends = time.monotonic() + 20
        while time.monotonic() < ends:
            for name in ("one", "two"):
                assert at.reaches(name) == {"live"}
                longest = max(longest, at.catch_up(name, 15))
        assert switch.dropped > 20
        print(f"{switch.carried} packets carried, {switch.dropped} lost")
        print(f"on both hubs after {longest:.1f} s at most")

        at.require_all_once_and_in_order()
        for name in ("one", "two"):
            print(f"{name}: {at.hook_times(name)}")


def test_machines_leave_nothing_behind_when_a_test_fails():
    def devices() -> list[str]:
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
        return sorted(line.partition(":")[0].strip() for line in lines)

    before = devices()
    with (
        pytest.raises(AssertionError, match="a test fails"),
        network("one", "two") as switch,
        switch.machines["one"].inside(),
    ):
        assert devices() == before, "a test fails"

    assert devices() == before

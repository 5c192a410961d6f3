"""A state directory on another machine: whether it goes on as who it was, and what it keeps if not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import adsum_collector.delivery.publisher as arrival_module
from adsum_collector.delivery.publisher import Arrival, alive_elsewhere
from adsum_collector.delivery.transports import Inbox
from adsum_collector.spool.spool import Rows, Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_collector.state_dir import Identity, load_identity, renew_identity
from adsum_shared.envelope import Beat


class BeatsOnly(Inbox):
    """Heartbeats as they are found, one after the other; the last one stays."""

    def __init__(self, *beats: Beat | None) -> None:
        self._beats = list(beats)
        self.asked = 0

    async def last_beat(self) -> Beat | None:
        self.asked += 1
        return self._beats.pop(0) if len(self._beats) > 1 else self._beats[0]


def beat(at: int, *, stopping: bool = False) -> Beat:
    return Beat("h", "the original", at, "n", "sp", stopping=stopping)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival_module, "LOOK_S", 0.001)


@pytest.mark.parametrize(
    ("case", "beats", "alive"),
    [
        ("nobody beats", [None], False),
        ("it is renewed", [beat(1), beat(1), beat(2)], True),
        ("it runs out", [beat(1), beat(1), beat(1), None], False),
        ("it says goodbye", [beat(1), beat(1), beat(2, stopping=True)], False),
        ("it has said goodbye", [beat(1, stopping=True)], False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_only_a_heartbeat_that_is_renewed_is_proof_of_another_machine(
    case: str, beats: list[Beat | None], alive: bool
) -> None:
    found = await alive_elsewhere(BeatsOnly(*beats))

    assert (found is not None) == alive, case


class Disk:
    """A state directory with three signals, of which one is confirmed, as a machine left it."""

    def __init__(self, directory: Path, spool: Spool) -> None:
        self.directory = directory
        self.spool = spool
        self.identities: list[Identity] = []

    async def arrive(self, fingerprint: str) -> Arrival:
        identity = load_identity(self.directory, fingerprint=fingerprint)
        arrival = Arrival(self.directory, identity, self.spool, self.identities.append)
        await arrival.begin()
        return arrival

    async def bodies(self) -> list[bytes]:
        found: list[bytes] = []
        after = self.spool.acked
        while (read := await self.spool.read(after, 100, 1 << 20)) is not None:
            found += read.bodies if isinstance(read, Rows) else [b"gap"]
            after = read.first + len(read.bodies) - 1 if isinstance(read, Rows) else read.last
        return found


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    spool = await Spool.open(tmp_path / "spool", SpoolLimits(min_free_bytes=0))
    disk = Disk(tmp_path, spool)
    await disk.arrive("here")
    await spool.append([b"1", b"2", b"3"])
    await spool.acknowledge(1)
    yield disk
    await spool.close()


async def test_at_home_nothing_is_asked_and_nothing_changes(disk: Disk) -> None:
    arrival, inbox = await disk.arrive("here"), BeatsOnly(beat(1), beat(2))
    before = disk.spool.spool_id

    assert await arrival.settle(inbox) is None

    assert (inbox.asked, disk.identities, disk.spool.spool_id) == (0, [], before)


async def test_a_disk_that_moved_keeps_identity_spool_and_signals(disk: Disk) -> None:
    old, before = load_identity(disk.directory, fingerprint="here"), disk.spool.spool_id
    arrival = await disk.arrive("there")
    await disk.spool.append([b"4"])

    assert await arrival.settle(BeatsOnly(beat(1), None)) is None

    assert arrival.host_id == old.host_id
    assert disk.identities == [load_identity(disk.directory, fingerprint="there")]
    assert (disk.spool.spool_id, await disk.bodies()) == (before, [b"2", b"3", b"4"])
    assert not (await disk.arrive("there"))._identity.moved


@pytest.mark.parametrize("restarts", [0, 2])
async def test_a_copy_becomes_another_machine_with_what_it_told_itself(
    disk: Disk, restarts: int
) -> None:
    """What it brought along is the original's, which has it as well and sends it."""
    old, before = load_identity(disk.directory, fingerprint="here"), disk.spool.spool_id
    arrival = await disk.arrive("there")
    await disk.spool.append([b"4"])
    for _ in range(restarts):  # without a broker nothing can be found out
        arrival = await disk.arrive("there")
        await disk.spool.append([b"5"])

    told = await arrival.settle(BeatsOnly(beat(1), beat(2)))

    assert "a copy of the original's" in str(told)
    assert arrival.host_id != old.host_id
    assert disk.identities[-1].host_id == arrival.host_id
    assert disk.identities[-1].salt != old.salt
    assert disk.spool.spool_id != before
    assert await disk.bodies() == [b"gap", b"4", *[b"5"] * restarts]
    assert await arrival.settle(BeatsOnly(beat(3), beat(4))) is None


async def test_a_copy_that_is_killed_in_mid_change_finishes_it(disk: Disk) -> None:
    await disk.arrive("there")
    await disk.spool.append([b"4"])
    renewed = renew_identity(disk.directory, fingerprint="there")  # and then it was killed

    await disk.arrive(renewed.fingerprint)
    assert await disk.bodies() == [b"gap", b"4"]

    spool_id = disk.spool.spool_id
    await disk.arrive(renewed.fingerprint)
    assert disk.spool.spool_id == spool_id


async def test_after_a_renewal_by_hand_all_that_no_hub_has_is_kept(disk: Disk) -> None:
    renewed = renew_identity(disk.directory, fingerprint="there")

    await disk.arrive(renewed.fingerprint)

    assert await disk.bodies() == [b"gap", b"2", b"3"]


async def test_what_a_settled_machine_once_brought_along_is_its_own_when_it_is_renewed(
    disk: Disk,
) -> None:
    arrival = await disk.arrive("there")
    await arrival.settle(BeatsOnly(None))
    renewed = renew_identity(disk.directory, fingerprint="there")

    await disk.arrive(renewed.fingerprint)

    assert await disk.bodies() == [b"gap", b"2", b"3"]

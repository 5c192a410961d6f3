"""Machines for tests: network namespaces, joined by a switch that loses and delays what it is told.

Each namespace has one TUN device, and a thread here carries the packets between them. Kernel links
(veth, with tc netem) were tried first: many kernels are built without netem, and it cannot repeat
the same losses. Nothing here has a name outside this process, so nothing can remain: a device goes
with its file descriptor, a namespace with the last process in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import os
import random
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

#: The root conftest lets these tests skip in CI too: no installation can grant the permission.
NOT_PERMITTED = "network namespaces are not permitted"

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x891C, 0x8914, 0x1
NETWORK = "10.77.0."
MTU = 1500

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def why_not() -> str | None:
    """Why there can be no machines here; None if there can."""
    reasons: list[str] = []

    def attempt() -> None:
        # In a thread of its own, which takes the namespace along when it ends.
        try:
            _call("unshare", CLONE_NEWNET)
            os.close(_open_tun())
        except OSError as error:
            reasons.append(f"{NOT_PERMITTED}: {error}")

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return reasons[0] if reasons else None


def _open_tun() -> int:
    """A device `net0` in the namespace of this thread; raw IP packets."""
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"net0", IFF_TUN | IFF_NO_PI))
    except OSError:
        os.close(tun)
        raise
    return tun


def _bring_up(device: bytes, address: str | None = None) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        if address is not None:
            for request, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.255.0")):
                packed = struct.pack("16sH2x4s8x", device, socket.AF_INET, socket.inet_aton(value))
                fcntl.ioctl(control, request, packed)
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", device, IFF_UP))


class Machine:
    """What is started `inside` it, by this thread, has only its loopback and its wire."""

    def __init__(self, number: int) -> None:
        self.address = f"{NETWORK}{number}"
        made: list[int] = []

        def make() -> None:
            _call("unshare", CLONE_NEWNET)
            tun = _open_tun()
            made.extend((os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC), tun))
            _bring_up(b"lo")
            _bring_up(b"net0", self.address)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        self._namespace, self.tun = made

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _call("setns", self._namespace, CLONE_NEWNET)
            yield
        finally:
            _call("setns", home, CLONE_NEWNET)
            os.close(home)

    def run(self, work: Callable[[], T]) -> T:
        with self.inside():
            return work()

    def processes(self) -> list[int]:
        """Pids of whoever still lives there."""
        inode = os.fstat(self._namespace).st_ino
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "ns" / "net").stat().st_ino == inode:
                    found.append(int(process.name))
        return found

    def close(self) -> None:
        os.close(self._namespace)
        os.close(self.tun)


class Wire(NamedTuple):
    """One direction between two machines."""

    delay_s: float = 0.0
    loss: float = 0.0


CUT = Wire(loss=1.0)


class Switch:
    """Carries packets between machines for as long as it is open. dice decides what is lost."""

    def __init__(self, machines: dict[str, Machine], dice: random.Random) -> None:
        self.machines = machines
        self.carried = self.dropped = 0
        self._dice = dice
        self._wires: dict[tuple[str, str], Wire] = {}
        self._names = {socket.inet_aton(each.address): name for name, each in machines.items()}
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._count = itertools.count()
        self._wake, self._waker = os.pipe()
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)

    def set(self, source: str, target: str, wire: Wire, *, both: bool = False) -> None:
        self._wires[source, target] = wire
        if both:
            self._wires[target, source] = wire

    def set_all(self, wire: Wire) -> None:
        for source, target in itertools.permutations(self.machines, 2):
            self.set(source, target, wire)

    def heal(self) -> None:
        self._wires = {}

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ, None)
            for name, machine in self.machines.items():
                selector.register(machine.tun, selectors.EVENT_READ, name)
            while True:
                due = self._waiting[0][0] - time.monotonic() if self._waiting else None
                for key, _ in selector.select(None if due is None else max(0.0, due)):
                    if key.data is None:
                        return
                    self._take(key.fd, key.data)
                self._deliver()

    def _take(self, tun: int, source: str) -> None:
        with contextlib.suppress(BlockingIOError):
            packet = os.read(tun, MTU + 100)
            target = self._names.get(packet[16:20]) if packet[0] >> 4 == 4 else None
            if target is None:
                return  # IPv6 looks for neighbours; there are none
            wire = self._wires.get((source, target), Wire())
            if self._dice.random() < wire.loss:
                self.dropped += 1
                return
            entry = (time.monotonic() + wire.delay_s, next(self._count))
            heapq.heappush(self._waiting, (*entry, self.machines[target].tun, packet))

    def _deliver(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, tun, packet = heapq.heappop(self._waiting)
            with contextlib.suppress(BlockingIOError):
                os.write(tun, packet)
                self.carried += 1

    def __enter__(self) -> Switch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._waker)
        self._thread.join()
        os.close(self._wake)
        for machine in self.machines.values():
            machine.close()


@contextlib.contextmanager
def network(*names: str, seed: int = 1) -> Iterator[Switch]:
    machines: dict[str, Machine] = {}
    try:
        for number, name in enumerate(names, 1):
            machines[name] = Machine(number)
    except BaseException:
        for machine in machines.values():
            machine.close()
        raise
    with Switch(machines, random.Random(seed)) as switch:
        yield switch

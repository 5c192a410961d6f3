"""The fleet: three machines with a collector each, two hubs, one broker, and a link for each.

Some of the machines may reach the hubs alone, both at one address, and go through their ingest.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from adsum_collector.state_dir import load_identity
from adsum_hub.auth.credentials import digest_of
from adsum_hub.join.machines import JoinedMachine, MachineStore
from adsum_hub.join.tokens import make_machine_secret
from adsum_shared.connect import open_redis
from tests.brokers import Broker
from tests.chaos.clock import set_clock
from tests.chaos.links import Link
from tests.chaos.oracle import Allowed
from tests.chaos.part import Part
from tests.chaos.ports import own_port
from tests.seals import SECRET, seal

#: Of the machine whose disk is filled now and then.
DISK_MB = 24

#: The name of an entry in a request to ingest, as MessagePack has it.
ADDS = b"\xa3add"
BROKER_OPTIONS = ("--lua-time-limit", "50")


class Machine:
    """One host. generation: counts the state directories it has had."""

    def __init__(
        self,
        name: str,
        directory: Path,
        link: Link,
        *,
        cap_mb: int,
        disk: bool = False,
        ingest: bool = False,
    ) -> None:
        self.name = name
        self.directory = directory
        self.link = link
        self.cap_mb = cap_mb
        self.disk = disk
        self.ingest = ingest
        self.secret = ""
        self.allowed = Allowed()
        self.generation = 0
        self.state = directory / "state"
        self.claude = directory / "claude"
        self.clock = directory / "clock"
        self.port = own_port()
        directory.mkdir(parents=True)
        self.state.mkdir(mode=0o700)
        self.set_clock(0)
        self.part = self.collector(self.state, self.port, self.claude)

    def join(self) -> None:
        """Once its disk is there: who goes through the hubs needs a credential."""
        self.secret = make_machine_secret(load_identity(self.state, self.name).host_id)
        self.part = self.collector(self.state, self.port, self.claude)

    def collector(self, state: Path, port: int, claude: Path, name: str = "") -> Part:
        env = {
            "ADSUM_STATE_DIR": str(state),
            **self._way(),
            "ADSUM_COLLECTOR_PORT": str(port),
            "ADSUM_CLAUDE_DIRS": str(claude),
            "ADSUM_HOST_LABEL": name or self.name,
            "ADSUM_SPOOL_CAP_MB": str(self.cap_mb),
            "ADSUM_CHAOS_CLOCK": str(self.clock),
            "HOME": str(self.directory),
        }
        name = name or self.name
        log = self.directory / f"{name}.log"
        url = f"http://127.0.0.1:{port}"
        return Part(name, "tests.chaos.collector_main", env, log, url)

    def _way(self) -> dict[str, str]:
        if not self.ingest:
            return {"ADSUM_REDIS_URL": self.link.url}
        url = f"http://127.0.0.1:{self.link.port}"
        return {"ADSUM_CHAOS_HUB": url, "ADSUM_CHAOS_SECRET": self.secret}

    def set_clock(self, offset_s: int) -> None:
        set_clock(self.clock, offset_s)

    @property
    def token(self) -> str:
        return (self.state / "token").read_text().strip()

    @property
    def host_id(self) -> str:
        return str(self._identity()["host_id"])

    @property
    def salt(self) -> str:
        return str(self._identity()["salt"])

    def _identity(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.state / "host.json").read_bytes())
        return found


class Fleet:
    """Everything lies below `root`. ingest: machines that go through the hubs.

    skipped: faults that cannot be had here, and why.
    """

    def __init__(self, root: Path, seconds: float, ingest: Collection[str] = ()) -> None:
        self.root = root
        self._ingest = ingest
        # Small, so that files are rotated; what is beyond it is lost, and said to be.
        self.cap_mb = max(1, round(seconds / 12))
        self.broker = Broker(root / "broker", *BROKER_OPTIONS)
        self.broker.port = own_port()
        self.links: dict[str, Link] = {}
        self.machines: dict[str, Machine] = {}
        self.hubs: dict[str, Part] = {}
        self.twins: list[Part] = []
        self.skipped: dict[str, str] = {}

    @property
    def parts(self) -> list[Part]:
        return [*(machine.part for machine in self.machines.values()), *self.hubs.values()]

    async def start(self) -> None:
        await asyncio.to_thread(self.broker.start)
        ports = {"hub1": own_port(), "hub2": own_port()}
        for name in ("A", "B", "C"):
            ingest = name in self._ingest
            link = await self._link(name, Link(*ports.values(), changes=ADDS) if ingest else None)
            self.machines[name] = Machine(
                name,
                self.root / name,
                link,
                cap_mb=self.cap_mb,
                disk=name == "C",
                ingest=ingest,
            )
        await self._mount(self.machines["C"])
        await self._let_in()
        for name, port in ports.items():
            link = await self._link(name, Link(self.broker.port, changes=b"EVAL"))
            self.hubs[name] = self._hub(name, port, link)
        await asyncio.gather(*(part.start() for part in self.parts))

    async def _link(self, name: str, link: Link | None = None) -> Link:
        link = self.links[name] = link or Link(self.broker.port)
        await link.accept()
        return link

    async def _let_in(self) -> None:
        """As joining does it."""
        redis = open_redis(self.broker.url)
        for each in self.machines.values():
            if each.ingest:
                each.join()
                digest = digest_of(each.secret)
                machine = JoinedMachine(each.host_id, each.name, digest, 0, "ingest", "-")
                await MachineStore(redis, seal()).enter(machine, "")
        await redis.aclose()

    def _hub(self, name: str, port: int, link: Link) -> Part:
        directory = self.root / name
        directory.mkdir()
        env = {
            "ADSUM_STATE_DIR": str(directory),
            "ADSUM_REDIS_URL": link.url,
            "ADSUM_HUB_PORT": str(port),
            "ADSUM_SIGN_IN": "off",
            "ADSUM_HUB_SECRET": SECRET,
            "ADSUM_HUB_HOSTS": json.dumps(
                [f"127.0.0.1:{each.link.port}" for each in self.machines.values() if each.ingest]
            ),
            "HOME": str(directory),
        }
        log = self.root / f"{name}.log"
        return Part(name, "tests.chaos.hub_main", env, log, f"http://127.0.0.1:{port}")

    async def _mount(self, machine: Machine) -> None:
        """A small disk of its own, which can be filled without harm to anybody else's."""
        size = f"size={DISK_MB}m,mode=0700"
        command = ["mount", "-t", "tmpfs", "-o", size, "adsum-chaos", str(machine.state)]
        try:
            done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
            reason = done.stderr.strip() if done.returncode else ""
        except OSError as error:
            reason = str(error)
        if reason:
            machine.disk = False
            self.skipped["disk full"] = f"no small file system can be mounted here ({reason})"

    async def stop(self) -> None:
        """Hard and whole, whatever state it is in."""
        for part in [*self.twins, *self.parts]:
            await part.kill()
        self.broker.kill()
        for link in self.links.values():
            await link.close()
        for machine in self.machines.values():
            if machine.disk:
                self._unmount(machine)

    def _unmount(self, machine: Machine) -> None:
        """What was on it stays to be looked at."""
        kept = machine.directory / "kept"
        with contextlib.suppress(OSError):
            (machine.state / "ballast").unlink(missing_ok=True)
            shutil.copytree(machine.state, kept, ignore=shutil.ignore_patterns("*.sock"))
        subprocess.run(["umount", str(machine.state)], check=True)
        machine.disk = False

"""A private, real cluster, and a master with Sentinels, for tests."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from tests.brokers import Broker, free_port, require_binary

SLOTS = 16_384
#: Of replicas: they begin to copy at once, and soon know how far they have come.
QUICK = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")


def until(found: Any, seconds: float = 15.0) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(redis.RedisError, OSError):
            if value := found():
                return value
        assert time.monotonic() < deadline, "the servers do not come to an agreement"
        time.sleep(0.02)


def plain(broker: Broker) -> Any:
    return redis.Redis(port=broker.port, socket_timeout=5, protocol=2)


def asked(broker: Broker, *words: Any) -> Any:
    """One command, on a connection of its own."""
    with contextlib.closing(plain(broker)) as client:
        return client.execute_command(*words)


class Cluster:
    """Masters, each with its share of the slots, and replicas of the first ones."""

    def __init__(self, directory: Path, masters: int = 3, replicas: int = 0) -> None:
        self.brokers: list[Broker] = []
        self.buses: list[int] = []
        self.masters = masters
        for number in range(masters + replicas):
            bus = free_port()
            options = ("--cluster-enabled", "yes", "--cluster-port", str(bus))
            patience = ("--cluster-node-timeout", "1000")
            broker = Broker(directory / str(number), *options, *patience, *QUICK)
            self.brokers.append(broker)
            self.buses.append(bus)

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{each.port}" for each in self.brokers[: self.masters])
        return f"redis+cluster://{places}"

    def start(self) -> Cluster:
        for each in self.brokers:
            each.start()
        share = SLOTS // self.masters
        first = self.brokers[0]
        for number, each in enumerate(self.brokers):
            with contextlib.closing(plain(each)) as client:
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
                if number < self.masters:
                    last = SLOTS if number == self.masters - 1 else share * (number + 1)
                    words = ("CLUSTER", "ADDSLOTSRANGE", share * number, last - 1)
                    client.execute_command(*words)
                if each is not first:
                    where = ("127.0.0.1", first.port, self.buses[0])
                    client.execute_command("CLUSTER", "MEET", *where)
        until(lambda: all(self.nodes_known(each) for each in self.brokers))
        for number, each in enumerate(self.brokers[self.masters :]):
            master = self.id_of(self.brokers[number])
            with contextlib.closing(plain(each)) as client:
                client.execute_command("CLUSTER", "REPLICATE", master)
        until(lambda: all(self.is_well(each) for each in self.brokers))
        return self

    def info(self, broker: Broker) -> dict[str, str]:
        with contextlib.closing(plain(broker)) as client:
            found: dict[str, str] = client.execute_command("CLUSTER INFO")
        return found

    def nodes_known(self, broker: Broker) -> bool:
        return int(self.info(broker)["cluster_known_nodes"]) == len(self.brokers)

    def is_well(self, broker: Broker) -> bool:
        with contextlib.closing(plain(broker)) as client:
            replication = client.info("replication")
        linked = replication["role"] == "master" or replication["master_link_status"] == "up"
        # Not named there before it has told how far it has copied.
        replicas = sum(len(each) - 3 for each in asked(broker, "CLUSTER", "SLOTS"))
        known = replicas == len(self.brokers) - self.masters
        return self.info(broker)["cluster_state"] == "ok" and linked and known

    def id_of(self, broker: Broker) -> str:
        with contextlib.closing(plain(broker)) as client:
            return str(client.execute_command("CLUSTER", "MYID").decode())

    def kill(self) -> None:
        for each in self.brokers:
            each.kill()


@contextlib.contextmanager
def running_cluster(directory: Path, masters: int = 3, replicas: int = 0) -> Iterator[Cluster]:
    cluster = Cluster(directory, masters, replicas)
    try:
        yield cluster.start()
    finally:
        cluster.kill()


class Sentinels:
    """A master named `mymaster`, a replica of it, and three Sentinels."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.master = Broker(directory / "master", *QUICK, *options)
        replicaof = ("--replicaof", f"127.0.0.1 {self.master.port}")
        self.replica = Broker(directory / "replica", *QUICK, *options, *replicaof)
        self.ports = [free_port() for _ in range(3)]
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"redis+sentinel://{places}/mymaster"

    def start(self) -> Sentinels:
        self.master.start()
        self.replica.start()
        until(lambda: self.said(self.replica, "replication")["master_link_status"] == "up")
        for port in self.ports:
            file = self.directory / f"{port}.conf"
            file.write_text(
                f"port {port}\nbind 127.0.0.1\ndir {self.directory}\n"
                f"sentinel monitor mymaster 127.0.0.1 {self.master.port} 2\n"
                "sentinel down-after-milliseconds mymaster 500\n"
                "sentinel failover-timeout mymaster 1000\n"
            )
            with file.with_suffix(".log").open("ab") as log:
                words = [require_binary(), str(file), "--sentinel"]
                self.processes.append(subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT))
        until(lambda: all(self.knows_all(port) for port in self.ports))
        return self

    @staticmethod
    def said(broker: Broker, section: str) -> dict[str, Any]:
        with contextlib.closing(plain(broker)) as client:
            found: dict[str, Any] = client.info(section)
        return found

    def knows_all(self, port: int) -> bool:
        """The replica, and both other Sentinels: from then on a failover is certain."""
        with contextlib.closing(redis.Redis(port=port, socket_timeout=5)) as client:
            flat = client.execute_command("SENTINEL", "MASTER", "mymaster")
        told = dict(zip(flat[::2], flat[1::2], strict=True)) if isinstance(flat, list) else flat
        known = {_text(name): _text(value) for name, value in told.items()}
        return known["num-slaves"] == "1" and known["num-other-sentinels"] == "2"

    def named(self) -> int:
        """The port of whom the first Sentinel calls the master."""
        with contextlib.closing(redis.Redis(port=self.ports[0], socket_timeout=5)) as client:
            words = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
            return int(client.execute_command(*words)[1])

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes.clear()
        self.master.kill()
        self.replica.kill()


def _text(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)


@contextlib.contextmanager
def running_sentinels(directory: Path, *options: str) -> Iterator[Sentinels]:
    sentinels = Sentinels(directory, *options)
    try:
        yield sentinels.start()
    finally:
        sentinels.kill()

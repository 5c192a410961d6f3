"""A fleet over machines: Redis, two hubs, four collectors, and hooks that never stop coming."""

from __future__ import annotations

import contextlib
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.brokers import Broker
from tests.hub_processes import AgentCollector, HubProcess, numbers_done, tool_starts
from tests.partition.machines import Machine, Switch

#: So many hooks of one session in a row: its activity, which keeps a hundred, tells of all of them.
A_SESSION = 90
PAUSE_S = 0.02


def until(predicate: Callable[[], Any], timeout: float, what: str) -> float:
    """Seconds until it was so."""
    began = time.monotonic()
    while not predicate():
        assert time.monotonic() - began < timeout, f"still not {what} after {timeout} s"
        time.sleep(0.1)
    return time.monotonic() - began


class Agents(threading.Thread):
    """Hooks of one machine's agents. sent: each session's numbers in the order of their answers."""

    def __init__(self, machine: Machine, collector: AgentCollector) -> None:
        super().__init__(daemon=True)
        self.sent: dict[str, list[int]] = {}
        self.took: list[float] = []
        self.refused: list[str] = []
        self._machine = machine
        self._collector = collector
        self._over = threading.Event()

    def run(self) -> None:
        count = 0
        with self._machine.inside(), httpx.Client(trust_env=False, timeout=10) as client:
            while not self._over.wait(PAUSE_S):
                session = f"s{count // A_SESSION}"
                count += 1
                self._post(client, session, count)

    def _post(self, client: httpx.Client, session: str, number: int) -> None:
        url, body = f"{self._collector.url}/api/live/hook", tool_starts(session, number)
        began = time.monotonic()
        reply = client.post(url, content=json.dumps(body), headers=self._collector.headers())
        self.took.append(time.monotonic() - began)
        if reply.status_code != 200 or reply.content:
            self.refused.append(f"{number}: {reply.status_code} {reply.text}")
        else:
            self.sent.setdefault(session, []).append(number)

    def stop(self) -> None:
        self._over.set()
        self.join()


class Fleet:
    """Machines `redis`, `hub1`, `hub2`, and one for each collector's name."""

    def __init__(self, root: Path, switch: Switch, collectors: list[str]) -> None:
        self.switch = switch
        self.machines = switch.machines
        self.broker = self._at(
            "redis",
            lambda: Broker(root / "broker", "--bind", "0.0.0.0", "--protected-mode", "no"),  # noqa: S104 - in there
        )
        url = f"redis://{self.machines['redis'].address}:{self.broker.port}"
        self.hubs = {
            name: self._at(name, lambda name=name: HubProcess(root / name, url))
            for name in ("hub1", "hub2")
        }
        self.collectors = {
            name: self._at(
                name, lambda name=name: AgentCollector(root / name, url, host_label=name)
            )
            for name in collectors
        }
        self.agents: dict[str, Agents] = {}

    def _at(self, name: str, work: Callable[[], Any]) -> Any:
        return self.machines[name].run(work)

    def start(self) -> None:
        self._at("redis", self.broker.start)
        for name, part in [*self.collectors.items(), *self.hubs.items()]:
            self._at(name, part.start)
        for name, collector in self.collectors.items():
            self.agents[name] = Agents(self.machines[name], collector)
            self.agents[name].start()

    def end(self) -> None:
        for agents in self.agents.values():
            agents.stop()
        for part in [*self.collectors.values(), *self.hubs.values(), self.broker]:
            part.kill()

    def ask(self, hub: str, path: str) -> Any:
        return self._at(hub, lambda: self.hubs[hub].get(path))

    def reaches(self, collector: str) -> set[str]:
        """What the hubs say of its host: live, late or offline."""
        host_id = self.collectors[collector].host_id
        return {
            self._at(hub, lambda hub=hub: self._reachability(hub, host_id)) for hub in self.hubs
        }

    def _reachability(self, hub: str, host_id: str) -> str:
        return str(self.hubs[hub].host(host_id).get("reachability", "unknown"))

    def applied(self, collector: str) -> int:
        """The least of what the hubs have applied."""
        host_id = self.collectors[collector].host_id
        return min(
            self._at(name, lambda hub=hub: hub.applied(host_id)) for name, hub in self.hubs.items()
        )

    def last(self, collector: str) -> int:
        return int(self._at(collector, self.collectors[collector].ready)["spool"]["last"])

    def catch_up(self, collector: str, timeout: float) -> float:
        """Seconds until every hub has all that was accepted up to now."""
        last = self.last(collector)
        return until(
            lambda: self.applied(collector) >= last, timeout, f"caught up with {collector}"
        )

    def require_all_once_and_in_order(self) -> None:
        """Ends the hooks. Every hub shows every number of every session, each once."""
        for agents in self.agents.values():
            agents.stop()
            assert not agents.refused
        for name in self.collectors:
            self.catch_up(name, 15)
        for hub in self.hubs:
            for name, collector in self.collectors.items():
                assert self._at(
                    hub, lambda hub=hub, c=collector, n=name: self._told(hub, c, n)
                ) == (self.agents[name].sent)

    def require_one_application(self) -> None:
        """No hub has folded more than there was: none twice.

        It may have folded less: a hub that lay behind goes on from what the other has stored.
        """
        folded = {hub: self.ask(hub, "/readyz")["counts"]["signals"] for hub in self.hubs}
        total = sum(self.last(name) for name in self.collectors)  # of later: it can only be more
        assert max(folded.values()) <= total, f"folded {folded} of {total}"

    def _told(self, hub: str, collector: AgentCollector, name: str) -> dict[str, list[int]]:
        sessions = self.agents[name].sent
        return {
            session: numbers_done(self.hubs[hub], collector.host_id, session)
            for session in sessions
        }

    def hook_times(self, collector: str) -> str:
        took = sorted(self.agents[collector].took)
        middle, worst = statistics.median(took) * 1e3, took[-1] * 1e3
        return f"{len(took)} hooks, p50 {middle:.1f} ms, slowest {worst:.0f} ms"


@contextlib.contextmanager
def fleet(root: Path, switch: Switch, collectors: list[str]) -> Iterator[Fleet]:
    made = Fleet(root, switch, collectors)
    try:
        made.start()
        yield made
    finally:
        made.end()
        left = {name: pids for name, each in switch.machines.items() if (pids := each.processes())}
        assert not left, f"processes remain: {left}"

"""`adsum hooks verify` times a probe by every way a hook goes, until the hub has applied it."""

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile

import msgspec

from adsum.client import HttpResponse, SilentError, fetch, hub_url, readiness, reason_of, request
from adsum.doctor.checks import Listing, find_host
from adsum.hooks import Setup
from adsum.machine import host_id_of
from adsum.outcome import CommandError, Exit, put, put_json
from adsum_collector.agents.installer import SHIM_NAME
from adsum_collector.listening.sockets import unix_peer_uid
from adsum_collector.shim import message
from adsum_shared.state import HostView

SCHEMA = 1
TIMEOUT_S = 2.0
APPLIED_WITHIN_S = 5.0
#: Between looks at the hub: short at first, as the time is told in milliseconds.
PAUSES_S = (0.001, 0.05)
NEXT = "Next: adsum hooks install"
SHIM_WITHIN_S = 10.0
#: No system gives a process this id. Named as the agent's, it keeps the collector from taking a
#: living process for the probe's session, which would put that session on the board.
NOBODY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Taken:
    """What the collector's answer says. sent: when the probe went out, by the monotonic clock."""

    seq: int
    sent: float
    took_ms: float


def verify_hooks(setup: Setup, hub: str | None, *, as_json: bool = False) -> None:
    """Raises CommandError at the first step that fails, with what to do."""
    report = setup.inspect()
    faults, command = setup.faults(report), report.command

    def say(line: str) -> None:
        if not as_json:
            put(line)

    if setup.transport == "shim":
        taken = hand_probe(setup)
    else:
        taken = send_probe(setup.url, setup.target.token, setup.installer.probe)
    say(f"collector  took the probe as number {taken.seq}: {taken.took_ms:.1f} ms")
    url = hub_url(hub, setup.state_dir)
    host, applied_ms = _applied(setup, url, taken)
    say(f"hub        applied it for {host.label}: {applied_ms:.1f} ms, {url}")
    shim_ms = None
    if command:
        shim_ms = _by_shim(setup, command)
        say(f"shim       handed one on: {shim_ms:.0f} ms")
    if as_json:
        times = {"collector_ms": taken.took_ms, "hub_ms": applied_ms, "shim_ms": shim_ms}
        rounded = {way: ms and round(ms, 2) for way, ms in times.items()}
        put_json({"schema": SCHEMA, "seq": taken.seq, **rounded, "faults": faults})
    if faults:
        raise CommandError(
            f"The way is open, but {setup.path} is not right: {'; '.join(faults)}. {NEXT}"
        )
    say(f"hooks      stand in {setup.path}")


def send_probe(url: str, token: str, probe: bytes) -> Taken:
    """Sent as an agent posts a hook."""
    headers = {"Authorization": f"Bearer {token}"}
    try:
        answer = request(url, body=probe, headers=headers, timeout_s=TIMEOUT_S)
    except SilentError as error:
        raise CommandError(
            f"No collector answers at {url} ({error}). Start it with `adsum up`; if it runs on "
            "another port, set ADSUM_COLLECTOR_PORT and run `adsum hooks install` again.",
            Exit.UNREACHABLE,
        ) from error
    seq = answer.headers.get("x-adsum-seq", "")
    if answer.status != 200 or not seq.isdecimal():
        raise CommandError(f"The collector at {url} refuses a hook: {_reason(answer)}")
    return Taken(int(seq), time.perf_counter() - answer.took_ms / 1000, answer.took_ms)


def hand_probe(setup: Setup) -> Taken:
    """As the shim hands it over."""
    path, uid = setup.socket, os.getuid()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            connection.connect(str(path))
            if unix_peer_uid(connection) not in (uid, 0, None):
                raise CommandError(f"Another user listens on {path}. Make its folder your own.")
            sent = time.perf_counter()
            connection.sendall(message(setup.installer.probe, setup.agent.name, NOBODY))
            with connection.makefile("rb") as answer:
                said = json.loads(answer.readline())
            took_ms = (time.perf_counter() - sent) * 1000
        except (OSError, ValueError) as error:
            raise CommandError(
                f"No collector answers at {path} ({reason_of(error)}). Start it with `adsum up`.",
                Exit.UNREACHABLE,
            ) from error
    if not said.get("ok"):
        raise CommandError(f"The collector at {path} refuses a hook: {said.get('error')}")
    return Taken(int(said["seq"]), sent, took_ms)


def _reason(answer: HttpResponse) -> str:
    status, said = answer.status, answer.json
    if isinstance(said, dict) and "error" in said:
        return f"HTTP {status}, {said['error']}. {said.get('next', '')}".rstrip()
    if status == 401:
        return f"HTTP 401, wrong token. {NEXT}"
    return f"HTTP {status}. Does something else listen on that port?"


def _applied(setup: Setup, url: str, taken: Taken) -> tuple[HostView, float]:
    """The machine as the hub has it, and the ms until it had applied the probe."""
    host_id, pause = host_id_of(setup.state_dir), PAUSES_S[0]
    while True:
        host = _host(setup, url, host_id)
        took_s = time.perf_counter() - taken.sent
        if host.applied >= taken.seq:
            return host, took_s * 1000
        if took_s > APPLIED_WITHIN_S:
            raise CommandError(
                f"The hub at {url} has not applied the probe within {APPLIED_WITHIN_S:g} s: it is "
                f"at number {host.applied}, the probe is {taken.seq}. "
                f"{host.problem or 'Next: adsum doctor'}"
            )
        time.sleep(pause)
        pause = min(2 * pause, PAUSES_S[1])


def _host(setup: Setup, url: str, host_id: str | None) -> HostView:
    """Raises CommandError when the hub does not have this machine live."""
    host = find_host(msgspec.convert(fetch(url, "/api/v1/hosts"), Listing), host_id)
    if host is None:
        raise CommandError(
            f"The hub at {url} has never heard of this machine. Collector and hub need the same "
            "ADSUM_REDIS_URL; `adsum up` sees to that."
        )
    if host.reachability != "live":
        raise CommandError(
            f"The hub at {url} has this machine as {host.reachability}. Is the collector "
            f"connected to the same Redis? Its log: {setup.state_dir / 'logs'}"
        )
    return host


def _by_shim(setup: Setup, command: Sequence[str]) -> float:
    """The ms that the installed command took, its Python's start included.

    It prints nothing and always ends well, so the collector is asked what it has taken by it.
    """
    before, began = _taken_by_shim(setup), time.perf_counter()
    wrong = _run_shim(command, setup.installer.probe)
    took_ms = (time.perf_counter() - began) * 1000
    if wrong:
        raise CommandError(f"The hooks' command {command[0]} fails: {wrong}. {NEXT}")
    if _taken_by_shim(setup) <= before:
        raise CommandError(
            f"The hooks' command ran, but this collector took nothing from it. It hands on to "
            f"{command[-1]}; this collector's socket is {setup.target.socket}. {NEXT}"
        )
    return took_ms


def _taken_by_shim(setup: Setup) -> int:
    try:
        return int(readiness(f"http://127.0.0.1:{setup.port}")["shim"]["accepted"])
    except (SilentError, KeyError, TypeError, ValueError) as error:
        raise CommandError(
            f"The collector on port {setup.port} does not say what it has taken ({error}). "
            "Start it anew: adsum up"
        ) from error


def _run_shim(command: Sequence[str], body: bytes) -> str | None:
    """None once it has ended well, else what went wrong, in words."""
    # After socket and agent comes the variable in which the agent says its process's id.
    after = [*dropwhile(lambda word: not word.endswith(SHIM_NAME), command)][3:4]
    try:
        done = subprocess.run(  # noqa: S603 - our own shim, as it is installed
            command,
            input=body,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SHIM_WITHIN_S,
            env={**os.environ, **dict.fromkeys(after, str(NOBODY))},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it had not ended after {SHIM_WITHIN_S:g} s"
    except OSError as error:
        return error.strerror or str(error)
    if not done.returncode:
        return None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"it ended with {done.returncode}"

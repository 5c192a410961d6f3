"""How the demo's machines are connected, and what their heartbeats tell of them. Pure."""

from __future__ import annotations

from uuid import UUID, uuid5

from adsum.demo.cast import AGENT_VERSION, MINUTE, Line, Machine
from adsum_shared import __version__
from adsum_shared.beat import Beat
from adsum_shared.state import HostWitness
from adsum_shared.usage import ScanProgress

_IDS = UUID("5f2d6c1e-9d0b-4b7e-8f63-ad50ad50ad50")
#: On a train it comes through for a moment, and is silent for longer than a hub calls live.
TRAIN_MS, TRAIN_ON_MS = 28_000, 2_000
#: A closed lid: it comes back for a while, brings what it kept, and goes again.
AWAY_MS, BACK_FROM_MS, BACK_TO_MS = 20 * MINUTE, 12 * MINUTE, 18 * MINUTE
#: One machine reads its history, and begins anew some time after it is done.
READING_MS, READ_AGAIN_MS = 34 * MINUTE, 40 * MINUTE
FILES, BYTES = 4_180, 6_300_000_000
#: Where it is when somebody comes to look.
BEGUN_MS = 11 * MINUTE


def host_id_of(machine: Machine) -> str:
    return str(uuid5(_IDS, machine.label))


def is_connected(line: Line, played_ms: int) -> bool:
    """played_ms: since the audience came, in true time."""
    if line == "train":
        return played_ms % TRAIN_MS < TRAIN_ON_MS
    return line == "steady" or BACK_FROM_MS <= played_ms % AWAY_MS < BACK_TO_MS


def progress(played_ms: int) -> ScanProgress | None:
    gone = (played_ms + BEGUN_MS) % READ_AGAIN_MS
    if gone >= READING_MS:
        return None
    share, left = gone / READING_MS, (READING_MS - gone) / 1000
    return ScanProgress(
        files=FILES,
        files_done=int(FILES * share),
        bytes=BYTES,
        bytes_done=int(BYTES * share),
        bytes_per_s=BYTES * 1000 // READING_MS,
        left_s=round(left),
    )


def witnesses(machine: Machine, now: int) -> tuple[HostWitness, ...]:
    """now: its own clock."""
    heard = ("transcript", "registry", "process", "statusline", "shim")
    hooks = HostWitness("hook", "ok", now - 900)
    if not machine.hooks:
        note = "~/.claude/settings.json holds none of Adsum's hooks. Next: adsum hooks install"
        hooks = HostWitness("hook", "missing", 0, note=note)
    return (hooks, *(HostWitness(name, "ok", now - 1_700) for name in heard))


def beat_of(  # noqa: PLR0913 - a heartbeat tells that much
    machine: Machine,
    now: int,
    played_ms: int,
    *,
    spool_id: str = "demo",
    nonce: str = "demo",
    seq: int = 0,
    sent: int = 0,
    stopping: bool = False,
) -> Beat:
    """now: true time, ms."""
    at = now + machine.skew_ms
    return Beat(
        host_id=host_id_of(machine),
        label=machine.label,
        at=at,
        nonce=nonce,
        spool_id=spool_id,
        seq=seq,
        sent=sent,
        version=__version__,
        agent_version=AGENT_VERSION,
        stopping=stopping,
        witnesses=witnesses(machine, at),
        scan=progress(played_ms) if machine.reads else None,
    )

"""What `/readyz` tells a person or a probe about this collector."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from adsum_collector.health import HookFiles, Pulse, hook_witness, witness
from adsum_collector.identity import Identity
from adsum_collector.local_socket import LocalSocket
from adsum_collector.publisher import Publisher
from adsum_collector.receiver import Receiver
from adsum_collector.spool import Spool
from adsum_collector.watch import Watch
from adsum_shared import __version__
from adsum_shared.state import HostWitness


class Transcripts(Protocol):
    """files: how many are followed. read_at: ms, when a line was read last; 0 = never."""

    @property
    def files(self) -> int: ...
    @property
    def read_at(self) -> int: ...
    @property
    def faults(self) -> Mapping[str, int]: ...


class StatusLines(Protocol):
    """ticks: how many came. outcomes: what became of the user's own command, if not well."""

    @property
    def ticks(self) -> int: ...
    @property
    def outcomes(self) -> Mapping[str, int]: ...


@dataclass
class Witnesses:
    """All that hear something of this machine's sessions."""

    receiver: Receiver
    local: LocalSocket
    watch: Watch
    hooks: HookFiles
    tailer: Transcripts | None = None
    statusline: StatusLines | None = None
    _pulses: dict[str, Pulse] = field(default_factory=lambda: defaultdict(Pulse))

    def health(self, now: int) -> tuple[HostWitness, ...]:
        """now: ms. The registry and the process table are read every second, so they are fresh."""
        receiver, local, watch = self.receiver, self.local, self.watch
        tailer, statusline = self.tailer, self.statusline
        heard = self._pulses["hook"].feel(receiver.accepted, now)
        started = self._pulses["shim"].feel(local.accepted, now)
        ticked = self._pulses["statusline"].feel(statusline.ticks if statusline else 0, now)
        return (
            hook_witness(self.hooks.look(now), receiver.accepted, receiver.refused, heard),
            witness("shim", started, local.refused),
            witness(
                "transcript", tailer.read_at if tailer else 0, tailer.faults if tailer else None
            ),
            witness("registry", now if watch.files else 0, watch.counts),
            witness("process", now),
            witness("statusline", ticked, statusline.outcomes if statusline else None),
        )


def facts(
    identity: Identity, spool: Spool, publisher: Publisher, witnesses: Witnesses, now: int
) -> tuple[bool, dict[str, Any]]:
    """Ready means: hooks are accepted. That the broker is away is a problem, not a refusal."""
    ready = spool.problem is None
    receiver, local, watch = witnesses.receiver, witnesses.local, witnesses.watch
    return ready, {
        "ready": ready,
        "version": __version__,
        "host_id": identity.host_id,
        "label": identity.label,
        "problem": spool.problem or publisher.problem,
        "spool": {
            "spool_id": spool.spool_id,
            "last": spool.last_seq,
            "acked": spool.acked,
            "bytes": spool.size,
            "problem": spool.problem,
        },
        "stream": {
            "incarnation": spool.incarnation,
            "sent": publisher.sent,
            "backlog": spool.last_seq - publisher.sent,
            "problem": publisher.problem,
        },
        "hooks": {"accepted": receiver.accepted, "refused": receiver.refused},
        "shim": {"accepted": local.accepted, "refused": local.refused},
        "registry": {"files": watch.files, **watch.counts},
        "transcripts": {"files": witnesses.tailer.files if witnesses.tailer else 0},
        "witnesses": witnesses.health(now),
    }

"""What `/readyz` tells a person or a probe about this collector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adsum_collector.delivery.publisher import Publisher
from adsum_collector.health import HookFiles, hook_witness, transcript_witness, witness
from adsum_collector.intake import Intake
from adsum_collector.local_socket import LocalSocket, Ticks
from adsum_collector.receiver import Receiver
from adsum_collector.spool.spool import Spool
from adsum_collector.state_dir import Identity
from adsum_collector.transcripts.tailer import Tailer
from adsum_collector.usage.witness import UsageWitness
from adsum_collector.watch import Watch
from adsum_shared import __version__
from adsum_shared.beat import Counts
from adsum_shared.state import HostWitness


@dataclass
class Witnesses:
    """All that hear something of this machine's sessions."""

    receiver: Receiver
    local: LocalSocket
    watch: Watch
    hooks: HookFiles
    tailer: Tailer
    statusline: Ticks
    usage: UsageWitness

    def health(self, now: int) -> tuple[HostWitness, ...]:
        """now: ms. The registry and the process table are read every second, so they are fresh."""
        receiver, local, watch = self.receiver, self.local, self.watch
        tailer, statusline = self.tailer, self.statusline
        files = self.hooks.look(now)
        return (
            hook_witness(files, receiver.accepted, receiver.refused, receiver.heard_at),
            witness("shim", local.heard_at, local.refused),
            transcript_witness(tailer.read_at, tailer.faults, tailer.too_long),
            witness("registry", now if watch.files else 0, watch.counts),
            witness("process", now),
            witness("statusline", statusline.heard_at, statusline.outcomes),
            self.usage.witness(),
        )


def counts(intake: Intake, spool: Spool, publisher: Publisher, witnesses: Witnesses) -> Counts:
    receiver, local = witnesses.receiver, witnesses.local
    return Counts(
        hooks=receiver.accepted + local.accepted,
        refused=receiver.refused.total() + local.refused.total() + intake.left_out,
        signals=intake.accepted,
        published=publisher.published,
        published_bytes=publisher.published_bytes,
        replays=publisher.replays,
        spool_bytes=spool.size,
    )


def problem_of(spool: Spool, publisher: Publisher) -> str | None:
    """All that is wrong with this collector, the most important first."""
    told = [spool.problem, publisher.problem, spool.notice]
    return " ".join(text for text in told if text) or None


def facts(
    identity: Identity,
    spool: Spool,
    publisher: Publisher,
    witnesses: Witnesses,
    intake: Intake,
    now: int,
) -> tuple[bool, dict[str, Any]]:
    """Ready means: hooks are accepted. That the broker is away is a problem, not a refusal."""
    ready = spool.problem is None
    receiver, local, watch = witnesses.receiver, witnesses.local, witnesses.watch
    return ready, {
        "ready": ready,
        "version": __version__,
        "host_id": identity.host_id,
        "label": identity.label,
        "problem": problem_of(spool, publisher),
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
        "left_out": intake.left_out,
        "hooks": {"accepted": receiver.accepted, "refused": receiver.refused},
        "shim": {"accepted": local.accepted, "refused": local.refused},
        "registry": {"files": watch.files, **watch.counts},
        "transcripts": {"files": witnesses.tailer.files},
        "witnesses": witnesses.health(now),
    }

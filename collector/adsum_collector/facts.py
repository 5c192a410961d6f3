"""What `/readyz` tells a person or a probe about this collector."""

from __future__ import annotations

from typing import Any

import msgspec

from adsum_collector.identity import Identity
from adsum_collector.local_socket import LocalSocket
from adsum_collector.publisher import Publisher
from adsum_collector.receiver import Receiver
from adsum_collector.spool import Spool
from adsum_collector.watch import Watch
from adsum_shared import __version__


class Witnesses(msgspec.Struct):
    receiver: Receiver
    local: LocalSocket
    watch: Watch

    def health(self) -> dict[str, str]:
        """Name -> one word. A silent witness is no fault: there may be no session yet."""
        return {
            "hook": "ok" if self.receiver.accepted else "silent",
            "shim": "ok" if self.local.accepted else "silent",
            "registry": "ok" if self.watch.files else "silent",
            "process": "ok",
        }


def facts(
    identity: Identity, spool: Spool, publisher: Publisher, witnesses: Witnesses
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
        "witnesses": witnesses.health(),
    }

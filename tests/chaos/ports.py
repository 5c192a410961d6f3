"""Ports that stay ours between a part's end and its next start."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket

#: Below those that the system gives to outgoing connections: such a one would take a dead part's.
FIRST, COUNT = 12_000, 18_000

_next = itertools.count(os.getpid() * 97)
#: UDP sockets on the ports' numbers, open as long as this process lives: a run beside it then takes no
#: port whose part is down. The system closes them with the process. Rejected: lock files, which remain after a process ends.
_claims: list[socket.socket] = []


def own_port() -> int:
    for at in _next:
        port = FIRST + at % COUNT
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            # Claimed first: a run beside this one would look at the port just as it is listened on.
            claim.bind(("127.0.0.1", port))
            with contextlib.closing(socket.socket()) as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
        else:
            _claims.append(claim)
            return port
    raise AssertionError

"""Ports that stay ours between a part's end and its next start."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import socket
import tempfile
from pathlib import Path
from typing import IO

#: Below those that the system gives to outgoing connections: such a one would take a dead part's.
FIRST, COUNT = 12_000, 18_000

_next = itertools.count(os.getpid() * 97)
#: Held as long as this process lives, so that a run beside it takes no port whose part is down.
_claims: list[IO[bytes]] = []


def own_port() -> int:
    for at in _next:
        port = FIRST + at % COUNT
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            # Claimed first: a run beside this one would look at the port just as it is listened on.
            claim = (Path(tempfile.gettempdir()) / f"adsum-chaos-port-{port}").open("ab")
            _claims.append(claim)
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError

"""What stops a collector: from starting, from accepting a signal, from publishing one."""

from __future__ import annotations


class StartError(RuntimeError):
    """The collector cannot start. The text is for people: the thing, the cause, the next step."""


class SpoolUnavailable(RuntimeError):  # noqa: N818 - a state of the spool, said to the sender
    """The spool cannot promise durability now. The text says why; nothing was accepted."""


class StreamMovedError(Exception):
    """The stream is not where we left it: a copy of this machine writes to it."""

    def __init__(self) -> None:
        super().__init__(
            "Another collector uses this machine's identity: this looks like a copy of a machine. "
            "Stop the collector on the copy, remove its host.json, and start it again."
        )

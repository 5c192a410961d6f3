"""What stops a collector from starting, and what stops it from accepting a signal."""

from __future__ import annotations


class StartError(RuntimeError):
    """The collector cannot start. The text is for people: the thing, the cause, the next step."""


class SpoolUnavailable(RuntimeError):  # noqa: N818 - a state of the spool, said to the sender
    """The spool cannot promise durability now. The text says why; nothing was accepted."""

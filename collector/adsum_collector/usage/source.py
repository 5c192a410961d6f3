"""Decides which of several files wrote a message first."""

from __future__ import annotations

import msgspec


class Source(msgspec.Struct, frozen=True, gc=False):
    """A file of records. begun, ms: when it was; negative: then at the latest, as far as one can tell."""

    begun: int
    session_id: str

    def outranks(self, other: Source, at: int) -> bool:
        """Whether a message that both tell, of that time, is rather this one's."""
        if self.begun > 0 < other.begun:
            return (self.begun, self.session_id) < (other.begun, other.session_id)
        return self._rank(at) < other._rank(at)

    def _rank(self, at: int) -> tuple[int, int, str]:
        """First what was there when the message was said; last what was begun thereafter."""
        begun = self.begun
        if begun > 0:
            return (0 if begun <= at else 2, begun, self.session_id)
        return (1, -begun, self.session_id)

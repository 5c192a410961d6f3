"""Every fault there is: each module registers its own.

Left out, and why:

- A copied, restored or deleted state directory, a Redis that loses its data, and a hub that is
  killed, all in one run: `schedule.LOSSES` says why two of them is the limit of what can be kept.
- A clock that is off while its machine's spool is deleted or set back: the collector then knows of
  no living process, and takes a transcript that has rested for a minute *by that clock* for history.
- A clock off by a day or more: a spool's retention is counted in it, and is a day.
- A transcript rewritten with the same first bytes, and longer: nobody can tell it from one that grew.
- Entries forged under the nonce of the living run: nothing in the stream is signed.
- What a disk loses that had confirmed an fsync, a page of garbage in a spool file (unit tests have
  it), and the other end of a network that is cut between two machines (tests/partition).
"""

from __future__ import annotations

from tests.chaos import (  # noqa: F401
    broker_faults,
    disk_faults,
    network_faults,
    process_faults,
    stream_faults,
)
from tests.chaos.schedule import KINDS, Fault, draw

__all__ = ["KINDS", "Fault", "draw"]

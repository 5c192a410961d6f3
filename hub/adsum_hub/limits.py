"""The time limits of the state rules, in milliseconds, each with its reason."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    #: No time: of one machine no more sessions are listed. Whoever takes a machine over makes 30,000
    #: in eight seconds, and every list and page would crawl.
    most_sessions: int = 2_000
    #: A failed tool may be recovered from this long before it counts as an error. 0 gives the
    #: first seed's immediate error; rejected as default, agents recover from a failing test.
    error_grace: int = 10_000
    #: Transient states without a witness for so long rest on what else is known (seed rule).
    transient: int = 60_000
    #: Nothing from any witness for so long, and no open tool inside its own time-out.
    stuck_after: int = 120_000
    compaction: int = 600_000
    #: A child that finished wakes its parent within this time, unless the parent was told.
    wake: int = 5_000
    #: A subagent of which nothing is heard (its SubagentStop does not always come).
    child_silence: int = 300_000
    #: The registry is written up to half a second after the fact.
    registry_hold: int = 500
    #: A registry stamp this much newer than an opener cannot be a late report of before it.
    registry_ahead: int = 250
    #: A `busy` stamped this much after a request opened is no late report of before it: three
    #: times the longest lag measured.
    registry_missed: int = 1_000
    #: A headless run closes its books up to so long before it ends (1.5 s after an API error).
    closing: int = 2_000
    #: A dialog's own hook comes within this time of the registry's `waiting`.
    nameless: int = 300


LIMITS = Limits()

#: A process start is known to a second at worst (the kernel tells its boot time in seconds).
START_SLACK = 1_000
#: A resume this soon after its process started is that process's own beginning.
LAUNCH = 30_000

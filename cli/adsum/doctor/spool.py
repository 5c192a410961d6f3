"""Checks this machine's spool: its disk, its allowance, what was damaged."""

from __future__ import annotations

import time
from collections.abc import Iterator

from adsum.doctor.finding import Finding, Result, from_text
from adsum.outcome import CommandError
from adsum.spool import ask
from adsum.text.words import age
from adsum_collector.settings import CollectorSettings
from adsum_collector.spool.quarantine import NOTICE_S, Quarantined
from adsum_collector.spool.spool_file import shown_bytes
from adsum_collector.spool.status import SpoolStatus
from adsum_shared.redact import clean

#: Of its allowance; beyond it a while without Redis may cost the oldest.
FULL = 0.8
#: So many times what is left to others is still to be had: time enough to make room.
SCANT = 4
#: Signals that wait in numbers, or for a time, that no burst of work comes to.
MANY = 1_000
OLD_MS = 60_000
STATUS = "`adsum collector spool status` tells more."


def check_spool(settings: CollectorSettings) -> Finding:
    directory = settings.state_dir / "spool"
    if not directory.exists():
        return Finding("spool", "skip", f"No collector has kept anything in {directory} yet.")
    try:
        status = ask(settings)
    except CommandError as error:
        return from_text("spool", "fail", clean(str(error)))
    return judge(status, int(time.time() * 1000))


def judge(status: SpoolStatus, now: int) -> Finding:
    """now: ms."""
    details = tuple(_quarantined(each, now) for each in status.quarantined)
    what, fix = next(_full(status), (None, None))
    if what is not None:
        result: Result = "fail" if status.free < status.reserve else "warn"
        return Finding("spool", result, what, fix, details)
    if status.problem:
        told = from_text("spool", "warn", clean(status.problem))
        return Finding("spool", "warn", told.what, told.fix, details)
    if any(now - each.at < NOTICE_S * 1000 for each in status.quarantined):
        what = "A spool file was damaged in the last day and quarantined."
        return Finding("spool", "warn", what, f"Look at that disk. {STATUS}", details)
    waiting = _waiting(status)
    if status.waiting > MANY or (status.oldest_waiting_ms or 0) > OLD_MS:
        return Finding("spool", "warn", f"{waiting}.", f"See redis and hub here. {STATUS}", details)
    return Finding("spool", "ok", f"{waiting}; the spool has {_used(status)}.", None, details)


def _full(status: SpoolStatus) -> Iterator[tuple[str, str]]:
    """(what, fix), worst first."""
    free, reserve = shown_bytes(status.free), shown_bytes(status.reserve)
    where = f"The disk of {status.directory}"
    if status.free < status.reserve:
        what = f"{where} is full, so hooks are refused: {free} free."
        yield what, f"Free some space there; the last {reserve} are left to others."
    if status.free < SCANT * status.reserve:
        fix = f"Free some space there: below {reserve} hooks are refused."
        yield f"{where} is nearly full: {free} free.", fix
    # What hubs have is kept for a day in case Redis loses it, and goes first.
    if status.bytes > FULL * status.cap and status.waiting > MANY:
        what = f"{_waiting(status)}, and the spool has {_used(status)}."
        yield what, "Bring Redis and a hub back, or raise ADSUM_SPOOL_CAP_MB: else the oldest go."


def _waiting(status: SpoolStatus) -> str:
    signals = "1 signal is" if status.waiting == 1 else f"{status.waiting:,} signals are"
    oldest = status.oldest_waiting_ms
    since = f", the oldest for {age(oldest)}" if status.waiting and oldest is not None else ""
    return f"{signals} at no hub yet{since}"


def _used(status: SpoolStatus) -> str:
    return f"{shown_bytes(status.bytes)} of {shown_bytes(status.cap)}"


def _quarantined(file: Quarantined, now: int) -> str:
    return f"{age(now - file.at)} ago: {file.name} ({clean(file.cause)}); {file.loss}"

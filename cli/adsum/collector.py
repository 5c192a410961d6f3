"""Shows the collector's spool (`adsum collector spool status`), and gives a copied machine a new identity."""

from __future__ import annotations

import sqlite3
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from adsum.client import SilentError, request
from adsum.config import read_settings
from adsum.outcome import CommandError
from adsum.text.saying import put, put_json, say
from adsum.text.words import age
from adsum_collector.settings import CollectorSettings
from adsum_collector.spool.quarantine import Quarantined
from adsum_collector.spool.spool_file import SpoolGap, SpoolLimits, shown_bytes
from adsum_collector.spool.status import EmptySpoolError, SpoolStatus, offline_status
from adsum_collector.state_dir import hold_lock, holder_of, make_private, renew_identity
from adsum_shared.redact import clean

WIDTH = 80
LABEL = 11
#: What is beyond that many is told as a number; `--json` has all.
MOST_SHOWN = 8

REASONS = {
    "cap": "the cap was reached",
    "corrupt": "a file was damaged",
    "copy": "another machine has the same disk",
    "rollback": "the disk is older than what was sent from it",
    "retention": "they were older than the retention",
}


def show_spool(state_dir: Path | None, *, as_json: bool) -> None:
    status = ask_spool(read_settings(CollectorSettings, state_dir=state_dir))
    if as_json:
        put_json(msgspec.to_builtins(status))
    else:
        put("\n".join(lines(status, int(time.time() * 1000))))


def ask_spool(settings: CollectorSettings) -> SpoolStatus:
    """Of the collector that runs; else of its files. Raises CommandError."""
    directory = settings.state_dir / "spool"
    _require_directory(settings.state_dir)
    held = holder_of(settings.state_dir)
    if held is not None:
        return _running(held.port, f"The collector on {settings.state_dir} (process {held.pid})")
    _require_directory(directory)
    limits = SpoolLimits.of(settings.spool_cap_mb << 20, settings.spool_retention_h * 3600)
    try:
        return offline_status(directory, limits, time.time())
    except EmptySpoolError as error:
        raise CommandError(f"No spool in {directory} can be shown. {error}") from error
    except (OSError, sqlite3.Error) as error:
        raise CommandError(
            f"The spool in {directory} cannot be read ({error}). Run this as the collector's user, "
            "and look at that disk."
        ) from error


def _require_directory(path: Path) -> None:
    try:
        next(path.iterdir(), None)
    except FileNotFoundError as error:
        raise CommandError(
            f"{path} does not exist: no collector has run there yet. Start one with `adsum up`, or "
            "name another directory with --state-dir or ADSUM_STATE_DIR."
        ) from error
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read ({error.strerror}). Run this as the collector's user, or name "
            "another directory with --state-dir or ADSUM_STATE_DIR."
        ) from error


def _running(port: int, who: str) -> SpoolStatus:
    try:
        reply = request(f"http://127.0.0.1:{port}", "/spool")
    except SilentError as error:
        raise CommandError(
            f"{who} does not answer on port {port} ({error}). It may be starting: try again. "
            "While it runs, nobody else reads its files."
        ) from error
    try:
        if reply.status == 200:
            return msgspec.json.decode(reply.body, type=SpoolStatus)
        said = msgspec.json.decode(reply.body, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise CommandError(f"{who} answers, but not as one of this version: {error}.") from error
    if reply.status == 404:
        raise CommandError(f"{who} is of a version that cannot tell. Start it anew.")
    raise CommandError(f"{who} says: {said.get('error', reply.status)}.")


def lines(status: SpoolStatus, now: int) -> Iterator[str]:
    """now: ms. None longer than WIDTH."""
    whence = "the collector runs" if status.running else "no collector runs; read from its files"
    yield from _line("spool", f"{status.spool_id}, {whence}")
    yield from _line("directory", status.directory)
    yield from _line("held", f"{_numbers(status.first, status.last)}")
    if status.sent is not None:
        yield from _line("sent", f"to Redis up to {status.sent}")
    yield from _line("confirmed", f"by the hubs up to {status.confirmed}")
    oldest = status.oldest_waiting_ms
    since = "" if oldest is None else f", the oldest for {age(oldest)}"
    yield from _line("waiting", f"{status.waiting}{since}")
    used = f"{shown_bytes(status.bytes)} of {shown_bytes(status.cap)}"
    yield from _line("used", f"{used} (ADSUM_SPOOL_CAP_MB)")
    left = f"{shown_bytes(status.reserve)} are left to others"
    yield from _line("free", f"{shown_bytes(status.free)} on that disk; the last {left}")
    yield from _some("files", [_file(*each) for each in _files(status)])
    gone = sum(gap.count for gap in status.gaps)
    total = [f"{gone} signals will never come:"] if gone else []
    yield from _some("gaps", total + [_gap(gap) for gap in status.gaps])
    yield from _some("quarantine", [_quarantined(each, now) for each in status.quarantined])
    if status.problem:
        yield from _line("problem", clean(status.problem))


def _files(status: SpoolStatus) -> Iterator[tuple[str, str, str, str]]:
    for file in reversed(status.files):
        lacks = f", {file.missing} missing" if file.missing else ""
        span = _numbers(file.first, file.last)
        yield file.name, span, shown_bytes(file.bytes), lacks


def _file(name: str, span: str, size: str, lacks: str) -> str:
    return f"{name}  {size:>7}  {span}{lacks}"


def _gap(gap: SpoolGap) -> str:
    return f"{_numbers(gap.first, gap.last)}: {REASONS.get(gap.reason, gap.reason)}"


def _quarantined(file: Quarantined, now: int) -> str:
    lost = "?" if file.missing is None else str(file.missing)
    when, size = age(now - file.at), shown_bytes(file.bytes)
    return f"{file.name}, {size}, {when} ago: {clean(file.cause)}; signals missing: {lost}"


def _numbers(first: int, last: int) -> str:
    return f"{first}-{last}" if first <= last else "none"


def _some(label: str, texts: list[str]) -> Iterator[str]:
    for text in texts[:MOST_SHOWN]:
        yield from _line(label, text)
        label = ""
    if len(texts) > MOST_SHOWN:
        yield from _line(label, f"and {len(texts) - MOST_SHOWN} more (--json has all)")


def _line(label: str, text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{label:{LABEL}}",
        subsequent_indent=" " * LABEL,
        break_on_hyphens=False,
    )


def take_new_identity(state_dir: Path | None) -> None:
    """Only while the collector is stopped: it would go on under the old one."""
    settings = read_settings(CollectorSettings, state_dir=state_dir)
    try:
        make_private(settings.state_dir)
        with hold_lock(settings.state_dir):
            identity = renew_identity(settings.state_dir, settings.host_label)
    except OSError as error:
        raise CommandError(str(error)) from error
    say(
        f"{identity.label} joins as a new machine, {identity.host_id}, once its collector is "
        "started. What no hub has had yet goes along; its sessions so far stay under the old one.",
        sys.stdout,
    )

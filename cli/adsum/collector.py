"""Shows the collector's spool (`adsum collector spool status`), and gives a copied machine a new identity."""

import sqlite3
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from adsum.client import SilentError, request
from adsum.config import read_settings
from adsum.outcome import CommandError, put, put_json, say
from adsum.text.words import age
from adsum_collector.settings import CollectorSettings
from adsum_collector.spool.spool import EmptySpoolError, SpoolStatus, offline_status
from adsum_collector.spool.spool_file import SpoolLimits, shown_bytes
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
    for label, texts in _facts(status, now):
        if len(texts) > MOST_SHOWN:
            texts[MOST_SHOWN:] = [f"and {len(texts) - MOST_SHOWN} more (--json has all)"]
        for number, text in enumerate(texts):
            yield from textwrap.wrap(
                text,
                WIDTH,
                initial_indent=f"{'' if number else label:{LABEL}}",
                subsequent_indent=" " * LABEL,
                break_on_hyphens=False,
            )


def _facts(status: SpoolStatus, now: int) -> Iterator[tuple[str, list[str]]]:
    whence = "the collector runs" if status.running else "no collector runs; read from its files"
    yield "spool", [f"{status.spool_id}, {whence}"]
    yield "directory", [status.directory]
    yield "held", [_numbers(status.first, status.last)]
    if status.sent is not None:
        yield "sent", [f"to Redis up to {status.sent}"]
    yield "confirmed", [f"by the hubs up to {status.confirmed}"]
    oldest = status.oldest_waiting_ms
    since = "" if oldest is None else f", the oldest for {age(oldest)}"
    yield "waiting", [f"{status.waiting}{since}"]
    used = f"{shown_bytes(status.bytes)} of {shown_bytes(status.cap)}"
    yield "used", [f"{used} (ADSUM_SPOOL_CAP_MB)"]
    left = f"{shown_bytes(status.reserve)} are left to others"
    yield "free", [f"{shown_bytes(status.free)} on that disk; the last {left}"]
    files = []
    for file in reversed(status.files):
        lacks = f", {file.missing} missing" if file.missing else ""
        size = shown_bytes(file.bytes)
        files.append(f"{file.name}  {size:>7}  {_numbers(file.first, file.last)}{lacks}")
    yield "files", files
    gone = sum(gap.count for gap in status.gaps)
    gaps = [f"{gone} signals will never come:"] if gone else []
    gaps += [
        f"{_numbers(gap.first, gap.last)}: {REASONS.get(gap.reason, gap.reason)}"
        for gap in status.gaps
    ]
    yield "gaps", gaps
    quarantined = []
    for each in status.quarantined:
        lost = "?" if each.missing is None else each.missing
        when, size = age(now - each.at), shown_bytes(each.bytes)
        cause = f"{clean(each.cause)}; signals missing: {lost}"
        quarantined.append(f"{each.name}, {size}, {when} ago: {cause}")
    yield "quarantine", quarantined
    if status.problem:
        yield "problem", [clean(status.problem)]


def _numbers(first: int, last: int) -> str:
    return f"{first}-{last}" if first <= last else "none"


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

"""Reads from the beginning of a transcript whose it is, and when it was begun. Blocks."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from adsum_collector.agents.claude_code.usage_lines import begun_in, session_in
from adsum_collector.agents.records import TranscriptFile
from adsum_collector.line_reader import open_transcript
from adsum_collector.usage.scan import Scanned, ScanPlace

HEAD_BYTES: Final = 256 << 10


class NobodysError(Exception):
    """No line of its begin tells whose it is."""


def owned(path: str, whose: TranscriptFile) -> TranscriptFile:
    """With its session, which the path does not tell of some. Raises OSError, NobodysError."""
    if whose.session_id:
        return whose
    session_id = session_in(_head(path))
    if session_id is None:
        raise NobodysError
    return TranscriptFile(session_id, whose.agent_id)


def dated(path: str, before: ScanPlace | None, scanned: Scanned) -> Scanned:
    """Since when it has been there, as far as that is known by now. Raises OSError.

    Negative, if it was begun then at the latest: a line of its own in its midst tells no more.
    Where none tells anything, what the file held at first is remembered, so that it stays one source
    however often it grows.
    """
    begun, held = scanned.place.begun, scanned.place.held
    if begun is not None and before is not None and before.begun == begun:
        return scanned
    found = begun_in(_head(path))
    if found is None and begun is not None:
        found = -begun
    if found is None and held is None and scanned.records:
        held = scanned.records[-1].at
    place = msgspec.structs.replace(scanned.place, begun=found, held=held)
    return msgspec.structs.replace(scanned, place=place)


def _head(path: str) -> bytes:
    descriptor = open_transcript(path)
    try:
        return os.pread(descriptor, HEAD_BYTES, 0)
    finally:
        os.close(descriptor)

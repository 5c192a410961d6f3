"""A new beginning: another spool_id, and under it what no hub has of the old one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from adsum_collector.spans import Span, left_of
from adsum_collector.spool.connection import sync_directory, sync_file
from adsum_collector.spool.directory import draft_of, number_of, path_of
from adsum_collector.spool.file import SpoolFile
from adsum_collector.spool.reading import Rows, read_after
from adsum_collector.spool.schema import Meta
from adsum_collector.spool.sealed import SealedFiles

#: How many message ids a new file inherits: a sender gives up after seconds.
KEPT_MESSAGES = 256


class Anew(TypedDict, total=False):
    """without: what hubs have beyond the acknowledged. state: what changes with the spool_id."""

    without: Sequence[Span]
    spool_id: str
    state: Mapping[str, bytes | None]


def create_successor(
    current: SpoolFile, sealed: SealedFiles, reason: str, incarnation: int, more: Anew
) -> SpoolFile:
    """What is kept gets new numbers; number 1 is a gap."""
    state = {**current.state, **more.get("state", {})}
    return SpoolFile.create(
        path_of(current.path.parent, number_of(current.path) + 1),
        Meta(more.get("spool_id") or secrets.token_hex(8), incarnation, 0, 0),
        # a sender's second try is still known; its number was another spool's
        messages=dict.fromkeys(list(current.messages)[-KEPT_MESSAGES:], 1),
        state={key: value for key, value in state.items() if value is not None},
        gaps=[(1, 1, reason)],
        bodies=_unconfirmed(current, sealed, more.get("without", ())),
    )


def written_again(current: SpoolFile) -> SpoolFile:
    """A file that was deleted while we have it open, on disk once more, under the same numbers.

    Closes the old one. Rejected: new numbers, as after damage; hubs may have some of what no hub has confirmed yet.
    """
    path = path_of(current.path.parent, number_of(current.path) + 1)
    draft = draft_of(path)
    draft.unlink(missing_ok=True)
    current.copy_to(draft)
    draft.chmod(0o600)
    sync_file(draft)
    draft.replace(path)
    sync_directory(path.parent)
    again = SpoolFile.open(path)
    current.close()
    return again


def _unconfirmed(
    current: SpoolFile, sealed: SealedFiles, without: Sequence[Span]
) -> Iterator[bytes]:
    for first, last in left_of(current.meta.acked, without, current.last):
        after = first - 1
        while after < last:
            found = read_after(current, sealed, after, min(1000, last - after), 16 << 20)
            if isinstance(found, Rows):
                yield from found.bodies
                after += len(found.bodies)
            else:
                after = found.last if found else last

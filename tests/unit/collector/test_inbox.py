"""What the collector makes of answers about its keys."""

from __future__ import annotations

from typing import Any

import pytest

from adsum_collector.delivery.resume import EntryId
from adsum_collector.delivery.transports import Inbox
from adsum_collector.errors import StreamMovedError, StreamUnusableError
from adsum_shared.host_keys import KeysReply, KeysRequest, OddReplyError


class Line:
    def __init__(self, told: KeysReply) -> None:
        self._told = told

    async def ask(self, host_id: str, asked: KeysRequest) -> KeysReply:
        assert host_id == "h"
        assert asked.add is not None
        return self._told


@pytest.mark.parametrize("added", ["new", "there"])
async def test_an_entry_that_is_there_is_sent(added: Any) -> None:
    await Inbox(Line(KeysReply(added=added)), "h").add(EntryId(1, 2), {})


@pytest.mark.parametrize(
    ("added", "error"),
    [("moved", StreamMovedError), ("exhausted", StreamUnusableError), (None, OddReplyError)],
)
async def test_an_entry_of_which_nobody_says_that_it_is_there_is_not(
    added: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await Inbox(Line(KeysReply(added=added)), "h").add(EntryId(1, 2), {})

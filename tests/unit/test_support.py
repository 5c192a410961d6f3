"""`wait_until` names what did not happen, whatever kind of callable it waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.support import wait_until

FLAG = threading.Event()


def never() -> bool:
    return False


@pytest.mark.parametrize(
    ("predicate", "name"),
    [
        (never, "def never"),
        (lambda: False, "lambda: False"),
        (FLAG.is_set, "def is_set"),
        (partial(never), "functools.partial"),
        (threading.Lock().locked, "built-in method locked"),
    ],
)
async def test_a_predicate_that_stays_false_is_named(
    predicate: Callable[[], Any], name: str
) -> None:
    with pytest.raises(AssertionError, match=name):
        await wait_until(predicate, timeout=0)


async def test_the_first_truthy_value_is_returned() -> None:
    values = iter([0, None, "ready"])
    assert await wait_until(partial(next, values)) == "ready"

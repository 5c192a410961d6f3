"""What several tests share: waiting for a fact instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any


async def wait_until(
    predicate: Callable[[], Any], timeout: float = 15.0, interval: float = 0.01
) -> Any:
    """The predicate's first truthy value; fails when there is none within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {timeout} s: {_source(predicate)}")
        await asyncio.sleep(interval)


def _source(predicate: Callable[[], Any]) -> str:
    """Return a function's source; of any other callable, such as a partial, its repr."""
    written = inspect.isfunction(predicate) or inspect.ismethod(predicate)
    return inspect.getsource(predicate) if written else repr(predicate)

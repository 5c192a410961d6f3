"""Fixtures for every test: a private real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import Broker, running_broker


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def redis_url(redis_server: Broker) -> str:
    return redis_server.url

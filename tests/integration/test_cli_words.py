"""Words that cannot be what a command asks for: each ends it with the cause, and nothing is done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hubs import StandIn, session, stand_in_hub
from tests.integration.conftest import Run


@pytest.fixture
def hub() -> Iterator[StandIn]:
    with stand_in_hub() as hub:
        hub.sessions = [session("0a1b2c3d")]
        yield hub


@pytest.mark.parametrize(
    "words",
    [
        ("show", ""),
        ("archive", ""),
        ("dismiss", "0a1b", ""),
        ("suspend", ""),
        ("prompt", "", "go on"),
        ("approve", "", "--yes"),
        ("answer", "", "--answer", "1"),
        ("open", "", "--print"),
    ],
    ids=" ".join,
)
def test_an_empty_id_is_not_the_only_session(
    hub: StandIn, run: Run, words: tuple[str, ...]
) -> None:
    code, out, err = run(*words, "--hub", hub.url)

    assert (code, out) == (2, "")
    assert "id is empty" in err
    assert "adsum agents" in err
    assert not [path for path in hub.asked if "/0a1b" in path or "laptop-id" in path]

"""Words that cannot be what a command asks for: each ends it with the cause, and nothing is done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors import CollectorProcess
from tests.hubs import StandIn, session, stand_in_hub
from tests.integration.conftest import Run

TOKEN = "adsum_join_" + "x" * 43


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
        ("archive", " "),
        ("dismiss", "0a1b", ""),
        ("suspend", ""),
        ("interrupt", " "),
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


@pytest.mark.parametrize("named", ["", "a/b"])
@pytest.mark.parametrize(
    ("words", "one", "listed"),
    [
        (("tokens", "revoke"), "token", "tokens list"),
        (("tokens", "revoke", "--join"), "join token", "tokens list --join"),
        (("sign-ins", "revoke"), "sign-in", "sign-ins list"),
    ],
)
def test_an_id_that_is_none_is_said_to_be_none(
    hub: StandIn, run: Run, words: tuple[str, ...], one: str, listed: str, named: str
) -> None:
    code, _, err = run("hub", *words, named, "--hub", hub.url)

    assert code == 1
    assert err == f"adsum: There is no {one} {named!r}. List them: adsum hub {listed}\n"


@pytest.mark.parametrize("command", [("show",), ("agents", "--host"), ("agents", "--hub")])
def test_a_word_that_is_not_utf_8_is_named(
    hub: StandIn, run: Run, command: tuple[str, ...]
) -> None:
    code, out, err = run(*command, os.fsdecode(b"caf\xe9"))

    assert (code, out) == (2, "")
    assert err == "adsum: The word 'caf\\xe9' is not UTF-8: type it anew.\n"


def test_words_beyond_ascii_are_words(hub: StandIn, run: Run) -> None:
    assert "'café'" in run("show", "café", "--hub", hub.url)[2]


@pytest.mark.redis
@pytest.mark.parametrize("words", [("agents", "--hub"), ("join", "--token", TOKEN, "--yes")])
def test_a_collectors_port_is_no_hub(
    tmp_path: Path, redis_url: str, run: Run, words: tuple[str, ...]
) -> None:
    collector = CollectorProcess(tmp_path / "x", redis_url).start()
    try:
        code, out, err = run(*words, collector.url)
    finally:
        collector.kill()

    assert (code, out) == (3, "")
    assert "answers, but not as a hub of Adsum" in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("hub", "tokens", "create", "--join", "--name", "x"), "do not go with --join"),
        (("hub", "tokens", "create", "--join", "--role", "admin"), "do not go with --join"),
        (("hub", "tokens", "create", "--join", "--hosts", "a"), "do not go with --join"),
        (("hub", "tokens", "create", "--name", "x", "--reusable"), "go with --join"),
        (("hub", "tokens", "create", "--name", "x", "--host-label", "y"), "go with --join"),
        (("control", "trail", "--csv", "--json"), "exclude each other"),
        (("control", "trail", "--verify", "--csv"), "of the whole"),
        (("control", "trail", "--verify", "--since", "7d"), "of the whole"),
        (("control", "trail", "--verify", "--session", "s"), "of the whole"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_an_option_that_would_count_for_nothing_is_refused(
    hub: StandIn, run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], why: str
) -> None:
    monkeypatch.setenv("ADSUM_HUB_URL", hub.url)

    code, out, err = run(*words)

    assert (code, out) == (2, "")
    assert why in err
    assert hub.asked == []

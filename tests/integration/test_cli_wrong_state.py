"""`adsum report-wrong-state` against a stand-in hub: what it bundles, and that the bench replays it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adsum_shared.state import Group
from bench.accuracy import WAYS, read
from bench.accuracy import run as scored
from tests.hubs import NOW, StandIn, session, stand_in_hub
from tests.integration.conftest import Run

ASKS = session("0a1b2c3d", label="Running Bash: rm -rf SECRET", title="SECRET", version="2.1.330")
OTHER = session("0a1bffff", Group.NEEDS_YOU, "idle")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.chdir(tmp_path)
    with stand_in_hub() as hub:
        hub.sessions = [ASKS, OTHER]
        hub.signals["signals"] = [
            said("prompt.submitted", 70_000),
            said("turn.ended", 60_000, last_message="."),
        ]
        yield hub


def said(kind: str, ago: int, **fields: Any) -> dict[str, Any]:
    at = NOW - ago
    return {"kind": kind, "session_id": ASKS.session_id, "at": at, "seen": at, **fields}


def unpacked(file: Path, to: Path) -> Path:
    with tarfile.open(file) as archive:
        archive.extractall(to, filter="data")
    return to


def test_the_bundle_says_what_was_shown_and_is_a_trace_with_its_label(
    hub: StandIn, run: Run, tmp_path: Path
) -> None:
    code, out, err = run(
        "report-wrong-state", "0a1b2", "--hub", hub.url, "--should-be", "idle", "--minutes", "10"
    )
    (file,) = tmp_path.glob("adsum-wrong-state-0a1b2c3d-*.tar.gz")
    folder = unpacked(file, tmp_path / "traces")
    (trace, _), *rest = read(folder)
    (kept,) = folder.iterdir()
    shown = json.loads((kept / "shown.json").read_text())

    assert (code, out, rest) == (0, "", [])
    assert "Nothing was sent" in err
    assert "2 signals of 0a1b2c3d" in err
    assert any(path.endswith("/signals?minutes=10") for path in hub.asked)
    assert (shown["state"], shown["label"], shown["since"]) == (
        "acting",
        "Running Bash",
        NOW - 65_000,
    )
    assert json.loads((kept / "meta.json").read_text())["cli_version"] == "2.1.330"
    assert "SECRET" not in "".join(each.read_text() for each in kept.iterdir())
    assert [(each.group, each.states, each.source) for each in trace.labels] == [
        ("needs_you", ["idle"], "hand")
    ]
    total = scored(read(folder), WAYS["all"])
    assert (total.settled, total.segments, trace.faults) == (1, 1, [])


def test_without_should_be_nothing_is_scored(hub: StandIn, run: Run, tmp_path: Path) -> None:
    code, _, err = run("report-wrong-state", "0a1b2", "--hub", hub.url, "-o", "mine.tar.gz")

    assert code == 0
    assert "--should-be STATE" in err
    assert (
        scored(read(unpacked(tmp_path / "mine.tar.gz", tmp_path / "t")), WAYS["all"]).segments == 0
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("zzz",), 1, "No session's id starts with 'zzz'"),
        (("0a1b",), 1, "2 sessions' ids start with '0a1b'"),
        (("0a1b2", "--should-be", "asleep"), 2, "'asleep' is no state"),
        (("0a1b2", "-o", "no/such/folder"), 1, "no/such/folder cannot be written"),
    ],
)
def test_what_cannot_be_is_said(
    hub: StandIn, run: Run, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    ended, _, err = run("report-wrong-state", *words, "--hub", hub.url)

    assert ended == code
    assert said in err
    assert list(tmp_path.glob("*.tar.gz")) == []


def test_a_hub_that_holds_nothing_says_so(hub: StandIn, run: Run) -> None:
    hub.signals["signals"] = []
    code, _, err = run("report-wrong-state", "0a1b2", "--hub", hub.url)

    assert code == 1
    assert "holds no signal" in err

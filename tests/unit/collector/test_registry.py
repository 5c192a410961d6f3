"""What a file of the CLI's session registry says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents.claude_code.agent import ClaudeCode
from adsum_collector.agents.claude_code.status import RegistryError, signals_from_registry
from adsum_shared import signals as s

SEEN = 1_795_303_644_500
ENTRY: dict[str, Any] = {
    "pid": 16896,
    "sessionId": "S",
    "cwd": "/home/dev/work/app",
    "startedAt": 1_795_303_642_627,
    "procStart": "305828",
    "version": "2.1.330",
    "entrypoint": "cli",
    "name": "app-b9",
    "nameSource": "derived",
    "status": "waiting",
    "waitingFor": "permission prompt",
    "updatedAt": 1_795_303_644_367,
    "statusUpdatedAt": 1_795_303_644_367,
}


def raw(**changes: Any) -> bytes:
    return json.dumps({**ENTRY, **changes}).encode()


def status(content: bytes) -> s.StatusReported:
    found = signals_from_registry(content, SEEN)
    return next(signal for signal in found if isinstance(signal, s.StatusReported))


def test_its_status_bears_its_own_stamp() -> None:
    assert status(raw()) == s.StatusReported(
        session_id="S",
        at=1_795_303_644_367,
        seen=SEEN,
        source="registry",
        status="waiting",
        waiting_for="permission prompt",
        pid=16896,
        started=1_795_303_642_627,
        dialogs=True,
    )


@pytest.mark.parametrize(
    ("version", "entrypoint"),
    [("2.1.112", "cli"), ("2.1.329", "cli"), ("2.1.331", "sdk-cli"), (None, "cli"), ("x", "cli")],
)
def test_what_is_not_known_to_tell_of_all_dialogs_is_not_taken_for_it(
    version: str | None, entrypoint: str
) -> None:
    assert not status(raw(version=version, entrypoint=entrypoint)).dialogs
    assert status(raw(version="3.0.1-beta.2", entrypoint="cli")).dialogs


@pytest.mark.parametrize("entrypoint", ["claude-vscode", "claude-desktop", "sdk-ts", "sdk-cli"])
def test_over_the_stdio_protocol_it_reports_dialogs_and_no_background_commands(
    entrypoint: str,
) -> None:
    found = status(raw(version="2.1.332", entrypoint=entrypoint))

    assert (found.dialogs, found.shells) == (True, False)
    assert status(raw(version="2.1.332", entrypoint="cli")).shells


@pytest.mark.parametrize(
    ("state", "host"),
    [
        ('{"needs": "allow network: a.example"}', "a.example"),
        ('{"needs": 7}', ""),
        ("[]", ""),
        ("{", ""),
    ],
)
def test_a_background_jobs_own_file_names_the_host_that_it_wants(
    tmp_path: Path, state: str, host: str
) -> None:
    asking = {"version": "2.1.332", "waitingFor": "sandbox request", "jobId": "0a1b2c3d"}

    def read(**fields: str) -> s.StatusReported:
        signals = ClaudeCode().registry(raw(**asking | fields), SEEN, tmp_path)
        return next(it for it in signals if isinstance(it, s.StatusReported))

    assert read().host == ""  # not written yet
    (tmp_path / "jobs" / "0a1b2c3d").mkdir(parents=True)
    (tmp_path / "jobs" / "0a1b2c3d" / "state.json").write_text(state)
    assert read().host == host
    assert read(waitingFor="permission prompt").host is None
    assert read(jobId="../0a1b").host is None


def test_the_entry_of_an_old_cli_has_no_status() -> None:
    old = {key: ENTRY[key] for key in ("pid", "sessionId", "cwd", "startedAt")}
    found = status(json.dumps(old).encode())

    assert (found.status, found.at) == (None, 1_795_303_642_627)


def test_a_process_that_the_agents_daemon_keeps_in_reserve_is_no_session() -> None:
    process, end = signals_from_registry(raw(kind="bg", spare=True), SEEN)

    assert isinstance(process, s.ProcessSeen)
    assert isinstance(end, s.SessionEnded)
    assert (end.reason, end.source) == (s.SPARE, "registry")
    assert status(raw(kind="bg", spare=False)).status == "waiting"


def test_a_stamp_from_the_future_counts_as_now() -> None:
    assert status(raw(statusUpdatedAt=SEEN + 60_000)).at == SEEN


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"sessionId": 3}', b"\xff"])
def test_what_is_no_entry_is_refused(content: bytes) -> None:
    with pytest.raises(RegistryError):
        signals_from_registry(content, SEEN)


@pytest.mark.parametrize("junk", ["x", [], {}, None, True, 1.5])
def test_a_field_of_the_wrong_type_counts_as_missing(junk: object) -> None:
    changes = {key: junk for key in ENTRY if key != "sessionId"}

    found = signals_from_registry(raw(**changes), SEEN)
    assert all(s.decode_signal(s.encode_signal(x)) == x for x in found)


def test_a_file_seen_for_the_first_time_tells_all() -> None:
    process, status, meta = signals_from_registry(raw(), SEEN)

    assert isinstance(process, s.ProcessSeen)
    assert (process.pid, process.started) == (16896, 1_795_303_642_627)
    assert isinstance(status, s.StatusReported)
    assert isinstance(meta, s.MetaChanged)
    assert (meta.cwd, meta.project, meta.version) == ("/home/dev/work/app", "app", "2.1.330")
    assert (meta.title, meta.source) == ("app-b9", "registry")

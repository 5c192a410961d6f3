"""Where the hub is looked for, and what is said of settings that cannot be used."""

from __future__ import annotations

import errno
from http.client import HTTPMessage
from pathlib import Path

import pytest

from adsum.client import DEFAULT_URL, HttpResponse, _decoded, hub_url, reason_of
from adsum.config import UpSettings, read_settings
from adsum.machine import Hub
from adsum.outcome import CommandError, Exit


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state home"))
    for name in ("STATE_DIR", "REDIS_URL", "HUB_URL", "HUB_HOST", "HUB_PORT"):
        monkeypatch.delenv(f"ADSUM_{name}", raising=False)
    file = tmp_path / "config" / "adsum" / "config.toml"
    file.parent.mkdir(parents=True)
    return file


def announce(state_dir: Path, url: str) -> None:
    state_dir.mkdir(parents=True)
    (state_dir / "hub.json").write_text(f'{{"url": "{url}", "pid": 1}}')


def test_the_flag_wins_then_the_hub_that_runs_here_then_the_default(tmp_path: Path) -> None:
    assert hub_url(None, tmp_path) == DEFAULT_URL
    announce(tmp_path / "s", "http://127.0.0.1:5000")
    assert hub_url(None, tmp_path / "s") == "http://127.0.0.1:5000"
    assert hub_url("http://other:1/", tmp_path / "s") == "http://other:1"


def test_the_state_directory_of_the_toml_file_is_looked_at(
    tmp_path: Path, own_config: Path
) -> None:
    announce(tmp_path / "elsewhere", "http://127.0.0.1:5001")
    own_config.write_text(f'state_dir = "{tmp_path / "elsewhere"}"')
    assert hub_url(None, None) == "http://127.0.0.1:5001"


def test_a_damaged_hub_json_is_no_hub(tmp_path: Path) -> None:
    (tmp_path / "hub.json").write_text("[3")
    assert hub_url(None, tmp_path) == DEFAULT_URL


@pytest.mark.parametrize(
    "url", ["ftp://x", "127.0.0.1:47893", "http://", "http://h:99999", "http://[::1", ""]
)
def test_what_is_no_address_is_a_usage_error(url: str, tmp_path: Path) -> None:
    if not url:
        assert hub_url(url, tmp_path) == DEFAULT_URL
        return
    with pytest.raises(CommandError, match="ADSUM_HUB_URL") as wrong:
        hub_url(url, tmp_path)
    assert wrong.value.code is Exit.USAGE
    with pytest.raises(CommandError, match="no address of a hub") as wrong:
        Hub(url)
    assert wrong.value.code is Exit.USAGE


@pytest.mark.parametrize("url", ["http://ann:s3cret@h:1", "https://s3cret@h", "ann:s3cret@h"])
def test_a_login_in_an_address_is_refused_and_not_repeated(
    url: str, tmp_path: Path, own_config: Path
) -> None:
    own_config.write_text('hub_host = "ann:s3cret@h"')
    for flag in (url, None):
        with pytest.raises(CommandError, match="no address of a hub") as wrong:
            hub_url(flag, tmp_path)
        assert wrong.value.code is Exit.USAGE
        assert "s3cret" not in str(wrong.value)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            422,
            b'{"detail": [{"loc": ["query", "days"], "msg": "Too many."}, {"loc": ["query", "by"], '
            b'"msg": "No."}]}',
            "does not understand the question: days: Too many.; by: No.",
        ),
        (422, b'{"detail": "odd"}', "does not understand the question: odd"),
        (422, b'{"detail": [3]}', r"does not understand the question: \[3\]"),
        (400, b'{"error": "No such day.", "next": "Ask anew."}', "No such day. Ask anew."),
    ],
)
def test_a_question_the_hub_refuses_is_a_usage_error(status: int, body: bytes, words: str) -> None:
    with pytest.raises(CommandError, match=words) as wrong:
        _decoded("http://h", HttpResponse(status, HTTPMessage(), body, 0))
    assert wrong.value.code is Exit.USAGE


@pytest.mark.parametrize(
    ("body", "header"),
    [
        (b'{"error": "nothing at /x", "next": "Hooks go to POST /y."}', "collector"),
        (b'{"error": "Not Found"}', None),
        (b"[]", None),
    ],
)
def test_a_refusal_that_is_not_a_hubs_is_not_told_as_one(body: bytes, header: str | None) -> None:
    headers = HTTPMessage()
    if header:
        headers["x-adsum"] = header
    with pytest.raises(CommandError, match="answers, but not as a hub of Adsum") as wrong:
        _decoded("http://h", HttpResponse(404, headers, body, 0))
    assert wrong.value.code is Exit.UNREACHABLE


def test_a_setting_of_the_wrong_kind_is_named_by_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ADSUM_BROKER_MEMORY_MB", "lots")
    with pytest.raises(CommandError, match=r"ADSUM_BROKER_MEMORY_MB.*'lots'") as wrong:
        read_settings(UpSettings)
    assert wrong.value.code is Exit.USAGE


def test_a_broken_toml_file_is_named(own_config: Path) -> None:
    own_config.write_text("state_dir = ")
    with pytest.raises(CommandError, match=r"config\.toml is not TOML"):
        read_settings(UpSettings)
    with pytest.raises(CommandError, match=r"config\.toml is not TOML") as wrong:
        hub_url(None, None)
    assert wrong.value.code is Exit.USAGE


def test_a_toml_file_that_cannot_be_read_is_named(own_config: Path) -> None:
    own_config.mkdir()
    with pytest.raises(CommandError, match=r"config\.toml cannot be read \(Is a directory\)"):
        hub_url(None, None)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)"),
            "Connection refused",
        ),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "Connection refused"),
        (TimeoutError("timed out"), "timed out"),
        (OSError(), "OSError"),
    ],
)
def test_why_nobody_answers_is_told_in_the_systems_words(error: OSError, words: str) -> None:
    assert reason_of(error) == words


def test_a_redis_url_of_the_wrong_kind_is_not_repeated(own_config: Path) -> None:
    own_config.write_text('redis_url = ["redis://:s3cret@h"]')
    with pytest.raises(CommandError, match="ADSUM_REDIS_URL") as wrong:
        read_settings(UpSettings)
    assert "s3cret" not in str(wrong.value)


@pytest.mark.parametrize(
    ("env", "config", "url"),
    [
        ({"PORT": "5002"}, "", "http://127.0.0.1:5002"),
        ({}, "hub_port = 5003", "http://127.0.0.1:5003"),
        ({"PORT": "5004"}, "hub_port = 5003", "http://127.0.0.1:5004"),
        ({"HOST": "0.0.0.0"}, "hub_port = 5003", "http://127.0.0.1:5003"),  # noqa: S104 - asked
        ({}, 'hub_host = "::1"', "http://[::1]:47893"),
    ],
)
def test_without_a_hub_it_is_looked_for_where_one_would_listen(
    env: dict[str, str],
    config: str,
    url: str,
    tmp_path: Path,
    own_config: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(f"ADSUM_HUB_{name}", value)
    own_config.write_text(config)
    assert hub_url(None, tmp_path) == url
    announce(tmp_path / "s", "http://127.0.0.1:5000")
    assert hub_url(None, tmp_path / "s") == "http://127.0.0.1:5000"


@pytest.mark.parametrize("port", ["0", "many", "70000", "-1"])
def test_a_port_that_cannot_be_is_named_by_its_variable(
    port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADSUM_HUB_PORT", port)
    with pytest.raises(CommandError, match=f"'{port}' is no port.*ADSUM_HUB_PORT") as wrong:
        hub_url(None, tmp_path)
    assert wrong.value.code is Exit.USAGE
    assert hub_url("http://other:1", tmp_path) == "http://other:1"

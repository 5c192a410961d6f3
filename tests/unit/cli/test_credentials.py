"""Which token a command shows to which hub, and what is said of one that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adsum.access import is_local, make_link, seconds
from adsum.client import headers_for, hub_url, tls_to
from adsum.outcome import CommandError, Exit

HERE = "http://127.0.0.1:47893"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub of this machine's, with its token."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("TOKEN", "TOKEN_FILE", "HUB_URL", "STATE_DIR"):
        monkeypatch.delenv(f"ADSUM_{name}", raising=False)
    (tmp_path / "hub.json").write_text(json.dumps({"url": HERE, "pid": 1}))
    (tmp_path / "hub.token").write_text("adsum_machine\n")
    (tmp_path / "config" / "adsum").mkdir(parents=True)
    return tmp_path


def shown(state_dir: Path, flag: str | None = None) -> str | None:
    return headers_for(hub_url(flag, state_dir)).get("Authorization")


def test_this_machines_token_is_shown_to_its_own_hub_alone(machine: Path) -> None:
    assert shown(machine) == shown(machine, HERE + "/") == "Bearer adsum_machine"
    for other in ("http://127.0.0.1:47894", "https://127.0.0.1:47893", "http://hub.example.net"):
        assert shown(machine, other) is None
    (machine / "hub.json").unlink()
    assert shown(machine) is None


def test_a_machine_that_has_joined_asks_its_hub_and_trusts_whom_it_named_then(
    machine: Path,
) -> None:
    hub = "https://hub.example.net"
    kept = {"hub": hub, "ca": str(machine / "ca.crt"), "secret": "adsum_machine_secret"}
    (machine / "machine.json").write_text(json.dumps(kept))
    assert hub_url(None, machine) == HERE
    (machine / "hub.json").unlink()

    joined = hub_url(None, machine)

    assert joined == hub
    assert headers_for(joined) == {}
    with pytest.raises(CommandError, match=r"ca\.crt, which this machine joined .* --again --ca"):
        tls_to(joined)
    assert tls_to(hub_url("https://other.example.net", machine)) is not None
    assert tls_to(hub_url("http://127.0.0.1:1", machine)) is None


def test_the_latest_token_is_shown_after_a_restart_of_the_hub(machine: Path) -> None:
    url = hub_url(None, machine)
    (machine / "hub.token").write_text("adsum_later\n")
    assert headers_for(url) == {"Authorization": "Bearer adsum_later"}


def test_one_that_was_given_comes_before_this_machines(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = machine / "given"
    file.write_text(" adsum_file\n")
    (machine / "config" / "adsum" / "config.toml").write_text(f'token_file = "{file}"')
    assert shown(machine) == "Bearer adsum_file"
    other = machine / "other"
    other.write_text("adsum_other")
    monkeypatch.setenv("ADSUM_TOKEN_FILE", str(other))
    assert shown(machine, "https://hub.example.net") == "Bearer adsum_other"
    monkeypatch.setenv("ADSUM_TOKEN", "adsum_env")
    assert shown(machine) == "Bearer adsum_env"


@pytest.mark.parametrize("token", ["two words", "adsum_ü", "a\r\nX-Evil: 1", "x" * 301, "\0"])
def test_what_is_no_token_is_named_by_its_place_and_not_shown(machine: Path, token: str) -> None:
    file = machine / "given"
    file.write_text(token)
    (machine / "config" / "adsum" / "config.toml").write_text(f'token_file = "{file}"')

    with pytest.raises(CommandError, match="is no token") as wrong:
        shown(machine)

    assert wrong.value.code is Exit.USAGE
    assert str(file) in str(wrong.value)
    assert token not in str(wrong.value)


def test_a_token_file_that_cannot_be_read_is_named(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADSUM_TOKEN_FILE", str(machine / "gone"))
    with pytest.raises(CommandError, match=r"gone cannot be read \(No such file"):
        shown(machine)
    (machine / "gone").write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match=r"gone cannot be read"):
        shown(machine)


@pytest.mark.parametrize("content", [b"", b"\xff\n", b"   \n"])
def test_a_damaged_token_of_this_machine_is_none(machine: Path, content: bytes) -> None:
    (machine / "hub.token").write_bytes(content)
    assert shown(machine) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("1m", 60), ("30m", 1_800), ("12h", 43_200), (" 90d ", 7_776_000)]
)
def test_how_long_a_token_lasts(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "0d", "-1d", "90", "90 d", "1y", "367d", "99999999m", "٣d"])
def test_a_time_that_no_token_lasts_is_a_usage_error(text: str) -> None:
    with pytest.raises(CommandError, match="366d") as wrong:
        seconds(text)
    assert wrong.value.code is Exit.USAGE


@pytest.mark.parametrize(
    ("link", "local"),
    [
        ("http://127.0.0.1:1/login#x", True),
        ("http://[::1]:1/login#x", True),
        ("http://localhost/login#x", True),
        ("https://hub.example.net/login#x", False),
        ("http://192.168.1.5:1/login#x", False),
    ],
)
def test_a_link_that_opens_nowhere_else_is_known(link: str, local: bool) -> None:
    assert is_local(link) is local


def test_a_hub_that_answers_something_else_makes_no_link(machine: Path) -> None:
    with pytest.raises(CommandError) as wrong:
        make_link(hub_url("http://127.0.0.1:1", machine), "admin", "Ann")
    assert wrong.value.code is Exit.UNREACHABLE

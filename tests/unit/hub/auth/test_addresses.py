"""What a hub is told of signing in: its public URL, and where it may listen."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from adsum_hub.request_guard import PublicAddressError, known_hosts, require_address
from adsum_hub.settings import HubSettings

PUBLIC = ["0.0.0.0", "192.168.1.5", "::", "example.net"]  # noqa: S104 - asked, not bound


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", None),
        ("https://hub.example.net", "https://hub.example.net"),
        ("https://hub.example.net/", "https://hub.example.net"),
        ("https://hub.example.net:443", "https://hub.example.net"),
        ("HTTP://Hub.Example.net:8080", "http://hub.example.net:8080"),
        ("http://[2001:db8::1]:80", "http://[2001:db8::1]"),
    ],
)
def test_a_public_url_is_kept_as_browsers_write_it(given: str, kept: str | None) -> None:
    assert HubSettings(public_url=given).public_url == kept


@pytest.mark.parametrize(
    "given",
    [
        "hub.example.net",
        "ftp://hub",
        "https://",
        "https://hub/adsum",
        "https://hub?x",
        "https://me:pw@hub",
        "https://hub:99999",
        "https://h ub",
        "https://hüb",
        "https://[::1",
        "https://hub..example.net",
        f"https://{'a' * 64}.example.net",
    ],
)
def test_what_is_no_public_url_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(ValidationError, match=r"https://hub\.example\.net"):
        HubSettings(public_url=given)


def test_sign_in_is_on_unless_somebody_chose_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADSUM_SIGN_IN", raising=False)
    assert HubSettings().sign_in
    monkeypatch.setenv("ADSUM_SIGN_IN", "off")
    assert not HubSettings().sign_in
    monkeypatch.setenv("ADSUM_SIGN_IN", "perhaps")
    with pytest.raises(ValidationError, match="sign_in"):
        HubSettings()


@pytest.mark.parametrize("host", PUBLIC)
def test_without_tls_an_address_others_reach_is_refused_with_the_next_step(host: str) -> None:
    for public_url in (None, "http://hub.example.net"):
        with pytest.raises(PublicAddressError, match="ADSUM_HUB_ALLOW_PUBLIC"):
            require_address(host, sign_in=True, public_url=public_url, allowed=False)


@pytest.mark.parametrize("host", PUBLIC)
def test_with_tls_before_it_or_by_word_of_the_operator_it_is_not(host: str) -> None:
    require_address(host, sign_in=True, public_url="https://hub.example.net", allowed=False)
    require_address(host, sign_in=True, public_url=None, allowed=True)


@pytest.mark.parametrize("host", PUBLIC)
def test_without_sign_in_nobody_else_may_reach_it_whatever_is_said(host: str) -> None:
    with pytest.raises(PublicAddressError, match="ADSUM_SIGN_IN=off"):
        require_address(host, sign_in=False, public_url="https://hub.example.net", allowed=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "::1", "localhost"])
@pytest.mark.parametrize("sign_in", [True, False])
def test_loopback_needs_no_permission(host: str, sign_in: bool) -> None:
    require_address(host, sign_in=sign_in, public_url=None, allowed=False)


def test_a_hub_answers_to_the_name_of_its_public_url() -> None:
    assert "hub.example.net" in known_hosts(4000, [], "https://hub.example.net")
    assert "hub.example.net:8443" in known_hosts(4000, [], "https://hub.example.net:8443")

"""Whom the hub believes about who asks: no one, unless a proxy is configured."""

from __future__ import annotations

import pytest

from adsum_hub.app import server_config, trusted_proxies

LOOPBACK = "127.0.0.1,::1"
PUBLIC = "https://hub.example.net"


@pytest.mark.parametrize(
    ("public_url", "given", "trusted"),
    [
        (None, None, ""),
        ("http://192.168.1.5:47893", None, ""),
        (PUBLIC, None, LOOPBACK),
        (PUBLIC, "", ""),
        (None, "10.0.0.7", "10.0.0.7"),
        (PUBLIC, "*", "*"),
    ],
)
def test_a_proxy_is_believed_where_one_is_configured(
    monkeypatch: pytest.MonkeyPatch, public_url: str | None, given: str | None, trusted: str
) -> None:
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    if given is not None:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", given)

    assert trusted_proxies(public_url) == trusted

    async def app(*_: object) -> None: ...

    config = server_config(app, public_url)
    assert (config.proxy_headers, config.forwarded_allow_ips) == (bool(trusted), trusted)

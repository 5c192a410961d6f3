"""What is said of a certificate that is refused, by each command that asks a hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adsum.client import HubAddress, fetch
from adsum.machine import Hub
from adsum.outcome import CommandError, Exit
from tests.authorities import Authority
from tests.brokers import free_port
from tests.tls import tls_before


def asks(url: str, ca: Path | None) -> None:
    """As `adsum agents`."""
    address = HubAddress(url)
    address.ca = str(ca) if ca else None
    address.state_dir, address.config = Path("/nowhere"), {}
    fetch(address, "/api/v1/sessions")


def joins(url: str, ca: Path | None) -> None:
    Hub(url, ca).ask("/api/v1/machine")


@contextmanager
def refused(ask: Callable[[str, Path | None], None], url: str, ca: Path | None) -> Iterator[str]:
    with pytest.raises(CommandError) as wrong:
        ask(url, ca)
    assert wrong.value.code is Exit.AUTH
    told = str(wrong.value)
    assert ".." not in told
    assert ".)" not in told
    yield told


@pytest.mark.parametrize("ask", [asks, joins])
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_certificate_for_another_name_or_address_is_no_matter_of_authorities(
    tmp_path: Path, ask: Callable[[str, Path | None], None], name: str
) -> None:
    authority = Authority(tmp_path)
    pem, key = authority.sign("elsewhere")
    with (
        tls_before(free_port(), free_port(), pem, key, address=name) as url,
        refused(ask, url, authority.file) as told,
    ):
        assert f"is not for {name}: " in told
        assert "Use the name it is for" in told
        assert "authority" not in told


@pytest.mark.parametrize(
    ("ask", "pinned", "step"),
    [
        (joins, False, "--ca FILE, with"),
        (asks, False, "SSL_CERT_FILE=FILE, with"),
        (asks, True, "adsum join --again --ca FILE, with"),
    ],
)
def test_an_authority_of_ones_own_is_named_where_the_command_takes_it(
    tmp_path: Path, ask: Callable[[str, Path | None], None], pinned: bool, step: str
) -> None:
    other = Authority(tmp_path / "other", "Another one").file if pinned else None
    pem, key = Authority(tmp_path).sign("localhost")
    with (
        tls_before(free_port(), free_port(), pem, key) as url,
        refused(ask, url, other) as told,
    ):
        assert "Nobody this machine trusts" in told
        assert step in told

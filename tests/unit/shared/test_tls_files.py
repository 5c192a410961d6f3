"""Certificates that are renewed while a process runs: taken from the next connection on, or told."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest
from redis.asyncio.connection import SSLConnection

from adsum_shared import connect
from adsum_shared.tls import Renewed
from tests.authorities import Authority


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "ca.pem"
    file.write_bytes(Authority(tmp_path / "one", "One").file.read_bytes())
    return file


def renewed(*files: Path | None) -> Renewed:
    cafile = files[0]
    return Renewed(
        [None if each is None else str(each) for each in files],
        lambda: ssl.create_default_context(cafile=str(cafile)),
        OSError,
    )


def test_a_file_that_stays_is_read_once(file: Path) -> None:
    held = renewed(file, None)

    assert held.context() is held.context()


def test_a_file_that_has_changed_is_read_anew(file: Path, tmp_path: Path) -> None:
    held = renewed(file)
    before = held.context()
    file.write_bytes(Authority(tmp_path / "two", "Number two").file.read_bytes())

    assert held.context() is not before
    assert "Number two" in str(held.context().get_ca_certs())


def test_a_new_file_that_cannot_be_used_keeps_the_old_and_is_told_once(
    file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = renewed(file)
    before = held.context()
    file.write_text("no certificate")

    with caplog.at_level(logging.WARNING):
        assert [held.context(), held.context()] == [before, before]
    assert len(caplog.records) == 1
    file.write_bytes(Authority(tmp_path / "two").file.read_bytes())
    assert held.context() is not before


def test_a_new_file_that_is_made_readable_only_later_is_read_then(
    file: Path, tmp_path: Path
) -> None:
    def make() -> ssl.SSLContext:
        if not file.stat().st_mode & 0o004:  # who runs this may read it all the same
            raise PermissionError(f"{file} is not for us")
        return ssl.create_default_context(cafile=str(file))

    file.chmod(0o644)
    held = Renewed([str(file)], make, OSError)
    before = held.context()
    file.write_bytes(Authority(tmp_path / "two", "Number two").file.read_bytes())
    file.chmod(0o600)
    assert held.context() is before
    written = file.stat().st_ctime_ns
    while file.stat().st_ctime_ns == written:  # until the file system's clock has gone on
        file.chmod(0o644)

    assert held.context() is not before


def test_where_nothing_could_ever_be_used_each_try_says_so(tmp_path: Path) -> None:
    held = renewed(tmp_path / "gone.pem")

    for _ in range(2):
        with pytest.raises(OSError, match="No such file"):
            held.context()


@pytest.mark.parametrize("pinned", [True, False])
def test_a_certificate_of_ours_for_redis_is_renewed_with_its_key(
    tmp_path: Path, pinned: bool
) -> None:
    authority = Authority(tmp_path / "ca")
    pem, key = tmp_path / "ours.pem", tmp_path / "ours.key"

    def put(*names: str) -> None:
        for new, file in zip(authority.sign(*names), (pem, key), strict=True):
            file.write_bytes(new.read_bytes())

    put("one")
    ca = str(authority.file) if pinned else None
    kind = connect.honest(SSLConnection)

    def used() -> ssl.SSLContext:
        made = kind(ssl_certfile=str(pem), ssl_keyfile=str(key), ssl_ca_certs=ca)
        context: ssl.SSLContext = made._connection_arguments()["ssl"]
        return context

    before = used()
    assert used() is before
    # Of another length each: two writes may fall into one tick of the file system's clock.
    pem.write_bytes(
        authority.sign("a.name.that.is.longer")[0].read_bytes()
    )  # its key is still to come
    assert used() is before
    put("a.name.that.is.longer.than.the.one.before.it")
    assert used() is not before

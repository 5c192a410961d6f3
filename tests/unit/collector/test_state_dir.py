"""Who this machine is, and that only one collector says so."""

from __future__ import annotations

import json
import os
import stat
import uuid
from pathlib import Path

import pytest

from adsum_collector.errors import StartError
from adsum_collector.state_dir import confirm_identity, hold_lock, load_identity, renew_identity


def test_the_identity_is_minted_once(tmp_path: Path) -> None:
    first = load_identity(tmp_path / "state", "box")

    assert uuid.UUID(first.host_id)
    assert load_identity(tmp_path / "state", "box") == first


def test_the_label_follows_the_setting_and_the_id_does_not(tmp_path: Path) -> None:
    first = load_identity(tmp_path, "old name")
    second = load_identity(tmp_path, "new name")

    assert (second.label, second.host_id) == ("new name", first.host_id)
    assert load_identity(tmp_path).label


def test_a_state_directory_on_another_machine_has_moved_until_that_is_confirmed(
    tmp_path: Path,
) -> None:
    first = load_identity(tmp_path, fingerprint="aaaa")
    second = load_identity(tmp_path, fingerprint="bbbb")

    assert first.host_id == second.host_id
    assert (first.moved, second.moved) == (False, True)
    assert load_identity(tmp_path, fingerprint="bbbb").moved

    confirmed = confirm_identity(tmp_path, second)
    assert confirmed == load_identity(tmp_path, fingerprint="bbbb")
    assert (confirmed.host_id, confirmed.salt, confirmed.moved) == (
        first.host_id,
        first.salt,
        False,
    )


def test_a_renewed_identity_shares_nothing_with_the_old_one(tmp_path: Path) -> None:
    old = load_identity(tmp_path, "box", fingerprint="of another machine")
    new = renew_identity(tmp_path, "box")

    assert old.host_id != new.host_id
    assert old.salt != new.salt
    assert (new.label, new.moved) == ("box", False)
    assert load_identity(tmp_path, "box") == new


def test_a_damaged_identity_can_be_renewed(tmp_path: Path) -> None:
    load_identity(tmp_path)
    (tmp_path / "host.json").write_bytes(b"{")

    assert renew_identity(tmp_path) == load_identity(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b'{"host_id": "x"}', b"\xff\xfe", b"[]"])
def test_a_damaged_identity_is_reported_and_never_replaced(tmp_path: Path, content: bytes) -> None:
    load_identity(tmp_path)
    (tmp_path / "host.json").write_bytes(content)

    with pytest.raises(StartError, match=r"host\.json.*Restore it.*adsum collector new-identity"):
        load_identity(tmp_path)

    assert (tmp_path / "host.json").read_bytes() == content


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    state_dir.mkdir(mode=0o755)

    load_identity(state_dir)

    assert stat.S_IMODE((state_dir / "host.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(state_dir.stat().st_mode) == 0o700
    assert [file.name for file in state_dir.iterdir()] == ["host.json"]


def test_the_machine_id_itself_is_not_stored(tmp_path: Path) -> None:
    machine_id = Path("/etc/machine-id")
    load_identity(tmp_path)
    if machine_id.exists():
        assert machine_id.read_text().strip() not in (tmp_path / "host.json").read_text()
    assert set(json.loads((tmp_path / "host.json").read_text())) == {
        "host_id",
        "fingerprint",
        "salt",
    }


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StartError, match="ADSUM_STATE_DIR"):
        load_identity(tmp_path / "file" / "state")


def test_a_second_collector_is_told_who_has_the_state_directory(tmp_path: Path) -> None:
    with (
        hold_lock(tmp_path),
        pytest.raises(StartError, match=rf"process {os.getpid()}\).*ADSUM_STATE_DIR"),
        hold_lock(tmp_path),
    ):
        pass


def test_the_lock_is_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with hold_lock(tmp_path):
            pass

"""What `adsum up` says when the hooks cannot be put in or taken out."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum.hooks import Setup
from adsum.outcome import CommandError
from adsum.up import Offer, run_up
from adsum_collector.state_dir import renew_token
from tests.brokers import free_port


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path / "claude" / "settings.json", tmp_path / "state", 47892)


def test_hooks_that_cannot_be_noted_as_taken_out_stay_and_that_is_said(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = Offer(setup, agreed=True)
    assert offer.settle().startswith("installed")
    before = setup.path.read_bytes()
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(Setup, "parked", tmp_path / "file" / "parked")

    told = offer.park()

    assert f"could not be taken out of {setup.path}" in told
    assert "adsum hooks remove" in told
    assert setup.path.read_bytes() == before


def test_hooks_that_cannot_be_taken_out_leave_no_note(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Setup, *, dry_run: bool) -> None:
        raise OSError(28, "No space left on device")

    offer = Offer(setup, agreed=True)
    offer.settle()
    monkeypatch.setattr(Setup, "remove", full)

    assert "No space left on device" in offer.park()
    assert not setup.parked.exists()


@pytest.mark.parametrize("ours", [False, True])
def test_of_broken_settings_that_never_held_our_hooks_nothing_is_said_at_the_end(
    setup: Setup, ours: bool
) -> None:
    offer = Offer(setup, agreed=ours)
    offer.settle()
    setup.path.parent.mkdir(exist_ok=True)
    held = setup.path.read_text() if ours else '{"model": "opus"'
    setup.path.write_text(held.rstrip().removesuffix("}"))

    assert ("could not be taken out" in offer.park()) is ours


def test_a_settings_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    setup = Setup(tmp_path / "file" / "x" / "settings.json", tmp_path / "state", 47892)

    assert Offer(setup, agreed=True).settle().startswith("not installed")


def test_nobody_is_asked_about_hooks_where_the_redis_url_is_none(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asking(Offer):
        def ask(self) -> None:
            raise AssertionError("asked")

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("HUB", "COLLECTOR"):
        monkeypatch.setenv(f"ADSUM_{name}_PORT", str(free_port()))
    with pytest.raises(CommandError, match="is no Redis URL"):
        run_up(tmp_path / "state", "foo", Asking(setup))


def test_a_port_that_a_stranger_holds_is_left_with_another_token_and_without_hooks(
    setup: Setup,
) -> None:
    offer = Offer(setup, agreed=True)
    offer.settle()
    renew_token(setup.state_dir)
    token = (setup.state_dir / "token").read_bytes()
    setup.__dict__["stranger"] = "mallory"

    told = offer.leave_port()

    assert "mallory listens on port 47892. The hooks' token is renewed." in told
    assert (setup.state_dir / "token").read_bytes() != token
    assert not setup.reports_here()

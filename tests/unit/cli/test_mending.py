"""Hooks that are put right by themselves: when, how often, and never against their owner."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from adsum import hooks
from adsum.doctor.agents import check_hooks
from adsum.hooks import MENDS_MOST, Setup, keep_mended, mend
from adsum.up import Offer
from tests.support import wait_until


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    home = tmp_path / "claude"
    return Setup(home / "settings.json", tmp_path / "state", 47892, directory=home, mends=True)


def install(setup: Setup) -> str:
    setup.install(dry_run=False)
    return setup.path.read_text()


def test_hooks_that_somebody_took_out_or_changed_are_put_right(setup: Setup) -> None:
    right = install(setup)
    assert not mend(setup)

    foreign = right.replace("47892", "47999").replace(
        str(setup.socket), "/elsewhere/collector.sock"
    )
    for wrong in ("{}\n", '{"model": "opus"}\n', foreign):
        setup.path.write_text(wrong)
        assert mend(setup)
        assert setup.is_complete()
    setup.path.unlink()
    assert mend(setup)


def test_what_was_never_installed_or_taken_out_by_adsum_stays_out(setup: Setup) -> None:
    assert not mend(setup)
    install(setup)
    setup.remove(dry_run=False)
    assert not mend(setup)

    install(setup)
    Offer(setup, agreed=True).park()
    assert not mend(setup)
    assert not setup.inspect().counts


async def test_whoever_takes_them_out_again_and_again_is_not_fought(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(setup)
    looked = 0

    def found(_scope: str, _state_dir: Path) -> list[Setup]:
        nonlocal looked
        looked += 1
        setup.path.write_text("{}\n")
        return [replace(setup)]

    monkeypatch.setattr(hooks, "MEND_S", 0.0)
    monkeypatch.setattr(hooks, "setups_for", found)
    caplog.set_level(logging.WARNING)
    task = asyncio.create_task(keep_mended(setup.state_dir))
    await wait_until(lambda: looked > MENDS_MOST + 3)
    task.cancel()

    told = [record.getMessage() for record in caplog.records]
    assert len(told) == MENDS_MOST
    assert told[-1].endswith("; not again")


async def test_settings_that_cannot_be_understood_are_left_and_said(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(setup)
    setup.path.write_text('{"hooks": ')
    monkeypatch.setattr(hooks, "MEND_S", 0.0)
    monkeypatch.setattr(hooks, "setups_for", lambda _scope, _state_dir: [setup])
    task = asyncio.create_task(keep_mended(setup.state_dir))
    await wait_until(lambda: "could not be put right" in caplog.text)
    task.cancel()

    assert setup.path.read_text() == '{"hooks": '


@pytest.mark.parametrize("mends", [True, False])
def test_the_doctor_says_that_they_will_be_put_right(setup: Setup, *, mends: bool) -> None:
    install(setup)
    setup.path.write_text("{}\n")

    said = check_hooks(replace(setup, mends=mends), setup.files)[0].what

    assert ("puts right what it installed" in said) is mends

"""`adsum hooks`, `up` and the doctor where Codex is: nothing is trusted without a word of its owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum.doctor.agents import check_hooks
from adsum.hooks import Setup, setups_for
from adsum.hooks_commands import as_data, run_install, run_remove
from adsum.outcome import CommandError
from adsum.up import Offer
from tests import fake_codex


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setenv("PATH", str(fake_codex.program(tmp_path / "bin").parent))
    (setup,) = setups_for("user", tmp_path / "state", agent="codex")
    return setup


def test_without_a_terminal_nothing_is_trusted_unless_that_is_agreed_to(
    setup: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match="adsum hooks install --agent codex --yes"):
        run_install(setup, dry_run=False)
    assert not setup.path.exists()

    run_install(setup, dry_run=False, yes=True)

    assert "Codex trusts them, 13 in all" in capsys.readouterr().out
    run_install(setup, dry_run=False)  # there is nothing to agree to any more
    assert "already: 13 events" in capsys.readouterr().out


@pytest.mark.parametrize("agreed", [True, False])
def test_on_a_terminal_the_owner_is_asked(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, agreed: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(
        "adsum.hooks_commands.agrees", lambda question: asked.append(question) or agreed
    )

    run_install(setup, dry_run=False)

    assert len(asked) == 1
    assert setup.path.exists() == agreed


def test_hooks_that_codex_skips_are_told_of_everywhere(setup: Setup) -> None:
    run_install(setup, dry_run=False, yes=True)
    assert check_hooks(setup, setup.files)[0].result == "ok"
    setup.path.with_name("config.toml").unlink()

    (hooks, *_) = check_hooks(setup, setup.files)

    assert hooks.result == "fail"
    assert "not trusted, so Codex skips them: SessionStart" in hooks.what
    assert hooks.fix == "adsum hooks install --agent codex"
    (fault,) = as_data(setup, setup.inspect(), None)["faults"]
    assert "not trusted" in fault


def test_up_takes_them_out_and_puts_them_back(setup: Setup) -> None:
    offer = Offer(setup, agreed=True)
    assert offer.settle().startswith(f"installed in {setup.path}")
    assert "puts them back" in offer.park()
    assert not setup.path.exists()
    assert not setup.path.with_name("config.toml").exists()

    again = Offer(setup)
    again.ask()

    assert again.settle().startswith(f"installed in {setup.path}")
    assert setup.inspect().untrusted == ()
    run_remove(setup, dry_run=False)

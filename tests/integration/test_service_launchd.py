"""`adsum service` on macOS, against a launchctl that keeps what it is told."""

from __future__ import annotations

import plistlib
import stat
from pathlib import Path

import pytest

from adsum.outcome import CommandError
from adsum.service.inits import Launchd
from adsum.service.service import install_service, remove_service
from tests import service_managers
from tests.service_managers import LAUNCHCTL, Fake

pytestmark = pytest.mark.slow


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    monkeypatch.setattr("sys.platform", "darwin")
    return service_managers.install(monkeypatch, tmp_path, launchctl=LAUNCHCTL)


def agent(fake: Fake, part: str = "collector") -> Path:
    return fake.home / "Library/LaunchAgents" / f"adsum.{part}.plist"


def test_an_install_writes_a_plist_and_loads_it(fake: Fake) -> None:
    done = install_service()

    held = plistlib.loads(agent(fake).read_bytes())
    env = Path(held["ProgramArguments"][3])
    assert held["Label"] == "adsum.collector"
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    assert "pa\\$s" in env.read_text()
    assert "pa$s" not in agent(fake).read_text()
    assert Path(held["StandardOutPath"]).parent.is_dir()  # launchd makes none
    assert [call for call in fake.calls() if call.startswith("bootstrap gui/")]
    assert "--system runs it always" in done.notes[0]


def test_a_second_install_loads_nothing_anew(fake: Fake) -> None:
    install_service()
    fake.forget()

    assert install_service().changed == ()
    assert not [call for call in fake.calls() if call.startswith(("boot", "kick"))]


def test_a_changed_setting_loads_it_anew(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    install_service()
    fake.forget()
    monkeypatch.setenv("ADSUM_PRIVACY", "metadata")

    install_service()

    verbs = [call.split()[0] for call in fake.calls()]
    assert verbs.index("bootout") < verbs.index("bootstrap")


def test_remove_leaves_nothing(fake: Fake) -> None:
    install_service(hub=True)

    remove_service()

    assert not agent(fake).exists()
    assert not agent(fake, "hub").exists()
    assert not [name for name in fake.tree() if "adsum" in name]
    assert not (fake.folder / "adsum.collector").exists()


def test_what_launchd_refuses_is_undone(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adsum.service.inits.GOING_S", 0.0)
    fake.refuse("bootstrap", "Bootstrap failed: 125: Domain does not support specified action\n")

    with pytest.raises(CommandError, match="125: Domain does not support"):
        install_service()

    assert not [name for name in fake.tree() if "adsum" in name]


def test_what_runs_and_where_its_log_is(fake: Fake) -> None:
    launchd = Launchd(system=False)
    assert launchd.view("collector")[0].state == "not installed"
    install_service()

    view = launchd.view("collector")[0]

    assert (view.state, view.notes, view.wrong) == ("running", ("restarted 2 times",), ())
    assert view.since is not None
    log = str(fake.state_dir / "logs" / "collector.log")
    assert launchd.log_command("collector", 9, follow=True) == ["tail", "-n", "9", "-F", log]
    (fake.folder / "adsum.collector").unlink()
    assert "not loaded" in launchd.view("collector")[0].wrong[0]

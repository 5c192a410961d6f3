"""`adsum service` against a systemctl that keeps what it is told: what is written, started, undone."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adsum.app import app
from adsum.join.leave import stop_collector
from adsum.machine import Membership, keep
from adsum.outcome import CommandError
from adsum.service.inits import why_none
from adsum.service.job import NoServiceManagerError, env_values
from adsum.service.service import install_service, remove_service
from adsum_collector.state_dir import hold_lock
from tests import service_managers
from tests.service_managers import SYSTEMCTL, Fake

pytestmark = pytest.mark.slow

LOGINCTL = "#!/bin/sh\necho ${LINGER:-no}\n"
JOURNALCTL = '#!/bin/sh\necho "$*"\nexit ${JOURNAL:-0}\n'
UNITS = ["adsum-collector.service", "adsum-collector.socket"]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    monkeypatch.setattr("sys.platform", "linux")
    return service_managers.install(
        monkeypatch, tmp_path, systemctl=SYSTEMCTL, loginctl=LOGINCTL, journalctl=JOURNALCTL
    )


def adsum(*words: str) -> tuple[int, str]:
    run = CliRunner().invoke(app, ["service", *words])
    if isinstance(run.exception, CommandError):
        return int(run.exception.code), run.output + str(run.exception)
    assert run.exception is None or isinstance(run.exception, SystemExit)
    return run.exit_code, run.output


@pytest.mark.core
def test_an_install_writes_enables_and_starts(fake: Fake) -> None:
    done = install_service()

    assert sorted(path.name for path in fake.units.iterdir()) == UNITS
    assert {path.name for path in done.changed} == {*UNITS, "collector.env"}
    calls = fake.calls()
    assert "--user daemon-reload" in calls
    assert "--user enable adsum-collector.socket adsum-collector.service" in calls
    # the service too, not only its socket: what nobody accepts costs an agent its time-out
    assert calls[-1] == "--user start adsum-collector.socket adsum-collector.service"
    assert fake.state_dir.stat().st_mode & 0o777 == 0o700


def test_credentials_stand_in_a_private_file_and_nowhere_else(fake: Fake) -> None:
    install_service(given={"ADSUM_INGEST_TOKEN": "adsum_machine_x$y"})

    env = fake.home / ".config/adsum/collector.env"
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    assert env_values(env.read_text()) == {
        "ADSUM_REDIS_URL": "redis://machine:pa$s@broker.example:6379",
        "ADSUM_STATE_DIR": str(fake.state_dir),
        "ADSUM_INGEST_TOKEN": "adsum_machine_x$y",
    }
    told = "".join(path.read_text() for path in fake.units.iterdir()) + "".join(fake.calls())
    assert "pa$s" not in told
    assert "adsum_machine" not in told


def test_a_second_install_changes_nothing_and_restarts_nothing(fake: Fake) -> None:
    install_service()
    before = fake.tree()
    fake.forget()

    assert install_service().changed == ()

    assert fake.tree() == before
    assert not [call for call in fake.calls() if "restart" in call or " stop" in call]


def test_a_changed_setting_restarts_the_service_behind_an_open_door(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_service()
    fake.forget()
    monkeypatch.setenv("ADSUM_PRIVACY", "metadata")

    assert [path.name for path in install_service().changed] == ["collector.env"]

    assert fake.calls()[-1] == "--user restart adsum-collector.service"
    assert not [call for call in fake.calls() if " stop" in call]


def test_another_port_closes_the_door_first(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    install_service()
    fake.forget()
    monkeypatch.setenv("ADSUM_COLLECTOR_PORT", "40001")

    install_service()

    stop = fake.calls().index("--user stop adsum-collector.socket adsum-collector.service")
    assert stop < fake.calls().index("--user start adsum-collector.socket adsum-collector.service")
    assert "127.0.0.1:40001" in (fake.units / UNITS[1]).read_text()


def test_an_install_from_another_terminal_keeps_what_the_first_was_told(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_service(given={"ADSUM_INGEST_TOKEN": "secret"})
    monkeypatch.delenv("ADSUM_REDIS_URL")
    monkeypatch.delenv("ADSUM_STATE_DIR")

    assert install_service().changed == ()


def test_a_url_in_the_configuration_file_is_not_copied_from_it(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADSUM_REDIS_URL")
    config = fake.home / ".config/adsum/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('redis_url = "redis://:secret@h:1"\n')

    install_service()

    assert "secret" not in (config.parent / "collector.env").read_text()


def test_remove_leaves_nothing_but_what_was_collected(fake: Fake) -> None:
    before = fake.tree()
    install_service(hub=True)
    (fake.state_dir / "spool").write_text("collected")

    gone = remove_service()

    assert len(gone) == 5
    config = {".config": None}  # an empty folder that every desktop has
    assert fake.tree() == before | config
    assert (fake.state_dir / "spool").exists()
    assert "--user disable --now adsum-collector.socket adsum-collector.service" in fake.calls()
    assert fake.calls()[-1] == "--user daemon-reload"
    assert not list(fake.folder.glob("*-adsum-*"))
    assert remove_service() == ()


def test_remove_leaves_what_is_somebody_elses(fake: Fake) -> None:
    override = fake.units / "adsum-collector.service.d" / "mine.conf"
    other = fake.units / "backup.service"
    config = fake.home / ".config/adsum/config.toml"
    for file in (override, other, config):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    before = fake.tree()

    install_service()
    remove_service()

    assert fake.tree() == before


def test_only_the_hub_can_go(fake: Fake) -> None:
    install_service(hub=True)

    remove_service(("hub",))

    assert sorted(path.name for path in fake.units.iterdir()) == UNITS


def test_only_the_collector_can_go_as_leaving_does(fake: Fake) -> None:
    install_service(hub=True)

    assert stop_collector(fake.state_dir)

    assert [path.name for path in fake.units.iterdir()] == ["adsum-hub.service"]
    assert not [call for call in fake.calls() if "disable" in call and "adsum-hub" in call]


def test_a_file_of_that_name_that_is_not_ours_is_left_alone(fake: Fake) -> None:
    fake.units.mkdir(parents=True)
    (fake.units / UNITS[0]).write_text("[Service]\nExecStart=/bin/mine\n")
    before = fake.tree()

    with pytest.raises(CommandError, match="was not written by Adsum"):
        install_service()
    with pytest.raises(CommandError, match="was not written by Adsum"):
        remove_service()

    assert fake.tree() == before


@pytest.mark.parametrize("verb", ["daemon-reload", "enable", "start"])
def test_what_systemd_refuses_is_undone(fake: Fake, verb: str) -> None:
    before = fake.tree()
    fake.refuse(verb, "Failed: Address already in use\n")

    with pytest.raises(CommandError, match="Address already in use"):
        install_service()

    assert fake.tree() == before | {".config": None}


def test_a_refused_change_leaves_the_former_service(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_service()
    before = fake.tree()
    monkeypatch.setenv("ADSUM_PRIVACY", "metadata")
    fake.refuse("restart", "no\n")

    with pytest.raises(CommandError, match="refuses"):
        install_service()

    assert fake.tree() == before


def test_a_collector_that_runs_by_hand_is_named(fake: Fake) -> None:
    fake.state_dir.mkdir()
    with (
        hold_lock(fake.state_dir, 40000),
        pytest.raises(CommandError, match=f"process {os.getpid()}"),
    ):
        install_service()


def test_a_dry_run_prints_the_files_writes_none_and_shows_no_secret(fake: Fake) -> None:
    before = fake.tree()

    code, printed = adsum("install", "--dry-run", "--hub")

    assert code == 0
    assert f"# {fake.units / UNITS[0]} (644)" in printed
    assert "Description=Adsum hub" in printed
    assert 'ADSUM_REDIS_URL="..."' in printed
    assert "pa$s" not in printed
    assert fake.tree() == before
    assert not (fake.folder / "calls").exists()


def test_without_a_broker_to_report_to_there_is_no_service(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADSUM_REDIS_URL")

    code, printed = adsum("install")

    assert code == 1
    assert "ADSUM_REDIS_URL" in printed


def test_a_machine_that_has_joined_knows_where_it_reports_to(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADSUM_REDIS_URL")
    fake.state_dir.mkdir()
    keep(fake.state_dir, Membership("https://hub.example.net", "oak", "oak", "", "secret"))

    assert len(install_service().changed) == 3
    with pytest.raises(CommandError, match="needs to know the broker"):  # a hub cannot go that way
        install_service(hub=True)


def test_a_system_service_is_roots(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    with pytest.raises(CommandError, match="sudo adsum service install --system"):
        install_service(system=True)


def test_a_port_that_hooks_could_not_find_is_refused(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADSUM_COLLECTOR_PORT", "0")

    with pytest.raises(CommandError, match="fixed port"):
        install_service()


def test_a_path_too_long_for_a_socket_is_refused(fake: Fake) -> None:
    with pytest.raises(CommandError, match="107 bytes"):
        install_service(fake.home / ("x" * 100))


def test_status_says_what_runs_and_since_when(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    install_service(hub=True)
    (fake.folder / f"more-{UNITS[0]}").write_text("MainPID=77\nNRestarts=3\n")

    code, printed = adsum("status")

    assert f"{UNITS[0]}   running    since 20" in printed
    assert "process 77, restarted 3 times" in printed
    assert "loginctl enable-linger" in printed
    assert code == 1  # the fake runs no collector, and status asks the collector itself
    assert "No collector runs on" in printed
    monkeypatch.setenv("LINGER", "yes")
    assert "Lingering" not in adsum("status")[1]
    assert adsum("status", "--hub")[0] == 0
    code, told = adsum("status", "--hub", "--json")
    [unit] = json.loads(told)["units"]
    assert (code, unit["unit"], unit["state"], unit["pid"]) == (
        0,
        "adsum-hub.service",
        "running",
        None,
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("ActiveState=failed\nResult=oom-kill\n", "more memory than it may have"),
        ("ActiveState=failed\nResult=start-limit-hit\n", "was given up"),
        ("UnitFileState=disabled\n", "will not start by itself"),
        ("NeedDaemonReload=yes\n", "Run `systemctl --user daemon-reload`"),
        ("LoadState=bad-setting\n", "cannot be read"),
    ],
)
def test_status_says_what_is_wrong_and_what_to_do(fake: Fake, more: str, said: str) -> None:
    install_service()
    (fake.folder / f"more-{UNITS[0]}").write_text(more)

    code, printed = adsum("status")

    assert code == 1
    assert said in printed


def test_status_sees_what_became_of_the_files(fake: Fake) -> None:
    install_service()
    env = fake.home / ".config/adsum/collector.env"
    env.chmod(0o644)
    unit = fake.units / UNITS[0]
    unit.write_text(unit.read_text().replace("ExecStart=", "ExecStart=/gone"))
    (fake.units / UNITS[1]).unlink()

    printed = adsum("status")[1]

    assert f"Run `chmod 600 {env}`" in printed
    assert "The program it starts, /gone" in printed
    assert f"{fake.units / UNITS[1]} is gone" in printed


def test_status_where_nothing_is_installed(fake: Fake) -> None:
    code, printed = adsum("status")

    assert code == 1
    assert "Next: adsum service install" in printed
    code, printed = adsum("status", "--json")
    assert (code, json.loads(printed)["installed"]) == (1, False)


def test_logs_are_the_journals(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert adsum("logs")[0] == 1
    install_service(hub=True)

    assert adsum("logs", "--hub", "-f", "-n", "7")[0] == 0
    assert "--user --unit=adsum-hub.service --lines=7 --follow" in capfd.readouterr().out
    monkeypatch.setenv("JOURNAL", "1")
    assert "ended with 1. Run it with sudo" in adsum("logs")[1]


def test_without_systemd_the_cause_and_a_way_are_named_and_nothing_is_written(fake: Fake) -> None:
    before = fake.tree()
    fake.refuse("show", "System has not been booted with systemd as init system (PID 1).\n")

    with pytest.raises(NoServiceManagerError, match="nohup adsum collector"):
        install_service()
    code, printed = adsum("install")

    assert code == 1
    assert "nohup adsum collector" in printed
    assert fake.tree() == before
    assert not fake.state_dir.exists()


def test_each_want_of_systemd_has_its_own_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _path: False)  # no mark of a container
    linux, wsl = "Linux version 6.1", "Linux version 5.15-microsoft-standard-WSL2"
    bus = "Failed to connect to bus: No medium found"

    assert "systemd=true" in why_none(bus, wsl, {})
    assert "without systemd" in why_none("", linux, {})
    assert "by sudo" in why_none(bus, linux, {"SUDO_UID": "1000"})
    assert "Log in as yourself" in why_none(bus, linux, {})

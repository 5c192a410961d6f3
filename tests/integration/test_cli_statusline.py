"""The user's status line as `adsum hooks` and `adsum up` handle it, and what `adsum statusline` says."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adsum.hooks import setup_for
from adsum.up import Offer
from tests.brokers import free_port
from tests.collectors import CollectorProcess
from tests.integration.conftest import Run

OWN = '{\n  "statusLine": {"command": "echo \\u0027hi\\u0027; exit 3", "type": "command"}\n}\n'


@pytest.fixture
def settings(home: Path) -> Path:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(OWN)
    return path


def command_in(path: Path) -> str:
    command: str = json.loads(path.read_text())["statusLine"]["command"]
    return command


def test_install_wraps_the_users_own_and_remove_restores_it(settings: Path, run: Run) -> None:
    out = run("hooks", "install")[1]
    assert "Status line: your own; it tells Adsum as well" in out
    assert shlex.split(command_in(settings))[-1] == "echo 'hi'; exit 3"
    assert "it tells Adsum as well" in run("hooks", "status")[1]

    run("hooks", "remove")

    assert settings.read_text() == OWN


def test_a_dry_run_shows_it(settings: Path, run: Run) -> None:
    out = run("hooks", "install", "--dry-run")[1]
    assert '-  "statusLine"' in out
    assert "adsum_collector/agents/claude_code/statusline_wrapper.py" in out
    assert settings.read_text() == OWN


def test_a_user_without_one_gets_one_only_on_demand(settings: Path, run: Run) -> None:
    settings.write_text("{}\n")
    assert "Status line: none" in run("hooks", "install")[1]
    told = json.loads(run("statusline", "--json")[1])
    assert (told["kind"], told["answers"], told["heard_at"]) == ("none", False, None)

    assert "Adsum's, which shows nothing" in run("hooks", "install", "--statusline")[1]
    run("hooks", "install")
    assert "which shows nothing" in run("statusline")[1], "an install again leaves it"

    run("hooks", "install", "--no-statusline")
    assert "statusLine" not in settings.read_text()
    run("hooks", "install", "--statusline")
    run("hooks", "remove")
    assert settings.read_text() == "{}\n"


def test_a_users_own_can_be_kept_out_of_it(settings: Path, run: Run) -> None:
    run("hooks", "install")
    out = run("hooks", "install", "--no-statusline")[1]
    assert "your own, as you wrote it" in out
    assert command_in(settings) == "echo 'hi'; exit 3"
    assert run("hooks", "status")[0] == 0, "that is no fault"


def test_a_projects_file_is_never_given_one(home: Path, settings: Path, run: Run) -> None:
    local = home / ".claude" / "settings.local.json"
    local.write_text(OWN)
    run("hooks", "install", "--scope", "project")
    assert command_in(local) == "echo 'hi'; exit 3"
    assert run("hooks", "install", "--scope", "project", "--statusline")[0] == 2
    assert settings.read_text() == OWN


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ((), "it tells Adsum as well"),
        (("--no-statusline",), "as you wrote it"),
        (("--statusline",), "it tells Adsum as well"),
    ],
)
def test_what_adsum_up_takes_out_it_puts_back_as_it_was(
    words: tuple[str, ...], kind: str, settings: Path, run: Run
) -> None:
    run("hooks", "install", *words)
    before = settings.read_bytes()

    assert "taken out" in Offer(setup_for("user", None)).park()
    assert settings.read_text() == OWN
    offer = Offer(setup_for("user", None))
    offer.ask()
    assert offer.settle().startswith("installed")

    assert settings.read_bytes() == before
    assert kind in run("statusline")[1]


def test_adsum_up_puts_an_empty_one_back_too(settings: Path, run: Run) -> None:
    settings.write_text("{}")
    run("hooks", "install", "--statusline")
    before = settings.read_bytes()

    Offer(setup_for("user", None)).park()
    offer = Offer(setup_for("user", None))
    offer.ask()
    offer.settle()

    assert settings.read_bytes() == before


def test_a_note_of_an_older_version_brings_hooks_back_and_wraps(settings: Path, run: Run) -> None:
    run("hooks", "install")
    Offer(setup_for("user", None)).park()
    setup_for("user", None).parked.write_text("")
    offer = Offer(setup_for("user", None))
    offer.ask()
    offer.settle()
    assert "it tells Adsum as well" in run("statusline")[1]
    assert settings.read_text() != OWN


def test_one_that_reports_elsewhere_or_runs_what_is_gone_is_a_fault_that_install_mends(
    home: Path, settings: Path, run: Run
) -> None:
    run("hooks", "install")
    good = settings.read_text()
    for was, now, words in (
        (str(home / "state"), str(home / "other"), "reports to"),
        (
            "adsum_collector/agents/claude_code/statusline_wrapper.py",
            "gone/adsum_collector/agents/claude_code/statusline_wrapper.py",
            "which is gone",
        ),
    ):
        command = command_in(settings).replace(was, now)
        held = json.loads(good)
        settings.write_text(
            json.dumps({**held, "statusLine": {**held["statusLine"], "command": command}})
        )
        code, out, _ = run("hooks", "status")
        assert (code, words in out) == (1, True)
        run("hooks", "install")
        assert run("hooks", "status")[0] == 0
        settings.write_text(good)


def test_one_changed_by_hand_is_named_when_it_cannot_be_taken_out(settings: Path, run: Run) -> None:
    run("hooks", "install")
    held = json.loads(settings.read_text())
    held["statusLine"]["command"] += " | tail -1"
    settings.write_text(json.dumps(held))

    assert "set `statusLine` right by hand" in run("hooks", "remove")[2]
    assert command_in(settings) == held["statusLine"]["command"]


def test_a_file_that_cannot_be_parsed_is_named(settings: Path, run: Run) -> None:
    settings.write_text("{\n  // mine\n}")
    code, _, err = run("statusline")
    assert (code, "line 2, column 3: a comment" in err) == (1, True)


def test_without_a_collector_that_is_said(settings: Path, run: Run) -> None:
    run("hooks", "install")
    code, out, _ = run("statusline")
    assert code == 0
    assert str(settings) in out
    assert "echo 'hi'; exit 3" in out
    assert "none answers" in out


@pytest.fixture
def collector(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CollectorProcess]:
    """Its broker is away, which is nothing to a status line."""
    collector = CollectorProcess(home / "state", f"redis://127.0.0.1:{free_port()}").start()
    monkeypatch.setenv("ADSUM_COLLECTOR_PORT", str(collector.port))
    yield collector
    collector.stop()


@pytest.mark.usefixtures("collector")
def test_the_running_collector_tells_how_it_fares(settings: Path, run: Run) -> None:
    run("hooks", "install")
    assert "no status line has reported to it yet\nfailures     none" in run("statusline")[1]

    command = ["/bin/sh", "-c", command_in(settings)]
    done = subprocess.run(command, input=b'{"session_id": "s1"}', capture_output=True, check=False)

    assert (done.stdout, done.returncode) == (b"hi\n", 3)
    deadline = time.monotonic() + 10
    while "1 run of your command ended with code 3" not in (out := run("statusline")[1]):
        assert time.monotonic() < deadline, out
    assert "a status line reported" in out

"""`adsum hooks` as a user meets it: what it says, and where it stops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adsum_collector.state_dir import token_of
from tests.integration.conftest import Run, claude


def settings_of(home: Path) -> Path:
    return home / ".claude" / "settings.json"


def test_install_writes_what_the_installed_version_knows_and_remove_undoes_it(
    home: Path, run: Run
) -> None:
    claude(home, "2.1.330")
    settings_of(home).parent.mkdir()
    settings_of(home).write_text('{\n  "model": "opus"\n}\n')
    code, out, err = run("hooks", "install")
    assert code == 0
    assert "Claude Code 2.1.330" in err
    assert "Hooks for 21 events" in out
    assert "adsum-backup-" in out
    hooks = json.loads(settings_of(home).read_text())["hooks"]
    assert "PostModelSwitch" in hooks
    assert "Stop" not in hooks
    assert "already: 21 events" in run("hooks", "install")[1]
    assert run("hooks", "status")[:1] == (0,)
    assert "everything else is as it was" in run("hooks", "remove")[1]
    assert settings_of(home).read_text() == '{\n  "model": "opus"\n}\n'
    assert "Nothing was changed" in run("hooks", "remove")[1]


def test_without_codex_it_is_named_as_a_program_and_not_as_claude(home: Path, run: Run) -> None:
    (home / ".codex").mkdir()
    _, _, err = run("hooks", "install", "--agent", "codex", "--dry-run")
    assert "--program PATH" in err
    assert "--claude" not in err


def test_without_claude_the_known_set_is_installed_and_that_is_said(home: Path, run: Run) -> None:
    code, out, err = run("hooks", "install")
    assert code == 0
    assert "was not found, so only events that 2.1.112 knows" in err
    assert "--program PATH" in err
    assert "PostModelSwitch" not in out
    assert "is gone again" in run("hooks", "remove")[1]
    assert not settings_of(home).exists()


def test_a_program_that_is_not_claude_is_refused(home: Path, run: Run) -> None:
    program = claude(home, "hello")
    code, out, err = run("hooks", "install", "--claude", str(program))
    assert (code, out) == (1, "")
    assert "Give --claude the path" in err
    assert not settings_of(home).exists()


def test_a_dry_run_prints_a_diff_and_no_secret(home: Path, run: Run) -> None:
    code, out, _ = run("hooks", "install", "--dry-run")
    assert code == 0
    summary, _, diff = out.partition("\n\n")
    assert summary.startswith(f"{settings_of(home)}: 20 entries would be put in")
    assert "one for each of UserPromptSubmit, " in summary
    assert diff.startswith(f"--- {settings_of(home)}")
    assert token_of(home / "state") not in out
    assert not settings_of(home).parent.exists()


def test_a_file_that_cannot_be_parsed_is_named_with_its_line(home: Path, run: Run) -> None:
    settings_of(home).parent.mkdir()
    settings_of(home).write_text("{\n  // mine\n}")
    for command in ("install", "remove", "status"):
        code, out, err = run("hooks", command)
        assert (code, out) == (1, "")
        assert f"{settings_of(home)}, line 2, column 3: a comment" in err


def test_the_project_scope_writes_the_local_file(home: Path, run: Run) -> None:
    run("hooks", "install", "--scope", "project")
    assert (home / ".claude" / "settings.local.json").exists()
    assert run("hooks", "install", "--scope", "galaxy")[0] == 2


def test_status_says_what_is_wrong_and_what_to_do(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run("hooks", "status")
    assert code == 1
    assert "no hooks of Adsum are in it" in out
    assert "adsum hooks install" in err
    run("hooks", "install")
    (home / "state" / "token").write_text("another\n")
    monkeypatch.setenv("ADSUM_COLLECTOR_PORT", "5555")
    _, out, _ = run("hooks", "status")
    assert "but the collector's is 5555" in out
    assert "another token" in out
    assert run("hooks", "install")[0] == 0
    assert run("hooks", "status")[0] == 0


def test_a_settings_file_that_others_can_read_is_closed_for_the_token_and_opened_again(
    home: Path, run: Run
) -> None:
    settings_of(home).parent.mkdir()
    settings_of(home).write_text("{}")
    settings_of(home).chmod(0o644)
    _, out, err = run("hooks", "install")
    assert "Sent: they post to port" in out
    assert "nobody else has an account here" in out
    assert f"Others can no longer read {settings_of(home)}" in err
    assert settings_of(home).stat().st_mode & 0o777 == 0o600
    settings_of(home).chmod(0o644)
    code, _, err = run("hooks", "status")
    assert code == 0
    assert "To close it: adsum hooks install" in err
    run("hooks", "install")
    run("hooks", "remove")
    assert settings_of(home).stat().st_mode & 0o777 == 0o644


def test_where_others_have_an_account_the_shim_is_chosen_and_said(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adsum.hooks.others_here", lambda: ["ann", "bob", "eve", "mallory"])
    _, out, err = run("hooks", "install")
    assert "others have an account here: ann, bob, eve and others" in out
    assert "red line" not in err
    assert "http" not in settings_of(home).read_text()
    told = json.loads(run("hooks", "status", "--json")[1])
    assert (told["transport"], told["faults"]) == ("shim", [])
    assert run("hooks", "install", "--transport", "http")[0] == 0
    told = json.loads(run("hooks", "status", "--json")[1])
    assert (told["transport"], told["why"]) == ("http", "chosen by --transport")
    assert run("hooks", "install", "--transport", "pigeon")[0] == 2


def test_status_says_that_nobody_answers_and_what_will_be_seen(home: Path, run: Run) -> None:
    claude(home, "2.1.330")
    run("hooks", "install")
    code, out, err = run("hooks", "status")
    assert (code, "hooks stand" in out) == (0, True)
    assert "Warning: Nobody answers at port " in err
    assert "prints a red line" in err
    assert "adsum up" in err


def test_status_as_json_names_what_is_wrong_and_ends_as_the_text_does(home: Path, run: Run) -> None:
    code, out, err = run("hooks", "status", "--json")
    told = json.loads(out)
    assert (code, told["hooks"], told["faults"]) == (1, {}, ["no hooks of Adsum are in it"])
    assert err == "adsum: Hooks are not as they should be. Next: adsum hooks install\n"
    run("hooks", "install")
    code, out, err = run("hooks", "status", "--json")
    told = json.loads(out)
    assert (code, err, told["faults"], told["answered"]) == (0, "", [], False)
    assert told["hooks"]["Stop"] == 1
    assert told["file"] == str(settings_of(home))


def test_status_names_the_version_of_a_session_that_runs_where_the_program_is_not_found(
    home: Path, run: Run
) -> None:
    sessions = home / ".claude" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "1.json").write_text('{"sessionId": "s", "pid": 1, "version": "2.1.330"}')
    run("hooks", "install")
    code, out, _ = run("hooks", "status", "--json")
    assert (code, json.loads(out)["faults"]) == (0, [])
    assert json.loads(out)["hooks"]["PermissionRequest"] == 1
    assert "Claude Code was not found. Hooks are those for 2.1.330" in run("hooks", "status")[2]

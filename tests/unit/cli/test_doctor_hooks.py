"""What the doctor finds in settings files: hooks missing, doubled, out of date, or switched off."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from adsum.doctor.agents import check_hooks
from adsum.doctor.checks import Finding
from adsum.doctor.doctor import _hooks
from adsum.foreground import _tending
from adsum.hooks import Setup, Wanted, mend
from adsum_collector.agents.claude_code.agent import settings_files
from adsum_collector.agents.installer import SettingsFiles
from adsum_collector.state_dir import token_of
from adsum_shared.state import HostWitness
from tests.brokers import free_port
from tests.control import consent_to
from tests.hubs import NOW, host

PORT = 47_000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    # The search for project settings stops at a repository, so it never reaches folders above this one.
    for repository in (tmp_path, tmp_path / "project"):
        (repository / ".git").mkdir(parents=True)
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho '2.1.330 (Claude Code)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    # whatever accounts the machine of the tests has
    monkeypatch.setattr("adsum.hooks.others_here", list)
    return tmp_path


@pytest.fixture
def setup(home: Path) -> Setup:
    return Setup(home / ".claude" / "settings.json", home / "state", PORT)


def files(home: Path) -> SettingsFiles:
    return settings_files(home / ".claude", home / "project", home / "policy")


def found(setup: Setup, home: Path) -> dict[str, Finding]:
    return {each.id: each for each in check_hooks(setup, files(home))}


def write(path: Path, settings: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    held = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**held, **settings}))


def in_project(setup: Setup, home: Path) -> Setup:
    (home / "project").mkdir(exist_ok=True)
    return Setup(files(home).project[0], setup.state_dir, PORT)


def test_hooks_as_installed_are_well(setup: Setup, home: Path) -> None:
    setup.install(dry_run=False)
    results = {name: each.result for name, each in found(setup, home).items()}
    assert results == {"hooks": "ok", "hooks-doubled": "ok", "hooks-enabled": "ok"}
    assert "all that are for Claude Code 2.1.330" in found(setup, home)["hooks"].what


def test_no_hooks_fail_and_looking_leaves_nothing_behind(setup: Setup, home: Path) -> None:
    hooks = found(setup, home)["hooks"]
    assert (hooks.result, hooks.fix) == ("fail", "adsum hooks install")
    assert not setup.state_dir.exists()


def test_looking_at_hooks_of_a_lost_state_directory_mints_no_token(
    setup: Setup, home: Path
) -> None:
    setup.install(dry_run=False)
    shutil.rmtree(setup.state_dir)
    hooks = found(setup, home)["hooks"]
    assert hooks.result == "fail"
    assert "they carry another token than this collector's" in hooks.what
    assert not setup.state_dir.exists()


def test_parked_hooks_are_only_a_warning(setup: Setup, home: Path) -> None:
    setup.parked.parent.mkdir(parents=True)
    setup.parked.touch()
    hooks = found(setup, home)["hooks"]
    assert (hooks.result, hooks.fix) == ("warn", "`adsum up` puts them back.")


def test_hooks_of_an_older_version_are_a_warning(setup: Setup, home: Path) -> None:
    setup.install(dry_run=False)
    held = json.loads(setup.path.read_text())
    del held["hooks"]["PermissionRequest"]
    setup.path.write_text(json.dumps(held))
    hooks = found(setup, home)["hooks"]
    assert hooks.result == "warn"
    assert "missing: PermissionRequest" in hooks.what


def test_a_form_that_may_wait_for_longer_than_the_setting_says_is_a_fault(setup: Setup) -> None:
    consent_to(setup.state_dir, Ed25519PrivateKey.generate())
    longer = dataclasses.replace(setup, form_timeout_s=3_610)
    longer.install(dry_run=False)
    assert longer.faults(longer.inspect()) == []
    hooks = json.loads(setup.path.read_text())["hooks"]
    timeouts = [
        hooks[event][0]["hooks"][0]["timeout"] for event in ("Elicitation", "PermissionRequest")
    ]
    assert timeouts == [3_610, 86_400]

    told = "the hook of forms times out after 3610 s, but hold_form_s takes 310 s"
    assert setup.faults(setup.inspect()) == [told]
    assert mend(setup)
    assert setup.faults(setup.inspect()) == []


def test_hooks_that_post_elsewhere_fail(setup: Setup, home: Path) -> None:
    Setup(setup.path, setup.state_dir, PORT + 1).install(dry_run=False)
    hooks = found(setup, home)["hooks"]
    assert hooks.result == "fail"
    assert f"they post to port {PORT + 1}" in hooks.what


def test_a_shim_that_is_gone_fails(setup: Setup, home: Path) -> None:
    setup.install(dry_run=False)
    setup.path.write_text(setup.path.read_text().replace(setup.target.python, "/gone/python"))
    hooks = found(setup, home)["hooks"]
    assert hooks.result == "fail"
    assert "they run /gone/python, which is not there" in hooks.what


def test_hooks_of_the_project_alone_are_well(setup: Setup, home: Path) -> None:
    in_project(setup, home).install(dry_run=False)
    assert found(setup, home)["hooks"].result == "ok"


def test_hooks_in_user_and_project_are_doubled(setup: Setup, home: Path) -> None:
    setup.install(dry_run=False)
    in_project(setup, home).install(dry_run=False)
    doubled = found(setup, home)["hooks-doubled"]
    assert (doubled.result, doubled.fix) == ("warn", "adsum hooks remove --scope project")
    assert "settings.local.json" in doubled.what


def test_a_hook_twice_in_one_file_is_doubled(setup: Setup, home: Path) -> None:
    setup.install(dry_run=False)
    held = json.loads(setup.path.read_text())
    held["hooks"]["SessionEnd"] *= 2
    setup.path.write_text(json.dumps(held))
    findings = found(setup, home)
    assert findings["hooks"].result == "ok"
    assert "more than once: SessionEnd" in findings["hooks-doubled"].what


def test_a_home_that_is_a_project_too_doubles_nothing(setup: Setup, home: Path) -> None:
    setup.install(dry_run=False)
    at_home = settings_files(home / ".claude", home, home / "policy")
    results = {each.id: each.result for each in check_hooks(setup, at_home)}
    assert results["hooks-doubled"] == "ok"


@pytest.mark.parametrize(
    "place",
    [
        ".claude/settings.json",
        "project/.claude/settings.json",
        "project/.claude/settings.local.json",
        "policy/managed-settings.json",
        "policy/managed-settings.d/10-hooks.json",
    ],
)
def test_hooks_switched_off_fail_wherever_it_stands(setup: Setup, home: Path, place: str) -> None:
    setup.install(dry_run=False)
    write(home / place, {"disableAllHooks": True})
    findings = found(setup, home)
    assert findings["hooks"].result == "ok"
    assert findings["hooks-enabled"].result == "fail"
    assert str(home / place) in findings["hooks-enabled"].what


def test_only_the_administrators_hooks_allowed_fails(setup: Setup, home: Path) -> None:
    setup.install(dry_run=False)
    write(setup.path, {"allowManagedHooksOnly": True})
    assert found(setup, home)["hooks-enabled"].result == "ok", "it only counts in managed settings"
    write(home / "policy" / "managed-settings.json", {"allowManagedHooksOnly": True})
    assert found(setup, home)["hooks-enabled"].result == "fail"


def test_addresses_allowed_anywhere_add_up(setup: Setup, home: Path) -> None:
    setup.install(dry_run=False)
    policy = home / "policy" / "managed-settings.json"
    write(policy, {"allowedHttpHookUrls": ["https://company.example/*"]})
    enabled = found(setup, home)["hooks-enabled"]
    assert enabled.result == "fail"
    assert str(policy) in enabled.what
    write(setup.path, {"allowedHttpHookUrls": ["http://127.0.0.1:*"]})
    assert found(setup, home)["hooks-enabled"].result == "ok"


def test_settings_that_claude_code_cannot_read_are_named(setup: Setup, home: Path) -> None:
    setup.path.parent.mkdir()
    setup.path.write_text("{\n  // mine\n}")
    (hooks,) = check_hooks(setup, files(home))
    assert hooks.result == "fail"
    assert "line 2, column 3: a comment" in hooks.what


@pytest.mark.parametrize("answers", [True, False])
def test_a_program_that_is_on_no_path_now_lowers_no_hooks(
    setup: Setup, home: Path, monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    """As from ssh, a cron job or a service, where a program of nvm or mise may not even find its node."""
    program = home / "bin" / "claude"
    setup.install(dry_run=False)
    before = setup.path.read_bytes()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if not answers:
        program.write_text("#!/no/such/node\n")

    again = Setup(setup.path, setup.state_dir, PORT)
    assert again.found == ((2, 1, 330) if answers else None, program if answers else None)
    assert again.version == (2, 1, 330)
    assert not again.install(dry_run=False).needed
    assert setup.path.read_bytes() == before
    assert found(again, home)["hooks"].result == "ok"


def test_without_a_program_the_newest_session_that_runs_says_the_version(
    setup: Setup, home: Path
) -> None:
    (home / "bin" / "claude").unlink()
    assert setup.known_version is None
    for pid, version in ((1, "2.1.99"), (2, "2.1.332"), (3, "odd"), (4, None)):
        entry = {"sessionId": f"s{pid}", "pid": pid, "version": version}
        write(home / ".claude" / "sessions" / f"{pid}.json", entry)
    (home / ".claude" / "sessions" / "5.json").write_text("{")

    assert Setup(setup.path, setup.state_dir, PORT).known_version == (2, 1, 332)


def test_hooks_that_are_heard_and_stand_in_no_known_file_are_a_warning(
    setup: Setup, home: Path
) -> None:
    assert check_hooks(setup, files(home))[0].result == "fail"
    witness = HostWitness("hook", "ok", NOW)
    told = _hooks([setup], replace(host(), witnesses=(witness,)))[0]
    assert (told.result, told.fix) == ("warn", "adsum hooks install")
    assert "are heard" in told.what
    witness = replace(witness, state="missing")
    assert _hooks([setup], replace(host(), witnesses=(witness,)))[0].result == "fail"


def test_where_a_hub_runs_alone_no_hooks_are_missed(setup: Setup, home: Path) -> None:
    hooks = check_hooks(setup, files(home), alone=True)[0]
    assert (hooks.result, hooks.fix) == ("skip", None)
    assert not setup.state_dir.exists()


def test_hooks_beside_a_hub_that_runs_alone_are_a_warning(setup: Setup, home: Path) -> None:
    setup = Setup(setup.path, setup.state_dir, free_port())
    setup.install(dry_run=False)
    hooks = check_hooks(setup, files(home), alone=True)[0]
    assert hooks.result == "warn"
    assert "tell in vain" in hooks.what


def test_hooks_that_nobody_answers_are_a_warning_while_nothing_runs(
    setup: Setup, home: Path
) -> None:
    setup = Setup(setup.path, setup.state_dir, free_port())
    setup.install(dry_run=False)
    hooks = check_hooks(setup, files(home), idle=True)[0]
    assert hooks.result == "warn"
    assert "prints a red line" in hooks.what
    assert (hooks.fix or "").startswith("Start Adsum with `adsum up`")


def test_hooks_that_are_posted_where_others_have_an_account_are_a_warning(
    setup: Setup, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.install(dry_run=False)
    monkeypatch.setattr("adsum.hooks.others_here", lambda: ["mallory"])

    hooks = found(Setup(setup.path, setup.state_dir, PORT), home)["hooks"]

    assert (hooks.result, hooks.fix) == ("warn", "adsum hooks install")
    assert "could answer" in hooks.what
    assert "mallory" in hooks.what


def test_hooks_posted_to_a_strangers_port_fail(
    setup: Setup, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.install(dry_run=False)
    monkeypatch.setattr("adsum.hooks.stranger_on", lambda _port: "mallory")

    hooks = found(Setup(setup.path, setup.state_dir, PORT), home)["hooks"]

    assert (hooks.result, hooks.fix) == ("fail", "adsum hooks install")
    assert f"the user mallory listens on port {PORT} and is handed their token" in hooks.what


def test_an_install_beside_a_strangers_port_posts_nothing_and_renews_the_token(
    setup: Setup, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.install(dry_run=False)
    handed = (setup.state_dir / "token").read_text()
    monkeypatch.setattr("adsum.hooks.stranger_on", lambda _port: "mallory")
    again = Setup(setup.path, setup.state_dir, PORT)

    again.install(dry_run=False)

    assert (setup.state_dir / "token").read_text() != handed
    assert "Bearer" not in setup.path.read_text()
    assert found(again, home)["hooks"].result == "ok"


async def test_a_collector_that_starts_beside_a_stranger_takes_its_hooks_off_the_port(
    setup: Setup, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Setup(setup.path, setup.state_dir, PORT, wanted="http").install(dry_run=False)
    handed = token_of(setup.state_dir)
    assert handed in setup.path.read_text()
    monkeypatch.setattr("adsum.hooks.stranger_on", lambda _port: "mallory")
    monkeypatch.setenv("ADSUM_COLLECTOR_PORT", str(PORT))

    async def part() -> None:
        """It finds its port taken."""

    await _tending(part(), setup.state_dir, mends=False)

    written = setup.path.read_text()
    assert handed not in written
    assert "127.0.0.1" not in written
    assert token_of(setup.state_dir) != handed
    assert found(Setup(setup.path, setup.state_dir, PORT), home)["hooks"].result == "ok"


def test_the_way_that_was_asked_for_is_kept_until_another_is(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def way(wanted: Wanted | None) -> str:
        each = Setup(setup.path, setup.state_dir, PORT, wanted=wanted)
        each.install(dry_run=False)
        return Setup(setup.path, setup.state_dir, PORT).transport

    monkeypatch.setattr("adsum.hooks.others_here", lambda: ["mallory"])
    assert [way(each) for each in (None, "http", None, "auto", "shim")] == [
        *("shim", "http", "http", "shim", "shim"),
    ]

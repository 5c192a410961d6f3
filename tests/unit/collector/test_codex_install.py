"""Hooks of ours in Codex's files: trusted by Codex, beside the user's own, and gone without a trace."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adsum.hooks import setups_for
from adsum_collector import shim
from adsum_collector.agents.codex import agent
from adsum_collector.agents.codex.agent import (
    SHORT,
    Codex,
    active_plugin,
    events_for,
    group_for,
    inspect_hooks,
    install_hooks,
    remove_hooks,
)
from adsum_collector.agents.codex.trust import moved, place, trust
from adsum_collector.agents.installer import Installation, SettingsError, Target, Version
from tests import fake_codex

NEW: Version = (0, 169, 0)
MINE = {"type": "command", "command": "notify-send done"}
CONFIG = b'# mine\nmodel = "gpt-5.5"   # the usual\n\n[projects."/src"]\ntrust_level = "trusted"\n'


@pytest.fixture
def wanted(tmp_path: Path) -> Installation:
    """An install into a home that has nothing yet."""
    home, state = tmp_path / "codex", tmp_path / "state"
    home.mkdir()
    target = Target(0, "", sys.executable, Path(shim.__file__), state / "collector.sock")
    program = fake_codex.program(tmp_path / "bin")
    return Installation(home / "hooks.json", state, target, NEW, program=program)


def tell(monkeypatch: pytest.MonkeyPatch, **told: Any) -> None:
    monkeypatch.setenv("FAKE_CODEX", json.dumps(told))


def config_of(wanted: Installation) -> Path:
    return wanted.path.with_name("config.toml")


def elsewhere(wanted: Installation) -> Installation:
    """Of another Python: the hooks are others, which nobody trusts yet."""
    return replace(wanted, target=replace(wanted.target, python="/usr/bin/python3"))


def write(wanted: Installation, **events: list[dict[str, Any]]) -> None:
    groups = {event: [{"hooks": [hook]} for hook in hooks] for event, hooks in events.items()}
    wanted.path.write_text(json.dumps({"hooks": groups}, indent=1))


def trusted(wanted: Installation) -> dict[str, str]:
    """What Codex thinks of each hook, by its place."""
    (folder,) = fake_codex.listed(wanted.path.parent)["data"]
    return {each["key"].partition(".json:")[2]: each["trustStatus"] for each in folder["hooks"]}


@pytest.mark.parametrize("config", [None, b"", CONFIG, CONFIG.replace(b"\n", b"\r\n"), CONFIG[:-1]])
@pytest.mark.parametrize(
    "hooks", [None, b"", b"{}\n", b'{"hooks": {"Stop": []}, "description": "x"}']
)
def test_install_then_remove_restores_both_files_to_the_byte(
    wanted: Installation, config: bytes | None, hooks: bytes | None
) -> None:
    for path, raw in ((wanted.path, hooks), (config_of(wanted), config)):
        if raw is not None:
            path.write_bytes(raw)

    assert install_hooks(wanted).trusted == 13
    assert inspect_hooks(wanted.path).untrusted == ()
    remove_hooks(wanted.path, wanted.state_dir, dry_run=False)

    for path, raw in ((wanted.path, hooks), (config_of(wanted), config)):
        assert (path.read_bytes() if path.exists() else None) == raw


def test_exactly_our_own_entries_are_trusted(wanted: Installation) -> None:
    write(wanted, Stop=[MINE], PostToolUse=[MINE])
    install_hooks(wanted)

    held = trusted(wanted)
    assert (held.pop("stop:0:0"), held.pop("post_tool_use:0:0")) == ("untrusted", "untrusted")
    assert set(held.values()) == {"trusted"}
    assert len(held) == 13


def test_a_second_install_changes_nothing(wanted: Installation) -> None:
    install_hooks(wanted)
    before = wanted.path.read_bytes(), config_of(wanted).read_bytes()
    assert not install_hooks(wanted).needed
    assert (wanted.path.read_bytes(), config_of(wanted).read_bytes()) == before


def test_hooks_that_are_trusted_no_more_are_trusted_by_the_next_install(
    wanted: Installation,
) -> None:
    install_hooks(wanted)
    config_of(wanted).unlink()
    assert "Stop" in inspect_hooks(wanted.path).untrusted

    assert install_hooks(wanted).needed

    assert inspect_hooks(wanted.path).untrusted == ()


def test_another_python_is_trusted_anew_and_leaves_nothing(wanted: Installation) -> None:
    config_of(wanted).write_bytes(CONFIG)
    install_hooks(wanted)
    config_of(wanted).write_text(config_of(wanted).read_text() + "\n[tui]\nx = 1\n")
    install_hooks(elsewhere(wanted))
    assert set(trusted(wanted).values()) == {"trusted"}

    remove_hooks(wanted.path, wanted.state_dir, dry_run=False)

    assert config_of(wanted).read_bytes() == CONFIG + b"\n[tui]\nx = 1\n"


def test_the_users_hook_behind_ours_stays_trusted_when_ours_go(wanted: Installation) -> None:
    write(wanted, Stop=[MINE])
    install_hooks(wanted)
    held = json.loads(wanted.path.read_text())
    held["hooks"]["Stop"].append({"hooks": [{**MINE, "command": "another"}]})
    wanted.path.write_text(json.dumps(held))
    config, home = config_of(wanted), wanted.path.parent
    hooks = {each["key"]: each for each in fake_codex.listed(home)["data"][0]["hooks"]}
    third = hooks[f"{wanted.path}:stop:2:0"]
    fake_codex.write(home, [{"value": {third["key"]: {"trusted_hash": third["currentHash"]}}}])

    remove_hooks(wanted.path, wanted.state_dir, dry_run=False)

    assert trusted(wanted) == {"stop:0:0": "untrusted", "stop:1:0": "trusted"}
    assert config.read_text().count("trusted_hash") == 1


@pytest.mark.parametrize(
    "told",
    [
        {"warns": ["loading hooks from both"]},
        {"refuses": "config/batchWrite"},
        {"refuses": "hooks/list"},
    ],
)
def test_where_codex_warns_or_refuses_both_files_stay(
    wanted: Installation, monkeypatch: pytest.MonkeyPatch, told: dict[str, Any]
) -> None:
    write(wanted, Stop=[MINE])
    config_of(wanted).write_bytes(CONFIG)
    before = wanted.path.read_bytes()
    tell(monkeypatch, **told)

    with pytest.raises(SettingsError, match=r"loading hooks from both|as told"):
        install_hooks(wanted)

    assert wanted.path.read_bytes() == before
    assert config_of(wanted).read_bytes() == CONFIG


def test_an_install_that_fails_over_another_leaves_its_hooks_trusted_and_removable(
    wanted: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_of(wanted).write_bytes(CONFIG)
    install_hooks(wanted)
    before = wanted.path.read_bytes(), config_of(wanted).read_bytes()
    tell(monkeypatch, refuses="config/batchWrite")

    with pytest.raises(SettingsError, match="as told"):
        install_hooks(elsewhere(wanted))

    assert (wanted.path.read_bytes(), config_of(wanted).read_bytes()) == before
    assert set(trusted(wanted).values()) == {"trusted"}
    remove_hooks(wanted.path, wanted.state_dir, dry_run=False)
    assert not wanted.path.exists()
    assert config_of(wanted).read_bytes() == CONFIG


def test_an_install_that_is_interrupted_leaves_no_file_of_its_own(
    wanted: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*asked: Any) -> None:
        trust(*asked)
        raise KeyboardInterrupt

    monkeypatch.setattr(agent, "trust", interrupted)

    with pytest.raises(KeyboardInterrupt):
        install_hooks(wanted)

    assert not wanted.path.exists()
    assert not config_of(wanted).exists()
    assert not [*(wanted.state_dir / "hooks").glob("*.json")]


def test_without_its_program_nothing_is_written(wanted: Installation, tmp_path: Path) -> None:
    for program in (None, tmp_path / "absent"):
        with pytest.raises(SettingsError):
            install_hooks(replace(wanted, program=program))
        assert not wanted.path.exists()


def test_an_older_codex_is_refused(wanted: Installation) -> None:
    with pytest.raises(SettingsError, match=r"0\.130 and newer"):
        install_hooks(replace(wanted, version=(0, 129, 3)))


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        (
            (0, 130, 0),
            {"SessionEnd", "SubagentStart", "SubagentStop", "Interrupt", "PostModelRequest"},
        ),
        ((0, 145, 0), {"Interrupt", "PostModelRequest"}),
        ((0, 150, 0), {"PostModelRequest"}),
        (NEW, set()),
    ],
)
def test_only_events_that_the_version_has_are_hooked(version: Version, lacks: set[str]) -> None:
    assert set(events_for(NEW)) - set(events_for(version)) == lacks


def test_hooks_wait_for_nothing_but_what_codex_waits_for_anyway(wanted: Installation) -> None:
    for event in events_for(NEW):
        (hook,) = group_for(event, wanted.target, NEW)["hooks"]
        assert hook.get("async", False) == (event != "SessionEnd")
        assert (hook["timeout"] == 3) == (event in SHORT)
        (old,) = group_for(event, wanted.target, (0, 147, 0))["hooks"]
        assert "async" not in old  # it would be skipped


@pytest.mark.parametrize("gone", ["python", "shim", "socket"])
def test_a_hook_whose_parts_are_gone_ends_well_and_says_nothing(
    wanted: Installation, tmp_path: Path, gone: str
) -> None:
    target = replace(wanted.target, **({gone: tmp_path / "gone"} if gone == "shim" else {}))
    if gone == "python":
        target = replace(target, python=str(tmp_path / "gone"))
    (hook,) = group_for("Stop", target, NEW)["hooks"]

    done = subprocess.run(
        ["bash", "-c", hook["command"]], input=b"{}", capture_output=True, timeout=10, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("said", ["hooks = false", "hooks = true"])
def test_hooks_that_are_switched_off_are_said(wanted: Installation, said: str) -> None:
    install_hooks(wanted)
    with config_of(wanted).open("a") as file:
        file.write(f"\n[features]\n{said}\n")
    assert bool(inspect_hooks(wanted.path).faults()) == (said == "hooks = false")


@pytest.mark.parametrize("broken", ["{", "[]", '{"hooks": []}', '{"hooks": {}, "hooks": {}}'])
def test_broken_hooks_are_left_as_they_are(wanted: Installation, broken: str) -> None:
    wanted.path.write_text(broken)
    with pytest.raises(SettingsError, match=r"hooks\.json"):
        install_hooks(wanted)
    assert wanted.path.read_text() == broken


def test_entries_that_somebody_wrote_otherwise_stay(tmp_path: Path) -> None:
    file = tmp_path / "hooks.json"
    inline = f'hooks.state = {{ "{file}:stop:0:0" = {{ trusted_hash = "x" }} }}\n'
    assert moved(inline, file, {"stop:0:0": None}) == inline
    quoted = f"text = '''\n[hooks.state.\"{file}:stop:0:0\"]\n'''\n"
    assert moved(quoted, file, {"stop:0:0": None}) == quoted
    other = '[hooks.state."/other/hooks.json:stop:0:0"]\ntrusted_hash = "x"\n'
    assert moved(other, file, {"stop:0:0": None}) == other


def test_a_header_that_other_entries_need_stays(tmp_path: Path) -> None:
    file = tmp_path / "hooks.json"
    mine = f'[hooks.state]\n\n[hooks.state."{file}:stop:0:0"]\ntrusted_hash = "x"\n'
    ours = f'\n[hooks.state."{file}:stop:1:0"]\ntrusted_hash = "y"\n'
    assert moved(mine + ours, file, {"stop:1:0": None}) == mine
    assert moved(mine + ours, file, {"stop:1:0": None, "stop:0:0": None}) == ""


@pytest.mark.parametrize("trusted", [True, False])
def test_a_plugin_reports_once_it_is_trusted(wanted: Installation, trusted: bool) -> None:
    home = wanted.path.parent
    assert active_plugin(home) is None
    copy = home / "plugins" / "cache" / "market" / "adsum" / "0.1.0" / "hooks" / "codex.json"
    copy.parent.mkdir(parents=True)
    groups = {event: [group_for(event, wanted.target, NEW)] for event in events_for(NEW)}
    copy.write_text(json.dumps({"hooks": groups}))
    keys = [f"adsum@market:hooks/codex.json:{place(event, 0, 0)}" for event in groups]
    said = "".join(f'[hooks.state."{key}"]\ntrusted_hash = "x"\n' for key in keys * trusted)
    config_of(wanted).write_text(f'[plugins."adsum@market"]\nenabled = true\n{said}')

    plugin = active_plugin(home)

    assert plugin is not None
    fault = plugin.fault(NEW)
    assert (fault is None) == trusted
    assert trusted or "not trusted" in fault[0]
    assert "is for Codex" in plugin.fault((0, 145))[0]


def test_each_home_has_hooks_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    one, other, absent = tmp_path / "one", tmp_path / "other", tmp_path / "absent"
    one.mkdir()
    other.mkdir()
    monkeypatch.setenv("ADSUM_CODEX_DIRS", f"{one}:{other}:{absent}")

    setups = setups_for("user", tmp_path / "state", agent="codex")

    assert [each.path for each in setups] == [one / "hooks.json", other / "hooks.json"]
    assert len({each.parked for each in setups}) == 2


@pytest.mark.parametrize("there", ["nothing", "directory", "program", "both"])
def test_an_agent_is_meant_only_where_it_is_and_the_default_one_where_none_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    if there in ("directory", "both"):
        (tmp_path / ".codex").mkdir()
    if there == "both":
        (tmp_path / ".claude").mkdir()
    if there == "program":
        fake_codex.program(tmp_path / "bin")

    names = [each.agent.name for each in setups_for("user", tmp_path / "state")]

    alone = {"nothing": ["claude_code"], "both": ["claude_code", "codex"]}
    assert names == alone.get(there, ["codex"])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "http://x"}]}]}}', 'type "http"'),
        ('{"hooks": {}, "mine": 1}', 'key "mine"'),
    ],
)
def test_a_file_that_codex_skips_whole_is_told_and_left_alone(
    tmp_path: Path, text: str, named: str
) -> None:
    path = tmp_path / "hooks.json"
    path.write_text(text)

    told = Codex().look_at_hooks(path, 0)

    assert told.state == "trouble"
    assert named in (told.note or "")
    assert named in inspect_hooks(path).faults()[0]
    assert path.read_text() == text

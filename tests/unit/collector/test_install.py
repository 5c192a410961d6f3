"""Hooks in the user's settings: nothing of theirs changes, and removal restores every byte."""

from __future__ import annotations

import json
import re
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adsum_collector.agents import settings_file
from adsum_collector.agents.claude_code.agent import (
    inspect_hooks,
    install_hooks,
    project_settings,
    remove_hooks,
    settings_files,
)
from adsum_collector.agents.claude_code.settings_text import (
    ASSUMED,
    added,
    events_for,
    is_ours,
    stripped,
)
from adsum_collector.agents.installer import Installation, SettingsError, Target, Version

NEW: Version = (2, 1, 330)
OLD: Version = (2, 1, 112)
MINE = {"type": "command", "command": "notify-send done"}


@pytest.fixture
def target(tmp_path: Path) -> Target:
    shim = Path("/opt/adsum/adsum_collector/shim.py")
    return Target(
        47892, "secret-token", "/usr/bin/python3", shim, tmp_path / "collector.sock", "http"
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "claude"
    folder.mkdir()
    return folder / "settings.json"


SHAPES = {
    "empty file": b"",
    "blank file": b" \n\n",
    "empty object": b"{}",
    "empty object with a newline": b"{}\n",
    "open empty object": b"{\n}\n",
    "one line": b'{"model": "opus", "env": {"A": "1"}}',
    "no newline at the end": b'{\n  "model": "opus"\n}',
    "tabs": b'{\n\t"model": "opus",\n\t"env": {\n\t\t"A": "1"\n\t}\n}\n',
    "four spaces": b'{\n    "model": "opus"\n}\n',
    "CRLF": b'{\r\n  "model": "opus"\r\n}\r\n',
    "byte order mark": b'\xef\xbb\xbf{\n  "model": "opus"\n}\n',
    "empty hooks": b'{\n  "hooks": {}\n}\n',
    "open empty hooks": b'{\n  "hooks": {\n  },\n  "model": "opus"\n}\n',
    "hooks first": b'{\n  "hooks": {\n    "Stop": []\n  },\n  "model": "opus"\n}\n',
    "odd spacing": b'{ "b" :1 ,\n   "a":[1,  2,3] , "hooks" : { "Stop" : [ ] } }\n\n',
    "own hooks inline": (
        b'{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": '
        b'[{"type": "command", "command": "x"}]}]}}'
    ),
    "unicode and escapes": '{\n  "ä": "\\u00e4 ☃ \\ud83d\\ude00",\n  "n": 1e5\n}\n'.encode(),
    "huge number": b'{\n  "n": ' + b"9" * 6000 + b"\n}\n",
    "allow list": b'{\n  "allowedHttpHookUrls": [\n    "https://x.example/*"\n  ]\n}\n',
    "empty allow list": b'{\n  "allowedHttpHookUrls": []\n}\n',
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("version", [OLD, NEW])
def test_install_then_remove_restores_every_byte(
    shape: str, version: Version, path: Path, state: Path, target: Target
) -> None:
    path.write_bytes(SHAPES[shape])
    install_hooks(Installation(path, state, target, version))
    settings = json.loads(path.read_bytes().decode("utf-8-sig"), parse_int=float)
    assert {"PreToolUse", "SessionEnd"} <= set(settings["hooks"])
    remove_hooks(path, state)
    assert path.read_bytes() == SHAPES[shape]


#: Empty brackets can only be told from brackets of ours by the receipt.
PLAIN = set(SHAPES) - {"hooks first", "odd spacing"}


@pytest.mark.parametrize("shape", sorted(s for s in PLAIN if "empty" not in s and "blank" not in s))
def test_remove_is_exact_without_a_receipt_where_nothing_was_empty(
    shape: str, tmp_path: Path, path: Path, state: Path, target: Target
) -> None:
    path.write_bytes(SHAPES[shape])
    install_hooks(Installation(path, state, target, NEW))
    remove_hooks(path, tmp_path / "another state")
    assert path.read_bytes() == SHAPES[shape]


def test_without_a_file_one_is_made_and_unmade_with_its_folder(
    tmp_path: Path, state: Path, target: Target
) -> None:
    path = tmp_path / "home" / ".claude" / "settings.json"
    path.parent.parent.mkdir()
    install_hooks(Installation(path, state, target, NEW))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    remove_hooks(path, state)
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("shape", "style"), [("CRLF", r"(  )*[^\s].*\r"), ("tabs", r"\t*[^\s].*"), ("one line", r".*")]
)
def test_what_is_added_follows_the_files_own_style(
    shape: str, style: str, path: Path, state: Path, target: Target
) -> None:
    path.write_bytes(SHAPES[shape])
    install_hooks(Installation(path, state, target, NEW))
    lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    assert all(re.fullmatch(style, line) for line in lines)
    assert len(lines) == 1 if shape == "one line" else len(lines) > 100


def test_install_twice_changes_nothing(path: Path, state: Path, target: Target) -> None:
    path.write_bytes(SHAPES["tabs"])
    install_hooks(Installation(path, state, target, NEW))
    once = path.read_bytes()
    assert not install_hooks(Installation(path, state, target, NEW)).needed
    assert path.read_bytes() == once


def test_install_over_an_older_install_replaces_it_and_still_restores_the_original(
    path: Path, state: Path, target: Target
) -> None:
    path.write_bytes(SHAPES["open empty hooks"])
    install_hooks(Installation(path, state, target, OLD))
    moved = Target(50000, "other", target.python, target.shim, target.socket, "http")
    install_hooks(Installation(path, state, moved, NEW))
    report = inspect_hooks(path)
    assert report.ports == {50000}
    assert report.doubled == []
    assert "Stop" not in report.counts
    remove_hooks(path, state)
    assert path.read_bytes() == SHAPES["open empty hooks"]


def test_the_users_own_hooks_on_the_same_event_stay_first_and_in_order(
    path: Path, state: Path, target: Target
) -> None:
    own = [{"matcher": "Bash", "hooks": [MINE]}, {"hooks": [MINE, {**MINE, "timeout": 5}]}]
    path.write_text(json.dumps({"hooks": {"PreToolUse": own}}, indent=2))
    install_hooks(Installation(path, state, target, NEW))
    groups = json.loads(path.read_text())["hooks"]["PreToolUse"]
    assert groups[:2] == own
    assert [is_ours(hook) for hook in groups[2]["hooks"]] == [True]


def test_hooks_the_user_added_after_ours_survive_the_removal(
    path: Path, state: Path, target: Target
) -> None:
    install_hooks(Installation(path, state, target, NEW))
    settings = json.loads(path.read_text())
    settings["hooks"]["PreToolUse"][0]["hooks"].append(MINE)
    settings["hooks"]["SessionEnd"].append({"hooks": [MINE]})
    path.write_text(json.dumps(settings, indent=2))
    remove_hooks(path, state)
    own = {"hooks": [MINE]}
    assert json.loads(path.read_text()) == {"hooks": {"PreToolUse": [own], "SessionEnd": [own]}}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{\n  "a": 1,\n  // mine\n  "b": 2\n}', "line 3, column 3: a comment"),
        ('{\n  "a": 1,\n}', "line 3, column 1: a comma with nothing after it"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: Expecting ',' delimiter"),
        ('{"a": "NaN", "b": NaN}', "line 1, column 19: NaN is not JSON"),
        ('{"a": 1} x', "line 1, column 10: Extra data"),
        ('{"a": "tab\there"}', "line 1, column 11: Invalid control character"),
        ("{'a': 1}", "line 1, column 2: Expecting property name"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place_and_left_alone(
    text: str, where: str, path: Path, state: Path, target: Target
) -> None:
    path.write_text(text)
    for attempt in (
        lambda: install_hooks(Installation(path, state, target, NEW)),
        lambda: remove_hooks(path, state),
        lambda: inspect_hooks(path),
    ):
        with pytest.raises(SettingsError, match=r"settings\.json, line") as refused:
            attempt()
        assert where in str(refused.value)
    assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    ["[]", "3", '{"hooks": []}', '{"hooks": null}', '{"hooks": {"Stop": {}}}', "[" * 100_000],
)
def test_valid_json_of_another_shape_is_refused(
    text: str, path: Path, state: Path, target: Target
) -> None:
    path.write_text(text)
    with pytest.raises(SettingsError, match="left as it is"):
        install_hooks(Installation(path, state, target, NEW))
    assert path.read_text() == text


def test_a_key_that_stands_twice_is_refused(path: Path, state: Path, target: Target) -> None:
    path.write_text('{"hooks": {}, "a": 1, "hooks": {}}')
    with pytest.raises(SettingsError, match='"hooks" stands twice'):
        install_hooks(Installation(path, state, target, NEW))


def test_what_is_not_utf8_is_refused_with_its_line(path: Path, state: Path, target: Target) -> None:
    path.write_bytes(b'{\n  "a": "\xff"\n}')
    with pytest.raises(SettingsError, match="line 2: not UTF-8"):
        install_hooks(Installation(path, state, target, NEW))


def test_a_read_only_file_is_respected(path: Path, state: Path, target: Target) -> None:
    path.write_bytes(b"{}")
    path.chmod(0o444)
    with pytest.raises(SettingsError, match=r"read-only.*chmod u"):
        install_hooks(Installation(path, state, target, NEW))
    assert path.read_bytes() == b"{}"


def test_mode_and_symlink_are_kept(path: Path, state: Path, target: Target) -> None:
    real = path.parent.parent / "dotfiles.json"
    real.write_bytes(b'{"a": 1}')
    real.chmod(0o640)
    path.symlink_to(real)
    install_hooks(Installation(path, state, replace(target, transport="shim"), NEW))
    assert path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert b"PreToolUse" in real.read_bytes()
    remove_hooks(path, state)
    assert real.read_bytes() == b'{"a": 1}'


def test_a_file_that_is_given_a_token_is_closed_and_opened_again_without_it(
    path: Path, state: Path, target: Target
) -> None:
    path.write_bytes(b'{"a": 1}')
    path.chmod(0o644)
    assert install_hooks(Installation(path, state, target, NEW)).closes
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not install_hooks(Installation(path, state, target, NEW)).needed
    remove_hooks(path, state)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.read_bytes() == b'{"a": 1}'


def test_the_mode_comes_back_as_well_where_hooks_are_no_longer_posted(
    path: Path, state: Path, target: Target
) -> None:
    path.write_bytes(b"{}")
    path.chmod(0o664)
    install_hooks(Installation(path, state, target, NEW))
    install_hooks(Installation(path, state, replace(target, transport="shim"), NEW))
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    assert "Bearer" not in path.read_text()


def test_hooks_of_before_in_a_file_that_others_read_are_closed_by_the_next_install(
    path: Path, state: Path, target: Target
) -> None:
    install_hooks(Installation(path, state, target, NEW))
    path.chmod(0o644)
    change = install_hooks(Installation(path, state, target, NEW))
    assert (change.needed, change.closes, change.before == change.after) == (True, True, True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_mode_that_was_changed_since_is_left(path: Path, state: Path, target: Target) -> None:
    path.write_bytes(b"{}")
    path.chmod(0o644)
    install_hooks(Installation(path, state, target, NEW))
    path.chmod(0o700)
    remove_hooks(path, state)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_backup_is_kept_beside_the_file_and_only_a_few(
    path: Path, state: Path, target: Target
) -> None:
    path.write_bytes(b'{"a": 1}')
    path.chmod(0o600)
    first = install_hooks(Installation(path, state, target, NEW))
    assert first.backup is not None
    assert first.backup.read_bytes() == b'{"a": 1}'
    assert stat.S_IMODE(first.backup.stat().st_mode) == 0o600
    for _ in range(3):
        remove_hooks(path, state)
        install_hooks(Installation(path, state, target, NEW))
    assert len(list(path.parent.glob("settings.json.adsum-backup-*"))) == 3
    assert first.backup.read_bytes() == b'{"a": 1}', "the first is kept"
    assert list(path.parent.glob("*.tmp")) == []


def test_a_backup_is_for_its_owner_alone_whatever_the_file_allows(
    path: Path, state: Path, target: Target
) -> None:
    path.write_bytes(b'{"a": 1}')
    path.chmod(0o644)
    backup = install_hooks(Installation(path, state, target, NEW)).backup
    assert backup is not None
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600


def test_no_backup_keeps_our_token_and_every_one_keeps_the_users(
    path: Path, state: Path, target: Target
) -> None:
    own = {"type": "http", "url": "https://x.example", "headers": {"Authorization": "Bearer mine"}}
    path.write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [own]}]}}))
    install_hooks(Installation(path, state, target, NEW))
    install_hooks(Installation(path, state, replace(target, token="another-token"), NEW))
    remove_hooks(path, state)
    backups = [each.read_text() for each in path.parent.glob("*.adsum-backup-*")]
    assert len(backups) == 3
    for backup in backups:
        assert "secret-token" not in backup
        assert "another-token" not in backup
        assert json.loads(backup)["hooks"]["PreToolUse"][0]["hooks"] == [own]


@pytest.mark.parametrize(("mode", "shared"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_that_others_can_read_is_noticed(
    mode: int, shared: bool, path: Path, state: Path, target: Target
) -> None:
    assert not inspect_hooks(path).shared
    install_hooks(Installation(path, state, target, NEW))
    path.chmod(mode)
    assert inspect_hooks(path).shared is shared


def test_a_hook_of_ours_with_odd_headers_is_removed_all_the_same(
    path: Path, state: Path, target: Target
) -> None:
    hook = {"type": "http", "url": target.url, "headers": "none"}
    path.write_text(json.dumps({"a": "", "hooks": {"PreToolUse": [{"hooks": [hook]}]}}))
    change = remove_hooks(path, state)
    assert json.loads(path.read_text()) == {"a": ""}
    assert change.backup is not None
    assert json.loads(change.backup.read_text())["a"] == ""


def test_a_dry_run_shows_the_change_without_the_token_and_writes_nothing(
    path: Path, state: Path, target: Target
) -> None:
    path.write_bytes(b'{\n  "a": 1\n}\n')
    diff = install_hooks(Installation(path, state, target, NEW, dry_run=True)).diff()
    assert '+    "PreToolUse": [' in diff
    assert "secret-token" not in diff
    assert path.read_bytes() == b'{\n  "a": 1\n}\n'
    assert list(path.parent.iterdir()) == [path]


def test_two_installers_at_once_leave_one_set(path: Path, state: Path, target: Target) -> None:
    path.write_bytes(SHAPES["tabs"])
    crowd = [
        threading.Thread(target=install_hooks, args=(Installation(path, state, target, NEW),))
        for _ in range(6)
    ]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert inspect_hooks(path).doubled == []
    remove_hooks(path, state)
    assert path.read_bytes() == SHAPES["tabs"]


def test_an_allow_list_gets_our_address_only_if_it_does_not_permit_it(
    path: Path, state: Path, target: Target
) -> None:
    path.write_text('{"allowedHttpHookUrls": ["https://x.example/*"]}')
    install_hooks(Installation(path, state, target, NEW))
    assert target.url in json.loads(path.read_text())["allowedHttpHookUrls"]
    assert not inspect_hooks(path).blocked
    remove_hooks(path, state)
    path.write_text('{"allowedHttpHookUrls": ["http://127.0.0.1:*"]}')
    install_hooks(Installation(path, state, target, NEW))
    assert json.loads(path.read_text())["allowedHttpHookUrls"] == ["http://127.0.0.1:*"]


def test_status_names_what_is_doubled_missing_disabled_and_blocked(
    path: Path, state: Path, target: Target
) -> None:
    install_hooks(Installation(path, state, target, NEW))
    settings = json.loads(path.read_text())
    settings["hooks"]["SessionEnd"] *= 2
    del settings["hooks"]["PreToolUse"]
    settings |= {"disableAllHooks": True, "allowedHttpHookUrls": []}
    path.write_text(json.dumps(settings))
    report = inspect_hooks(path)
    assert report.doubled == ["SessionEnd"]
    assert report.missing(NEW) == ["PreToolUse"]
    assert report.disabled
    assert report.blocked


def test_a_version_that_cannot_post_hooks_is_refused(
    path: Path, state: Path, target: Target
) -> None:
    with pytest.raises(SettingsError, match=r"2\.1\.62 cannot post hooks.*Upgrade"):
        install_hooks(Installation(path, state, target, (2, 1, 62)))
    assert not path.exists()


def test_a_receipt_that_is_damaged_is_ignored(path: Path, state: Path, target: Target) -> None:
    path.write_bytes(SHAPES["tabs"])
    install_hooks(Installation(path, state, target, NEW))
    for receipt in (state / "hooks").glob("*.json"):
        receipt.write_text("{broken")
    remove_hooks(path, state)
    assert path.read_bytes() == SHAPES["tabs"]


@pytest.mark.parametrize("ends", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_install_that_fails_leaves_the_receipt_of_the_one_before(
    ends: BaseException, path: Path, state: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(SHAPES["empty hooks"])
    install_hooks(Installation(path, state, target, NEW))
    before, write = path.read_bytes(), settings_file.write_private

    def fails(to: Path, content: bytes, **how: Any) -> None:
        if to == path:
            raise ends
        write(to, content, **how)

    monkeypatch.setattr(settings_file, "write_private", fails)
    with pytest.raises((SettingsError, KeyboardInterrupt)):
        install_hooks(Installation(path, state, replace(target, port=1), NEW))

    assert path.read_bytes() == before
    monkeypatch.undo()
    remove_hooks(path, state)
    assert path.read_bytes() == SHAPES["empty hooks"]


def test_the_state_folder_that_cannot_be_made_is_named(path: Path, target: Target) -> None:
    blocker = path.parent / "file"
    blocker.write_text("")
    with pytest.raises(SettingsError, match="ADSUM_STATE_DIR"):
        install_hooks(Installation(path, blocker / "state", target, NEW))


def test_the_project_file_lies_at_the_root_of_the_repository(tmp_path: Path) -> None:
    deep = tmp_path / "repo" / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    found = project_settings(deep)
    assert found == tmp_path / "repo" / ".claude" / "settings.local.json"


def test_below_the_root_both_local_files_and_the_folders_own_shared_file_apply(
    tmp_path: Path,
) -> None:
    root, below = tmp_path / "repo", tmp_path / "repo" / "below"
    (root / ".git").mkdir(parents=True)
    assert settings_files(tmp_path / "user", below).project == (
        root / ".claude" / "settings.local.json",
        below / ".claude" / "settings.local.json",
        below / ".claude" / "settings.json",
    )
    assert settings_files(tmp_path / "user", root).project == (
        root / ".claude" / "settings.local.json",
        root / ".claude" / "settings.json",
    )


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=6)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
own_hook = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=5)})
own_group = st.fixed_dictionaries({"hooks": st.lists(own_hook, min_size=1, max_size=2)})
own_hooks = st.dictionaries(
    st.sampled_from([*events_for(ASSUMED), "WorktreeCreate", "Own"]),
    st.lists(own_group, min_size=1, max_size=2),
    min_size=1,
    max_size=4,
)
#: What json.dumps can lay out differently, as people's editors do.
layouts = st.sampled_from([None, 1, 2, 4, "\t"])


@pytest.mark.core
@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text(max_size=4).filter(lambda k: k != "hooks"), values, max_size=4),
    own_hooks | st.none(),
    layouts,
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([OLD, NEW]),
)
def test_any_settings_survive_install_and_removal(
    rest: dict[str, Any], own: Any, layout: Any, newline: str, version: Version
) -> None:
    whole = rest | ({"hooks": own} if own else {})
    text = json.dumps(whole, indent=layout, ensure_ascii=False).replace("\n", newline)
    shim = Path("/x/adsum_collector/shim.py")
    target = Target(1, "t", "python3", shim, Path("/s"), "http")
    with_ours = added(text, target, version)
    parsed = json.loads(with_ours)
    ours = {event for event, groups in parsed["hooks"].items() if is_ours(groups[-1]["hooks"][0])}
    assert ours == set(events_for(version, frozenset(own or {})))
    assert {key: value for key, value in parsed.items() if key != "hooks"} == rest
    assert stripped(with_ours) == text

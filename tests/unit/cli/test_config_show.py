"""`adsum config show`: every setting there is, where each comes from, and no secret among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adsum.config import Setting, every_setting, read_file, show_config
from adsum.outcome import CommandError, Exit
from adsum_shared.settings import KNOWN


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HUB_PORT", "STATE_DIR", "REDIS_URL", "CHANNEL", "TOKEN", "HUB_URL", "BUDGETS"):
        monkeypatch.delenv(f"ADSUM_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "adsum").mkdir()
    return tmp_path


def written(home: Path, text: str) -> Path:
    file = home / "adsum" / "config.toml"
    file.write_text(text)
    return file


def listed(
    monkeypatch: pytest.MonkeyPatch,
    file: Path = Path("/nowhere"),
    flags: dict[str, Any] | None = None,
    **environ: str,
) -> dict[str, Setting]:
    given = {f"ADSUM_{name.upper()}": value for name, value in environ.items()}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return {each.name: each for each in every_setting(flags or {}, given, read_file(file), file)}


def test_every_known_setting_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(monkeypatch).keys() >= KNOWN


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(home, 'hub_port = 1001\ncollector_port = 1002\nlog_level = "debug"\n')
    flags = {"state_dir": home / "here"}
    found = listed(monkeypatch, file, flags, hub_port="1003", state_dir="/elsewhere")
    told = {
        name: (found[name].value, found[name].origin)
        for name in ("state_dir", "hub_port", "collector_port", "spool_cap_mb")
    }
    assert told == {
        "state_dir": (str(home / "here"), "flag"),
        "hub_port": (1003, "env"),
        "collector_port": (1002, "file"),
        "spool_cap_mb": (512, "default"),
    }
    assert (found["hub_port"].source, found["log_level"].source) == ("ADSUM_HUB_PORT", str(file))


def test_no_secret_is_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(
        home,
        'redis_url = "redis://me:hunter22@example.net/0"\n'
        '[[channel]]\nname = "team"\nurl = "tgram://hunter22/1"\n',
    )
    monkeypatch.setenv("ADSUM_TOKEN", "hunter22hunter22")
    for as_json in (True, False):
        assert show_config({}, origin=True, as_json=as_json) == Exit.OK
        out = capsys.readouterr().out
        assert "hunter22" not in out
        assert "redis://example.net:6379" in out
        assert "(set, not shown)" in out


def test_a_torn_redis_url_is_not_shown_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = listed(monkeypatch, redis_url="redis://me:hunt/er22@example.net")
    assert "er22" not in str(found["redis_url"].value)


def test_what_cannot_be_used_is_told_with_its_variable_and_without_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ADSUM_HUB_PORT", "ninety")
    with pytest.raises(CommandError, match=r"ADSUM_HUB_PORT: .*integer") as wrong:
        show_config({}, origin=False, as_json=True)
    assert wrong.value.code == Exit.USAGE
    told = {each["name"]: each for each in json.loads(capsys.readouterr().out)["settings"]}
    assert "problem" in told["hub_port"]
    # The others of that part are shown as they stand.
    assert told["hub_host"]["value"] == "127.0.0.1"


def test_an_unknown_name_in_the_file_is_a_usage_error(home: Path) -> None:
    with pytest.raises(CommandError, match="hub_prt") as wrong:
        read_file(written(home, "hub_prt = 1\n"))
    assert wrong.value.code == Exit.USAGE
    with pytest.raises(CommandError, match="not TOML"):
        read_file(written(home, "hub_port = \n"))


def test_json_carries_a_schema_number_and_the_file(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_config({}, origin=False, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["file_exists"]) == (1, False)
    assert told["file"] == str(home / "adsum" / "config.toml")

"""`adsum doctor --bundle`: what is in it, and that no secret is."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from adsum.doctor.checks import Finding
from adsum.doctor.doctor import write_bundle
from adsum.outcome import CommandError
from tests.hubs import stand_in_hub

FINDING = Finding("redis", "fail", "redis://me:hunter22@example.net says no.")


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ADSUM_TOKEN", "hunter22hunter22")
    monkeypatch.setenv("ADSUM_REDIS_URL", "redis://me:hunter22@example.net")
    logs = tmp_path / "state" / "logs"
    logs.mkdir(parents=True)
    said = f"token=hunter22hunter22\n{tmp_path}/project\n"
    (logs / "hub.log").write_text("old\n" * 5000 + said)
    return tmp_path / "state"


def test_a_bundle_holds_what_helps_and_no_secret(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "told.tar.gz"
    with stand_in_hub() as hub:
        write_bundle(file, [FINDING], hub.url, state_dir)
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        held = {each.name: archive.extractfile(each).read().decode() for each in archive}  # type: ignore[union-attr]
    names = {name.removeprefix("told/") for name in held}
    assert names == {
        *("about.json", "doctor.json", "settings.json", "readyz-hub.json"),
        *("readyz-collector.json", "hosts.json", "logs/hub.log"),
    }
    for name, text in held.items():
        assert "hunter22" not in text, name
        assert str(tmp_path) not in text, name
    assert json.loads(held["told/readyz-hub.json"])["ready"] is True
    assert held["told/logs/hub.log"].count("\n") == 2000
    assert "~/project" in held["told/logs/hub.log"]
    listed = capsys.readouterr().err
    assert all(name in listed for name in names)


def test_what_cannot_be_had_is_told_in_its_place(state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "config" / "adsum").mkdir(parents=True)
    (tmp_path / "config" / "adsum" / "config.toml").write_text("[")
    write_bundle(tmp_path / "a.tar.gz", [], "http://127.0.0.1:9", state_dir)
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        for name in ("settings.json", "hosts.json", "readyz-hub.json", "readyz-collector.json"):
            text = archive.extractfile(f"a/{name}").read()  # type: ignore[union-attr]
            assert "missing" in json.loads(text), name


def test_nothing_is_overwritten(state_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.tar.gz"
    file.write_text("mine")
    with pytest.raises(CommandError, match="there already"):
        write_bundle(file, [], "http://127.0.0.1:9", state_dir)
    assert file.read_text() == "mine"
    with pytest.raises(CommandError, match=r"writes a \.tar\.gz"):
        write_bundle(tmp_path / "a.zip", [], None, state_dir)

"""`adsum upgrade`: which installer, which command, and what the package index answers to --check."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from importlib.metadata import PathDistribution
from pathlib import Path
from zipfile import ZipFile

import pytest

from adsum.outcome import CommandError, Exit
from adsum.upgrade import (
    IMAGE_PREFIX,
    IMAGE_WHEELS,
    InstallMethod,
    installed_copy,
    is_newer,
    newest_release,
    repository,
    show_upgrade,
)
from adsum_shared import __version__

ROOT = Path(__file__).parents[3]
PYTHON = "/env/bin/python"


@dataclass
class LocalIndex:
    """A folder of wheels, which pip and uv take for their only index."""

    folder: Path

    def release(self, version: str) -> None:
        info = f"adsum-{version}.dist-info"
        with ZipFile(self.folder / f"adsum-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: adsum\nVersion: {version}\n"
            )
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalIndex:
    folder = tmp_path / "index"
    folder.mkdir()
    for program in ("PIP", "UV"):
        monkeypatch.setenv(f"{program}_NO_INDEX", "1")
        monkeypatch.setenv(f"{program}_FIND_LINKS", str(folder))
    return LocalIndex(folder)


def package(folder: Path, origin: object = None, installer: str = "pip") -> PathDistribution:
    info = folder / "adsum-0.1.0.dist-info"
    info.mkdir()
    (info / "INSTALLER").write_text(f"{installer}\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))
    return PathDistribution(info)


WHEEL = {"url": "file:///down/adsum-0.1.0-py3-none-any.whl", "archive_info": {}}
GIT = {"url": "https://git.example.net/adsum", "vcs_info": {"vcs": "git", "commit_id": "1"}}
BRANCH = {**GIT, "vcs_info": {"vcs": "git", "commit_id": "1", "requested_revision": "topic"}}


@pytest.mark.parametrize(
    ("installer", "marker", "origin", "method", "command"),
    [
        ("uv", "uv-receipt.toml", None, "uv tool", "uv tool upgrade adsum"),
        ("uv", "uv-receipt.toml", WHEEL, "uv tool", "uv tool install --force adsum"),
        (
            *("uv", "uv-receipt.toml", GIT, "uv tool"),
            "uv tool install --force --reinstall git+https://git.example.net/adsum",
        ),
        ("pip", "pipx_metadata.json", None, "pipx", "pipx upgrade adsum"),
        ("uv", "pipx_metadata.json", WHEEL, "pipx", "pipx install --force adsum"),
        ("pip", "", None, "pip", "/env/bin/python -m pip install --upgrade adsum"),
        ("pip", "", WHEEL, "pip", "/env/bin/python -m pip install --upgrade adsum"),
        (
            *("pip", "", GIT, "pip"),
            "/env/bin/python -m pip install --upgrade --force-reinstall git+https://git.example.net/adsum",
        ),
        (
            *("uv", "uv-receipt.toml", BRANCH, "uv tool"),
            "uv tool install --force --reinstall git+https://git.example.net/adsum@topic",
        ),
        ("uv", "", None, "uv pip", "uv pip install --python /env/bin/python --upgrade adsum"),
    ],
)
def test_each_installer_is_recognised_by_what_it_left(
    tmp_path: Path, installer: str, marker: str, origin: object, method: str, command: str
) -> None:
    if marker:
        (tmp_path / marker).touch()
    copy = installed_copy(package(tmp_path, origin, installer), tmp_path, PYTHON)

    assert (copy.method, copy.command) == (method, command)


def test_an_environment_in_the_cache_of_uv_is_uvxs(tmp_path: Path) -> None:
    prefix = tmp_path / "archive-v0" / "x"
    copy = installed_copy(package(tmp_path, installer="uv"), prefix, PYTHON)

    assert (copy.method, copy.command) == (InstallMethod.UVX, "uvx adsum@latest up")


@pytest.mark.parametrize("is_checkout", [True, False])
def test_a_tool_from_a_folder_is_built_from_it_again(tmp_path: Path, *, is_checkout: bool) -> None:
    folder = tmp_path / "my adsum"
    folder.mkdir()
    if is_checkout:
        (folder / ".git").touch()
    (tmp_path / "uv-receipt.toml").touch()
    origin = {"url": folder.as_uri(), "dir_info": {}}
    copy = installed_copy(package(tmp_path, origin, "uv"), tmp_path, PYTHON)

    source = shlex.quote(str(folder))
    pull = f"git -C {source} pull && " if is_checkout else ""
    assert copy.command == f"{pull}uv tool install --force --reinstall {source}"


def test_a_folder_that_is_gone_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "uv-receipt.toml").touch()
    origin = {"url": (tmp_path / "gone").as_uri(), "dir_info": {}}
    copy = installed_copy(package(tmp_path, origin, "uv"), tmp_path, PYTHON)

    assert copy.command == "uv tool install --force adsum"


def test_an_editable_install_is_a_checkout(tmp_path: Path) -> None:
    (tmp_path / ".git").touch()
    origin = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    copy = installed_copy(package(tmp_path, origin), tmp_path, PYTHON)

    assert copy.method is InstallMethod.CHECKOUT
    assert copy.command == f"git -C {tmp_path} pull && make -C {tmp_path} up"


def test_the_image_is_recognised_by_where_the_dockerfile_installs(tmp_path: Path) -> None:
    recipe = (ROOT / "deploy" / "Dockerfile").read_text()
    origin = {"url": f"file://{IMAGE_WHEELS}adsum-0.1.0-py3-none-any.whl", "archive_info": {}}
    installed = package(tmp_path, origin)

    assert f"install --no-deps --no-index {IMAGE_WHEELS}*.whl" in recipe
    assert f"ENV PATH={IMAGE_PREFIX}/bin:$PATH" in recipe
    assert installed_copy(installed, IMAGE_PREFIX, PYTHON).method is InstallMethod.IMAGE
    assert installed_copy(installed, tmp_path, PYTHON).method is InstallMethod.PIP


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("0.2.0", "0.1.9"),
        ("0.10.0", "0.9.0"),
        ("1.0", "1.0rc1"),
        ("1.0rc2", "1.0rc1"),
        ("1.0.post1", "1.0"),
    ],
)
def test_versions_are_compared_by_number(newer: str, older: str) -> None:
    assert is_newer(newer, older)
    assert not is_newer(older, newer)
    assert not is_newer(newer, newer)


def test_a_newer_release_is_named_with_the_command(
    index: LocalIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    index.release("99.0.0")
    index.release("9.0.0")
    index.release("100.0.0rc1")

    assert show_upgrade(check=True, as_json=False) == Exit.NEEDS_YOU
    printed = capsys.readouterr().out
    assert printed.startswith(f"adsum 99.0.0 is available. Installed: {__version__}, by checkout.")
    assert "\nUpgrade: git -C " in printed

    assert show_upgrade(check=True, as_json=True) == Exit.NEEDS_YOU
    checked = json.loads(capsys.readouterr().out)
    assert (checked["newest"], checked["newer"]) == ("99.0.0", True)
    assert (checked["schema"], checked["version"]) == (1, __version__)
    assert checked["method"] == "checkout"


@pytest.mark.parametrize("newest", [__version__, "0.0.1"])
def test_without_a_newer_release_the_command_ends_with_0(
    index: LocalIndex, capsys: pytest.CaptureFixture[str], newest: str
) -> None:
    index.release(newest)

    assert show_upgrade(check=True, as_json=False) == Exit.OK
    assert f"Newest: {newest}." in capsys.readouterr().out


def test_without_check_no_index_is_asked(
    index: LocalIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show_upgrade(check=False, as_json=False) == Exit.OK
    assert capsys.readouterr().out.count("\n") == 1
    assert show_upgrade(check=False, as_json=True) == Exit.OK
    unchecked = json.loads(capsys.readouterr().out)
    assert (unchecked["newest"], unchecked["newer"]) == (None, None)


def test_where_pip_is_missing_uv_is_asked(
    index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.release("99.0.0")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert newest_release() == "99.0.0"

    monkeypatch.setenv("PATH", "")
    with pytest.raises(CommandError, match="Neither pip nor uv"):
        newest_release()


def test_an_equal_version_is_not_newer() -> None:
    assert not is_newer("1.0.0", "1.0")
    assert not is_newer("1.0", "1.0.0")


def test_no_pip_of_the_current_folder_runs(
    index: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.release("99.0.0")
    (tmp_path / "pip.py").write_text("raise SystemExit('hostile')")
    monkeypatch.chdir(tmp_path)

    assert newest_release() == "99.0.0"


def test_an_index_without_a_release_ends_the_command_with_the_reason(index: LocalIndex) -> None:
    with pytest.raises(CommandError, match="No matching distribution found for adsum") as failure:
        newest_release()
    assert failure.value.code is Exit.UNREACHABLE


def test_the_repository_is_what_the_packages_metadata_names(tmp_path: Path) -> None:
    installed = package(tmp_path)
    metadata = tmp_path / "adsum-0.1.0.dist-info" / "METADATA"
    metadata.write_text("Name: adsum\n")
    assert repository(installed) is None
    metadata.write_text(
        "Name: adsum\nProject-URL: Homepage, https://a.example.net\n"
        "Project-URL: Repository, https://b.example.net/adsum\n"
    )
    assert repository(installed) == "https://b.example.net/adsum"

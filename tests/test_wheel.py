"""What is shipped: the wheel holds every file that the packages need at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE_DIRS = ("cli/adsum", "collector/adsum_collector", "hub/adsum_hub", "shared/adsum_shared")


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    run = subprocess.run(
        [*build, "--directory", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    (wheel,) = folder.glob("adsum-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_file_of_the_packages(shipped: set[str]) -> None:
    needed = {
        path.relative_to((ROOT / package).parent).as_posix()
        for package in PACKAGE_DIRS
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert needed <= shipped
    assert "adsum_hub/save.lua" in shipped
    assert any(name.startswith("adsum_hub/web/") for name in shipped)


def test_the_wheel_holds_nothing_else(shipped: set[str]) -> None:
    tops = {name.split("/")[0] for name in shipped}

    assert tops - {Path(package).name for package in PACKAGE_DIRS} == {
        next(t for t in tops if t.endswith(".dist-info"))
    }

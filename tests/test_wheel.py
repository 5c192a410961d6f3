"""What is shipped: wheel and sdist are complete, and uv, pipx and pip install them for an empty home."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from adsum.build import git_build
from adsum_shared import __version__

ROOT = Path(__file__).parent.parent
PACKAGE_DIRS = ("cli/adsum", "collector/adsum_collector", "hub/adsum_hub", "shared/adsum_shared")
#: The Python that made the tests' environment. Its own packages are not the tests'.
PYTHON = getattr(sys, "_base_executable", sys.executable)
UV = str(Path(sys.executable).with_name("uv"))
#: How this machine reaches its package index.
INDEX_SETTINGS = re.compile(r"(?i)(PIP|UV|SSL)_.*|.*_PROXY")


@dataclass(frozen=True, slots=True)
class Distributions:
    wheel: Path
    sdist: Path

    @property
    def names(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as archive:
            return set(archive.namelist())


def build(source: Path, target: Path, *options: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", *options, "--directory", str(target)]
    run = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """As `make dist` builds them."""
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    (wheel,), (sdist,) = folder.glob("adsum-*.whl"), folder.glob("adsum-*.tar.gz")
    return Distributions(wheel, sdist)


def test_the_wheel_holds_every_file_of_the_packages(shipped: Distributions) -> None:
    needed = {
        path.relative_to((ROOT / package).parent).as_posix()
        for package in PACKAGE_DIRS
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert needed <= shipped.names
    assert "adsum_hub/save.lua" in shipped.names
    assert any(name.startswith("adsum_hub/web/") for name in shipped.names)


def test_the_wheel_holds_nothing_else(shipped: Distributions) -> None:
    tops = {name.split("/")[0] for name in shipped.names}

    assert tops - {Path(package).name for package in PACKAGE_DIRS} == {
        next(t for t in tops if t.endswith(".dist-info"))
    }


def test_the_wheel_names_the_commit_that_it_was_built_from(shipped: Distributions) -> None:
    checkout = git_build(ROOT)
    with zipfile.ZipFile(shipped.wheel) as archive:
        recorded = archive.read("adsum/build.json")

    assert checkout is not None
    assert json.loads(recorded) == checkout._asdict()


def test_the_sdist_holds_nothing_that_git_ignores(shipped: Distributions) -> None:
    listed = subprocess.check_output(["tar", "tzf", shipped.sdist], text=True).splitlines()
    files = {name.partition("/")[2] for name in listed}
    carried = subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    )

    assert files - set(carried.splitlines()) == {"PKG-INFO", "cli/build.json"}


def test_the_sdist_builds_the_same_wheel(shipped: Distributions, tmp_path: Path) -> None:
    subprocess.run(["tar", "xzf", shipped.sdist, "-C", tmp_path], check=True)
    (source,) = tmp_path.iterdir()
    build(source, tmp_path / "again", "--target", "wheel")

    (wheel,) = (tmp_path / "again").iterdir()
    assert wheel.name == shipped.wheel.name
    assert wheel.read_bytes() == shipped.wheel.read_bytes()


@pytest.fixture(scope="module")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a constraints file with the versions of requirements.lock.

    Packages that are published later cannot change a test's result.
    """
    file = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    lock = (ROOT / "requirements.lock").read_text()
    file.write_text("\n".join(re.findall(r"^\w.*==[^\\\n]+", lock, re.MULTILINE)))
    return file


@dataclass(frozen=True, slots=True)
class EmptyHome:
    folder: Path
    constraints: Path

    @property
    def env(self) -> dict[str, str]:
        """Without what belongs to the checkout's environment."""
        settings = {name: text for name, text in os.environ.items() if INDEX_SETTINGS.match(name)}
        return settings | {
            "HOME": str(self.folder),
            "PATH": f"{self.folder}/.local/bin:/usr/local/bin:/usr/bin:/bin",
            "PIP_CONSTRAINT": str(self.constraints),
            "PIP_NO_COMPILE": "1",
            "UV_CONSTRAINT": str(self.constraints),
            "UV_PYTHON_DOWNLOADS": "never",
        }

    def run(self, *command: str) -> str:
        run = subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"
        return run.stdout

    def install(self, installer: str, shipped: Distributions) -> Path:
        """Return the command `adsum` as this installer provides it."""
        if installer == "uv tool":
            self.run(UV, "tool", "install", "--python", PYTHON, str(shipped.wheel))
        elif installer == "pipx":
            pipx = [sys.executable, "-m", "pipx", "install", "--python", PYTHON]
            self.run(*pipx, str(shipped.wheel))
        else:
            self.run(PYTHON, "-m", "venv", "env")
            self.run("env/bin/python", "-m", "pip", "install", "--quiet", str(shipped.sdist))
            return self.folder / "env" / "bin" / "adsum"
        return self.folder / ".local" / "bin" / "adsum"


@pytest.fixture
def home(tmp_path: Path, constraints: Path) -> EmptyHome:
    folder = tmp_path / "home"
    folder.mkdir()
    return EmptyHome(folder, constraints)


@pytest.fixture(scope="module")
def _index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where no package index can be reached."""
    folder = tmp_path_factory.mktemp("download")
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    run = subprocess.run([*download, "--dest", str(folder), "pluggy"], check=False)
    if run.returncode:
        pytest.skip("no package index can be reached")


@pytest.fixture
def demos() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=30)


def first_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if address := re.search(r"http://[^\s/]+", line):
            return address[0]
    raise AssertionError(f"no address: {process.communicate()[1]}")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_index")
@pytest.mark.parametrize(
    "installer", [pytest.param("uv tool", marks=pytest.mark.core), "pipx", "pip"]
)
def test_a_new_user_installs_it_and_sees_the_demo(
    shipped: Distributions,
    home: EmptyHome,
    demos: list[subprocess.Popen[str]],
    installer: str,
) -> None:
    started = time.monotonic()
    adsum = home.install(installer, shipped)
    installed = time.monotonic()
    demo = subprocess.Popen(
        [adsum, "up", "--demo"],
        cwd=home.folder,
        env=home.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    demos.append(demo)
    address = first_address(demo)
    with httpx.Client(base_url=address, trust_env=False, timeout=10) as browser:
        page = browser.get("/")
        answered = time.monotonic()
        scripts = re.findall(r'src="([^"]+\.js)"', page.text)
        statuses = [browser.get(script).status_code for script in scripts]
        me = browser.get("/api/v1/me").json()
    demo.send_signal(signal.SIGINT)
    assert demo.wait(30) == 0

    assert page.status_code == 200
    assert statuses
    assert set(statuses) == {200}
    assert me["demo"] is True
    copy = json.loads(home.run(str(adsum), "upgrade", "--json"))
    assert copy["method"] == installer
    checkout = git_build(ROOT)
    assert checkout is not None
    assert home.run(str(adsum), "--version") == (
        f"adsum {__version__} ({checkout.commit}, {checkout.date})\n"
    )
    python = re.match(r"#!(\S+)", adsum.read_text())
    assert python is not None
    search_path = home.run(python[1], "-c", "import adsum, sys; print(adsum.__file__, sys.path)")
    assert str(ROOT) not in search_path
    print(
        f"{installer}: {installed - started:.1f} s, first page {answered - installed:.1f} s later"
    )

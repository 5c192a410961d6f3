"""The CLI, its scripted model, and users who have nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real_cli.cli_rig import CliMissingError, Home, claude_binary
from tests.real_cli.hook_sink import HookSink
from tests.real_cli.mock_model import MockModel

#: Keeps a measured duration for the summary at the end of the run: what, seconds.
Figure = Callable[[str, float], None]
NewHome = Callable[[str], Home]


_figures = pytest.StashKey[list[str]]()


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    kept = request.config.stash.setdefault(_figures, [])
    return lambda what, seconds: kept.append(f"{seconds * 1000:6.0f} ms  {what}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if kept := config.stash.get(_figures, []):
        terminalreporter.section("measured on the real CLI")
        terminalreporter.write("\n".join(kept) + "\n")


def require(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on PATH; `make system-deps` installs it")


@pytest.fixture(scope="session")
def _claude() -> Path:
    require("tmux")
    try:
        return claude_binary()
    except CliMissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def model(_claude: Path) -> Iterator[MockModel]:
    with MockModel() as running:
        yield running


@pytest.fixture
def sink() -> Iterator[HookSink]:
    with HookSink() as running:
        yield running


@pytest.fixture
def new_home(model: MockModel, tmp_path: Path) -> NewHome:
    """A user by name, seeded, without hooks."""
    return lambda name: Home(tmp_path / name, model.url).seed()

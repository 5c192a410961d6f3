"""The CLI, its scripted model, and users who have nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.real_cli.cli_rig import NEWS_ENV, VERSION, CliMissingError, Home, claude_binary
from tests.real_cli.fleet import Fleet, Machine, running_fleet
from tests.real_cli.hook_sink import HookSink
from tests.real_cli.mock_model import MockModel
from tests.real_cli.session import FREE, Session
from tests.real_cli.timeline import Watcher

#: Keeps a measured duration for the summary at the end of the run: what, seconds.
Figure = Callable[[str, float], None]
NewHome = Callable[[str], Home]
#: Arguments as of Session, without a machine on the first one.
OpenSession = Callable[..., Session]
NewSession = Callable[..., Session]


_figures = pytest.StashKey[list[str]]()


_news = pytest.StashKey[list[str]]()


@pytest.fixture(scope="module")
def news(request: pytest.FixtureRequest) -> list[str]:
    """Sentences for whoever maintains us, listed once at the end of the run."""
    return request.config.stash.setdefault(_news, [])


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    kept = request.config.stash.setdefault(_figures, [])
    return lambda what, seconds: kept.append(f"{seconds * 1000:6.0f} ms  {what}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What one of several workers has to say goes to whoever sums up."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output.update(news=session.config.stash.get(_news, []))
        output.update(figures=session.config.stash.get(_figures, []))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})
    for key, kept in ((_news, "news"), (_figures, "figures")):
        node.config.stash.setdefault(key, []).extend(output.get(kept, []))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if news := config.stash.get(_news, []):
        terminalreporter.section(
            "words of the agents' CLIs that tests/data/*_words.json do not hold"
        )
        terminalreporter.write("\n".join(news) + "\n")
        if path := os.environ.get(NEWS_ENV):
            Path(path).write_text("".join(f"- {line}\n" for line in news), "utf-8")
    if kept := config.stash.get(_figures, []):
        terminalreporter.section("measured on the real CLI")
        terminalreporter.write("\n".join(kept) + "\n")


def unknown_words(version: str, known: Path, words: dict[str, set[str]]) -> list[str]:
    """Return a sentence for each kind of words of which the file does not hold all."""
    kinds = json.loads(known.read_text("utf-8"))
    unknown = {kind: sorted(found - {*kinds[kind]}) for kind, found in words.items()}
    return [f"{version}: {kind}: {', '.join(found)}" for kind, found in unknown.items() if found]


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


@pytest.fixture(scope="session")
def fleet(_claude: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Broker, hub, and a machine with collector and hooks, for all tests that break none of it."""
    with new_fleet(tmp_path_factory.mktemp("fleet"), "anvil") as fleet:
        yield fleet


@pytest.fixture(scope="session")
def watcher(fleet: Fleet) -> Iterator[Watcher]:
    with Watcher(fleet.hub_url) as watcher:
        yield watcher


@contextlib.contextmanager
def new_fleet(folder: Path, *labels: str, version: str = VERSION) -> Iterator[Fleet]:
    require("redis-server")
    with MockModel() as model:
        homes = {label: Home(folder / label, model.url, version=version).seed() for label in labels}
        with running_fleet(folder, homes) as fleet:
            yield fleet


@pytest.fixture
def new_session(fleet: Fleet, watcher: Watcher) -> Iterator[NewSession]:
    """A session that has not begun. What the hub said of each is printed if the test fails."""
    made: list[Session] = []

    def make(
        *flags: str,
        machine: Machine | None = None,
        mode: str = FREE,
        extra: dict[str, str] | None = None,
    ) -> Session:
        session = Session(machine or fleet.machines[0], watcher, *flags, mode=mode, extra=extra)
        made.append(session)
        return session

    yield make
    for session in made:
        for told in (session.hub, *session.others):
            print(told)
            print(_activity(fleet, session.machine.host_id, told.session_id))


@pytest.fixture
def open_session(new_session: NewSession) -> Iterator[OpenSession]:
    """A session in a terminal, to the end of the test."""
    with contextlib.ExitStack() as terminals:

        def start(*flags: str, **given: Any) -> Session:
            session = new_session(*flags, **given)
            terminals.enter_context(session.terminal)
            session.hub.note("terminal ready")
            if session.machine.collector.is_up() and session.machine.home.tells_at_once:
                session.hub.shows("idle", label="Ready")
            return session

        yield start


def _activity(fleet: Fleet, host_id: str, session_id: str) -> str:
    url = f"{fleet.hub_url}/api/v1/sessions/{host_id}:{session_id}/activity"
    with contextlib.suppress(httpx.TransportError):
        entries = httpx.get(url, timeout=2).json().get("entries", [])
        lines = [
            f"{e['at'] % 1_000_000} {e['kind']} {e.get('agent_id', '')} {e.get('text', '')}"
            for e in entries
        ]
        return "\n".join(lines)
    return "the hub is away"

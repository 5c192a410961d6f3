"""Fixtures for every test: a private real broker; and of whose processes coverage is measured."""

from __future__ import annotations

import multiprocessing.util
import os
import signal
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from httpx._transports import default

from tests.brokers import Broker, running_broker

# A shell ignores Ctrl-C for what it puts in the background, and whoever is started there inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

UNIT = Path(__file__).parent / "unit"


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Set HOME and TMPDIR to folders of this run, and the XDG folders to their defaults below HOME.

    npm still reads the user's settings, which may name a registry. TMPDIR is not below pytest's own
    folder, because the path of a Unix socket has at most about 100 bytes.
    """
    # The fork server's folder, which it needs until this process ends: longer than `temporary` exists.
    multiprocessing.util.get_temp_dir()
    with (
        tempfile.TemporaryDirectory(prefix="adsum-", ignore_cleanup_errors=True) as temporary,
        pytest.MonkeyPatch.context() as patch,
    ):
        # As in /tmp, another user may open what a test shares below it.
        Path(temporary).chmod(0o711)
        patch.setenv("npm_config_userconfig", str(Path("~/.npmrc").expanduser()))
        for name in [name for name in os.environ if name.startswith("XDG_")]:
            patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("TMPDIR", temporary)
        patch.setattr(tempfile, "tempdir", temporary)
        yield


@pytest.fixture(scope="session", autouse=True)
def _which_processes_are_measured(request: pytest.FixtureRequest) -> None:
    """Those that unit tests start. To measure all that the others start takes four minutes more."""
    # Not while this module is loaded: a process that only hands out tests has workers to start.
    if not any(item.path.is_relative_to(UNIT) for item in request.session.items):
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)


@pytest.fixture(scope="session", autouse=True)
def _authorities_are_loaded_once() -> Iterator[None]:
    """Each HTTP client would load all of the web's anew: 27 ms of a core, also for those that poll."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "create_ssl_context", cache(default.create_ssl_context))
        yield


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def redis_url(redis_server: Broker) -> str:
    return redis_server.url

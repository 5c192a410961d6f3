"""`adsum hub` and `adsum collector`: one part in the foreground, for services and for `adsum up`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

from adsum.config import T, read_settings, require_url
from adsum.outcome import CommandError
from adsum.parts.broker import is_ready, place_of
from adsum.parts.parts import SUPERVISED
from adsum_shared.connect import BrokerTooOldError
from adsum_shared.settings import AdsumSettings, SettingsError


def run_hub_part(state_dir: Path | None, redis_url: str | None) -> None:
    from adsum_hub.announcing import StateDirError
    from adsum_hub.app import PortTakenError, run_hub
    from adsum_hub.auth.sign_in import MachineTokenError
    from adsum_hub.domains.choice import DomainsError
    from adsum_hub.notify.config import NotifyConfigError
    from adsum_hub.notify.push import PushKeyError
    from adsum_hub.request_guard import PublicAddressError
    from adsum_hub.settings import HubSettings

    settings = _with_broker(HubSettings, state_dir, redis_url)
    told = (
        DomainsError,
        MachineTokenError,
        NotifyConfigError,
        PortTakenError,
        PublicAddressError,
        PushKeyError,
        StateDirError,
    )
    _run(lambda: run_hub(settings, _greeting()), settings, told)


def _greeting() -> Callable[[str], None] | None:
    """Shows a first login link at a terminal. Elsewhere a hub's output is a log, which is kept."""
    if os.environ.get(SUPERVISED) or not sys.stdout.isatty():
        return None
    from adsum.login import show_link

    return show_link


def run_collector_part(state_dir: Path | None, redis_url: str | None) -> None:
    from adsum.joined import broker_of, ingest_of
    from adsum_collector.app import run_collector
    from adsum_collector.errors import StartError
    from adsum_collector.settings import CollectorSettings

    hub = ingest_of(state_dir, redis_url)
    if hub is None:
        settings = _with_broker(CollectorSettings, state_dir, broker_of(state_dir, redis_url))
    else:
        settings = read_settings(CollectorSettings, state_dir=state_dir)
    _run(lambda: run_collector(settings, hub=hub), settings, (StartError,))


def _with_broker(kind: type[T], state_dir: Path | None, redis_url: str | None) -> T:
    """The settings with a Redis URL: the given one, or that of this machine's embedded broker."""
    settings = read_settings(kind, state_dir=state_dir, redis_url=redis_url)
    if settings.redis_url:
        require_url(settings.redis_url)
        return settings
    place = place_of(settings.state_dir)
    if not asyncio.run(is_ready(place.socket)):
        raise CommandError(
            "No Redis URL. Set ADSUM_REDIS_URL (or --redis-url) to a Redis 6.2 or Valkey or newer; "
            "join a hub with `adsum join`; or run `adsum up`, which brings a broker of its own."
        )
    return read_settings(kind, state_dir=state_dir, redis_url=place.url)


def _run(
    part: Callable[[], Coroutine[None, None, None]],
    settings: AdsumSettings,
    expected: tuple[type[Exception], ...],
) -> None:
    """expected: what the part raises for people. Anything else is a fault and keeps its traceback."""
    from adsum_shared.logs import configure

    configure(settings.log_level, settings.log_format)

    async def work() -> None:
        if os.environ.get(SUPERVISED):
            _end_with_supervisor()
        await part()

    known: tuple[type[Exception], ...] = (*expected, BrokerTooOldError, SettingsError)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(work())
    except known as error:
        raise CommandError(str(error)) from error
    except ExceptionGroup as group:
        told, faults = group.split(known)
        if told is None or faults is not None:
            raise
        raise CommandError("\n".join(map(str, _leaves(told)))) from group


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster loop, which comes with uvicorn on the systems it supports."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _end_with_supervisor() -> None:
    """The pipe on standard input closes when the supervisor is gone, however it went."""

    def closed() -> None:
        if not os.read(0, 1):
            asyncio.get_running_loop().remove_reader(0)
            os.kill(os.getpid(), signal.SIGTERM)

    asyncio.get_running_loop().add_reader(0, closed)


def _leaves(group: ExceptionGroup[Exception]) -> list[Exception]:
    found: list[Exception] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, ExceptionGroup) else [error]
    return found

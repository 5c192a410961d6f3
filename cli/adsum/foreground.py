"""`adsum hub` and `adsum collector` run one part in the foreground. Its log: one line an event, never a secret."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable, Coroutine, MutableMapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO

import structlog

from adsum.broker import broker_url
from adsum.config import T, read_settings
from adsum.outcome import CommandError
from adsum.supervise import SUPERVISED
from adsum_shared import AdsumError
from adsum_shared.redact import clean, fields_without_secrets, safe, to_json
from adsum_shared.settings import AdsumSettings

NO_URL = (
    "No Redis URL. Set ADSUM_REDIS_URL (or --redis-url) to a Redis 6.2 or Valkey or newer; join a "
    "hub with `adsum join`; or run `adsum up`, which brings a broker of its own."
)


def run_hub_part(state_dir: Path | None, redis_url: str | None) -> None:
    from adsum_hub.app import run_hub
    from adsum_hub.settings import HubSettings

    settings = _with_broker(read_settings(HubSettings, state_dir=state_dir, redis_url=redis_url))
    _run(run_hub(settings, _greeting()), settings)


def _greeting() -> Callable[[str], None] | None:
    """Shows a first login link at a terminal. Elsewhere a hub's output is a log, which is kept."""
    if os.environ.get(SUPERVISED) or not sys.stdout.isatty():
        return None
    from adsum.access import show_link

    return show_link


def run_collector_part(state_dir: Path | None, redis_url: str | None) -> None:
    from adsum.machine import signals_go
    from adsum_collector.app import run_collector
    from adsum_collector.settings import CollectorSettings

    settings = read_settings(CollectorSettings, state_dir=state_dir, redis_url=redis_url)
    url, hub = signals_go(settings)
    settings = settings.model_copy(update={"redis_url": url})
    part = run_collector(settings if hub else _with_broker(settings), hub=hub)
    _run(_tending(part, settings.state_dir, mends=settings.mend_hooks), settings)


async def _tending(part: Coroutine[None, None, None], state_dir: Path, *, mends: bool) -> None:
    """With what keeps its hooks as their owner agreed that they are."""
    from adsum.hooks import keep_mended, keep_put_back, leave_port

    await asyncio.to_thread(leave_port, state_dir)
    async with asyncio.TaskGroup() as group:
        beside = [group.create_task(keep_put_back(state_dir))]
        if mends:
            beside.append(group.create_task(keep_mended(state_dir)))
        await part
        for task in beside:
            task.cancel()


def _with_broker(settings: T) -> T:
    """With a Redis URL: the one it has, or that of this machine's embedded broker."""
    return settings.model_copy(update={"redis_url": broker_url(settings, NO_URL)})


def _run(part: Coroutine[None, None, None], settings: AdsumSettings) -> None:
    """What a part raises for people ends it in words; a fault keeps its traceback."""
    configure_logging(settings.log_level, settings.log_format)

    async def work() -> None:
        if os.environ.get(SUPERVISED):
            end_with_supervisor()
        await part

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(work())
    except ExceptionGroup as group:
        expected, faults = group.split(AdsumError)
        if expected is None or faults is not None:
            raise
        raise CommandError("\n".join(map(str, leaves(expected)))) from group


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster loop, which comes with uvicorn on the systems it supports."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def end_with_supervisor() -> None:
    """The pipe on standard input closes when the supervisor is gone, however it went."""

    def closed() -> None:
        if not os.read(0, 1):
            asyncio.get_running_loop().remove_reader(0)
            os.kill(os.getpid(), signal.SIGTERM)

    asyncio.get_running_loop().add_reader(0, closed)


def leaves(group: ExceptionGroup[Any]) -> list[Exception]:
    """Its exceptions, and those of the groups in it."""
    found: list[Exception] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, ExceptionGroup) else [error]
    return found


LogFormat = Literal["auto", "json", "plain"]
_LAID_OUT = ("exception", "stack")
#: Theirs would write past ours.
_OF_LIBRARIES = ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets", "asyncio")

log = logging.getLogger(__name__)


#: Equal secrets bear equal marks in one run, and other marks in the next.
_SALT = secrets.token_hex(8)


def _redact(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """The last step before an event is written out: after tracebacks have become text."""
    return fields_without_secrets(event, _SALT)


def configure_logging(level: str, kind: LogFormat = "auto", stream: TextIO | None = None) -> None:
    """All loggers of this process write so, those of libraries too. stream: sys.stderr if None."""
    stream = stream or sys.stderr
    output = logging.StreamHandler(stream)
    output.setFormatter(_formatter(kind, is_terminal=stream.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [output]
    root.setLevel(level.upper())
    for name in _OF_LIBRARIES:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_fault


def _formatter(kind: LogFormat, *, is_terminal: bool) -> logging.Formatter:
    stamp = "iso" if kind == "json" or (kind == "auto" and not is_terminal) else "%Y-%m-%d %H:%M:%S"
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt=stamp, utc=stamp == "iso", key="time"),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _redact,
            *(
                [_json]
                if stamp == "iso"
                else [_in_lines, _plain(coloured=is_terminal and not os.environ.get("NO_COLOR"))]
            ),
        ],
    )


_json = structlog.processors.JSONRenderer(serializer=to_json)


def _in_lines(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Each entry is one line, whatever it quotes; but for a traceback, which is laid out."""
    return {
        name: value
        if not isinstance(value, str)
        else safe(value)
        if name in _LAID_OUT
        else clean(value)
        for name, value in event.items()
    }


def _plain(*, coloured: bool) -> structlog.typing.Processor:
    return structlog.dev.ConsoleRenderer(
        colors=coloured,
        pad_event_to=0,
        pad_level=False,
        timestamp_key="time",
        # Rich's would show the values of local variables.
        exception_formatter=structlog.dev.plain_traceback,
    )


def _log_fault(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """A fault that ends the process: its traceback may quote what must not be read either."""
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    log.critical("ended by a fault", exc_info=(kind, error, trace))

"""Sets up logging of hub and collector: one line an event, JSON for programs, never a secret."""

import logging
import os
import secrets
import sys
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any, Literal, TextIO

import structlog

from adsum_shared.redact import clean, fields_without_secrets, safe, to_json

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


def configure(level: str, kind: LogFormat = "auto", stream: TextIO | None = None) -> None:
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

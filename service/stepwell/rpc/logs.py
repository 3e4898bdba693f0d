"""Structured logs on standard error: no payloads, no tokens, no control characters."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

from stepwell.config import LogSettings

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_SECRET = re.compile(
    r"token|secret|password|authorization|credential|payload|prompt", re.IGNORECASE
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_VALUE_CHARS_MAX = 16_384
_LIBRARIES = ("grpc", "sqlalchemy", "alembic", "asyncio")

Entry = MutableMapping[str, Any]


def configure(settings: LogSettings) -> None:
    """Set up the logs of this process, once."""
    level = _LEVELS[settings.level]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            clean,
            _renderer(settings),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Stderr())),
        cache_logger_on_first_use=False,
    )
    for name in _LIBRARIES:
        library = logging.getLogger(name)
        library.handlers = [_ToStructlog()]
        library.propagate = False
        library.setLevel(max(level, logging.WARNING))


class _Stderr:
    """Standard error that may be closed: a drain goes on when its reader has left."""

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()


def clean(_logger: Any, _method: str, entry: Entry) -> Entry:
    """Return the entry without secrets, payloads and control characters."""
    for key, value in entry.items():
        if _SECRET.search(key):
            entry[key] = "[secret]"
        else:
            entry[key] = _cleaned(value)
    return entry


def strip(text: str) -> str:
    """Return the text without control characters but line ends and tabs, and not endless."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text[:_VALUE_CHARS_MAX])


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return strip(value)
    if isinstance(value, bytes | bytearray):
        return f"[{len(value)} bytes]"
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        inner: Entry = {str(k): v for k, v in cast("Mapping[Any, Any]", value).items()}
        return clean(None, "", inner)
    return strip(str(value))


def _renderer(settings: LogSettings) -> Any:
    if settings.format == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())


class _ToStructlog(logging.Handler):
    """Passes on what libraries log by the standard library."""

    def emit(self, record: logging.LogRecord) -> None:
        emit = structlog.get_logger(record.name)
        fields = {"exc_info": record.exc_info} if record.exc_info else {}
        emit.log(record.levelno, record.getMessage(), **fields)

"""Structured logs on standard error: no payloads, no tokens, no control characters."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog
from structlog.typing import Processor

from stepwell.config import LogSettings
from stepwell.logger import PACKAGES

_SECRET = re.compile(
    r"token|secret|password|authorization|credential|payload|prompt", re.IGNORECASE
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_VALUE_CHARS_MAX = 16_384
LOGGERS = (*PACKAGES, "grpc", "sqlalchemy", "alembic", "asyncio", "stepwell_client")
"""The loggers that are printed: ours, and those of libraries from WARNING up."""

_STAMP = structlog.processors.TimeStamper(fmt="iso", utc=True)

Entry = MutableMapping[str, Any]


def configure(settings: LogSettings) -> None:
    """Set up the logs of this process, once."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    handler = logging.StreamHandler(cast("TextIO", _Stderr()))
    handler.setFormatter(_Formatter(_renderer(settings)))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level if name in PACKAGES else max(level, logging.WARNING))


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


def _renderer(settings: LogSettings) -> Processor:
    if settings.format == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())


class _Formatter(logging.Formatter):
    """Renders a record as an entry: its fields, where it is one of ours, else its message."""

    def __init__(self, renderer: Processor) -> None:
        super().__init__()
        self._processors = (_STAMP, structlog.processors.format_exc_info, clean, renderer)

    def format(self, record: logging.LogRecord) -> str:
        ours = vars(record)
        entry: Any = {
            **ours.get("fields", {}),
            "event": ours.get("event") or record.getMessage(),
            "level": record.levelname.lower(),
        }
        if record.exc_info:
            entry["exc_info"] = record.exc_info
        for process in self._processors:
            entry = process(None, record.levelname.lower(), entry)
        return entry

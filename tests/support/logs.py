"""Captures what the service and the drivers log, and keeps the loggers of a test process as they are."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stepwell.logger import PACKAGES
from stepwell.rpc import logs


class _Capture(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        own = vars(record)
        entry = {**own["fields"], "event": own["event"], "log_level": record.levelname.lower()}
        if record.exc_info:
            entry["exc_info"] = record.exc_info[1]
        self.lines.append(entry)


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Yield the entries of our loggers, of any level: their fields, `event` and `log_level`."""
    capture = _Capture()
    loggers = [logging.getLogger(name) for name in PACKAGES]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(capture)
        logger.setLevel(logging.DEBUG)
    try:
        yield capture.lines
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeHandler(capture)
            logger.setLevel(level)


@contextmanager
def loggers_restored() -> Iterator[None]:
    """Afterwards the loggers are set up as before, though a command has set up a server's."""
    loggers = [logging.getLogger(name) for name in logs.LOGGERS]
    before = [(one.handlers, one.propagate, one.level) for one in loggers]
    try:
        yield
    finally:
        for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)

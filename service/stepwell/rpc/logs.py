"""Structured logs on standard error: no payloads, no tokens, no control characters, no flood."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO, cast

from stepwell.config import LogSettings
from stepwell.logger import PACKAGES
from stepwell.runtime import SystemRuntime

_SECRET = re.compile(
    r"token|secret|password|authorization|credential|payload|prompt", re.IGNORECASE
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_VALUE_CHARS_MAX = 16_384
SAME_LINES_MAX = 10
"""The most lines with the same words, whatever their fields, within `SAME_LINES_SECONDS`."""
SAME_LINES_SECONDS = 60.0
WORDS_REMEMBERED_MAX = 1_000
LOGGERS = (*PACKAGES, "grpc", "sqlalchemy", "alembic", "asyncio", "uvicorn", "stepwell_client")
"""The printed loggers: ours, and those of libraries from WARNING up."""

_EVENT_CHARS = 30
"""The width to which events are padded, so that fields are aligned."""
_LEVEL_CHARS = 9
_QUOTED = re.compile(r"[\s=\"']")
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_COLOURS = {
    "debug": "\x1b[32m",
    "info": "\x1b[32m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
    "critical": "\x1b[31m",
}

Entry = MutableMapping[str, Any]


def configure(settings: LogSettings) -> None:
    """Set up the logs of this process, once."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    handler = logging.StreamHandler(cast("TextIO", _Stderr()))
    handler.addFilter(Limit(SystemRuntime().monotonic))
    handler.setFormatter(_Formatter(_renderer(settings)))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level if name in PACKAGES else max(level, logging.WARNING))


class Limit(logging.Filter):
    """Drops records whose words were written too often recently; the next written one counts them.

    Neither a client nor a store's errors can thus fill the disk with logs.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._written: OrderedDict[str, _Written] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written."""
        # Libraries log templates, whose arguments don't count as different words.
        words, now = str(vars(record).get("event") or record.msg), self._monotonic()
        written = self._written.get(words)
        if written is None or now - written.since_s >= SAME_LINES_SECONDS:
            if written is not None and written.left_out:
                fields = vars(record).get("fields", {})
                record.fields = {**fields, "left_out": written.left_out}
            written = self._written[words] = _Written(now)
            self._written.move_to_end(words)
            if len(self._written) > WORDS_REMEMBERED_MAX:
                self._written.popitem(last=False)
        if written.lines >= SAME_LINES_MAX:
            written.left_out += 1
            return False
        written.lines += 1
        return True


class _Written:
    """The lines of the same words since a moment."""

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.lines = 0
        self.left_out = 0


class _Stderr:
    """Standard error, which may be closed: a drain continues when its reader has left."""

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()


def clean(entry: Entry) -> Entry:
    """Return the entry without secrets, payloads and control characters."""
    for key, value in entry.items():
        if _SECRET.search(key):
            entry[key] = "[secret]"
        else:
            entry[key] = _cleaned(value)
    return entry


def strip(text: str) -> str:
    """Return the text without control characters other than line ends and tabs, cut to a length."""
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
        return clean(inner)
    return strip(str(value))


def _renderer(settings: LogSettings) -> Callable[[Entry], str]:
    if settings.format == "json":
        return json.dumps
    return partial(_line, coloured=sys.stderr.isatty())


def _line(entry: Entry, *, coloured: bool) -> str:
    """Return an entry as a line for people (time, level, event and fields), with its exception below."""
    fields = dict(entry)
    name, moment = fields.pop("level"), fields.pop("timestamp")
    level, event = f"{name:<{_LEVEL_CHARS}}", f"{fields.pop('event'):<{_EVENT_CHARS}}"
    if coloured:
        level, event = f"{_COLOURS[name]}{level}{_PLAIN}", f"{_BOLD}{event}{_PLAIN}"
    exception = fields.pop("exception", None)
    named = " ".join(f"{name}={_quoted(value)}" for name, value in sorted(fields.items()))
    line = f"{moment} [{level}] {event} {named}".rstrip()
    return f"{line}\n{exception}" if exception else line


def _quoted(value: Any) -> str:
    text = str(value)
    return repr(text) if _QUOTED.search(text) or not text else text


class _Formatter(logging.Formatter):
    """Renders a record as an entry: its fields if it is ours, otherwise its message."""

    def __init__(self, render: Callable[[Entry], str]) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        ours = vars(record)
        entry: Entry = {
            **ours.get("fields", {}),
            "event": ours.get("event") or record.getMessage(),
            "level": record.levelname.lower(),
            "timestamp": _moment(record.created),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return self._render(clean(entry))


def _moment(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")

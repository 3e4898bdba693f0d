"""Text for terminals: control characters of a run are removed, times are readable."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta

_MARK = "\N{REPLACEMENT CHARACTER}"
# C0, DEL and C1 controls, and the marks that turn the direction of writing.
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_HARMLESS = dict.fromkeys(_CONTROLS, _MARK)
_ONE_LINE = _HARMLESS | {ord("\n"): " ", ord("\t"): " ", ord("\r"): " "}
_LINES = _HARMLESS | {ord("\n"): "\n", ord("\t"): "\t", ord("\r"): ""}
_IN_JSON = {code: f"\\u{code:04x}" for code in _CONTROLS if code >= 0x7F}

US = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
SHORT_CHARS = 8
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def one_line(text: str, chars_max: int = 400) -> str:
    """Return text as one harmless line."""
    line = " ".join(text[: 4 * chars_max].translate(_ONE_LINE).split())
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def lines(text: str) -> str:
    """Return text with its line breaks and without other control characters."""
    return text.translate(_LINES)


def note(message: str) -> None:
    """Print a remark to standard error."""
    print(lines(message), file=sys.stderr, flush=True)


def json_safe(text: str) -> str:
    """Return JSON with the controls that `json` leaves in strings written as escapes."""
    return text.translate(_IN_JSON)


def micros(moment: datetime | None) -> int:
    """Return a moment in microseconds since 1970; 0: there is none."""
    return 0 if moment is None else (moment - _EPOCH) // _MICROSECOND


def span_us(length: float | timedelta | None) -> int:
    """Return a span, of seconds where it is a number, in microseconds; 0: there is none."""
    return (
        timedelta(seconds=length) // _MICROSECOND
        if isinstance(length, float | int)
        else (0 if length is None else length // _MICROSECOND)
    )


def span(us: int) -> str:
    """Return a duration: `0.31s`, `12.3s`, `3m05s`, `2h10m`, `3d04h`."""
    seconds = max(0, us) / US
    if seconds < 9.995:
        return f"{seconds:.2f}s"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02}m"
    return f"{hours // 24}d{hours % 24:02}h"


def ago(us: int) -> str:
    """Return the time since something: `now`, `14s ago`, `3d ago`."""
    seconds = us // US
    if seconds < 1:
        return "now"
    for size, letter in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{letter} ago"
    return f"{seconds}s ago"


def moment(us: int) -> str:
    """Return a moment in local time, to the second."""
    if not us:
        return "-"
    return datetime.fromtimestamp(us / US, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def short_id(run_id: str) -> str:
    """Return a run's id as people type it: the beginning of a UUID, a name as it is."""
    return run_id[:SHORT_CHARS] if _UUID.fullmatch(run_id) else run_id


def count(number: int, noun: str) -> str:
    """Return `1 task`, `2 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

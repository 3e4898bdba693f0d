"""Reads how long an API asks its callers to wait from the exception of any HTTP library or vendor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

from stepwell_client.link.runtime import utc_now

RETRY_AFTER_SECONDS_MAX = 3_600.0
"""The longest wait that an API's header is followed for."""


def asked_seconds(error: BaseException, causes_max: int = 10) -> float | None:
    """Return the seconds that an API's response asks to wait, or None if it doesn't say.

    The response belongs to the exception, to its cause, or to an exception in its group. Its
    headers are `retry-after-ms`, or `Retry-After` in seconds or as a date.
    """
    waits = [_seconds_in(_headers_of(error))]
    inner: list[BaseException | None] = [error.__cause__]
    if isinstance(error, BaseExceptionGroup):
        inner.extend(cast("BaseExceptionGroup[BaseException]", error).exceptions)
    waits += [asked_seconds(one, causes_max - 1) for one in inner if one and causes_max]
    return next((one for one in waits if one is not None), None)


def _headers_of(error: BaseException) -> Mapping[str, str]:
    try:
        headers: Any = getattr(getattr(error, "response", error), "headers", None)
        return {str(name).lower(): str(value) for name, value in headers.items()}
    except Exception:  # noqa: BLE001 - some other attribute has this name
        return {}


def _seconds_in(headers: Mapping[str, str]) -> float | None:
    """Return the wait that headers ask for; a malformed one counts as none."""
    for name, unit in (("retry-after-ms", 1_000), ("retry-after", 1)):
        try:
            seconds = float(headers[name]) / unit
        except (KeyError, ValueError):
            continue
        if seconds >= 0 and not math.isnan(seconds):
            return seconds
    try:
        end = parsedate_to_datetime(headers["retry-after"])
        # The server's own clock, where it tells the time: this machine's may differ.
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else utc_now()
        return max(0.0, (end - now).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None

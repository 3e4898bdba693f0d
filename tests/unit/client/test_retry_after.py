"""Waits that an API asks for in its response, by the exception of whatever library called it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import pytest

from stepwell_client import Failure, NonRetryable, Retry, TaskContext
from stepwell_client.agent.failures import failure_of
from stepwell_client.link.runtime import utc_now
from tests.support.journal import JournaledStep, result_of

DATED = {
    "date": "Wed, 21 Oct 2015 07:28:00 GMT",
    "Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT",
}
DAY = {"Retry-After": "86400"}


class Refused(Exception):
    """An error as HTTP libraries raise it."""

    def __init__(self, headers: Any) -> None:
        super().__init__("429")
        self.response = SimpleNamespace(headers=headers)


class Hostile(Exception):
    """An error whose attribute can't be read, as a request that got no response."""

    @property
    def response(self) -> None:
        raise RuntimeError("there was no response")


def caused(headers: Mapping[str, str]) -> Exception:
    """Return an error that a framework raised because of the library's."""
    error = ValueError("the model refused")
    error.__cause__ = Refused(headers)
    return error


@pytest.mark.parametrize(
    ("error", "asked_ms"),
    [
        (Refused({"Retry-After": "3"}), 3_000),
        (Refused({"retry-after": "0.5"}), 500),
        (Refused({"retry-after-ms": "1250", "retry-after": "2"}), 1_250),
        (Refused({"retry-after-ms": "soon", "retry-after": "2"}), 2_000),
        (Refused(DATED), 30_000),
        (Refused({**DATED, "date": DATED["Retry-After"]}), 0),
        (caused({"Retry-After": "3"}), 3_000),
        (ExceptionGroup("all models", [ValueError(), Refused({"Retry-After": "4"})]), 4_000),
        (Refused(DAY), 3_600_000),
        (Refused({"Retry-After": "inf"}), 3_600_000),
        (Failure("slow down", retry_after=86_400), 86_400_000),
        (Refused({"Retry-After": "-3"}), None),
        (Refused({"Retry-After": "nan"}), None),
        (Refused({"Retry-After": "later"}), None),
        (Refused({"Retry-After": "Wed, 99 Oct 2015 07:28:00 GMT"}), None),
        (Refused(None), None),
        (Hostile(), None),
        (NonRetryable("no"), None),
    ],
)
def test_a_failure_asks_for_the_pause_of_the_response(
    error: Exception, asked_ms: int | None
) -> None:
    failure = failure_of(error)
    asked = failure.retry_after.ToMilliseconds() if failure.HasField("retry_after") else None
    assert asked == asked_ms


def test_a_date_without_the_servers_time_is_read_by_this_machines_clock() -> None:
    end = format_datetime(utc_now() + timedelta(minutes=30), usegmt=True)
    asked = failure_of(Refused({"Retry-After": end})).retry_after.ToSeconds()
    assert 60 < asked <= 1_800


def test_the_failure_names_a_pause_that_is_too_long_to_be_kept_to() -> None:
    assert "asks to wait for 86,400 s; 3,600 s is the most" in failure_of(Refused(DAY)).details


async def test_a_calls_next_try_waits_as_long_as_the_api_asks() -> None:
    refusals = [Refused({"Retry-After": "3"}), Refused({"Retry-After": "5"})]

    async def ask() -> str:
        if refusals:
            raise refusals.pop(0)
        return "answer"

    async def work(ctx: TaskContext) -> str:
        retry = Retry(max_attempts=3, initial_backoff=0.1, jitter=0)
        return await ctx.call("model", ask, retry=retry)

    step = JournaledStep()
    assert result_of(await step.attempt(work)) == "answer"
    assert step.services.runtime.slept == [3.0, 5.0]

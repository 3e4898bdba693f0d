"""The store's time as a replica knows it."""

from __future__ import annotations

from stepwell.engine.clock import StoreTime
from stepwell_testkit.runtime import ManualRuntime

HOUR_US = 3_600_000_000


def test_replica_ahead_of_the_store_follows_its_clock() -> None:
    time = StoreTime(ManualRuntime(start_us=5 * HOUR_US))
    time.observe(4 * HOUR_US)
    assert time.now_us() == 4 * HOUR_US


def test_store_time_never_goes_back() -> None:
    runtime = ManualRuntime(start_us=HOUR_US)
    time = StoreTime(runtime)
    time.observe(2 * HOUR_US)
    runtime.advance(1_000)
    time.observe(2 * HOUR_US)
    assert time.now_us() == 2 * HOUR_US + 1_000_000


def test_a_store_that_says_nothing_changes_nothing() -> None:
    time = StoreTime(ManualRuntime(start_us=HOUR_US))
    time.observe(0)
    assert time.now_us() == HOUR_US

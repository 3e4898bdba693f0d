"""The clock of stores without a server: it goes on with the monotonic clock, and never back."""

from stepwell_drivers.clock import StoreClock
from stepwell_testkit.runtime import ManualRuntime

DAY_MS = 24 * 3_600 * 1_000


def test_it_starts_at_the_wall_clock_and_goes_on_with_the_monotonic_one() -> None:
    runtime = ManualRuntime(start_us=5_000)
    clock = StoreClock(runtime)
    assert clock.now_us() == 5_000
    runtime.advance(1.5)
    assert clock.now_us() == 6_500


def test_a_wall_clock_that_is_set_moves_nothing() -> None:
    runtime = ManualRuntime()
    clock = StoreClock(runtime)
    start = clock.now_us()
    for leap in (DAY_MS, -3 * DAY_MS):
        runtime.step_wall(leap)
        assert clock.now_us() == start


def test_it_starts_above_the_last_stored_time_and_runs_on_from_there() -> None:
    runtime = ManualRuntime(start_us=1_000)
    clock = StoreClock(runtime, at_least_us=9_000)
    assert clock.now_us() == 9_000
    runtime.advance(1)
    assert clock.now_us() == 10_000
    clock.at_least(500)
    assert clock.now_us() == 10_000


def test_no_microsecond_is_lost_to_rounding() -> None:
    runtime = ManualRuntime(start_us=0)
    runtime.advance(1e9)
    clock = StoreClock(runtime)
    start = clock.now_us()
    for at in range(1, 2_000):
        runtime.advance(0.001)
        assert clock.now_us() == start + at

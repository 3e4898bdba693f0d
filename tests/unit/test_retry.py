"""Back-off: exponential, bounded, jittered by a chance that is passed in."""

from __future__ import annotations

import pytest

from stepwell.core.loop.retry import backoff_ms, chance_of, may_retry
from stepwell.core.records.model import Failure, RetryPolicy


def test_the_back_off_doubles_up_to_its_maximum() -> None:
    policy = RetryPolicy(initial_backoff_ms=100, max_backoff_ms=1_000, jitter=0.0)
    assert [backoff_ms(policy, n, 0.5) for n in range(1, 6)] == [100, 200, 400, 800, 1_000]


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 0), (0.5, 500), (0.999, 999)])
def test_full_jitter_draws_from_nothing_to_all_of_it(chance: float, wait: int) -> None:
    assert backoff_ms(RetryPolicy(initial_backoff_ms=1_000), 1, chance) == wait


def test_a_back_off_beyond_all_numbers_is_the_maximum() -> None:
    policy = RetryPolicy(backoff_multiplier=1e9, max_backoff_ms=5_000, jitter=0.0)
    assert backoff_ms(policy, 1_000, 0.0) == 5_000


def test_the_same_seed_and_key_give_the_same_chance() -> None:
    assert chance_of(7, "a") == chance_of(7, "a") != chance_of(8, "a")
    assert 0 <= chance_of(7, "a") < 1


def test_attempts_are_counted_per_allowance() -> None:
    policy = RetryPolicy(max_attempts=2)
    assert may_retry(policy, Failure(kind="x"), 1)
    assert not may_retry(policy, Failure(kind="x"), 2)

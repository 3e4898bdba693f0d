"""Retries: whether another attempt follows a failed one, and after how long."""

from __future__ import annotations

import zlib

from stepwell.core.records.model import Failure, RetryPolicy


def may_retry(policy: RetryPolicy, failure: Failure) -> bool:
    """Return whether the policy, apart from numbers, allows another attempt after this failure."""
    return failure.retryable and failure.kind not in policy.non_retryable_kinds


def backoff_ms(policy: RetryPolicy, count: int, chance: float) -> int:
    """Return the milliseconds to wait after the `count`-th failed, or lost, attempt.

    The wait grows exponentially up to the policy's maximum; its part `jitter` is scaled by `chance`
    in [0, 1).
    """
    try:
        raised = policy.initial_backoff_ms * policy.backoff_multiplier ** max(0, count - 1)
    except OverflowError:
        raised = float(policy.max_backoff_ms)
    full = min(raised, policy.max_backoff_ms)
    return int(full * (1.0 - policy.jitter) + full * policy.jitter * chance)


def chance_of(seed: int, key: str) -> float:
    """Return a number in [0, 1) that is the same for the same seed and key."""
    return zlib.crc32(key.encode(), seed & 0xFFFFFFFF) / 2**32

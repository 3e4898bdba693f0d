"""The runtime of tests: time stands still until it is moved, and a seed says all."""

import pytest

from stepwell.core.port import Runtime
from stepwell_testkit.runtime import ManualRuntime


def test_the_same_seed_gives_the_same_ids_tokens_and_chances() -> None:
    def draws(seed: int) -> list[object]:
        runtime: Runtime = ManualRuntime(seed)
        return [runtime.new_id(), runtime.new_token(), runtime.random(), runtime.new_id()]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)
    assert len(set(draws(1))) == 4


def test_the_wall_clock_is_set_alone_and_time_goes_forward_only() -> None:
    runtime = ManualRuntime(start_us=0)
    runtime.step_wall(-5)
    assert (runtime.now_us(), runtime.monotonic()) == (-5_000, 0)
    with pytest.raises(ValueError, match="forward"):
        runtime.advance(-1)

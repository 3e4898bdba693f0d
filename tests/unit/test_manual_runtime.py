"""The runtime of tests: time stands still until it is moved, and a seed says all."""

import asyncio
import uuid

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


def test_ids_tokens_and_chances_have_their_shapes() -> None:
    runtime = ManualRuntime()
    assert str(uuid.UUID(runtime.new_id()))
    assert len(bytes.fromhex(runtime.new_token())) == 16
    assert all(0 <= runtime.random() < 1 for _ in range(1_000))
    assert {runtime.below(3) for _ in range(100)} == {0, 1, 2}


async def test_a_sleeper_wakes_when_the_clock_was_moved_far_enough() -> None:
    runtime = ManualRuntime()
    woken: list[str] = []

    async def sleep(name: str, seconds: float) -> None:
        await runtime.sleep(seconds)
        woken.append(name)

    tasks = [runtime.spawn(sleep(*each), name="x") for each in (("b", 2.0), ("a", 1.0), ("c", 3.0))]
    await asyncio.sleep(0)
    runtime.advance(999)
    await asyncio.sleep(0)
    assert woken == []
    runtime.advance(1_001)
    await asyncio.sleep(0)
    assert woken == ["a", "b"]
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    runtime.advance(10_000)
    assert woken == ["a", "b"]


def test_the_wall_clock_is_set_alone_and_time_goes_forward_only() -> None:
    runtime = ManualRuntime(start_us=0)
    runtime.step_wall(-5)
    assert (runtime.now_us(), runtime.monotonic()) == (-5_000, 0)
    with pytest.raises(ValueError, match="forward"):
        runtime.advance(-1)

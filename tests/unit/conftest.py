"""The world of the executor's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.executor_world import ExecutorWorld, executor_world


@pytest.fixture
async def world() -> AsyncIterator[ExecutorWorld]:
    async with executor_world() as world:
        yield world

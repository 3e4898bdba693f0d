"""Worlds of the unit tests: an executor's, and a store for runs in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from stepwell.core.port import Store
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from tests.unit.engine.executor_world import ExecutorWorld, executor_world


@pytest.fixture
async def world() -> AsyncIterator[ExecutorWorld]:
    async with executor_world() as world:
        yield world


@pytest.fixture
async def nothing_is_left() -> AsyncIterator[None]:
    """The test ends without a task of its own."""
    yield
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.fixture
async def store(nothing_is_left: None) -> AsyncIterator[Store]:
    opened = await open_store("memory://", runtime=SystemRuntime())
    yield opened
    await opened.close()

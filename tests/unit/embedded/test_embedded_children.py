"""A step of a run in the caller's process starts a child run, which the same process executes."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from stepwell.app.runs import read_run
from stepwell.core.port import Store
from stepwell.core.records.model import Run
from stepwell.core.records.states import BlockedKind
from stepwell.embedded import Orchestrator, drive
from stepwell_client import Agent, RunStatus, Task, TaskContext
from tests.support.patience import until

pytestmark = pytest.mark.usefixtures("nothing_is_left")

PLAN = [Task("a", "ask")]


class Family:
    """An agent whose task waits for a child; the child's task notes its run, and waits while `stays`."""

    def __init__(self, *, stays: bool = False) -> None:
        self.stays = stays
        self.works = asyncio.Event()
        self.children: list[str] = []
        self.agent = agent = Agent("family")

        @agent.task("ask")
        async def ask(ctx: TaskContext) -> Any:
            child = await ctx.start_child("bees", plan=[Task("facts", "work")])
            return await child.result()

        @agent.task("work")
        async def work(ctx: TaskContext) -> str:
            self.children.append(ctx.run_id)
            self.works.set()
            if self.stays:
                await asyncio.Event().wait()
            return f"all about {ctx.goal}"


@pytest.mark.parametrize("kept", [False, True])
async def test_step_goes_on_with_the_result_of_its_child(kept: bool, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}" if kept else None
    family = Family()
    result = await Orchestrator("a page", family.agent, plan=PLAN, store=store).run()

    assert result.status is RunStatus.SUCCEEDED
    assert result.value == {"a": {"facts": "all about bees"}}
    assert len(family.children) == 1


async def test_run_that_goes_on_after_it_was_read_does_not_stand_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its child ends between the read of the run, which waits for it, and the read of the tree."""
    old: list[Run] = []

    async def read_early(store: Store, tenant_id: str, run_id: str) -> Run:
        async def has_ended() -> bool:
            return (await read_run(store, tenant_id, run_id)).ended

        run = await read_run(store, tenant_id, run_id)
        if run.blocked_on is BlockedKind.CHILD and run.letters.first == run.letters.next:
            old.append(run)
            await until(has_ended)
        return run

    monkeypatch.setattr(drive, "read_run", read_early)
    result = await Orchestrator("a page", Family().agent, plan=PLAN).run()

    assert len(old) == 1
    assert result.status is RunStatus.SUCCEEDED


async def test_result_of_a_child_has_bytes_as_its_task_returned_them() -> None:
    agent = Agent("family")

    @agent.task("ask")
    async def ask(ctx: TaskContext) -> bool:
        child = await ctx.start_child("bees", plan=[Task("picture", "draw")])
        return await child.result() == {"picture": b"\xff\x00"}

    @agent.task("draw")
    async def draw(_: TaskContext) -> bytes:
        return b"\xff\x00"

    result = await Orchestrator("a page", agent, plan=PLAN).run()
    assert result.value == {"a": True}


async def test_child_that_a_crash_interrupts_goes_on_with_its_parent(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    first = Family(stays=True)
    orchestrator = Orchestrator("a page", first.agent, plan=PLAN, store=store)
    running = asyncio.create_task(orchestrator.run())
    await first.works.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    second = Family()
    again = await Orchestrator.resume(orchestrator.run_id, agent=second.agent, store=store)
    assert (await again.run()).value == {"a": {"facts": "all about bees"}}
    assert second.children == first.children

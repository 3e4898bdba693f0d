"""A run in the caller's process takes signals that its caller sends, while it runs and between two calls of `run`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepwell.core.records.errors import FailedPrecondition
from stepwell.embedded import Orchestrator
from stepwell_client import (
    Agent,
    Continue,
    Finish,
    ReflectContext,
    RunStatus,
    Task,
    TaskContext,
)
from stepwell_client.errors import NoSignal

PLAN = [Task("a", "two")]


def receiving() -> tuple[Agent, asyncio.Event]:
    """Return an agent whose task receives two signals, and an event that says that it runs."""
    agent, runs = Agent("receiving"), asyncio.Event()

    @agent.task("two")
    async def two(ctx: TaskContext) -> list[str]:
        runs.set()
        return [await ctx.receive("note", as_=str), await ctx.receive("note", as_=str)]

    return agent, runs


@pytest.mark.parametrize("kept", [False, True])
async def test_run_takes_a_signal_sent_between_two_calls_of_run(kept: bool, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}" if kept else None
    orchestrator = Orchestrator("wait", receiving()[0], plan=PLAN, store=store)
    assert (await orchestrator.run()).status is RunStatus.WAITING
    await orchestrator.signal("note", "first")
    await orchestrator.signal("note", "second")
    await orchestrator.signal("other", 3)
    (other,) = [one for one in await orchestrator.signals() if one.name == "other"]
    assert (other.value and other.value.value, other.sent_time is not None) == (3, True)
    assert (await orchestrator.run()).value == {"a": ["first", "second"]}
    if kept:
        with pytest.raises(FailedPrecondition, match="run is over"):
            await orchestrator.signal("note", "third")


async def test_run_takes_a_signal_sent_while_it_runs() -> None:
    agent, runs = receiving()
    ends = asyncio.Event()

    @agent.task("stay")
    async def stay(ctx: TaskContext) -> None:
        await ends.wait()

    @agent.task("end")
    async def end(ctx: TaskContext) -> None:
        ends.set()

    plan = [*PLAN, Task("stay", "stay"), Task("end", "end", depends_on=["a"])]
    orchestrator = Orchestrator("wait", agent, plan=plan, max_parallel=2)
    running = asyncio.create_task(orchestrator.run())
    await runs.wait()
    await orchestrator.signal("note", "first")
    await orchestrator.signal("note", "second")
    assert (await running).value["a"] == ["first", "second"]


async def test_signal_of_an_invalid_name_or_size_is_refused() -> None:
    orchestrator = Orchestrator("wait", receiving()[0], plan=PLAN)
    with pytest.raises(ValueError, match="name"):
        await orchestrator.signal("no name")
    with pytest.raises(ValueError, match="value"):
        await orchestrator.signal("note", "x" * (1024 * 1024))


async def test_function_without_an_event_loop_takes_what_is_kept() -> None:
    agent = Agent("taking")

    @agent.task("take")
    def take(ctx: TaskContext) -> list[str]:
        found = [ctx.receive_sync("note", as_=str), ctx.receive_nowait_sync("note", as_=str)]
        with pytest.raises(NoSignal):
            ctx.receive_nowait_sync("note")
        return found

    orchestrator = Orchestrator("wait", agent, plan=[Task("a", "take")])
    assert (await orchestrator.run()).status is RunStatus.WAITING
    await orchestrator.signal("note", "first")
    await orchestrator.signal("note", "second")
    assert (await orchestrator.run()).value == {"a": ["first", "second"]}


async def test_note_makes_an_embedded_run_reflect_and_go_on_with_its_plan() -> None:
    agent, runs = receiving()
    ends, shown = asyncio.Event(), list[tuple[str, object]]()

    @agent.reflect
    def reflect(ctx: ReflectContext) -> Continue | Finish:
        shown.extend((one.name, one.value and one.value.value) for one in ctx.signals)
        return Continue() if "b" not in ctx.results else Finish()

    @agent.task("stay")
    async def stay(ctx: TaskContext) -> str:
        runs.set()
        await ends.wait()
        return "stayed"

    plan = [Task("a", "stay"), Task("b", "stay", depends_on=["a"])]
    orchestrator = Orchestrator("wait", agent, plan=plan, reflect_on=["note"])
    running = asyncio.create_task(orchestrator.run())
    await runs.wait()
    await orchestrator.signal("note", "look")
    ends.set()
    assert (await running).value == {"a": "stayed", "b": "stayed"}
    assert shown == [("note", "look")]
    assert await orchestrator.signals() == ()
    with pytest.raises(ValueError, match="reflect_on"):
        Orchestrator("wait", agent, plan=plan, stages=[], reflect_on=["note"])

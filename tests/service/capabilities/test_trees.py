"""Trees of runs: child runs at any depth, found from the run that started them and from their root."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell_client import Agent, InvalidRequest, Run, Task, TaskContext
from tests.service.capabilities.conftest import Served


def family() -> Agent:
    """Return an agent whose task `grow` has two children and, for an input of 2, four grandchildren."""
    agent = Agent("family")

    @agent.task("grow")
    async def grow(ctx: TaskContext, levels: int) -> Any:
        names = [f"{ctx.goal}{letter}" for letter in "ab"[: 2 * levels]]
        children = [await ctx.start_child(name, plan=grown(levels - 1)) for name in names]
        return [await child.result() for child in children]

    return agent


def grown(levels: int) -> list[Task]:
    return [Task("grow", "grow", input=levels)]


async def listed(served: Served, **filters: Any) -> list[Run]:
    return [one async for one in served.client.runs(**filters)]


def goals(runs: list[Run]) -> list[str]:
    return sorted(one.goal for one in runs)


async def test_children_are_listed_by_their_parent_and_by_their_root(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    async with served.worker(family(), concurrency=8):
        root = await served.client.start("r", plan=grown(2))
        other = await served.client.start("o", plan=grown(1))
        await root.result()
        await other.result()

    children = await listed(served, child_of=root.id)
    assert goals(children) == ["ra", "rb"]
    places = [one.child_of for one in children]
    assert [(one.run_id, one.root_run_id, one.depth) for one in places if one] == [
        (root.id, root.id, 1)
    ] * 2
    [first] = [one for one in children if one.goal == "ra"]
    grandchildren = await listed(served, child_of=first.id)
    assert goals(grandchildren) == ["raa", "rab"]
    below = await listed(served, root_run_id=root.id, page_size=4)
    assert goals(below) == ["ra", "raa", "rab", "rb", "rba", "rbb"]
    assert {one.child_of.depth for one in below if one.child_of} == {1, 2}
    assert (await root.get()).child_of is None
    assert await listed(served, child_of=root.id, labels={"stepwell.root": other.id}) == []


async def test_nobody_can_give_a_run_the_labels_of_a_child(served: Served) -> None:
    for start in (served.client.start, (await served.client.start("r")).fork):
        with pytest.raises(InvalidRequest) as refused:
            await start(labels={"stepwell.parent": "x", "team": "red"})
        assert [one.field for one in refused.value.violations] == ["labels[stepwell.parent]"]
    assert await listed(served, child_of="x") == []

"""Trees of runs: child runs at any depth, found from the run that started them and from their root."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.config import WatchSettings
from stepwell_client import (
    Agent,
    Client,
    InvalidRequest,
    NotFound,
    Run,
    RunHandle,
    RunUpdate,
    Task,
    TaskContext,
)
from stepwell_client.enums import ENDED
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


class Seen:
    """The events of a tree's runs that a watch has brought, by run, in the order in which they came."""

    def __init__(self, clients: list[Client], root: RunHandle) -> None:
        self.clients = clients
        self.root = root
        self.numbers: dict[str, list[int]] = {}
        self.goals: dict[str, str] = {}
        self.live = {root.id}

    def add(self, update: RunUpdate) -> None:
        assert {one.version for one in update.events} <= {update.version}
        if update.run_id not in self.numbers:
            self.live.add(update.run_id)
        self.numbers.setdefault(update.run_id, []).extend(one.number for one in update.events)
        if update.run is not None:
            self.goals[update.run_id] = update.run.goal
        if any(event.run.get("status") in ENDED for event in update.events):
            self.live.discard(update.run_id)

    async def has_all(self) -> bool:
        """Return whether all runs of the tree have ended, and all of their events have come."""
        if self.live:
            return False
        below = [one async for one in self.clients[0].runs(root_run_id=self.root.id)]
        runs = [await self.root.get(), *below]
        return all(one.last_event <= len(self.numbers.get(one.id, ())) for one in runs)

    async def follow(self, *, hops: bool = False) -> None:
        """Add updates until none is left; with hops, each from another stream of the next client."""
        cursor, over = "", False
        while not over:
            self.clients.append(self.clients.pop(0))
            async with self.clients[0].watch(cursor, root_run_id=self.root.id) as watch:
                async for update in watch:
                    self.add(update)
                    over = await self.has_all()
                    if over or (hops and watch.position != cursor):
                        cursor = watch.position
                        break

    def assert_once(self) -> None:
        """Check that no event of a run came twice, and that none is missing."""
        for numbers in self.numbers.values():
            assert numbers == list(range(1, len(numbers) + 1))


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


async def test_a_deleted_root_leaves_each_child_as_the_root_of_its_own_tree(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    async with served.worker(family(), concurrency=8):
        root = await served.client.start("r", plan=grown(2))
        await root.result()
    children = await listed(served, child_of=root.id)
    await root.delete()
    assert await listed(served, child_of=root.id) == []
    assert await listed(served, root_run_id=root.id) == []
    [first] = [one for one in children if one.goal == "ra"]
    now = await served.client.run(first.id).get()
    assert (now.child_of, now.labels) == (None, {})
    below = await listed(served, root_run_id=first.id)
    assert goals(below) == goals(await listed(served, child_of=first.id)) == ["raa", "rab"]
    places = [one.child_of for one in below]
    assert [(one.root_run_id, one.depth) for one in places if one] == [(first.id, 1)] * 2


async def test_nobody_can_give_a_run_the_labels_of_a_child(served: Served) -> None:
    for start in (served.client.start, (await served.client.start("r")).fork):
        with pytest.raises(InvalidRequest) as refused:
            await start(labels={"stepwell.parent": "x", "team": "red"})
        assert [one.field for one in refused.value.violations] == ["labels[stepwell.parent]"]
    assert await listed(served, child_of="x") == []


async def test_one_watch_has_each_event_of_a_tree_once_while_it_grows(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    async with served.worker(family(), concurrency=8):
        await served.client.start("o", plan=grown(1))
        root = await served.client.start("r", plan=grown(2))
        seen = Seen([served.client], root)
        await seen.follow()

    seen.assert_once()
    assert sorted(seen.goals.values()) == ["r", "ra", "raa", "rab", "rb", "rba", "rbb"]


async def test_a_watch_of_a_tree_goes_on_at_a_replica_with_each_event_once(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    clients = [served.client]
    if served.store_kind != "sqlite":
        # Its messages hold a commit or two, so that their tokens lie within pages of the feed.
        other = await served.replica(watch=WatchSettings(message_bytes_max=1_024))
        clients.append(served.new_client(target=other.addresses[0]))
    async with served.worker(family(), concurrency=8):
        root = await served.client.start("r", plan=grown(2))
        await served.client.start("o", plan=grown(1))
        seen = Seen(clients, root)
        await seen.follow(hops=True)
        # Those that are over are read in the same way.
        again = Seen(clients, root)
        await again.follow(hops=True)

    seen.assert_once()
    again.assert_once()
    assert len(seen.numbers) == 7
    assert again.numbers.keys() == seen.numbers.keys()


async def test_a_watch_of_a_tree_wants_a_root_that_is_there(served: Served) -> None:
    async with served.worker(family(), concurrency=8):
        root = await served.client.start("r", plan=grown(1))
        await root.result()
    [child, _] = await listed(served, child_of=root.id)

    with pytest.raises(InvalidRequest) as refused:
        await anext(aiter(served.client.watch(root_run_id=child.id)))
    assert [one.field for one in refused.value.violations] == ["root_run_id"]
    assert root.id in str(refused.value)
    with pytest.raises(NotFound):
        await anext(aiter(served.client.watch(root_run_id="00000000-0000-4000-8000-000000000000")))


async def test_a_watch_of_a_tree_tells_of_deletions(served: Served) -> None:
    async with served.worker(family(), concurrency=8):
        root = await served.client.start("r", plan=grown(1))
        async with served.client.watch("now", root_run_id=root.id) as watch:
            updates = aiter(watch)
            await anext(updates)
            await root.result()
            [child, _] = await listed(served, child_of=root.id)
            await served.client.run(child.id).delete()
            gone = await anext(one async for one in updates if one.deleted)
            assert (gone.run_id, gone.run, gone.events) == (child.id, None, ())

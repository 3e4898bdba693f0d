"""The cost of a step on Redis, counted: calls of its script, commands within that, and bytes in the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from stepwell.core.port import Commit, ExecutionQuery, JournalQuery, Store
from stepwell.core.records.states import RunStatus, TaskStatus
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.harness import soon
from tests.chaos.load.chains import opened
from tests.support.backends.redis import Redis

RESULT = b"x" * 1_024
ONE_STEP = {
    "evalsha": 1,
    # The time, the book and the run's rows are looked at.
    "time": 1,
    "hmget": 2,
    # EntryAck: the run's rows, the book, two entries of feeds; a lease ends and another one begins.
    "hset": 2,
    "xadd": 2,
    "zrem": 2,
    "zadd": 2,
    "pubsub|numsub": 1,
}
EIGHT_STEPS = ONE_STEP | {"hmget": 1 + 8, "hset": 1 + 8, "xadd": 2 * 8}
"""The same for as many runs, in one call."""
ONE_ENTRY = {
    "evalsha": 1,
    # The time, the book and the run's rows are looked at.
    "time": 1,
    "hmget": 2,
    # EntryAck: the entry with the sums, in one command, and the partition's time.
    "hset": 2,
}
EIGHT_ENTRIES = ONE_ENTRY | {"hmget": 1 + 8, "hset": 1 + 8}
"""The same for as many runs, in one call."""
ENTRY_LOG_BYTES_MAX = 2_000
"""The log's growth by a journal entry with a value of 1 KiB."""
LOG_BYTES_MAX = 3_400
"""The log's growth by a step with a result of 1 KiB."""


@pytest.fixture(scope="module")
def server(backends: None) -> Iterator[Redis]:
    with Redis() as running:
        yield running


@pytest.fixture
async def store(server: Redis) -> AsyncIterator[Store]:
    server.flush()
    async with opened(server.url(prefix="costs")) as store:
        yield store


def begun(run_id: str) -> Commit:
    """Return a run whose first task is leased."""
    return b.created(
        run_id,
        plan=b.plan("a", "b"),
        tasks=[b.task("a", TaskStatus.RUNNING), b.task("b", TaskStatus.PENDING)],
        executions=[b.leased()],
        leases=[b.lease()],
        status=RunStatus.RUNNING,
    )


def next_step(before: Commit) -> Commit:
    """Return the commit that takes the first task's result and leases the second."""
    return b.step(
        before,
        tasks=[b.task("a", TaskStatus.COMPLETED), b.task("b", TaskStatus.RUNNING)],
        executions=[b.ended(), b.leased("task:b#1", task_id="b")],
        outcomes=[b.outcome(RESULT)],
        leases=[b.lease("task:b#1", token="t2")],
        fences=[b.fence()],
        events=2,
    )


class Cost(NamedTuple):
    """Commands that the server did, and the growth of its log."""

    commands: dict[str, int]
    log_bytes: int


async def cost_of(server: Redis, action: Callable[[], Awaitable[object]]) -> Cost:
    with server.admin() as client:
        before: dict[str, Any] = client.info("persistence")
        client.config_resetstat()
        await action()
        commands: dict[str, dict[str, int]] = client.info("commandstats")
        after: dict[str, Any] = client.info("persistence")
    calls = {name.removeprefix("cmdstat_"): found["calls"] for name, found in commands.items()}
    for own in ("info", "config|resetstat"):
        calls.pop(own, None)
    return Cost(calls, after["aof_current_size"] - before["aof_current_size"])


async def test_a_step_is_one_call_with_few_commands(server: Redis, store: Store) -> None:
    await ask.must(store, begun("run-0"))
    step = next_step(begun("run-0"))
    cost = await cost_of(server, lambda: ask.must(store, step))
    assert cost.commands == ONE_STEP
    assert cost.log_bytes <= LOG_BYTES_MAX


async def test_steps_that_come_together_share_what_is_not_of_one_run(
    server: Redis, store: Store
) -> None:
    runs = [begun(f"run-{at}") for at in range(8)]
    await ask.must(store, *runs)
    cost = await cost_of(server, lambda: ask.must(store, *map(next_step, runs)))
    assert cost.commands == EIGHT_STEPS
    assert cost.log_bytes <= 8 * LOG_BYTES_MAX


async def test_a_heartbeat_is_one_call(server: Redis, store: Store) -> None:
    await ask.must(store, begun("run-0"))
    # A script's source is sent once.
    await store.renew([b.renewal("run-0")])
    cost = await cost_of(server, lambda: store.renew([b.renewal("run-0")]))
    # The row with the new deadline, the deadline itself, and the partition's time.
    assert cost.commands == {"evalsha": 1, "time": 1, "hmget": 1, "hget": 1, "zadd": 1, "hset": 2}


async def test_an_entry_of_a_journal_is_one_call_with_few_commands(
    server: Redis, store: Store
) -> None:
    await ask.must(store, begun("run-0"))
    # The first under a lease notes in the lease that there are some, too.
    await store.write_journal([b.journal_write(b.entry("first"), run_id="run-0")])
    write = b.journal_write(b.entry("a", RESULT), run_id="run-0")
    cost = await cost_of(server, lambda: store.write_journal([write]))
    assert cost.commands == ONE_ENTRY
    assert cost.log_bytes <= ENTRY_LOG_BYTES_MAX


async def test_entries_that_come_together_share_what_is_not_of_one_run(
    server: Redis, store: Store
) -> None:
    names = [f"run-{at}" for at in range(8)]
    await ask.must(store, *map(begun, names))
    await store.write_journal([b.journal_write(b.entry("first"), run_id=name) for name in names])
    writes = [b.journal_write(b.entry("a", RESULT), run_id=name) for name in names]
    cost = await cost_of(server, lambda: store.write_journal(writes))
    assert cost.commands == EIGHT_ENTRIES
    assert cost.log_bytes <= 8 * ENTRY_LOG_BYTES_MAX


async def test_commit_that_expects_no_entries_costs_the_same(server: Redis, store: Store) -> None:
    await ask.must(store, begun("run-0"))
    step = replace(next_step(begun("run-0")), fences=(b.fence(recorded=0),))
    cost = await cost_of(server, lambda: ask.must(store, step))
    assert cost.commands == ONE_STEP


async def test_step_s_journal_is_read_with_as_many_commands_among_many_other_entries(
    server: Redis, store: Store
) -> None:
    await ask.must(store, begun("run-0"))
    costs: list[int] = []
    for others in (1, 1_000):
        entries = [b.entry(f"{others}.{at}") for at in range(others)]
        await store.write_journal([b.journal_write(*entries, run_id="run-0", journal="task:b@1")])
        mine = b.journal_write(
            *(b.entry(f"{at}") for at in range(50)), run_id="run-0", journal="mine"
        )
        await store.write_journal([mine])
        query = JournalQuery(tenant_id=b.TENANT, run_id="run-0", journal="mine")
        await store.page(query)
        cost = await cost_of(server, lambda query=query: store.page(query))
        costs.append(sum(cost.commands.values()))
        assert len((await store.page(query)).items) == 50
    assert costs[0] == costs[1]


async def test_a_commit_publishes_no_hint_where_only_its_caller_listens(
    server: Redis, store: Store
) -> None:
    received: list[str] = []
    store.subscribe(lambda _, run, __: received.append(run))
    # Whoever begins to listen is told that anything may have changed.
    assert await soon(lambda: "" in received)
    cost = await cost_of(server, lambda: ask.must(store, begun("run-0")))
    assert await soon(lambda: "run-0" in received)
    assert "publish" not in cost.commands
    others: list[str] = []
    async with opened(server.url(prefix="costs")) as other:
        other.subscribe(lambda _, run, __: others.append(run))
        assert await soon(lambda: "" in others)
        await ask.must(store, begun("run-1"))
        assert await soon(lambda: "run-1" in others)


async def test_a_task_s_attempts_cost_the_same_among_many_others(
    server: Redis, store: Store
) -> None:
    commit = b.created(executions=[b.ended("task:a#1"), b.ended("task:b#1", task_id="b")])
    await ask.must(store, commit)
    query = ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN, task_id="a")
    await store.page(query)
    costs: list[int] = []
    for many in (1, 1_000):
        others = [b.ended(f"task:b#{many}.{at}", task_id="b") for at in range(many)]
        commit = await ask.must(store, b.step(commit, executions=others))
        cost = await cost_of(server, lambda: store.page(query))
        costs.append(sum(cost.commands.values()))
    assert costs[0] == costs[1]
    assert [one.execution_id for one in (await store.page(query)).items] == ["task:a#1"]

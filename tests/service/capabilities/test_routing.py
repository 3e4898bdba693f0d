"""Routing: a step goes only to workers that do its type and role, and have the version that its run asks for."""

from __future__ import annotations

import datetime

import pytest

from stepwell_client import Agent, BlockedKind, InvalidRequest, RunStatus, Task
from tests.service.capabilities.conftest import Served
from tests.support.patience import until

OLD = Agent("shop")
NEW = Agent("shop")
for agent in (OLD, NEW):
    agent.task("pack")(lambda ctx: ctx.attempt)
NEW.task("gift-wrap")(lambda ctx: "wrapped")


async def test_runs_with_a_new_type_succeed_while_an_old_worker_is_there(served: Served) -> None:
    plan = [Task("a", "pack"), Task("b", "gift-wrap", depends_on=["a"])]
    async with (
        served.worker(OLD, worker_id="old", concurrency=32),
        served.worker(NEW, worker_id="new", concurrency=1),
    ):
        runs = [await served.client.start("order", plan=plan) for _ in range(10)]
        assert [await run.result() for run in runs] == [{"a": 1, "b": "wrapped"}] * 10


async def test_pinned_run_waits_for_its_version_and_names_it(served: Served) -> None:
    async with served.worker(OLD, worker_id="old", version="1.9"):
        run = await served.client.start("order", plan=[Task("a", "pack")], worker_version=">=1.10")

        async def waits() -> bool:
            return (await served.client.run(run.id).get()).blocked_on == BlockedKind.WORKER

        await until(waits)
        waiting = (await served.client.run(run.id).get()).waiting_for
        assert waiting is not None
        assert (waiting.queue, waiting.type) == ("default", "pack")
        assert waiting.worker_version == ">=1.10"
        async with served.worker(NEW, worker_id="new", version="1.10.1"):
            assert await run.result() == {"a": 1}


async def test_fork_keeps_the_pin_or_has_another(served: Served) -> None:
    async with served.worker(OLD, version="1.9"):
        parent = await served.client.start("order", plan=[Task("a", "pack")], worker_version=">=2")
        same = await parent.fork()
        with pytest.raises(InvalidRequest) as caught:
            await parent.fork(worker_version=">=blue")
        exact = await parent.fork(worker_version="1.9")
        free = await parent.fork(worker_version="any")
        for fork in (exact, free):
            assert (await fork.wait()).status == RunStatus.SUCCEEDED

    assert same.snapshot is not None
    assert same.snapshot.worker_version == ">=2"
    assert [one.field for one in caught.value.violations] == ["worker_version.version"]


async def test_task_that_nobody_does_waits_until_its_total_time_out(served: Served) -> None:
    short = datetime.timedelta(seconds=0.2)
    async with served.worker(OLD):
        plan = [Task("a", "gift-wrap", total_timeout=short)]
        run = await (await served.client.start("order", plan=plan)).wait()
    assert run.failure is not None
    assert (run.status, run.failure.kind) == (RunStatus.FAILED, "TOTAL_TIMEOUT")
    assert run.attempts.failed == 0


@pytest.mark.parametrize("wanted", [">=blue", ">=", ">=1..2"])
async def test_version_without_an_order_is_refused_by_its_field(
    served: Served, wanted: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await served.client.start("order", plan=[Task("a", "pack")], worker_version=wanted)
    assert [one.field for one in caught.value.violations] == ["worker_version.version"]

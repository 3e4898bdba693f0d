"""Ended runs and old logs are removed: with PurgeRuns, and by the sweep of each replica."""

from __future__ import annotations

import pytest

from stepwell.config import RetentionSettings
from stepwell.core.port import LogQuery, RunQuery
from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.model import LogEntry
from stepwell_client import Agent, InvalidRequest, RunStatus, StepwellClientError, Task, TaskContext
from stepwell_client.errors import RunNotFound
from tests.service.capabilities.conftest import TENANT, Served
from tests.support.logs import capture_logs
from tests.support.patience import until


def done() -> Agent:
    agent = Agent("done")

    @agent.task
    def do(ctx: TaskContext) -> str:
        if ctx.task_id == "bad":
            raise ValueError("no")
        return "done"

    return agent


async def ended(served: Served, *, succeeded: int = 1, cancelled: int = 0) -> list[str]:
    ids: list[str] = []
    async with served.worker(done()):
        for _ in range(succeeded):
            run = await served.client.start("x", plan=[Task("a")], pipeline="p", queue="default")
            assert (await run.wait()).status == RunStatus.SUCCEEDED
            ids.append(run.id)
    for _ in range(cancelled):
        run = await served.client.start("x", plan=[Task("a")])
        await run.cancel()
        ids.append(run.id)
    return ids


async def stored(served: Served) -> set[str]:
    page = await served.store.page(RunQuery(tenant_id=TENANT))
    return {run.spec.run_id for run in page.items}


async def test_purge_removes_what_ended_and_nothing_else(served: Served) -> None:
    over = await ended(served, succeeded=2, cancelled=1)
    live = await served.client.start("x", plan=[Task("a")])
    assert not (await served.client.purge(older_than=3_600)).run_ids
    assert not (await served.client.purge(pipeline="another")).run_ids
    answer = await served.client.purge(statuses=[RunStatus.SUCCEEDED], pipeline="p")
    assert (sorted(answer.run_ids), answer.complete) == (sorted(over[:2]), True)
    assert await stored(served) == {over[2], live.id}
    with pytest.raises(RunNotFound):
        await served.client.run(over[0]).get()
    with pytest.raises(InvalidRequest) as caught:
        await served.client.purge(statuses=[RunStatus.RUNNING])
    assert [one.field for one in caught.value.violations] == ["statuses[0]"]


async def test_purge_removes_forks_before_their_parents_and_no_parent_of_what_stays(
    served: Served,
) -> None:
    first, other = await ended(served, succeeded=0, cancelled=2)
    line = [first]
    for _ in range(2):
        fork = await served.client.run(line[-1]).fork(replan=True)
        await fork.cancel()
        line.append(fork.id)
    live = await served.client.run(other).fork(replan=True)
    for many in (1, 2, 3):
        foretold = await served.client.purge(validate_only=True, max_runs=many)
        assert (list(foretold.run_ids), foretold.complete) == (line[: -many - 1 : -1], many == 3)
    one = await served.client.purge(max_runs=1)
    assert (list(one.run_ids), one.complete) == (line[2:], False)
    rest = await served.client.purge()
    assert (list(rest.run_ids), rest.complete) == ([line[1], first], True)
    assert await stored(served) == {other, live.id}


async def test_who_removed_a_run_stands_in_the_log(served: Served) -> None:
    over = await ended(served, cancelled=3)
    with capture_logs() as lines:
        await served.client.purge(validate_only=True)
        await served.client.run(over[0]).delete(on_behalf_of="ann")
        await served.client.purge(on_behalf_of="bo")
        await served.client.purge()
    by = [
        (one["actor"], one["on_behalf_of"], one["tenant_id"], one["count"], one["run_ids"].split())
        for one in lines
        if one["event"] == "runs were removed"
    ]
    assert [(*one[:4], sorted(one[4])) for one in by] == [
        ("all", "ann", TENANT, 1, over[:1]),
        ("all", "bo", TENANT, 3, sorted(over[1:])),
    ]


async def test_purge_that_fails_in_the_middle_logs_what_it_removed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = await ended(served, succeeded=0, cancelled=2)
    delete = served.store.delete_run

    async def fail_later(tenant_id: str, run_id: str, *, version: int) -> bool:
        monkeypatch.setattr(served.store, "delete_run", refuse)
        return await delete(tenant_id, run_id, version=version)

    async def refuse(*_: object, **__: object) -> bool:
        raise StoreRefused("no more")

    monkeypatch.setattr(served.store, "delete_run", fail_later)
    with capture_logs() as lines, pytest.raises(StepwellClientError):
        await served.client.purge()
    (said,) = [one for one in lines if one["event"] == "runs were removed"]
    assert said["run_ids"] == over[0]


async def test_E6_sweep_removes_runs_and_they_are_gone_at_every_cursor(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    over = await ended(served, succeeded=2, cancelled=1)
    live = await served.client.start("x", plan=[Task("a")])
    await served.restart(retention=RetentionSettings(succeeded_ms=1, sweep_ms=50))

    async def swept() -> bool:
        return await stored(served) == {over[2], live.id}

    await until(swept)
    for after in (0, 3, 1_000):
        with pytest.raises(RunNotFound):
            _ = [event async for event in served.client.run(over[0]).watch(after=after)]


async def test_logs_are_swept_before_their_runs(served: Served) -> None:
    (run_id,) = await ended(served)
    entry = LogEntry(execution_id="task:a#1", text="a line")
    await served.restart(retention=RetentionSettings(logs_ms=1, sweep_ms=50))
    await served.store.append_logs(TENANT, run_id, [entry])

    async def swept() -> bool:
        return not (await served.store.page(LogQuery(tenant_id=TENANT, run_id=run_id))).items

    await until(swept)
    assert await stored(served) == {run_id}

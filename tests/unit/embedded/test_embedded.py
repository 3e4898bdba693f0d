"""The embedded orchestrator: the whole loop in the caller's process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from stepwell.core.port import Store, TaskQuery
from stepwell.core.records.errors import (
    AlreadyExists,
    InvalidArgument,
    StepwellError,
    StoreStopped,
)
from stepwell.embedded import Orchestrator, RunFailed, RunNotFound
from stepwell_client import (
    Agent,
    Finish,
    Grow,
    ReflectContext,
    Retry,
    RunStatus,
    SynthesizeContext,
    Task,
    TaskContext,
    TaskStatus,
)
from stepwell_testkit.conformance.harness import turns
from stepwell_testkit.runtime import ManualRuntime
from tests.support.logs import capture_logs
from tests.support.patience import PATIENCE_S
from tests.unit.engine.executor_world import Rigged

pytestmark = pytest.mark.usefixtures("nothing_is_left")

ONCE = Retry(max_attempts=1)


def doubler() -> Agent:
    """Doubles numbers; the third task adds up the first two."""
    agent = Agent("doubler")

    @agent.plan
    def plan(ctx: object) -> list[Task]:
        return [
            Task("a", "double", input=1),
            Task("b", "double", input=2),
            Task("sum", "sum", depends_on=["a", "b"]),
        ]

    @agent.task("double")
    def double(ctx: TaskContext, number: int) -> int:
        return 2 * number

    @agent.task("sum")
    async def add(ctx: TaskContext) -> int:
        return sum(ctx.results.values())

    return agent


async def test_a_run_returns_the_results_of_its_tasks() -> None:
    result = await Orchestrator("add", doubler()).run()

    assert result.status is RunStatus.SUCCEEDED
    assert result.value == {"a": 2, "b": 4, "sum": 6}
    assert result.tasks["sum"].status is TaskStatus.COMPLETED
    assert result.tasks["sum"].attempts == 1
    assert result.run.goal == "add"


def chain(count: int) -> list[Task]:
    ids = [f"t{number}" for number in range(count)]
    return [Task(one, "double", input=1, depends_on=ids[:at][-1:]) for at, one in enumerate(ids)]


async def test_next_step_is_leased_by_the_commit_of_the_outcome_before_it() -> None:
    run = (await Orchestrator("", doubler(), plan=chain(5), max_parallel=1).run()).run
    assert run.version == 5 + 1, "besides, the start, which leases the first step"


async def test_store_is_not_read_for_each_step(store: Store) -> None:
    rigged = Rigged(store)
    await Orchestrator("", doubler(), plan=chain(20), store=rigged).run()
    assert rigged.calls["get_run"] < 20 / 4


async def test_a_synthesis_is_the_answer() -> None:
    agent = doubler()

    @agent.synthesize
    def words(ctx: SynthesizeContext) -> dict[str, str] | None:
        return {"text": f"{ctx.goal}: {ctx.results['sum']}"} if ctx.goal else None

    assert (await Orchestrator("", agent).run()).value is None
    result = await Orchestrator("add", agent).run()

    assert result.value == {"text": "add: 6"}
    assert result.decode(dict[str, str]) == {"text": "add: 6"}
    assert result.tasks["a"].value == 2


async def test_a_plan_with_the_agents_stages() -> None:
    agent = doubler()

    @agent.reflect
    def reflect(ctx: ReflectContext) -> Finish:
        return Finish("enough")

    plan = [Task("only", "double", input=21)]

    assert (await Orchestrator("", agent, plan=plan).run()).run.reason == "enough"
    assert (await Orchestrator("", agent, plan=plan, stages=()).run()).run.reason == ""


async def test_task_that_returns_grow_adds_tasks_and_others_are_refused() -> None:
    agent = Agent("list")

    @agent.task("list")
    async def list_pages(ctx: TaskContext, names: list[str]) -> Grow:
        return Grow([Task(f"page-{name}", "read", input=name) for name in names], len(names))

    @agent.task("read")
    def read_page(ctx: TaskContext, name: str) -> str:
        return name.upper()

    @agent.task("merge")
    def merge_pages(ctx: TaskContext) -> dict[str, object]:
        return dict(ctx.results)

    plan = [
        Task("list", "list", input=["a", "b"]),
        Task("merge", "merge", depends_on=["list"], after_growth=True),
    ]
    result = await Orchestrator("", agent, plan=plan, stages=()).run()
    assert result.run.plan_revision == 2
    assert result.tasks["merge"].value == {"list": 2, "page-a": "A", "page-b": "B"}

    @agent.synthesize
    def answer(ctx: SynthesizeContext) -> Grow:
        return Grow([Task("more")], "x")

    with pytest.raises(RunFailed, match="only a task adds tasks to the plan"):
        await Orchestrator("", agent, plan=plan).run()


async def test_input_labels_and_limits_reach_the_run() -> None:
    agent = Agent()

    @agent.plan
    def plan(ctx: object, number: int) -> list[Task]:
        return [Task("only", input=number)]

    @agent.task
    def triple(ctx: TaskContext, number: int) -> list[object]:
        return [3 * number, dict(ctx.labels), ctx.run_input()]

    limits: dict[str, Any] = {"max_iterations": 3, "max_parallel": 2, "no_progress_limit": 1}
    result = await Orchestrator("", agent, input=5, labels={"a": "b"}, **limits).run()

    assert result.value == {"only": [15, {"a": "b"}, 5]}
    assert {name: getattr(result.run, name) for name in limits} == limits


async def test_without_a_store_nothing_is_kept() -> None:
    orchestrator = Orchestrator("add", doubler())
    await orchestrator.run()

    with pytest.raises(RunNotFound):
        await Orchestrator.resume(orchestrator.run_id, doubler(), store="memory://")


def test_a_run_id_without_a_store_is_refused() -> None:
    with pytest.raises(ValueError, match="without a store"):
        Orchestrator("add", doubler(), run_id="8b3c0f38-0a1f-4b86-b4a0-0b8f8a3d0b0d")


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_iterations": 0},
        {"max_parallel": 257},
        {"goal": "x" * 65_537},
        {"run_id": "two words", "store": "memory://"},
        {"input": "x" * 1_048_576},
    ],
)
def test_an_argument_beyond_its_limit_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="at most"):
        Orchestrator(**{"goal": "", "agent": doubler(), **arguments})


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"goal": "a\x00"}, "goal"),
        ({"goal": "a\udc80"}, "goal"),
        ({"labels": {"k": "v\x00"}}, "labels"),
        ({"labels": {"two words": ""}}, "labels"),
        ({"labels": {"stepwell.root": "r"}}, "labels"),
        ({"tenant_id": "a\x00"}, "tenant_id"),
        ({"run_id": "{a}", "store": "memory://"}, "run_id"),
        ({"plan": [Task("a b")]}, r"plan\.tasks\[0\]\.task_id"),
        ({"plan": [Task("a", role="two words")]}, r"plan\.tasks\[0\]\.role"),
    ],
    ids=str,
)
def test_a_bad_name_or_nul_in_an_argument_is_refused(
    arguments: dict[str, object], field: str
) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        Orchestrator(**{"goal": "", "agent": doubler(), **arguments})


async def test_bad_names_and_nul_in_commands_are_refused(store: Store) -> None:
    orchestrator = Orchestrator("", doubler(), store=store)
    with pytest.raises(ValueError, match=r"^reason"):
        await orchestrator.answer("q", 1, reason="a\x00")
    with pytest.raises(ValueError, match=r"^answered_by"):
        await orchestrator.answer("q", 1, answered_by="two words")
    with pytest.raises(ValueError, match=r"^tenant_id"):
        await Orchestrator.resume(orchestrator.run_id, doubler(), store=store, tenant_id="a b")


async def test_a_plan_with_a_bad_name_fails_its_attempt(store: Store) -> None:
    agent = Agent()
    agent.plan(lambda ctx: [Task("a", role="two words")])
    agent.task(lambda ctx: None)
    with pytest.raises(RunFailed, match=r"planned\.plan\.tasks\[0\]\.role"):
        await Orchestrator("", agent, store=store).run()


async def test_nul_in_a_plan_and_a_failure_is_kept_with_an_escape(store: Store) -> None:
    agent = Agent()

    @agent.task
    def fail(ctx: TaskContext) -> None:
        raise ValueError("f\x00")

    plan = [Task("a", title="t\x00", prompt="p\x00", retry=ONCE)]
    orchestrator = Orchestrator("", agent, store=store, plan=plan)
    with pytest.raises(RunFailed):
        await orchestrator.run()
    run = ("default", orchestrator.run_id)
    made = await store.read_plan(*run, 1)
    assert made is not None
    assert (made.tasks[0].title, made.tasks[0].prompt) == (r"t\x00", r"p\x00")
    (row,) = (await store.page(TaskQuery(tenant_id=run[0], run_id=run[1]))).items
    assert row.failure is not None
    assert row.failure.message == r"f\x00"


def test_an_agent_that_cant_plan_needs_a_plan() -> None:
    agent = Agent()
    agent.task("x")(lambda ctx: None)

    with pytest.raises(ValueError, match="plan function"):
        Orchestrator("", agent)


async def test_resume_of_an_unknown_run_is_a_value_error(store: Store) -> None:
    with pytest.raises(ValueError, match="there is no run 'nobody'"):
        await Orchestrator.resume("nobody", doubler(), store=store)
    with pytest.raises(RunNotFound):
        await Orchestrator.resume("nobody", doubler(), store=store)


async def test_a_plan_that_is_not_valid_says_where() -> None:
    plan = [Task("a", "double", depends_on=["b"]), Task("b", "double", depends_on=["a"])]

    with pytest.raises(InvalidArgument) as caught:
        await Orchestrator("", doubler(), plan=plan).run()

    assert caught.value.violations[0].field.startswith("plan.tasks[")


async def test_the_same_run_id_finds_the_same_run(store: Store) -> None:
    first = await Orchestrator("add", doubler(), store=store, run_id="r1").run()
    again = await Orchestrator("add", doubler(), store=store, run_id="r1").run()

    assert again.run == first.run
    with pytest.raises(AlreadyExists):
        await Orchestrator("another", doubler(), store=store, run_id="r1").run()


def flaky() -> tuple[Agent, list[str], set[str]]:
    """An agent whose tasks fail while they are in the set, and what it was asked to do."""
    agent, calls, broken = Agent(), list[str](), set[str]()

    @agent.task
    def work(ctx: TaskContext) -> str:
        calls.append(ctx.task_id)
        if ctx.task_id in broken:
            raise RuntimeError(f"{ctx.task_id} is broken")
        return ctx.task_id

    return agent, calls, broken


async def test_a_failed_run_raises_with_its_result_and_can_be_resumed(store: Store) -> None:
    agent, calls, broken = flaky()
    broken.add("two")
    plan = [Task("one", retry=ONCE), Task("two", depends_on=["one"], retry=ONCE)]
    orchestrator = Orchestrator("", agent, plan=plan, store=store)

    with pytest.raises(RunFailed, match="two is broken") as caught:
        await orchestrator.run()
    tasks = caught.value.result.tasks
    assert tasks["one"].value == "one"
    assert tasks["two"].failure is not None
    assert "RuntimeError" in tasks["two"].failure.details

    broken.clear()
    resumed = await Orchestrator.resume(orchestrator.run_id, agent, store=store)
    result = await resumed.run()

    assert result.value == {"one": "one", "two": "two"}
    assert calls == ["one", "two", "two"]


async def test_resume_of_a_run_that_succeeded_returns_its_result(store: Store) -> None:
    agent, calls, _ = flaky()
    orchestrator = Orchestrator("", agent, plan=[Task("one")], store=store)
    first = await orchestrator.run()
    assert first.run_id == orchestrator.run_id
    row = await store.get_run("default", first.run_id)
    assert row is not None
    assert (row.version, row.spec.run_id) == (first.run.version, first.run.id)

    again = await (await Orchestrator.resume(first.run_id, agent, store=store)).run()

    assert again == first
    assert calls == ["one"]


async def test_short_lease_outlives_a_long_task() -> None:
    agent, runtime = Agent(), ManualRuntime()

    @agent.task
    async def slow(ctx: TaskContext) -> int:
        for _ in range(20):
            runtime.advance(200)
            await turns()
        return ctx.attempt

    plan = [Task("one", heartbeat_timeout=1.2)]
    result = await Orchestrator("", agent, plan=plan, runtime=runtime).run()

    assert result.value == {"one": 1}


async def test_results_too_large_for_an_assignment_come_all_the_same() -> None:
    agent = Agent()

    @agent.task("big")
    def big(ctx: TaskContext) -> bytes:
        return ctx.task_id.encode() * 300_000

    @agent.task("sum")
    def total(ctx: TaskContext) -> int:
        return sum(len(value) for value in ctx.results.values())

    parts = [Task(f"p{n}", "big") for n in range(5)]
    plan = [*parts, Task("sum", "sum", depends_on=[one.id for one in parts])]

    assert (await Orchestrator("", agent, plan=plan).run()).tasks["sum"].value == 3_000_000


async def test_it_does_one_run_at_a_time() -> None:
    agent = Agent()

    @agent.task
    async def work(ctx: TaskContext) -> None:
        with pytest.raises(RuntimeError, match="running already"):
            await orchestrator.run()

    orchestrator = Orchestrator("", agent, plan=[Task("one", retry=ONCE)])
    assert (await orchestrator.run()).status is RunStatus.SUCCEEDED


async def test_a_store_that_cant_be_opened_says_so() -> None:
    with pytest.raises(StepwellError, match="no driver opens"):
        await Orchestrator("", doubler(), store="unheard://x").run()


async def test_two_runs_at_once_share_one_sqlite_file(tmp_path: Path) -> None:
    store, barrier = f"sqlite:///{tmp_path / 'a.db'}", asyncio.Barrier(2)
    agent = Agent()

    @agent.task
    async def meet(ctx: TaskContext) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await barrier.wait()

    plan = [Task("one", retry=ONCE)]
    for _ in range(2):
        runs = [Orchestrator("", agent, store=store, plan=plan) for _ in range(2)]
        results = await asyncio.gather(*(one.run() for one in runs))
        assert sorted(result.tasks["one"].value for result in results) == [0, 1]


async def test_run_whose_file_is_moved_raises_that_the_store_stopped(tmp_path: Path) -> None:
    agent, path = Agent(), tmp_path / "a.db"

    @agent.task
    async def move(ctx: TaskContext) -> None:
        await asyncio.to_thread(path.rename, tmp_path / "b.db")
        await asyncio.Event().wait()

    orchestrator = Orchestrator("", agent, store=f"sqlite:///{path}", plan=[Task("one")])
    with (
        capture_logs() as lines,
        pytest.raises(StoreStopped, match=r"a\.db' was deleted or moved"),
    ):
        async with asyncio.timeout(PATIENCE_S):
            await orchestrator.run()
    assert sum("heartbeats" in line["event"] for line in lines) <= 1


async def test_resume_at_a_mistyped_path_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match=r"'gone'.*b\.db' is not there"):
        await Orchestrator.resume("gone", doubler(), store=f"sqlite:///{tmp_path / 'b.db'}")

    assert await asyncio.to_thread(os.listdir, tmp_path) == []


async def test_growth_without_tasks_is_the_result_alone() -> None:
    agent = Agent("list")

    @agent.task("list")
    def list_pages(ctx: TaskContext) -> Grow:
        return Grow([], "none")

    result = await Orchestrator("", agent, plan=[Task("list", "list")], stages=()).run()
    assert (result.run.plan_revision, result.tasks["list"].value) == (1, "none")

"""Assignments: what finds room in them, and what a worker reads because it found none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop.occurrences import Completed, Failed, Reflected
from stepwell.core.port import (
    AssignedExecution,
    AssignedRun,
    Assignment,
    DependencyResult,
    TaskQuery,
)
from stepwell.core.records import limits
from stepwell.core.records.model import (
    Failure,
    Message,
    Payload,
    Question,
    RetryPolicy,
    Session,
    TaskSpec,
    Violation,
)
from stepwell.core.records.states import Decision, OnFailure, StepKind, TaskStatus
from stepwell.engine import assignments, conversations
from stepwell.engine.assignments import ASSIGNMENT_BYTES_MAX
from stepwell.engine.executor import Executor
from stepwell.engine.results import PAGE_BYTES_MAX, ResultsPage, ResultsQuery
from stepwell.wire.records import to_message
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    delivery,
    until,
)

ONCE = RetryPolicy(max_attempts=1)
STAGES = (StepKind.REFLECT, StepKind.SYNTHESIZE)
WIDE = "\U0001f9ea"
"""One character of four bytes."""


def wide(count: int) -> str:
    return WIDE * count


def payload(size: int) -> Payload:
    return Payload(data=bytes(size), media_type=wide(limits.MEDIA_TYPE_CHARS_MAX))


def name(letter: str = "n") -> str:
    return letter * limits.NAME_CHARS_MAX


def largest_failure() -> Failure:
    texts = limits.FAILURE_BYTES_MAX // 4
    one = Violation(field=wide(256), description=wide(256))
    return Failure(
        kind=wide(limits.NAME_CHARS_MAX),
        message=wide(texts),
        details=wide(texts),
        violations=(one,) * limits.VIOLATIONS_MAX,
    )


EXECUTION_ID = "e" * limits.EXECUTION_ID_CHARS_MAX
SESSION = Session(backend=wide(128), session_id=wide(limits.SESSION_ID_CHARS_MAX))
RETRY = RetryPolicy(non_retryable_kinds=(wide(128),) * limits.RETRY_KINDS_MAX)
ASSIGNED_RUN = AssignedRun(
    tenant_id=name(),
    run_id=RUN,
    goal=wide(limits.GOAL_BYTES_MAX // 4),
    labels={f"{n:0128}": wide(256) for n in range(limits.LABELS_MAX)},
    reason=wide(1024),
)
TASK = TaskSpec(
    task_id="t" * 64,
    type=name(),
    title=wide(256),
    prompt=wide(limits.PROMPT_BYTES_MAX // 4),
    role=name(),
    depends_on=tuple(f"{n:064}" for n in range(limits.DEPENDENCIES_PER_TASK_MAX)),
    input=payload(limits.PAYLOAD_BYTES_MAX),
    retry=RETRY,
    idempotency_key=wide(256),
)
ASKED = Question(
    question_id="i" * limits.QUESTION_ID_CHARS_MAX,
    task_id="t" * 64,
    execution_id=EXECUTION_ID,
    prompt=wide(16 * 1024),
    schema=wide(16 * 1024),
    choices=(wide(256),) * limits.CHOICES_MAX,
    answered_by=name(),
)
EXECUTION = AssignedExecution(execution_id=EXECUTION_ID, kind=StepKind.TASK, task_id="t" * 64)


def largest() -> Assignment:
    """Return an assignment whose fields are each at their limit."""
    entry = DependencyResult(
        task_id="t" * 64,
        execution_id=EXECUTION_ID,
        payload=payload(3),
        by_reference=True,
        failure=largest_failure(),
        skipped=True,
        run_id=RUN,
    )
    message = Message(
        role=wide(128),
        content=wide(9),
        task_id="t" * 64,
        execution_id=EXECUTION_ID,
        session=SESSION,
    )
    return Assignment(
        run=ASSIGNED_RUN,
        execution=EXECUTION,
        token="t" * limits.TOKEN_CHARS_MAX,
        task=TASK,
        run_input=payload(limits.PAYLOAD_BYTES_MAX),
        results=(entry,) * 3,
        previous_progress=payload(limits.PROGRESS_BYTES_MAX),
        previous_session=SESSION,
        previous_failure=largest_failure(),
        previous_messages=(message,) * 3,
        answer=payload(limits.ANSWER_BYTES_MAX),
        answered=ASKED,
        idempotency_key=wide(256),
        unknown_execution_id=EXECUTION_ID,
    )


def cases() -> Sequence[Assignment]:
    one = largest()
    bare = Assignment(
        run=AssignedRun(tenant_id="t", run_id=RUN), execution=one.execution, token="t"
    )
    return [one, bare, replace(bare, run=one.run), replace(bare, task=one.task)]


@pytest.mark.parametrize("one", cases(), ids=["all", "none", "run", "task"])
def test_counted_size_is_never_less_than_the_message(one: Assignment) -> None:
    counted = assignments.fixed_bytes(one)
    for each in one.results:
        counted += assignments.entry_bytes(each) + assignments.payload_bytes(each.payload)
    counted += sum(map(conversations.size_of, one.previous_messages))
    assert counted >= to_message(one).ByteSize()


def test_largest_fixed_part_finds_room_and_cut_parts_find_the_rest() -> None:
    one = largest()
    cut = assignments._cut_previous(largest_failure())
    filled = assignments.fill(
        replace(one, run_input=None, previous_failure=cut, results=one.results * 500),
        {(RUN, "input"): one.run_input},
        one.previous_messages * 1_000,
    )
    assert filled is not None
    assert filled.results_before == 1_500 - len(filled.results)
    assert to_message(filled).ByteSize() <= ASSIGNMENT_BYTES_MAX


# --- through an executor ------------------------------------------------------------------------------


async def page(executor: Executor, got: Assignment, first: int = 0, *task_ids: str) -> ResultsPage:
    query = ResultsQuery(
        run_id=RUN,
        execution_id=got.execution.execution_id,
        token=got.token,
        task_ids=task_ids,
        first=first,
    )
    found = await executor.read_results(TENANT, query)
    assert found is not None
    return found


async def pages(executor: Executor, got: Assignment, *task_ids: str) -> list[DependencyResult]:
    """Return all pages together, none of which is too large for a message."""
    results: list[DependencyResult] = []
    first = 0
    while True:
        one = await page(executor, got, first, *task_ids)
        assert sum(to_message(each).ByteSize() for each in one.results) <= PAGE_BYTES_MAX
        results += one.results
        if not (first := one.next):
            return results


async def reflect(worker: FakeWorker, got: Assignment, *tasks: TaskSpec) -> None:
    decision = Decision.CONTINUE if tasks else Decision.FINISH
    await worker.deliver(got, Reflected(decision=decision, tasks=tasks))


async def finish(worker: FakeWorker, count: int, result: Any) -> None:
    """Do as many steps at once as are there, until so many are done."""
    for _ in range(count):
        await worker.deliver(await worker.next(), result)
        worker.credit()


async def test_failures_of_a_wide_plan_are_cut_and_paged(world: ExecutorWorld) -> None:
    executor = world.executor()
    worker = FakeWorker(executor, stages=STAGES)
    await worker.attach(credits=50)
    plan = [
        TaskSpec(task_id=f"t{n:03}", retry=ONCE, on_failure=OnFailure.CONTINUE) for n in range(400)
    ]
    await world.start(executor, plan, max_parallel=50, stages=STAGES)
    failed = Failed(failure=replace(largest_failure(), violations=()))
    await finish(worker, len(plan), failed)
    got = await worker.next()
    assert got.execution.kind is StepKind.REFLECT
    assert to_message(got).ByteSize() <= 600 * 1024
    assert got.results[-1].task_id == "t399"
    assert 0 < got.results_before == 400 - len(got.results)
    everything = await pages(executor, got)
    assert [one.task_id for one in everything] == [spec.task_id for spec in plan]
    assert everything[got.results_before :] == list(got.results)
    (whole,) = await pages(executor, got, "t000")
    assert whole.failure == failed.failure


async def test_step_that_no_message_can_carry_fails_once_and_says_so(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=1)
    await world.start(executor, [TaskSpec(task_id="a")], goal="g" * (5 << 20))
    await until(lambda: executor.stats["leases"] == 1)
    await executor.quiet()
    (task,) = (await world.store.page(TaskQuery(tenant_id=TENANT, run_id=RUN))).items
    kind, spent = task.failure.kind, task.spent
    assert (task.status, kind, spent) == (TaskStatus.FAILED, assignments.TOO_LARGE, 1)
    assert worker.pile.empty()
    assert worker.session is not None
    assert worker.session.credits == 1, "the worker had nothing of it"


async def test_unread_results_are_not_read_from_the_store(world: ExecutorWorld) -> None:
    plan = [TaskSpec(task_id=f"t{n}") for n in range(60)]
    names = tuple(spec.task_id for spec in plan)
    first, worker = await world.serving(credits=60)
    await world.start(first, [*plan, TaskSpec(task_id="all", depends_on=names)], max_parallel=60)
    large = Completed(result=Payload(data=bytes(600_000)))
    for _ in plan[1:]:
        await worker.deliver(await worker.next(), large)
    last = await worker.next()
    keys: list[str] = []

    async def note(method: str, *args: Any, **_: Any) -> None:
        if method == "read_payloads":
            keys.extend(args[2])

    other = world.executor(Rigged(world.store, note))
    reader = FakeWorker(other, worker_id="other")
    await reader.attach()
    await other.deliver(TENANT, RUN, delivery(last, large))
    got = await reader.next()
    assert len(keys) < 20
    assert [one.by_reference for one in got.results] == [True] * 59 + [False]
    (found,) = await pages(other, got, "t3")
    assert found.payload == large.result


async def test_reflection_is_shown_its_iteration_and_a_synthesis_all(world: ExecutorWorld) -> None:
    executor = world.executor()
    worker = FakeWorker(executor, stages=STAGES)
    await worker.attach(credits=1)
    await world.start(executor, [TaskSpec(task_id="a1"), TaskSpec(task_id="a2")], stages=STAGES)
    done = Completed(result=Payload(data=b"1"))
    await finish(worker, 2, done)
    first = await worker.next()
    assert [one.task_id for one in first.results] == ["a1", "a2"]
    worker.credit()
    await reflect(worker, first, TaskSpec(task_id="b"))
    task = await worker.next()
    assert not await pages(executor, task, "a1"), "it doesn't depend on it"
    worker.credit()
    await worker.deliver(task, done)
    second = await worker.next()
    assert [one.task_id for one in second.results] == ["b"]
    (earlier,) = await pages(executor, second, "a1", "never")
    assert (earlier.task_id, earlier.payload) == ("a1", done.result)
    worker.credit()
    await reflect(worker, second)
    last = await worker.next()
    assert last.execution.kind is StepKind.SYNTHESIZE
    assert [one.task_id for one in last.results] == ["a1", "a2", "b"]
    await worker.deliver(last, done)
    over = ResultsQuery(run_id=RUN, execution_id=last.execution.execution_id, token=last.token)
    assert await executor.read_results(TENANT, over) is None, "its lease is over"

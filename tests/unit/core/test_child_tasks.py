"""Tasks that are child runs, in the rules of the loop."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepwell.core.loop import letters
from stepwell.core.loop.children import ChildEnd
from stepwell.core.loop.letters import CancelRun, StartRun, TaskResult
from stepwell.core.loop.occurrences import Cancel, ChildEnds, Pause, Resume, SkipTask, TimerDue
from stepwell.core.loop.transition import Reply
from stepwell.core.records import graph, limits
from stepwell.core.records.model import (
    Budget,
    Failure,
    Payload,
    RetryPolicy,
    RunSpec,
    TaskSpec,
    Usage,
)
from stepwell.core.records.states import (
    BlockedKind,
    Effect,
    OnFailure,
    RunStatus,
    TaskStatus,
)
from stepwell.core.records.task_spec import ChildRun
from tests.unit.core.loop_world import World, task

RUN = ChildRun(pipeline_id="research", goal="find out")
TWICE = RetryPolicy(max_attempts=2, initial_backoff_ms=4_000, jitter=0)


def started(*tasks: TaskSpec, **spec: Any) -> World:
    world = World()
    world.start(plan=list(tasks), **spec)
    return world


def written(world: World) -> list[letters.Letter]:
    return [letter for commit in world.commits for _, letter in letters.written(commit)]


def children(world: World) -> list[RunSpec]:
    return [one.spec for one in written(world) if isinstance(one, StartRun)]


def ends(world: World, usage: Usage | None = None, **fields: Any) -> Reply:
    """End the newest child."""
    child = children(world)[-1]
    end = ChildEnd(run_id=child.run_id, **fields)
    occurrence = ChildEnds(
        question_id=child.child_of.question_id,
        run_id=child.run_id,
        status=end.status,
        value=Payload(data=msgspec.json.encode(end)),
        usage=usage or Usage(),
    )
    return world.do(occurrence)[0]


def fails(world: World, *, retryable: bool = True) -> Reply:
    failure = Failure(kind="Boom", message="no", retryable=retryable)
    return ends(world, status="FAILED", failure=failure)


def test_a_task_that_is_a_child_run_starts_it_by_a_letter_and_waits() -> None:
    world = started(task("a", child=RUN, input=Payload(data=b"1")))
    [letter] = [one for one in written(world) if isinstance(one, StartRun)]
    assert (letter.spec.pipeline_id, letter.spec.goal) == ("research", "find out")
    assert (letter.spec.child_of.task_id, letter.input) == ("a", Payload(data=b"1"))
    assert (world.task("a").status, world.task("a").attempts) == (TaskStatus.BLOCKED, 1)
    assert (world.run.status, world.run.blocked_on) == (RunStatus.WAITING, BlockedKind.CHILD)
    assert world.ready() == []


def test_the_end_of_the_child_completes_the_task_with_its_result_and_usage() -> None:
    world = started(task("a", child=RUN), task("b", "a"))
    ends(world, Usage(input_tokens=7), status="SUCCEEDED", result=Payload(data=b"42"))
    row = world.task("a")
    assert (row.status, row.result_id, row.waits) == (TaskStatus.COMPLETED, "task:a#1", ())
    assert world.commits[-1].outcomes[0].result == Payload(data=b"42")
    assert world.run.usage.input_tokens == 7
    assert world.ready() == ["task:b#1"]


def test_results_by_task_become_one_object() -> None:
    world = started(task("a", child=RUN))
    tasks = {"x": Payload(data=b"[1]"), "y": Payload(data=b"\x00", media_type="image/png")}
    ends(world, status="SUCCEEDED", tasks=tasks)
    assert world.commits[-1].outcomes[0].result == Payload(data=b'{"x":[1],"y":"AA=="}')


def test_a_child_that_failed_is_started_again_after_the_back_off() -> None:
    world = started(task("a", child=RUN, retry=TWICE))
    fails(world)
    first, second = children(world)
    assert first.run_id != second.run_id
    assert (first.start_delay_ms, second.start_delay_ms) == (0, 4_000)
    assert world.task("a").attempts == 2
    fails(world)
    assert (world.task("a").status, world.run.status) == (TaskStatus.FAILED, RunStatus.FAILED)
    assert world.run.failure.kind == "Boom"


def test_a_failure_that_is_final_starts_no_other_child() -> None:
    world = started(task("a", child=RUN, retry=TWICE))
    fails(world, retryable=False)
    assert (len(children(world)), world.run.status) == (1, RunStatus.FAILED)


def test_a_child_that_somebody_cancelled_is_not_started_again() -> None:
    world = started(task("a", child=RUN, retry=TWICE))
    ends(world, status="CANCELLED", reason="enough")
    assert world.task("a").failure.kind == "CHILD_CANCELLED"


def test_an_attempt_that_takes_too_long_cancels_its_child() -> None:
    world = started(task("a", child=RUN, retry=TWICE, attempt_timeout_ms=1_000))
    question_id = world.task("a").question_id
    world.do(TimerDue(name=f"question:{question_id}"))
    first, second = children(world)
    assert [one.run_id for one in written(world) if isinstance(one, CancelRun)] == [first.run_id]
    name = f"question:{second.child_of.question_id}"
    assert [one.delay_ms for one in world.commits[-1].timers if one.name == name] == [5_000]


def test_a_total_time_that_is_over_fails_the_task_and_cancels_its_child() -> None:
    world = started(task("a", child=RUN, retry=TWICE, total_timeout_ms=9_000))
    fails(world)
    _, second = children(world)
    assert [one.delay_ms for one in world.commits[0].timers if one.name == "total:a"] == [9_000]
    world.do(TimerDue(name="total:a"))
    assert (world.task("a").failure.kind, world.run.status) == ("TOTAL_TIMEOUT", RunStatus.FAILED)
    assert [one.run_id for one in written(world) if isinstance(one, CancelRun)] == [second.run_id]
    assert len(children(world)) == 2
    assert ends(world, status="CANCELLED").status == "UNCHANGED"


@pytest.mark.parametrize("ending", [Cancel(), SkipTask(task_id="a")])
def test_what_ends_the_task_cancels_its_child(ending: Cancel | SkipTask) -> None:
    world = started(task("a", child=RUN, attempt_timeout_ms=1_000), task("b"))
    world.do(ending)
    [child] = children(world)
    assert [one.run_id for one in written(world) if isinstance(one, CancelRun)] == [child.run_id]
    assert not any(name.startswith("question:") for name in world.timers)
    assert ends(world, status="CANCELLED").status == "UNCHANGED"


def test_a_failed_run_cancels_its_child_and_a_resume_starts_another() -> None:
    world = started(task("a", child=RUN), task("b", retry=RetryPolicy(max_attempts=1)))
    world.fail("b")
    assert (world.run.status, world.task("a").status) == (RunStatus.FAILED, TaskStatus.PENDING)
    world.do(Resume(retry_failed=True))
    first, second = children(world)
    assert [one.run_id for one in written(world) if isinstance(one, CancelRun)] == [first.run_id]
    assert (second.run_id != first.run_id, world.task("a").attempts) == (True, 2)


def test_a_paused_run_starts_no_other_child_until_it_is_resumed() -> None:
    world = started(task("a", child=RUN, retry=TWICE), task("b"))
    world.do(Pause())
    fails(world)
    assert (len(children(world)), world.task("a").status) == (1, TaskStatus.PENDING)
    world.do(Resume())
    assert len(children(world)) == 2


def test_a_child_gets_results_and_failures_of_the_tasks_before_it() -> None:
    world = started(
        task("a"),
        task("b", retry=RetryPolicy(max_attempts=1), on_failure=OnFailure.CONTINUE),
        task("c", "a", "b", child=RUN),
    )
    world.complete("a")
    world.fail("b")
    [letter] = [one for one in written(world) if isinstance(one, StartRun)]
    first, second = letter.results
    assert first == TaskResult(task_id="a", result_id="task:a#1")
    assert (second.task_id, second.failure.kind) == ("b", world.task("b").failure.kind)


def test_a_child_beyond_the_budget_fails_its_task_alone_if_the_policy_says_so() -> None:
    given = msgspec.structs.replace(RUN, budget=Budget(input_tokens=11))
    world = started(
        task("a", child=given, on_failure=OnFailure.CONTINUE),
        task("b"),
        budget=Budget(input_tokens=10),
    )
    assert (world.task("a").status, world.task("a").failure.kind) == ("FAILED", "CHILD_BUDGET")
    assert (children(world), world.ready()) == ([], ["task:b#1"])


def test_children_beyond_the_number_of_one_commit_start_in_the_next() -> None:
    count = limits.DEDUPLICATED_PER_COMMIT_MAX
    world = started(*(task(f"t{n}", child=RUN) for n in range(count + 1)))
    assert len(letters.written(world.commits[0])) == count
    assert len(children(world)) == count + 1


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "work"},
        {"role": "writer"},
        {"effect": Effect.AT_MOST_ONCE},
        {"heartbeat_timeout_ms": 1},
        {"idle_timeout_ms": 1},
        {"reconcile": True},
        {"idempotency_key": "k"},
    ],
)
def test_a_plan_whose_child_has_what_is_a_workers_is_invalid(fields: dict[str, Any]) -> None:
    [found] = graph.violations_of([TaskSpec(task_id="a", child=RUN, **fields)])
    assert found.field == f"plan.tasks[0].{next(iter(fields)).removesuffix('_ms')}"
    assert graph.violations_of([TaskSpec(task_id="a", child=RUN)]) == ()

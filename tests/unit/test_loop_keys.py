"""Idempotency keys: each step's own, and the planner's, under which a task is done once."""

from __future__ import annotations

from typing import Any

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context, KnownResult
from stepwell.core.loop.idempotency import MORE_TIMER, key_of
from stepwell.core.loop.signals import (
    Completed,
    Failed,
    Planned,
    Reflected,
    Released,
    Resume,
    Start,
    TimerDue,
)
from stepwell.core.loop.state import RunState
from stepwell.core.loop.transition import Transition
from stepwell.core.port import KeyedResult
from stepwell.core.records import limits
from stepwell.core.records.model import Failure, Payload, RunSpec, TaskSpec
from stepwell.core.records.states import Decision, Effect, OnFailure
from tests.unit.loop_world import AT_ONCE, ONCE, World, started, task, tasks


def keyed(task_id: str, key: str = "k", *depends_on: str, **fields: Any) -> TaskSpec:
    return task(task_id, *depends_on, idempotency_key=key, **fields)


def test_each_step_has_a_key_of_its_own_in_all_its_attempts() -> None:
    world = World()
    keys: dict[str, str] = {}

    def do(execution_id: str, *results: Any) -> None:
        """Play the attempts of a step from this one on; all of them have the same key."""
        step, _, number = execution_id.rpartition("#")
        for attempt, result in enumerate(results, int(number)):
            execution_id = f"{step}#{attempt}"
            key = key_of(world.state, world.held(execution_id).execution)
            assert keys.setdefault(key, step) == step, "the key is another step's"
            world.deliver(execution_id, result)
        assert list(keys.values()).count(step) == 1, "the attempts have different keys"

    failed = Failed(failure=Failure(kind="Boom"))
    world.start(step_retry=ONCE)
    do("plan:1#1", failed)
    world.do(Resume())
    do(
        "plan:1#2",
        Released(),
        Planned(tasks=(*tasks("plan", "same", retry=AT_ONCE), keyed("given"))),
    )
    do("task:plan#1", failed, Completed())
    do("task:same#1", Completed())
    do("task:given#1", Completed())
    anew = task("plan", effect=Effect.AT_MOST_ONCE, reconcile=True)
    do(
        "reflect:1#1",
        Reflected(decision=Decision.CONTINUE, tasks=(anew, task("same", retry=AT_ONCE))),
    )
    key = key_of(world.state, world.held("task:plan#3").execution)
    assert (key, keys["run/task:plan@1"]) == ("run/task:plan@2", "task:plan")
    world.begin("task:plan#3")
    world.expire("task:plan#3")
    assert key_of(world.state, world.held("reconcile:plan#1").execution) == key
    world.deliver("task:plan#3", Completed())
    do("reflect:2#1", Reflected(decision=Decision.REPLAN))
    do("plan:3#1", Planned(tasks=tasks("x")))
    world.complete("x")
    do("reflect:3#1", Reflected(decision=Decision.FINISH))
    do("synthesize:3#1", Completed())
    assert list(keys) == [
        "run/plan@0",
        "run/task:plan@1",
        "run/task:same@1",
        "k",
        "run/reflect@1",
        "run/reflect@2",
        "run/plan@2",
        "run/reflect@3",
        "run/synthesize@3",
    ]


def test_one_of_a_key_is_in_flight_and_the_others_take_its_result() -> None:
    world = started(keyed("a"), keyed("b"), keyed("c"), task("d"), max_parallel=4)
    assert world.ready() == ["task:a#1", "task:d#1"]
    world.deliver("task:a#1", Completed(result=Payload(data=b"1")))
    for task_id in ("b", "c"):
        copy = world.task(task_id)
        assert (copy.status, copy.result_id) == ("COMPLETED", "task:a#1")
        assert copy.deduplicated_from == "run/task:a#1"
        created = world.executions[f"task:{task_id}#1"]
        assert (created.status, created.has_result, created.worker_id) == ("COMPLETED", False, "")
    assert world.kinds().count("TASK_DEDUPLICATED") == 2
    world.complete("d")
    assert world.run.status == "SUCCEEDED"
    assert world.run.attempts.completed == 4


def test_if_it_fails_the_next_one_is_tried() -> None:
    plan = [keyed(name, retry=ONCE, on_failure=OnFailure.CONTINUE) for name in "abc"]
    world = started(*plan, max_parallel=4)
    world.fail("a")
    assert world.ready() == ["task:b#1"]
    world.complete("b")
    assert world.task("c").deduplicated_from == "run/task:b#1"
    assert world.run.status == "SUCCEEDED"


def test_one_that_waits_for_others_takes_the_result_when_its_turn_comes() -> None:
    world = started(keyed("a"), task("x"), keyed("b", "k", "x"))
    world.complete("a")
    assert world.task("b").status == "PENDING"
    world.complete("x")
    assert world.task("b").status == "COMPLETED"
    assert world.run.status == "SUCCEEDED"


def test_tasks_of_other_keys_and_of_none_are_left_alone() -> None:
    world = started(keyed("a", "1"), keyed("b", "2"), task("c"))
    assert len(world.ready()) == 3


def start(*tasks: TaskSpec, known: dict[str, KnownResult | None]) -> Transition:
    spec = RunSpec(tenant_id="tenant", run_id="run", pipeline_id="p")
    context = Context(known=known)
    return advance(RunState.empty("tenant", "run"), [Start(spec=spec, plan=tuple(tasks))], context)


def test_keys_that_nobody_has_looked_for_are_named() -> None:
    unasked = start(keyed("a"), keyed("b", "l"), task("c"), known={})
    assert unasked.unknown_keys == ("k", "l")
    assert len(unasked.offered) == 3
    asked = start(keyed("a"), keyed("b", "l"), known={"k": None, "l": None})
    assert asked.unknown_keys == ()
    assert len(asked.offered) == 2


def test_keyed_result_of_another_run_is_copied() -> None:
    result = Payload(data=b"7")
    other = KnownResult(run_id="other", execution_id="task:z#1", result=result)
    world = World()
    world.known = {"k": other}
    world.start(plan=[keyed("a"), keyed("b", "k", "a"), task("c", "a")])
    assert world.task("a").deduplicated_from == "other/task:z#1"
    assert world.task("b").deduplicated_from == "other/task:z#1"
    assert world.task("b").result_id == "task:a#1"
    assert world.executions["task:a#1"].has_result
    assert not world.executions["task:b#1"].has_result
    assert world.ready() == ["task:c#1"]


def test_a_completed_task_with_a_key_is_kept_for_other_runs() -> None:
    world = started(keyed("a"), task("b"), pipeline_id="p")
    world.complete("a", "b")
    assert world.keyed == [KeyedResult(pipeline_id="p", key="k", execution_id="task:a#1")]


def test_many_that_are_known_are_settled_in_several_commits() -> None:
    count = limits.DEDUPLICATED_PER_COMMIT_MAX + 3
    world = World()
    world.known = {
        f"k{n}": KnownResult(run_id="other", execution_id=f"task:{n}#1") for n in range(count)
    }
    world.start(plan=[keyed(f"t{n}", f"k{n}") for n in range(count)])
    assert world.run.counts.completed == limits.DEDUPLICATED_PER_COMMIT_MAX
    assert world.run.status == "QUEUED"
    assert world.timers[MORE_TIMER] == 0
    world.do(TimerDue(name=MORE_TIMER))
    assert world.run.status == "SUCCEEDED"


def test_a_plan_has_only_so_many_tasks_of_a_key() -> None:
    world = World()
    many = [keyed(f"t{n}") for n in range(limits.TASKS_PER_KEY_MAX + 1)]
    reply = world.start(plan=many)
    assert reply.reason == "PLAN_INVALID"
    assert reply.violations[0].field == f"plan.tasks[{limits.TASKS_PER_KEY_MAX}].idempotency_key"

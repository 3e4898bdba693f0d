"""Idempotency keys: each step's own, and the planner's, under which a task is done once."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context, FreeWorker, Grants, KeyFound, KeyState
from stepwell.core.loop.idempotency import KEY_FREED, KEY_TIMER, MORE_TIMER, key_of
from stepwell.core.loop.occurrences import (
    Cancel,
    Completed,
    Failed,
    Pause,
    Planned,
    Reflected,
    Released,
    Resume,
    RetryTask,
    SkipTask,
    Start,
    TimerDue,
)
from stepwell.core.loop.state import RunState
from stepwell.core.records import limits
from stepwell.core.records.model import Failure, Payload, RunSpec, TaskSpec
from stepwell.core.records.states import Decision, Effect, OnFailure, StepKind
from tests.unit.core.loop_world import AT_ONCE, ONCE, World, started, task, tasks


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
    assert world.ready() == ["task:d#1", "task:a#1"]
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


@pytest.mark.parametrize("between", [(), ("x",)], ids=["next", "at a distance"])
def test_one_that_depends_on_another_of_its_key_takes_its_result(between: tuple[str, ...]) -> None:
    above = between or ("a",)
    world = started(keyed("a"), *(task(one, "a") for one in between), keyed("b", "k", *above))
    assert world.ready() == ["task:a#1"]
    world.complete("a")
    for one in between:
        world.complete(one)
    assert world.task("b").deduplicated_from == "run/task:a#1"
    assert world.run.status == "SUCCEEDED"


def test_one_that_depends_on_another_of_its_key_which_failed_is_run() -> None:
    world = started(keyed("a", retry=ONCE, on_failure=OnFailure.CONTINUE), keyed("b", "k", "a"))
    world.fail("a")
    assert world.ready() == ["task:b#1"]


@pytest.mark.parametrize("how", ["retried", "planned anew"])
def test_a_task_that_must_wait_for_its_dependency_again_gives_its_key_up(how: str) -> None:
    plan = [
        keyed("a", retry=ONCE, on_failure=OnFailure.CONTINUE),
        keyed("b", "k", "a", retry=AT_ONCE),
        task("q"),
    ]
    world = started(*plan, max_parallel=4)
    world.fail("a")
    world.lease("task:b#1")
    question = world.ask("q")
    if how == "retried":
        world.fail("b")
        world.do(Pause())
        world.do(RetryTask(task_id="a"))
        world.do(Resume())
    else:
        world.fail("b")
        world.answer(question, replan=True)
        world.deliver(world.ready()[0], Planned(tasks=(keyed("a", prompt="anew"), plan[1])))
    assert [world.task(one).held_key for one in "ab"] == ["", ""]
    assert world.ready() == ["task:a#2"]
    world.complete("a")
    assert world.task("b").deduplicated_from == "run/task:a#2"


def test_tasks_of_other_keys_and_of_none_are_left_alone() -> None:
    world = started(keyed("a", "1"), keyed("b", "2"), task("c"))
    assert len(world.ready()) == 3


TAKEN = KeyFound(state=KeyState.TAKEN, run_id="other")
FREE = KeyFound(state=KeyState.FREE)


def done(execution_id: str = "task:z#1", data: bytes | None = None) -> KeyFound:
    result = Payload(data=data) if data is not None else None
    return KeyFound(state=KeyState.DONE, run_id="other", execution_id=execution_id, result=result)


def refused_lease(world: World, execution_id: str) -> None:
    assert world.do(world.take(execution_id))[0].status == "REFUSED"


def test_keys_that_nobody_has_looked_for_are_asked_for() -> None:
    spec = RunSpec(tenant_id="tenant", run_id="run", pipeline_id="p")
    state = RunState.empty("tenant", "run")
    plan = (keyed("a"), keyed("b", "l"), task("c"))
    start = advance(state, [Start(spec=spec, plan=plan)], Context())
    assert start.asked_keys == {}, "a run that isn't there yet has no commit to reserve by"
    assert start.commit is not None
    state.apply(start.commit)
    more = [TimerDue(name=MORE_TIMER)]
    assert advance(state, more, Context()).asked_keys == {"k": False, "l": False}
    worker = FreeWorker(worker_id="w", kinds=tuple(StepKind))
    context = Context(grants=Grants(workers=(worker,), tokens=("t1", "t2")))
    one_of_two = advance(state, more, context).asked_keys
    assert one_of_two == {"k": True, "l": False}, "no more are reserved than can be leased"


def test_a_key_that_is_free_but_not_reserved_is_offered_and_not_leased() -> None:
    world = World()
    world.keys["k"] = FREE
    world.start(plan=[keyed("a")])
    assert world.ready() == ["task:a#1"]
    transition = world.advance(world.take("task:a#1"))
    assert (transition.commit, transition.asked_keys) == (None, {"k": True})


def test_a_task_holds_its_key_from_its_first_lease_to_its_end() -> None:
    world = started(keyed("a", retry=AT_ONCE, on_failure=OnFailure.CONTINUE), task("b"))
    assert world.task("a").held_key == ""
    world.lease("task:a#1")
    assert world.task("a").held_key == "k"
    world.keys["k"] = TAKEN  # Nobody asks again.
    world.fail("a")
    world.answer(world.ask("a"))
    world.do(Pause())
    world.do(Resume())
    assert world.task("a").held_key == "k"
    world.lease(world.ready()[0])
    world.fail("a", retryable=False)
    assert (world.task("a").status, world.task("a").held_key) == ("FAILED", "")


def test_a_completed_task_keeps_its_key_until_a_plan_defines_it_anew() -> None:
    world = World()
    world.start(plan=[keyed("a")], stages=(StepKind.REFLECT,))
    world.complete("a")
    assert world.task("a").held_key == "k"
    again = Reflected(decision=Decision.CONTINUE, tasks=(keyed("a", prompt="anew"),))
    world.deliver("reflect:1#1", again)
    assert (world.task("a").status, world.task("a").held_key) == ("READY", "")


@pytest.mark.parametrize("end", [Cancel(), "fails"])
def test_a_run_that_ends_gives_its_keys_up(end: Cancel | str) -> None:
    world = started(keyed("a"), keyed("b", "l"), task("c", retry=ONCE))
    world.keys["l"] = TAKEN
    world.lease("task:a#1")
    refused_lease(world, "task:b#1")
    if isinstance(end, Cancel):
        world.do(end)
    else:
        world.fail("c")
    assert world.run.ended
    assert [(one.held_key, one.key_run_id) for one in world.state.tasks.values()] == [("", "")] * 3
    assert world.timers == {}


def test_an_unknown_outcome_keeps_its_key_when_its_run_fails() -> None:
    plan = [keyed("a", effect=Effect.AT_MOST_ONCE), task("c", retry=ONCE)]
    world = started(*plan)
    world.begin("task:a#1")
    world.fail("c")
    assert (world.run.status, world.task("a").held_key) == ("FAILED", "k")


def test_a_task_whose_key_another_run_has_waits_and_takes_no_place() -> None:
    world = World()
    world.keys["k"] = TAKEN
    world.start(plan=[keyed("a"), task("b")], max_parallel=1)
    assert world.task("a").key_run_id == "other"
    assert world.ready() == ["task:b#1"]
    world.complete("b")
    run = world.run
    assert (run.status, run.blocked_on, run.blocked_run_id) == ("WAITING", "KEY", "other")
    assert KEY_TIMER in world.timers


@pytest.mark.parametrize("name", [KEY_TIMER, KEY_FREED])
def test_a_task_that_waits_runs_once_its_key_is_free(name: str) -> None:
    world = World()
    world.keys["k"] = TAKEN
    world.start(plan=[keyed("a")])
    world.do(TimerDue(name=name))
    assert world.run.blocked_on == "KEY"
    assert KEY_TIMER in world.timers
    del world.keys["k"]
    world.do(TimerDue(name=name))
    assert (world.run.blocked_on, world.run.blocked_run_id) == ("WORKER", "")
    assert KEY_TIMER not in world.timers
    assert world.advance(TimerDue(name=KEY_FREED)).commit is None
    world.complete("a")
    assert world.run.status == "SUCCEEDED"


def test_a_run_that_was_woken_while_paused_asks_when_it_goes_on() -> None:
    world = World()
    world.keys["k"] = TAKEN
    world.start(plan=[keyed("a")])
    world.do(Pause())
    del world.keys["k"]
    world.do(TimerDue(name=KEY_TIMER))
    world.do(Resume())
    assert world.ready() == ["task:a#1"]


def test_a_task_that_waits_takes_the_result_of_a_good_end() -> None:
    world = World()
    world.keys["k"] = TAKEN
    world.start(plan=[keyed("a")])
    world.keys["k"] = done(data=b"7")
    world.do(TimerDue(name=KEY_FREED))
    assert world.task("a").deduplicated_from == "other/task:z#1"
    assert world.task("a").held_key == ""
    assert world.run.status == "SUCCEEDED"


def test_a_step_whose_key_is_gone_when_it_is_claimed_is_withdrawn() -> None:
    world = started(keyed("a"), max_parallel=1)
    world.keys["k"] = TAKEN
    refused_lease(world, "task:a#1")
    a = world.task("a")
    assert (a.status, a.key_run_id, a.spent) == ("PENDING", "other", 0)
    assert world.status_of("task:a#1") == "RELEASED"
    world.keys["k"] = done()
    world.do(TimerDue(name=KEY_FREED))
    assert world.run.status == "SUCCEEDED"


def test_a_step_whose_key_was_completed_when_it_is_claimed_takes_the_result() -> None:
    world = started(keyed("a"))
    world.keys["k"] = done()
    refused_lease(world, "task:a#1")
    assert world.task("a").deduplicated_from == "other/task:z#1"
    assert world.run.status == "SUCCEEDED"


def test_a_task_that_waits_gives_up_by_its_total_time_out() -> None:
    world = World()
    world.keys["k"] = TAKEN
    world.start(plan=[keyed("a", total_timeout_ms=60_000)])
    assert world.timers["total:a"] == 60_000
    world.timers["total:a"] = 1
    world.do(TimerDue(name=KEY_TIMER))
    assert world.timers["total:a"] == 1, "it runs from the first wait on"
    world.do(TimerDue(name="total:a"))
    assert world.task("a").failure.kind == "TOTAL_TIMEOUT"
    assert world.run.status == "FAILED"


def test_a_total_time_out_that_runs_while_a_task_waits_goes_on_with_its_offer() -> None:
    world = World()
    world.keys["k"] = TAKEN
    world.start(plan=[keyed("a", total_timeout_ms=60_000)])
    world.timers["total:a"] = 1
    del world.keys["k"]
    world.do(TimerDue(name=KEY_FREED))
    assert (world.ready(), world.timers) == (["task:a#1"], {"total:a": 1})


def test_without_an_answer_of_the_store_nothing_with_a_key_is_offered_or_leased() -> None:
    world = World()
    world.keys["k"] = KeyFound(state=KeyState.UNKNOWN)
    world.start(plan=[keyed("a")])
    assert (world.ready(), world.run.blocked_on, world.run.blocked_run_id) == ([], "KEY", "")
    world.keys["k"] = FREE
    world.do(TimerDue(name=KEY_TIMER))
    world.keys["k"] = KeyFound(state=KeyState.UNKNOWN)
    refused_lease(world, "task:a#1")
    assert world.ready() == ["task:a#1"]


def test_a_paused_task_that_holds_the_key_goes_before_others_of_its_run() -> None:
    world = started(keyed("a"), keyed("b"), max_parallel=4)
    world.lease("task:a#1")
    world.fail("a")
    world.do(Pause())
    assert world.task("a").status == "PENDING"
    world.do(Resume())
    assert world.ready() == ["task:a#3"]
    world.do(SkipTask(task_id="a"))
    assert world.ready() == ["task:b#1"]


def test_keyed_result_of_another_run_is_copied() -> None:
    world = World()
    world.keys["k"] = done(data=b"7")
    world.start(plan=[keyed("a"), keyed("b", "k", "a"), task("c", "a")])
    assert world.task("a").deduplicated_from == "other/task:z#1"
    assert world.task("b").deduplicated_from == "other/task:z#1"
    assert world.task("b").result_id == "task:a#1"
    assert world.executions["task:a#1"].has_result
    assert not world.executions["task:b#1"].has_result
    assert world.ready() == ["task:c#1"]


def test_many_that_are_known_are_settled_in_several_commits() -> None:
    count = limits.DEDUPLICATED_PER_COMMIT_MAX + 3
    world = World()
    world.keys = {f"k{n}": done(f"task:{n}#1") for n in range(count)}
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

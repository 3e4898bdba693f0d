"""An attempt's state for the next one, and a task's conversation, in the loop alone."""

from __future__ import annotations

import pytest

from stepwell.core.loop.signals import (
    AppendMessages,
    Begin,
    Completed,
    Failed,
    LeaseExpired,
    NeedsInput,
    Planned,
    Reflected,
    Released,
)
from stepwell.core.records.model import (
    Failure,
    Message,
    Payload,
    Previous,
    RetryPolicy,
    Session,
    TaskSpec,
)
from stepwell.core.records.states import Decision, Effect, EventType, ExecutionStatus, OnFailure
from tests.unit.loop_world import World, chain

SESSION = Session(backend="cli", session_id="s-1")
OTHER = Session(backend="cli", session_id="s-2")
HALF = Payload(data=b'"half"')
MORE = Payload(data=b'"more"')
AT_ONCE = RetryPolicy(initial_backoff_ms=0)


def one_task(**fields: object) -> World:
    world = World()
    world.start(plan=chain("a", retry=AT_ONCE, **fields))
    return world


def expire(world: World, execution_id: str, **fields: object) -> None:
    token = world.held(execution_id).token
    reply = world.do(LeaseExpired(execution_id=execution_id, token=token, **fields))[0]  # pyright: ignore[reportArgumentType] - a test's shorthand
    assert reply.status == "ACCEPTED"


def words(*said: str) -> tuple[Message, ...]:
    return tuple(Message(role="user", content=one) for one in said)


def test_a_failed_attempt_leaves_its_session_progress_and_failure() -> None:
    world = one_task()
    failure = Failure(kind="Boom", message="it broke")
    world.deliver("task:a#1", Failed(failure=failure), session=SESSION, progress=HALF)
    assert world.task("a").previous == Previous(
        execution_id="task:a#1", session=SESSION, progress=HALF, failure=failure
    )


@pytest.mark.parametrize("timed_out", [False, True])
def test_a_lost_attempt_leaves_what_its_heartbeats_brought(timed_out: bool) -> None:
    world = one_task()
    world.lease("task:a#1")
    expire(world, "task:a#1", timed_out=timed_out, progress=HALF, session=SESSION)
    left = world.task("a").previous
    assert (left.session, left.progress) == (SESSION, HALF)
    assert left.failure.kind == ("TIMED_OUT" if timed_out else "LOST")
    assert world.executions["task:a#1"].session == SESSION


def test_unset_progress_and_session_stay_as_before() -> None:
    world = one_task()
    boom = Failed(failure=Failure(kind="Boom"))
    world.deliver("task:a#1", boom, session=SESSION, progress=HALF)
    world.deliver("task:a#2", boom, progress=MORE)
    left = world.task("a").previous
    assert (left.execution_id, left.session, left.progress) == ("task:a#2", SESSION, MORE)


def test_work_that_was_handed_back_leaves_no_failure() -> None:
    world = one_task()
    world.deliver("task:a#1", Failed(failure=Failure(kind="Boom")), session=SESSION)
    world.deliver("task:a#2", Released(), progress=HALF)
    assert world.task("a").previous == Previous(
        execution_id="task:a#2", session=SESSION, progress=HALF
    )


def test_work_that_never_reached_its_worker_leaves_all_as_it_was() -> None:
    world = one_task()
    world.deliver("task:a#1", Failed(failure=Failure(kind="Boom")), session=SESSION)
    before = world.task("a").previous
    world.deliver("task:a#2", Released(reason="it could not be delivered"))
    assert world.task("a").previous == before


def test_a_task_that_asks_leaves_its_session_to_the_attempt_with_the_answer() -> None:
    world = one_task()
    world.deliver("task:a#1", NeedsInput(prompt="?"), session=SESSION, progress=HALF)
    assert world.task("a").previous == Previous(
        execution_id="task:a#1", session=SESSION, progress=HALF
    )


def test_an_unknown_outcome_leaves_what_its_heartbeats_brought() -> None:
    world = one_task(effect=Effect.AT_MOST_ONCE)
    token = world.lease("task:a#1")
    world.do(Begin(execution_id="task:a#1", token=token))
    expire(world, "task:a#1", progress=HALF, session=SESSION)
    assert world.executions["task:a#1"].status is ExecutionStatus.UNKNOWN_OUTCOME
    assert world.task("a").previous.session == SESSION
    world.deliver("task:a#1", Completed())
    assert world.task("a").previous == Previous()


def test_a_completed_task_leaves_nothing() -> None:
    world = one_task()
    world.deliver("task:a#1", Failed(failure=Failure(kind="Boom")), session=SESSION)
    world.deliver("task:a#2", Completed(), session=OTHER)
    assert world.task("a").previous == Previous()
    assert world.executions["task:a#2"].session == OTHER


def test_a_task_never_gets_what_another_one_left() -> None:
    world = World()
    world.start(plan=chain("a", "b", retry=AT_ONCE))
    world.deliver("task:a#1", Failed(failure=Failure(kind="Boom")), session=SESSION, progress=HALF)
    world.complete("a")
    assert world.task("b").previous == Previous()
    assert world.run.previous == Previous()


def test_a_planner_is_left_why_its_plan_was_refused() -> None:
    world = World()
    world.start(step_retry=AT_ONCE)
    world.deliver("plan:1#1", Planned(tasks=(TaskSpec(task_id="a", depends_on=("nowhere",)),)))
    left = world.run.previous
    assert left.execution_id == "plan:1#1"
    assert left.failure.kind == "PLAN_INVALID"
    assert left.failure.violations[0].field == "plan.tasks[0].depends_on[0]"
    world.deliver("plan:1#2", Planned(tasks=(TaskSpec(task_id="a"),)))
    assert world.run.previous == Previous()


def test_the_next_phase_starts_with_nothing() -> None:
    world = World()
    world.start(step_retry=AT_ONCE)
    world.deliver("plan:1#1", Planned(tasks=(TaskSpec(task_id="a"),)))
    world.complete("a")
    world.deliver("reflect:1#1", Released(), session=SESSION)
    assert world.run.previous.session == SESSION
    world.deliver("reflect:1#2", Reflected(decision=Decision.REPLAN))
    assert world.run.previous == Previous()


def test_a_task_that_is_defined_anew_starts_with_nothing() -> None:
    world = World()
    world.start(step_retry=AT_ONCE)
    once = RetryPolicy(max_attempts=1)
    first = TaskSpec(task_id="a", retry=once, on_failure=OnFailure.CONTINUE)
    world.deliver("plan:1#1", Planned(tasks=(first,)))
    boom = Failed(failure=Failure(kind="Boom"))
    world.deliver("task:a#1", boom, session=SESSION, messages=words("hello"))
    assert world.task("a").previous.session == SESSION
    anew = (TaskSpec(task_id="a", prompt="otherwise"),)
    world.deliver("reflect:1#1", Reflected(decision=Decision.CONTINUE, tasks=anew))
    assert world.task("a").previous == Previous()
    assert world.task("a").messages == 0


def test_the_messages_of_an_outcome_are_numbered_within_their_task() -> None:
    world = one_task()
    boom = Failed(failure=Failure(kind="Boom"))
    world.deliver("task:a#1", boom, session=SESSION, messages=words("one", "two"))
    world.deliver("task:a#2", Completed(), messages=words("three"))
    assert world.task("a").messages == 3
    first, second = world.executions["task:a#1"], world.executions["task:a#2"]
    assert (first.messages_after, first.messages) == (0, 2)
    assert (second.messages_after, second.messages) == (2, 1)


def test_messages_are_kept_before_there_is_an_outcome() -> None:
    world = one_task()
    token = world.lease("task:a#1")
    said = AppendMessages(execution_id="task:a#1", token=token, messages=words("one", "two"))
    assert world.do(said)[0].status == "ACCEPTED"
    assert world.kinds()[-1] == EventType.MESSAGES_APPENDED
    assert world.task("a").messages == 2


def test_messages_that_are_sent_again_are_not_appended_again() -> None:
    world = one_task()
    token = world.lease("task:a#1")
    world.do(AppendMessages(execution_id="task:a#1", token=token, messages=words("one", "two")))
    again = AppendMessages(execution_id="task:a#1", token=token, messages=words("one", "two"))
    assert world.do(again)[0].status == "UNCHANGED"
    longer = AppendMessages(
        execution_id="task:a#1", token=token, messages=words("two", "three"), after=1
    )
    world.do(longer)
    assert world.task("a").messages == 3


def test_an_outcome_does_not_append_what_came_before_it_again() -> None:
    world = one_task()
    token = world.lease("task:a#1")
    world.do(AppendMessages(execution_id="task:a#1", token=token, messages=words("one", "two")))
    # The worker has not heard that the second one was kept.
    world.deliver("task:a#1", Completed(), messages=words("two", "three"), messages_after=1)
    assert world.task("a").messages == 3
    assert world.executions["task:a#1"].messages == 3


def test_several_appends_in_one_turn_go_on_from_one_another() -> None:
    world = one_task()
    token = world.lease("task:a#1")
    one = AppendMessages(execution_id="task:a#1", token=token, messages=words("one"))
    two = AppendMessages(execution_id="task:a#1", token=token, messages=words("two"), after=1)
    world.do(one, two)
    assert world.task("a").messages == 2


def test_appends_of_a_lost_lease_are_dropped() -> None:
    world = one_task()
    token = world.lease("task:a#1")
    expire(world, "task:a#1")
    said = AppendMessages(execution_id="task:a#1", token=token, messages=words("late"))
    assert world.do(said)[0].status == "LEASE_LOST"
    assert world.task("a").messages == 0


def test_a_step_without_a_task_has_no_conversation() -> None:
    world = World()
    world.start()
    world.deliver("plan:1#1", Planned(tasks=(TaskSpec(task_id="a"),)), messages=words("plan it"))
    assert world.executions["plan:1#1"].messages == 1
    assert world.task("a").messages == 0

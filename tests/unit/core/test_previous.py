"""An attempt's state for the next one, and a task's conversation, in the loop alone."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.core.loop.occurrences import (
    AppendMessages,
    Completed,
    Failed,
    NeedsAnswer,
    Planned,
    Reflected,
    Released,
    Result,
)
from stepwell.core.records.model import Failure, Message, Payload, Previous, Session
from stepwell.core.records.states import Decision, Effect, OnFailure
from tests.unit.core.loop_world import AT_ONCE, ONCE, World, chain, planned, started, task, tasks

SESSION = Session(backend="cli", session_id="s-1")
OTHER = Session(backend="cli", session_id="s-2")
HALF = Payload(data=b'"half"')
MORE = Payload(data=b'"more"')
BOOM = Failed(failure=Failure(kind="Boom", message="it broke"))


def one_task(**fields: Any) -> World:
    return started(task("a", retry=AT_ONCE, **fields))


def words(*said: str) -> tuple[Message, ...]:
    return tuple(Message(role="user", content=one) for one in said)


# --- what an attempt leaves to the next -------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "failure"),
    [(BOOM, BOOM.failure), (NeedsAnswer(prompt="?"), Failure()), (Released(), Failure())],
)
def test_an_attempt_leaves_its_session_progress_and_failure(
    result: Result, failure: Failure
) -> None:
    world = one_task()
    world.deliver("task:a#1", result, session=SESSION, progress=HALF)
    assert world.task("a").previous == Previous(
        execution_id="task:a#1", session=SESSION, progress=HALF, failure=failure
    )


@pytest.mark.parametrize("how", ["LOST", "TIMED_OUT", "UNKNOWN_OUTCOME"])
def test_a_lost_attempt_leaves_what_its_heartbeats_brought(how: str) -> None:
    unknown = how == "UNKNOWN_OUTCOME"
    world = one_task(effect=Effect.AT_MOST_ONCE if unknown else Effect.IDEMPOTENT)
    if unknown:
        world.begin("task:a#1")
    lost = world.expire("task:a#1", timed_out=how == "TIMED_OUT", progress=HALF, session=SESSION)
    assert (lost.status, world.status_of("task:a#1")) == ("ACCEPTED", how)
    left = world.task("a").previous
    assert (left.session, left.progress) == (SESSION, HALF)
    assert left.failure.kind == ("LOST" if unknown else how)
    assert unknown or world.executions["task:a#1"].session == SESSION
    world.deliver("task:a#1" if unknown else "task:a#2", Completed(), session=OTHER)
    assert world.task("a").previous == Previous(), "a completed task leaves nothing"


def test_unset_progress_and_session_stay_as_before() -> None:
    world = one_task()
    world.deliver("task:a#1", BOOM, session=SESSION, progress=HALF)
    world.deliver("task:a#2", BOOM, progress=MORE)
    left = world.task("a").previous
    assert (left.execution_id, left.session, left.progress) == ("task:a#2", SESSION, MORE)


def test_released_work_leaves_no_failure_unless_it_never_reached_its_worker() -> None:
    world = one_task()
    world.deliver("task:a#1", BOOM, session=SESSION)
    before = world.task("a").previous
    world.deliver("task:a#2", Released(reason="it could not be delivered"))
    assert world.task("a").previous == before
    world.deliver("task:a#3", Released(), progress=HALF)
    assert world.task("a").previous == Previous(
        execution_id="task:a#3", session=SESSION, progress=HALF
    )


def test_a_task_never_gets_what_another_one_left() -> None:
    world = started(*chain("a", "b", retry=AT_ONCE))
    world.deliver("task:a#1", BOOM, session=SESSION, progress=HALF)
    world.complete("a")
    assert world.task("b").previous == Previous()
    assert world.run.previous == Previous()


def test_a_planner_is_left_why_its_plan_was_refused() -> None:
    world = World()
    world.start(step_retry=AT_ONCE)
    world.deliver("plan:1#1", Planned(tasks=(task("a", "nowhere"),)))
    left = world.run.previous
    assert (left.execution_id, left.failure.kind) == ("plan:1#1", "PLAN_INVALID")
    assert left.failure.violations[0].field == "plan.tasks[0].depends_on[0]"
    world.deliver("plan:1#2", Planned(tasks=tasks("a")))
    assert world.run.previous == Previous()


def test_the_next_phase_starts_with_nothing() -> None:
    world = planned(task("a"), step_retry=AT_ONCE)
    world.complete("a")
    world.deliver("reflect:1#1", Released(), session=SESSION)
    assert world.run.previous.session == SESSION
    world.deliver("reflect:1#2", Reflected(decision=Decision.REPLAN))
    assert world.run.previous == Previous()


def test_a_task_that_is_defined_anew_starts_with_nothing() -> None:
    world = planned(task("a", retry=ONCE, on_failure=OnFailure.CONTINUE))
    world.deliver("task:a#1", BOOM, session=SESSION, messages=words("hello"))
    assert world.task("a").previous.session == SESSION
    anew = Reflected(decision=Decision.CONTINUE, tasks=tasks("a", prompt="otherwise"))
    world.deliver("reflect:1#1", anew)
    assert (world.task("a").previous, world.task("a").messages) == (Previous(), 0)


# --- a task's conversation --------------------------------------------------------------------------


def append(token: str, *said: str, after: int = 0) -> AppendMessages:
    return AppendMessages(execution_id="task:a#1", token=token, messages=words(*said), after=after)


def test_the_messages_of_an_outcome_are_numbered_within_their_task() -> None:
    world = one_task()
    world.deliver("task:a#1", BOOM, session=SESSION, messages=words("one", "two"))
    world.deliver("task:a#2", Completed(), messages=words("three"))
    assert world.task("a").messages == 3
    first, second = world.executions["task:a#1"], world.executions["task:a#2"]
    assert (first.messages_after, first.messages) == (0, 2)
    assert (second.messages_after, second.messages) == (2, 1)


def test_messages_are_appended_once_however_often_they_are_sent() -> None:
    world = one_task()
    token = world.lease("task:a#1")
    assert world.do(append(token, "one", "two"))[0].status == "ACCEPTED"
    assert world.kinds()[-1] == "MESSAGES_APPENDED"
    assert world.task("a").messages == 2
    assert world.do(append(token, "one", "two"))[0].status == "UNCHANGED"
    world.do(append(token, "two", "three", after=1), append(token, "four", after=3))
    assert world.task("a").messages == 4
    # The worker has not heard that the fourth one was kept.
    world.deliver("task:a#1", Completed(), messages=words("four", "five"), messages_after=3)
    assert world.task("a").messages == world.executions["task:a#1"].messages == 5


def test_appends_of_a_lost_lease_are_dropped() -> None:
    world = one_task()
    token = world.lease("task:a#1")
    world.expire("task:a#1")
    assert world.do(append(token, "late"))[0].status == "LEASE_LOST"
    assert world.task("a").messages == 0


def test_a_step_without_a_task_has_no_conversation() -> None:
    world = World()
    world.start()
    world.deliver("plan:1#1", Planned(tasks=tasks("a")), messages=words("plan it"))
    assert world.executions["plan:1#1"].messages == 1
    assert world.task("a").messages == 0

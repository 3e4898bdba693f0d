"""Signals that make a run reflect early: what is dispatched, shown and taken, and how the run goes on."""

from __future__ import annotations

import pytest

from stepwell.core.loop.occurrences import (
    AwaitSignal,
    Completed,
    Delivery,
    NeedsAnswer,
    Pause,
    Planned,
    Reflected,
    Resume,
    SendSignal,
    Stop,
)
from stepwell.core.records.limits import SIGNALS_SHOWN_MAX
from stepwell.core.records.model import Payload, TaskSpec
from stepwell.core.records.states import Decision, StepKind
from tests.unit.core.loop_world import AT_ONCE, BOTH, World, task

CONTINUE, FINISH, REPLAN = Decision.CONTINUE, Decision.FINISH, Decision.REPLAN
REFLECTS = (StepKind.REFLECT,)


def steered(*plan: TaskSpec | str, **spec: object) -> World:
    """Return a run with this plan, which a note makes reflect."""
    world = World()
    whole = [task(one) if isinstance(one, str) else one for one in plan]
    fields = {"stages": REFLECTS, "reflect_on": ("note",), **spec}
    assert world.start(plan=whole, **fields).status == "ACCEPTED"
    return world


def note(world: World, text: str = "look", name: str = "note") -> None:
    (reply,) = world.do(SendSignal(name=name, value=Payload(data=text.encode())))
    assert reply.status == "ACCEPTED"


def reflect(world: World, decision: Decision, *plan: TaskSpec, again: int = 0) -> None:
    name = f"reflect:{world.run.iteration}" + (f".{again}" if again else "")
    reply = world.deliver(f"{name}#1", Reflected(decision=decision, tasks=plan))
    assert reply.status == "ACCEPTED"


def test_signal_makes_a_run_reflect_before_anything_else_is_dispatched() -> None:
    world = steered("a", "b")
    note(world)
    assert (world.run.phase, world.ready()) == ("REFLECTING", ["reflect:1#1"])
    assert world.statuses() == {"a": "PENDING", "b": "PENDING"}


def test_step_that_a_worker_has_ends_first() -> None:
    world = steered("a", "b", task("c", "a"))
    world.lease("task:a#1")
    note(world)
    assert (world.run.phase, world.ready(), world.leased()) == ("EXECUTING", [], ["task:a#1"])
    world.complete("a")
    assert world.ready() == ["reflect:1#1"]
    assert world.statuses() == {"a": "COMPLETED", "b": "PENDING", "c": "PENDING"}


def test_attempt_that_fails_meanwhile_is_tried_again_after_the_reflection() -> None:
    world = steered(task("a", retry=AT_ONCE))
    world.lease("task:a#1")
    note(world)
    world.fail("a")
    assert world.ready() == ["reflect:1#1"]
    reflect(world, CONTINUE)
    assert world.ready() == ["task:a#2"]


def test_reflection_that_changes_nothing_lets_the_plan_go_on() -> None:
    world = steered("a", "b")
    world.complete("a")
    note(world)
    reflect(world, CONTINUE)
    assert (world.run.phase, world.run.iteration, world.run.plan_revision) == ("EXECUTING", 1, 1)
    assert (world.ready(), world.run.signals.kept, world.kept_signals) == (["task:b#2"], 0, ())
    world.complete("b")
    reflect(world, FINISH, again=1)
    assert world.run.status == "SUCCEEDED"


def test_reflections_of_one_iteration_have_keys_and_journals_of_their_own() -> None:
    world = steered("a")
    note(world)
    world.record("reflect:1#1")
    reflect(world, CONTINUE)
    note(world)
    assert world.ready() == ["reflect:1.1#1"]
    assert world.run.step_journal.is_empty
    reflect(world, REPLAN, again=1)
    world.deliver("plan:2#1", Planned(tasks=(task("c"),)))
    note(world)
    assert world.ready() == ["reflect:2#1"]


def test_only_the_signals_that_the_reflection_was_shown_are_taken() -> None:
    world = steered("a")
    note(world, "1")
    note(world, "x", name="other")
    world.lease("reflect:1#1")
    note(world, "2")
    reflect(world, CONTINUE)
    assert [one.entry.value.data for one in world.kept_signals if one.entry.value] == [b"x", b"2"]
    taken = [one for one in world.events if one.type == "SIGNAL_TAKEN"]
    assert [(one.message, one.execution_id) for one in taken] == [("note", "reflect:1#1")]
    assert world.ready() == ["reflect:1.1#1"]
    reflect(world, CONTINUE, again=1)
    assert (world.ready(), world.run.signals.kept) == (["task:a#2"], 1)


def test_reflection_that_finishes_is_made_again_if_a_signal_came_meanwhile() -> None:
    world = steered("a")
    world.complete("a")
    world.lease("reflect:1#1")
    note(world)
    reflect(world, FINISH)
    assert world.ready() == ["reflect:1.1#1"]
    reflect(world, FINISH, again=1)
    assert world.run.status == "SUCCEEDED"


def test_more_signals_than_are_shown_are_taken_by_the_next_reflection() -> None:
    world = steered("a")
    for number in range(SIGNALS_SHOWN_MAX + 1):
        note(world, str(number))
    world.lease("reflect:1#1")
    assert world.run.signals.shown == SIGNALS_SHOWN_MAX
    reflect(world, CONTINUE)
    assert (world.run.signals.kept, world.ready()) == (1, ["reflect:1.1#1"])


def test_finish_cancels_what_is_left_of_the_plan() -> None:
    world = steered("a", "b", "c", task("d", "c", total_timeout_ms=1_000), stages=BOTH)
    world.ask("a")
    world.suspend("task:b#1", s=AwaitSignal(name="other"))
    world.complete("c")
    note(world)
    reflect(world, FINISH)
    assert world.ready() == ["synthesize:1#1"]
    expected = {"a": "CANCELLED", "b": "CANCELLED", "c": "COMPLETED", "d": "CANCELLED"}
    assert (world.statuses(), world.state.questions) == (expected, {})
    world.deliver("synthesize:1#1", Completed())
    assert world.run.status == "SUCCEEDED"


def test_another_plan_keeps_the_tasks_that_it_names_as_they_are() -> None:
    world = steered("a", "b")
    world.ask("a")
    note(world)
    reflect(world, CONTINUE, task("a"), task("c"))
    assert (world.run.iteration, world.ready()) == (2, ["task:c#1"])
    assert world.statuses() == {"a": "BLOCKED", "b": "CANCELLED", "c": "PENDING"} | {"c": "READY"}


def test_replan_shows_the_planner_the_reason_and_begins_an_iteration() -> None:
    world = steered("a")
    note(world)
    reflect(world, REPLAN)
    assert (world.run.phase, world.run.iteration, world.ready()) == ("PLANNING", 2, ["plan:2#1"])


@pytest.mark.parametrize("stops", [False, True])
def test_in_the_last_iteration_a_reflection_finishes_or_lets_the_plan_go_on(stops: bool) -> None:
    world = steered("a", max_iterations=10 if stops else 1)
    if stops:
        world.do(Stop())
    note(world)
    reflect(world, REPLAN)
    assert (world.run.phase, world.run.iteration, world.ready()) == ("EXECUTING", 1, ["task:a#2"])


def test_reflection_of_settled_tasks_needs_a_plan_to_continue() -> None:
    world = steered("a")
    world.complete("a")
    reply = world.deliver("reflect:1#1", Reflected(decision=CONTINUE))
    assert (reply.status, reply.reason) == ("REJECTED", "PLAN_INVALID")


def test_open_question_stays_open_and_its_answer_counts_after_the_reflection() -> None:
    world = steered("a", "b")
    question = world.ask("a")
    note(world)
    assert (list(world.state.questions), world.ready()) == ([question], ["reflect:1#1"])
    world.answer(question)
    assert world.ready() == ["reflect:1#1"]
    reflect(world, CONTINUE)
    assert sorted(world.ready()) == ["task:a#2", "task:b#2"]


def test_call_that_waits_for_the_name_takes_the_signal_without_a_reflection() -> None:
    world = steered("a", "b")
    world.suspend("task:a#1", s=AwaitSignal(name="note"))
    note(world)
    assert (world.run.phase, world.run.signals.steering) == ("EXECUTING", 0)
    assert sorted(world.ready()) == ["task:a#2", "task:b#1"]


def test_running_step_may_take_the_signal_before_the_reflection() -> None:
    world = steered("a", "b")
    world.lease("task:a#1")
    note(world)
    world.suspend("task:a#1", s=AwaitSignal(name="note"))
    assert (world.run.phase, world.run.signals.kept) == ("EXECUTING", 0)
    assert sorted(world.ready()) == ["task:a#2", "task:b#2"]


def test_signal_while_planning_makes_the_run_reflect_once_it_has_the_plan() -> None:
    world = World()
    world.start(reflect_on=("note",))
    world.lease("plan:1#1", stages=REFLECTS)
    note(world)
    assert (world.run.phase, world.leased()) == ("PLANNING", ["plan:1#1"])
    world.deliver("plan:1#1", Planned(tasks=(task("a"),)))
    assert (world.run.phase, world.ready()) == ("REFLECTING", ["reflect:1#1"])
    reflect(world, CONTINUE)
    assert world.ready() == ["task:a#1"]


def test_signal_to_a_paused_run_makes_it_reflect_when_it_resumes() -> None:
    world = steered("a")
    world.do(Pause())
    note(world)
    assert (world.run.status, world.ready()) == ("PAUSED", [])
    world.do(Resume())
    assert world.ready() == ["reflect:1#1"]


def test_run_without_a_reflection_keeps_the_signal_and_goes_on() -> None:
    world = steered("a", stages=())
    note(world)
    assert (world.ready(), world.run.signals.kept) == (["task:a#1"], 1)


def test_signal_that_nothing_names_makes_no_run_reflect() -> None:
    world = steered("a")
    note(world, name="other")
    assert (world.run.phase, world.ready()) == ("EXECUTING", ["task:a#1"])


def test_free_worker_is_given_the_reflection_and_then_the_rest_of_the_plan() -> None:
    world = World()
    world.start(plan=[task("a"), task("b")], stages=REFLECTS, reflect_on=("note",), max_parallel=1)
    world.lease("task:a#1")
    note(world)
    token = world.held("task:a#1").token
    world.do(Delivery(execution_id="task:a#1", token=token, result=Completed()), eager=True)
    assert world.leased() == ["reflect:1#1"]
    assert world.run.signals.shown == 1
    token = world.held("reflect:1#1").token
    result = Reflected(decision=CONTINUE)
    world.do(Delivery(execution_id="reflect:1#1", token=token, result=result), eager=True)
    assert world.leased() == ["task:b#1"]


def test_suspended_reflection_is_shown_what_came_since() -> None:
    world = steered("a")
    note(world)
    world.suspend("reflect:1#1", q=NeedsAnswer(prompt="now?"))
    note(world, "2")
    (question,) = world.state.questions
    world.answer(question)
    world.lease("reflect:1#2")
    assert world.run.signals.shown == 2

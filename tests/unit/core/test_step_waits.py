"""Suspended PLAN, REFLECT and SYNTHESIZE steps: they hold their phase, ask without a task, and end with it."""

from __future__ import annotations

import pytest

from stepwell.core.loop.occurrences import (
    Cancel,
    NeedsAnswer,
    Resume,
    Sleep,
    Stop,
    TimerDue,
)
from stepwell.core.records.states import ExpiryAction, StepKind
from stepwell.core.records.step_journal import Wait
from tests.unit.core.loop_world import World, at_step

MINUTE = Sleep(remaining_ms=60_000)
NOW = NeedsAnswer(prompt="now?")


def open_questions(world: World) -> dict[str, str]:
    return {one.call: one.question_id for one in world.state.questions.values()}


JOURNALS = {
    StepKind.PLAN: "plan@0",
    StepKind.REFLECT: "reflect@1",
    StepKind.SYNTHESIZE: "synthesize@1",
}


@pytest.mark.parametrize("kind", JOURNALS)
def test_a_step_of_the_run_holds_its_phase_while_it_is_suspended(kind: StepKind) -> None:
    world = at_step(kind)
    step = f"{kind.lower()}:1"
    world.suspend(f"{step}#1", k=NOW, nap=MINUTE)
    assert (world.run.status, world.run.blocked_on, world.ready()) == ("WAITING", "QUESTION", [])
    request = world.state.questions[open_questions(world)["k"]]
    assert (request.task_id, request.call) == ("", "k")

    world.answer(request.question_id)
    assert world.ready() == [f"{step}#2"]
    assert world.commits[-1].entries[0].journal == JOURNALS[kind]
    assert (world.run.step_waits, world.timers) == ((), {})


def test_a_step_of_the_run_that_waits_ends_with_the_run() -> None:
    world = at_step(StepKind.PLAN)
    world.suspend("plan:1#1", k=NOW, nap=MINUTE)
    world.do(Cancel())

    assert (world.run.status, world.run.step_waits) == ("CANCELLED", ())
    assert (world.state.questions, world.timers) == ({}, {})


def test_a_question_of_the_planner_that_expires_fails_the_run() -> None:
    world = at_step(StepKind.PLAN)
    question = NeedsAnswer(prompt="?", expires_ms=9, on_expiry=ExpiryAction.DENY)
    world.suspend("plan:1#1", k=question)
    world.do(TimerDue(name=f"question:{open_questions(world)['k']}"))
    assert (world.run.status, world.run.failure.kind) == ("FAILED", "DENIED")

    world.do(Resume())
    assert world.ready() == ["plan:1#2"]


def test_an_answer_to_a_reflection_may_ask_for_another_plan() -> None:
    world = at_step(StepKind.REFLECT)
    world.suspend("reflect:1#1", k=NOW, nap=MINUTE)
    world.answer(open_questions(world)["k"], replan=True)

    assert (world.run.phase, world.ready()) == ("PLANNING", ["plan:2#1"])
    assert (world.run.step_waits, world.timers) == ((), {})


def test_an_answer_to_a_synthesis_cannot_ask_for_another_plan() -> None:
    world = at_step(StepKind.SYNTHESIZE)
    world.suspend("synthesize:1#1", k=NOW)

    assert world.answer(open_questions(world)["k"], replan=True).reason == "LAST_ITERATION"


def test_a_person_may_have_a_suspended_planner_begin_anew() -> None:
    world = at_step(StepKind.PLAN)
    world.suspend("plan:1#1", k=NOW, nap=MINUTE)
    world.answer(open_questions(world)["k"], replan=True)

    assert (world.run.step_waits, world.timers, world.ready()) == ((), {}, ["plan:1#2"])
    assert world.run.step_journal.generation == 2


def test_a_stop_does_not_disturb_a_suspended_step() -> None:
    world = at_step(StepKind.REFLECT)
    world.suspend("reflect:1#1", nap=MINUTE)
    world.do(Stop())
    assert world.run.step_waits == (Wait(key="nap", kind=world.run.step_waits[0].kind),)

    world.do(TimerDue(name="wait:reflect@1:nap"))
    assert world.ready() == ["reflect:1#2"]

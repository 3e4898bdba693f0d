"""Child runs in the rules of the loop: letters that start and cancel them, and the ends that they report."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop import letters
from stepwell.core.loop.children import CANCELLED
from stepwell.core.loop.letters import CancelRun, RunEnded, StartRun
from stepwell.core.loop.occurrences import (
    AwaitChild,
    Cancel,
    ChildEnds,
    LettersDelivered,
    Open,
    Pause,
    Resume,
    RetryTask,
    SkipTask,
    Suspended,
    SuspendedCall,
)
from stepwell.core.records import limits
from stepwell.core.records.family import ChildOf
from stepwell.core.records.model import (
    Budget,
    Payload,
    Question,
    RetryPolicy,
    TaskSpec,
    Usage,
)
from stepwell.core.records.states import BlockedKind, OnFailure, QuestionKind, RunStatus
from tests.unit.core.loop_world import ONCE, World, chain, task

PLAN = (TaskSpec(task_id="work"),)
CHILD = AwaitChild(pipeline_id="research", goal="find out", tasks=PLAN)
END = Payload(data=b'{"status": "SUCCEEDED"}')


def parent(**spec: Any) -> World:
    world = World()
    world.start(plan=chain("a", "b"), **spec)
    return world


def written(world: World) -> list[letters.Letter]:
    return [letter for commit in world.commits for _, letter in letters.written(commit)]


def child_of(world: World) -> Question:
    [question] = [one for one in world.state.questions.values() if one.kind is QuestionKind.CHILD]
    return question


def ends(world: World, **fields: object) -> ChildEnds:
    question = child_of(world)
    return ChildEnds(
        question_id=question.question_id,
        run_id=question.prompt,
        status="SUCCEEDED",
        value=END,
        **fields,  # pyright: ignore[reportArgumentType] - a test's shorthand
    )


def test_a_step_that_waits_for_a_child_writes_the_letter_that_starts_it() -> None:
    world = parent(queue="q", labels={"team": "red"})
    world.suspend("task:a#1", kid=CHILD)

    [letter] = written(world)
    assert isinstance(letter, StartRun)
    spec = letter.spec
    assert (spec.pipeline_id, spec.queue, spec.goal) == ("research", "q", "find out")
    assert letter.plan == PLAN
    question = child_of(world)
    place = ChildOf(
        run_id="run", task_id="a", question_id=question.question_id, root_run_id="run", depth=1
    )
    assert (spec.child_of, question.prompt) == (place, spec.run_id)
    assert spec.labels == {"stepwell.parent": "run", "stepwell.root": "run"}
    assert (world.run.status, world.run.blocked_on) == (RunStatus.WAITING, BlockedKind.CHILD)
    assert (world.run.children, world.run.letters.next) == (1, 2)
    assert letters.TIMER in world.timers


def test_the_end_of_a_child_is_the_value_of_the_call_and_wakes_its_step() -> None:
    world = parent()
    world.suspend("task:a#1", kid=CHILD)
    end = ends(world, usage=Usage(input_tokens=7))
    world.do(end)

    entry = world.commits[-1].entries[0].entry
    assert (entry.key, entry.name, entry.value) == ("kid", "child", END)
    assert world.ready() == ["task:a#2"]
    assert world.run.usage.input_tokens == 7
    assert world.do(end)[0].status == "UNCHANGED"
    assert world.run.usage.input_tokens == 7


def test_a_call_that_waits_again_finds_the_child_that_it_started() -> None:
    world = parent()
    world.suspend("task:a#1", kid=CHILD, other=CHILD)
    first = {one.call: one.prompt for one in world.state.questions.values()}
    question = next(one for one in world.state.questions.values() if one.call == "other")
    world.do(
        ChildEnds(
            question_id=question.question_id, run_id=question.prompt, status="FAILED", value=END
        )
    )
    world.suspend("task:a#2", kid=CHILD)

    assert child_of(world).prompt == first["kid"]
    assert len(written(world)) == 2


def test_the_end_of_a_step_cancels_the_children_that_it_left_and_no_others() -> None:
    world = parent()
    stays = AwaitChild(goal="stays", tasks=PLAN, leave=True)
    world.suspend("task:a#1", kid=CHILD, free=stays)
    kid = next(one.prompt for one in world.state.questions.values() if one.call == "kid")
    world.do(Cancel())

    [cancel] = [one for one in written(world) if isinstance(one, CancelRun)]
    assert cancel.run_id == kid
    assert world.state.questions == {}


def open_child(world: World, execution_id: str) -> str:
    """Start a child while its step runs, as the client does; return the child's id."""
    token = world.lease(execution_id)
    calls = (SuspendedCall(call="kid", wait=CHILD),)
    world.do(Open(execution_id=execution_id, token=token, number=1, calls=calls))
    return child_of(world).prompt


@pytest.mark.parametrize("fresh", [False, True])
def test_only_a_fresh_retry_cancels_an_open_child_and_starts_another(fresh: bool) -> None:
    world = parent(step_retry=RetryPolicy(jitter=0))
    first = open_child(world, "task:a#1")
    world.fail("a")
    assert world.do(RetryTask(task_id="a", fresh=fresh))[0].status == "ACCEPTED"
    cancelled = [one.run_id for one in written(world) if isinstance(one, CancelRun)]
    assert cancelled == ([first] if fresh else [])
    world.suspend("task:a#3", kid=CHILD)

    assert (child_of(world).prompt == first) is not fresh
    started = [one.spec.run_id for one in written(world) if isinstance(one, StartRun)]
    assert started == ([first, child_of(world).prompt] if fresh else [first])


@pytest.mark.parametrize("fresh", [False, True])
def test_only_a_fresh_retry_forgets_the_end_of_a_child_that_failed(fresh: bool) -> None:
    world = World()
    world.start(plan=[task("a", retry=ONCE, on_failure=OnFailure.CONTINUE), task("b")])
    first = open_child(world, "task:a#1")
    world.do(replace(ends(world), status="FAILED"))
    world.fail("a")
    assert world.do(RetryTask(task_id="a", fresh=fresh))[0].status == "ACCEPTED"

    journal = world.task("a").journal
    assert (journal.generation, journal.entries) == ((2, 0) if fresh else (1, 1))
    assert not any(isinstance(one, CancelRun) for one in written(world))
    if fresh:
        world.suspend("task:a#2", kid=CHILD)
        assert child_of(world).prompt != first


def test_a_pause_leaves_children_going_on_and_a_resume_finds_their_ends() -> None:
    world = parent()
    world.suspend("task:a#1", kid=CHILD)
    world.do(Pause())
    assert world.run.status is RunStatus.PAUSED
    assert not any(isinstance(one, CancelRun) for one in written(world))
    end = ends(world, usage=Usage(input_tokens=7))
    assert world.do(end)[0].status == "ACCEPTED"
    assert (world.run.status, world.ready()) == (RunStatus.PAUSED, [])
    world.do(Resume())

    assert world.ready() == ["task:a#2"]
    assert world.run.usage.input_tokens == 7


def test_usage_of_a_child_that_its_step_left_open_is_added_until_the_run_ends() -> None:
    world = parent()
    open_child(world, "task:a#1")
    end = ends(world, usage=Usage(input_tokens=7))
    world.complete("a")

    # The letter may come twice in one commit, and once more.
    assert [one.status for one in world.do(end, end)] == ["ACCEPTED", "UNCHANGED"]
    assert [one.status for one in world.do(end)] == ["UNCHANGED"]
    other = replace(end, run_id="of another step")
    assert [one.status for one in world.do(other)] == ["UNCHANGED"]
    assert world.run.usage.input_tokens == 7
    open_child(world, "task:b#1")
    late = ends(world, usage=Usage(input_tokens=5))
    world.complete("b")
    assert world.run.ended
    assert [one.status for one in world.do(late)] == ["UNCHANGED"]
    assert world.run.usage.input_tokens == 7


def test_usage_is_added_where_one_commit_has_the_end_of_step_and_child() -> None:
    world = World()
    world.start(plan=[task("a", on_failure=OnFailure.CONTINUE), task("b")])
    world.suspend("task:a#1", kid=CHILD)
    end = ends(world, usage=Usage(input_tokens=7))

    replies = world.do(SkipTask(task_id="a"), end, end)
    assert [one.status for one in replies] == ["ACCEPTED", "ACCEPTED", "UNCHANGED"]
    assert world.run.usage.input_tokens == 7
    assert world.kept(CANCELLED) == ()


def test_two_deliveries_of_an_end_in_one_commit_add_its_usage_once() -> None:
    world = parent()
    world.suspend("task:a#1", kid=CHILD)
    end = ends(world, usage=Usage(input_tokens=7))

    assert [one.status for one in world.do(end, end)] == ["ACCEPTED", "UNCHANGED"]
    assert world.run.usage.input_tokens == 7


def test_a_child_that_ends_writes_a_letter_to_its_parent() -> None:
    world = parent(child_of=ChildOf(run_id="above", question_id="q", root_run_id="top", depth=2))
    world.complete("a", "b")

    assert world.run.status is RunStatus.SUCCEEDED
    assert written(world) == [RunEnded(run_id="above", question_id="q")]
    assert letters.TIMER in world.timers


def test_letters_that_are_delivered_are_removed_once() -> None:
    world = parent()
    world.suspend("task:a#1", one=CHILD, two=CHILD)
    assert world.do(LettersDelivered(last=1))[0].status == "ACCEPTED"
    assert [one.entry.key for one in world.commits[-1].forgotten] == ["1"]
    assert letters.TIMER in world.timers
    assert world.do(LettersDelivered(last=1))[0].status == "UNCHANGED"
    world.do(LettersDelivered(last=9))
    assert [one.entry.key for one in world.commits[-1].forgotten] == ["2"]
    assert letters.TIMER not in world.timers


def test_a_run_without_letters_keeps_nothing_of_them() -> None:
    world = parent()
    world.complete("a", "b")
    assert world.run.letters.next == 1
    assert not any(commit.entries or commit.forgotten for commit in world.commits)
    assert not any(t.name == letters.TIMER for c in world.commits for t in c.timers)


@pytest.mark.parametrize(
    ("spec", "child", "kind"),
    [
        ({"child_of": ChildOf(run_id="up", depth=16)}, CHILD, "CHILD_TOO_DEEP"),
        ({"budget": Budget(input_tokens=10)}, None, "CHILD_BUDGET"),
        ({}, AwaitChild(goal="x" * (limits.CHILD_INPUT_BYTES_MAX + 1)), "CHILD_TOO_LARGE"),
        ({}, AwaitChild(labels={"stepwell.root": "other"}), "LABELS_INVALID"),
        ({}, AwaitChild(tasks=PLAN, reflect_on=("note",)), "REFLECT_ON_INVALID"),
        (
            {},
            AwaitChild(tasks=(TaskSpec(task_id="a", depends_on=("nobody",)),)),
            "PLAN_INVALID",
        ),
    ],
)
def test_a_child_beyond_a_limit_fails_its_step_by_name(
    spec: dict[str, object], child: AwaitChild | None, kind: str
) -> None:
    world = parent(**spec)
    child = child or AwaitChild(tasks=PLAN, budget=Budget(input_tokens=11))
    waits = Suspended(waits=(SuspendedCall(call="kid", wait=child),))
    assert world.deliver("task:a#1", waits).status == "REJECTED"
    assert (world.task("a").status, world.task("a").failure.kind) == ("FAILED", kind)
    assert not any(isinstance(one, StartRun) for one in written(world))


def test_children_share_what_is_left_of_the_budget() -> None:
    world = parent(budget=Budget(input_tokens=10), step_retry=RetryPolicy(max_attempts=1))
    half = AwaitChild(tasks=PLAN, budget=Budget(input_tokens=6))
    rest = AwaitChild(tasks=PLAN)
    world.suspend("task:a#1", one=half, two=rest)
    shares = {
        letter.spec.budget.input_tokens for letter in written(world) if isinstance(letter, StartRun)
    }
    assert shares == {6, 4}

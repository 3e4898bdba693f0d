"""Letters to many children: a commit writes some, and the next ones follow as those are delivered."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from stepwell.core.loop import letters
from stepwell.core.loop.letters import CancelRun, PauseRun, ResumeRun
from stepwell.core.loop.occurrences import (
    Cancel,
    Completed,
    LettersDelivered,
    Open,
    Pause,
    Planned,
    Resume,
    SuspendedCall,
)
from stepwell.core.records import limits
from stepwell.core.records.model import TaskSpec
from stepwell.core.records.states import RunStatus
from stepwell.core.records.task_spec import ChildRun
from tests.unit.core.loop_world import ONCE, World, planned, task
from tests.unit.core.test_children import CHILD, parent, written

FOLLOWS = replace(CHILD, follow_pauses=True)


def open_children(
    world: World, execution_id: str, *keys: str, number: int = 1, follow_pauses: bool = False
) -> dict[str, str]:
    """Open calls that start children while their step runs; return the children by call."""
    token = world.held(execution_id).token or world.lease(execution_id)
    child = FOLLOWS if follow_pauses else CHILD
    calls = tuple(SuspendedCall(call=key, wait=child) for key in keys)
    one = Open(execution_id=execution_id, token=token, number=number, calls=calls)
    return dict(world.do(one)[0].children)


def deliver_all(world: World, count: int = 1_000) -> None:
    """Have all letters delivered, so many at a time, until none is left."""
    while world.run.letters.first < world.run.letters.next:
        first = world.run.letters.first
        world.do(LettersDelivered(last=min(first + count, world.run.letters.next) - 1))


def letters_to(world: World, *kinds: type) -> Counter[str]:
    """Return how many letters of these kinds each receiver has been written."""
    return Counter(one.receiver for one in written(world) if isinstance(one, kinds))


def page_of(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(letters, "PAGE", count)


def test_cancelled_run_with_many_children_writes_their_letters_by_pages() -> None:
    world = parent()
    kids: set[str] = set()
    for number in range(1, 13):
        keys = [f"k{number}.{at}" for at in range(100)]
        kids |= set(open_children(world, "task:a#1", *keys, number=number).values())
    deliver_all(world)
    began = len(world.commits)
    world.do(Cancel())
    assert world.run.status is RunStatus.CANCELLED
    deliver_all(world)

    sizes = [len(letters.written(one)) for one in world.commits[began:]]
    assert sizes == [letters.PAGE, letters.PAGE, len(kids) - 2 * letters.PAGE, 0]
    assert max(len(one.questions) for one in world.commits[began:]) == letters.PAGE
    assert max(sizes) <= limits.LETTERS_PER_COMMIT_MAX
    assert letters_to(world, CancelRun) == Counter(kids)
    assert (world.state.questions, world.run.letters.unwritten) == ({}, ())


def test_step_that_ends_cancels_its_own_children_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    page_of(monkeypatch, 2)
    world = World()
    world.start(plan=[task("a"), task("b")])
    own = open_children(world, "task:a#1", *"uvwxyz")
    others = open_children(world, "task:b#1", "u", "v")
    deliver_all(world)
    world.deliver("task:a#1", Completed())
    assert open_children(world, "task:b#1", "u", "n", number=2).keys() == {"u", "n"}
    deliver_all(world)

    assert letters_to(world, CancelRun) == Counter(own.values())
    assert others.items() <= {(one.call, one.prompt) for one in world.state.questions.values()}


def test_child_that_a_resumed_run_starts_again_is_another_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page_of(monkeypatch, 2)
    world = World()
    world.start(plan=[task("a", retry=ONCE)], step_retry=ONCE)
    before = open_children(world, "task:a#1", *"uvwxyz")
    deliver_all(world)
    world.fail("a")
    assert world.run.status is RunStatus.FAILED
    world.do(Resume(retry_failed=True))
    second = open_children(world, "task:a#2", *"uvwxyz")
    assert not set(second.values()) & set(before.values())
    deliver_all(world)

    assert letters_to(world, CancelRun) == Counter(before.values())
    assert {one.prompt for one in world.state.questions.values()} == set(second.values())


def test_call_is_opened_again_in_the_commit_that_cancels_its_earlier_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page_of(monkeypatch, 2)
    world = World()
    world.start(plan=[task("a", retry=ONCE)], step_retry=ONCE)
    open_children(world, "task:a#1", *"uvw")
    deliver_all(world)
    world.fail("a")
    world.do(Resume(retry_failed=True))
    token = world.lease("task:a#2")
    calls = (SuspendedCall(call="w", wait=CHILD),)
    first = Open(execution_id="task:a#2", token=token, number=1, calls=calls)
    second = replace(first, number=2)
    before = world.run.children
    world.do(first, LettersDelivered(last=world.run.letters.next - 1), second)

    assert (world.run.letters.unwritten, world.run.children) == ((), before + 1)
    assert [one.call for one in world.state.questions.values()] == ["w"]


@pytest.mark.parametrize("count", [1, 100])
def test_pause_and_resume_reach_each_of_many_children_in_this_order(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_of(monkeypatch, 2)
    world = parent()
    kids = open_children(world, "task:a#1", *"uvwxyz", follow_pauses=True)
    deliver_all(world)
    world.do(Pause())
    late = open_children(world, "task:a#1", "late", number=2, follow_pauses=True)
    world.do(LettersDelivered(last=world.run.letters.first))
    world.do(Resume())
    deliver_all(world, count)

    for child in (*kids.values(), *late.values()):
        sent = [one for one in written(world) if one.receiver == child]
        assert [type(one) for one in sent[1:]] == [PauseRun, ResumeRun]


def many_child_tasks() -> list[TaskSpec]:
    child = ChildRun(goal="find out")
    return [TaskSpec(task_id=f"k{at}", child=child, attempt_timeout_ms=60_000) for at in range(7)]


def test_plan_that_drops_many_child_tasks_cancels_their_runs_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page_of(monkeypatch, 2)
    world = planned(task("ask"), *many_child_tasks())
    started = {one.task_id: one.prompt for one in world.state.questions.values()}
    deliver_all(world)
    world.answer(world.ask("ask"), replan=True)
    world.deliver("plan:2#1", Planned(tasks=(task("new"), many_child_tasks()[0])))
    stays = started.pop("k0")
    assert {name for name in world.timers if name.startswith("question:")} == {
        "question:question:task:k0#1"
    }
    deliver_all(world)
    assert letters_to(world, CancelRun) == Counter(started.values())
    assert [one.prompt for one in world.state.questions.values()] == [stays]


def test_run_of_many_child_tasks_leaves_no_timer_but_that_of_its_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page_of(monkeypatch, 2)
    world = World()
    world.start(plan=many_child_tasks())
    started = {one.prompt for one in world.state.questions.values()}
    world.do(Cancel())
    assert world.timers.keys() == {letters.TIMER}
    deliver_all(world)
    assert letters_to(world, CancelRun) == Counter(started)
    assert world.timers == {}

"""Forks and journals: which steps go on from what their parent's recorded, and which calls forbid a fork."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.fork.fork import Base, base_of, sources_of, with_calls
from stepwell.core.fork.inherit import Changes
from stepwell.core.loop.occurrences import Completed, NeedsAnswer, Planned, Sleep
from stepwell.core.loop.state import RunState
from stepwell.core.records.fold import fold
from stepwell.core.records.journal import Entry, StoredEntry
from stepwell.core.records.states import Effect, ForkMode, JournalMark
from stepwell.core.records.step_journal import Journal, Source
from tests.unit.core.loop_world import AT_ONCE, World, chain, planned, task

PARENT = "11111111-2222-4333-8444-555555555555"
NAP = Sleep(remaining_ms=9)


def base(
    parent: World, version: int = 0, *, changes: Changes | None = None, **spec: object
) -> Base:
    version = version or parent.run.version
    events = [event for event in parent.events if event.version <= version]
    rows = fold(parent.run.spec, parent.plans, events)
    own = {"run_id": "fork", "parent_run_id": PARENT, "parent_version": version}
    whole = replace(parent.run.spec, **{**own, "family_id": PARENT, **spec})
    return base_of(whole, rows, parent.plans, changes or Changes())


def fork(made: Base) -> World:
    assert made.misfits == ()
    world = World()
    world.state = RunState.empty("tenant", "fork")
    assert world.do(made.fork)[0].status == "ACCEPTED"
    return world


def lost() -> World:
    """Return a run whose second task has recorded an entry in an attempt that was lost."""
    world = planned(*chain("a", "b", retry=AT_ONCE))
    world.complete("a")
    world.record("task:b#1")
    world.expire("task:b#1")
    return world


def source(world: World, journal: str, generation: int = 1, version: int = 0) -> Source:
    version = version or world.run.version
    return Source(run_id=PARENT, journal=journal, generation=generation, version=version)


def test_an_unfinished_step_goes_on_from_its_parents_journal() -> None:
    parent = lost()
    world = fork(base(parent))

    assert world.task("b").journal == Journal(sources=(source(parent, "task:b@1"),))
    assert world.ready() == ["task:b#3"]


def test_a_step_that_ran_at_the_version_goes_on_from_its_entries() -> None:
    parent = planned(task("a"))
    parent.lease("task:a#1")

    assert fork(base(parent)).task("a").journal.sources == (source(parent, "task:a@1"),)


def test_a_step_that_was_never_leased_has_no_source() -> None:
    assert fork(base(planned(task("a")))).task("a").journal == Journal()


def test_a_fork_of_a_fork_goes_on_from_both() -> None:
    child = fork(base(lost()))
    first = child.task("b").journal.sources[0]
    child.record("task:b#3")
    child.expire("task:b#3")
    made = base(child, parent_run_id="child")

    own = Source(run_id="child", journal="task:b@1", generation=1, version=child.run.version)
    assert fork(made).task("b").journal.sources == (first, own)


def test_a_suspended_step_waits_again_in_the_fork() -> None:
    parent = planned(task("a"))
    parent.record("task:a#1")
    parent.suspend("task:a#1", nap=NAP, k=NeedsAnswer(prompt="?"))
    world = fork(base(parent))

    assert (world.task("a").status, world.task("a").waits) == ("READY", ())
    assert world.task("a").journal.sources == (source(parent, "task:a@1"),)


CHANGED: dict[str, tuple[Changes, dict[str, Any]]] = {
    "goal": (Changes(), {"goal": "another"}),
    "input": (Changes(same_input=False), {}),
    "definition": (
        Changes(
            mode=ForkMode.PATCH,
            plan=(task("a", retry=AT_ONCE), task("b", "a", prompt="other", retry=AT_ONCE)),
        ),
        {},
    ),
    "results": (
        Changes(
            mode=ForkMode.PATCH,
            plan=(task("a", prompt="other", retry=AT_ONCE), task("b", "a", retry=AT_ONCE)),
        ),
        {},
    ),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_step_of_which_something_is_other_begins_with_nothing(what: str) -> None:
    changes, spec = CHANGED[what]
    made = base(lost(), changes=changes, **spec)

    assert fork(made).task("b").journal == Journal()
    assert not made.journals[0][0].goes_on


def test_a_completed_step_that_runs_again_begins_with_nothing() -> None:
    parent = planned(task("a"))
    parent.record("task:a#1")
    parent.complete("a")
    changed = Changes(mode=ForkMode.PATCH, plan=(task("a", prompt="other"),))

    assert fork(base(parent, changes=changed)).task("a").journal == Journal()


def test_a_planner_goes_on_from_its_parents_journal() -> None:
    parent = World()
    parent.start()
    parent.record("plan:1#1")
    parent.expire("plan:1#1")
    at, again = parent.run.version, Changes(replan=True)
    parent.deliver("plan:1#2", Planned(tasks=(task("a"),)))

    kept = fork(base(parent, at, changes=again)).run.step_journal
    assert kept.sources == (source(parent, "plan@0", version=at),)
    other = base(parent, at, changes=again, goal="another")
    assert fork(other).run.step_journal == Journal()
    assert fork(base(parent, changes=again)).run.step_journal == Journal()


# --- calls that must not be made again ---------------------------------------------------------------


def call(mark: JournalMark, number: int = 0) -> StoredEntry:
    entry = Entry(key="charge", mark=mark, number=number, effect=Effect.AT_MOST_ONCE)
    return StoredEntry(entry=entry, journal="task:b@1", generation=1, execution_id="task:b#1")


BEGUN, DONE = call(JournalMark.BEGIN, 1), call(JournalMark.END)
TRIED = call(JournalMark.TRY, 1)
OTHER_GOAL: dict[str, Any] = {"goal": "another"}


@pytest.mark.parametrize(
    ("entries", "spec", "why"),
    [
        ((BEGUN,), {}, "was begun"),
        ((BEGUN, TRIED), {}, ""),
        ((BEGUN, DONE), {}, ""),
        ((BEGUN,), OTHER_GOAL, "was begun"),
        ((BEGUN, DONE), OTHER_GOAL, "was made"),
        ((BEGUN, TRIED), OTHER_GOAL, ""),
        ((), OTHER_GOAL, ""),
    ],
)
def test_a_call_that_a_fork_might_repeat_forbids_it(
    entries: tuple[StoredEntry, ...], spec: dict[str, Any], why: str
) -> None:
    parent = lost()
    made = base(parent, **spec)
    made = with_calls(made, {source(parent, "task:b@1"): entries})

    assert sources_of(made) == [source(parent, "task:b@1")]
    assert [(str(one.kind), one.task_id) for one in made.misfits] == (
        [("EFFECT_REPEATED", "b")] if why else []
    )
    assert all(why in one.description for one in made.misfits)


def test_a_completed_step_that_is_kept_is_not_looked_into() -> None:
    parent = planned(*chain("a", "b"))
    parent.record("task:a#1")
    parent.deliver("task:a#1", Completed())

    assert sources_of(base(parent)) == []


def test_every_version_of_a_run_with_journals_can_be_forked() -> None:
    acts: list[Callable[[World], object]] = [
        lambda world: world.suspend("task:b#2", nap=NAP, k=NeedsAnswer(prompt="?")),
        lambda world: world.answer(next(iter(world.state.questions))),
        lambda world: world.complete("b"),
    ]
    parent = lost()
    for act in acts:
        act(parent)
    for version in range(1, parent.run.version + 1):
        fork(base(parent, version, changes=Changes(replan=version < 4)))

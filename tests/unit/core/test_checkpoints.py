"""Checkpoints: which commits have one, what it says, and when it has a base."""

from __future__ import annotations

import zlib

import pytest
from msgspec.structs import replace

from stepwell.core.loop import checkpoints
from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import Cancel
from stepwell.core.loop.state import RunState
from stepwell.core.port import Store
from stepwell.core.records.checkpoints import NAMED, Checkpoint, rows_of
from stepwell.core.records.fold import Rows, fold
from stepwell.core.records.states import OPEN, QuestionStatus
from tests.unit.core.circling import circling
from tests.unit.core.loop_world import World, committed

MIN = 16


@pytest.fixture
def early_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "BASE_EVENTS_MIN", MIN)


def checkpoints_of(world: World) -> list[Checkpoint]:
    return [commit.checkpoint for commit in world.commits if commit.checkpoint is not None]


def rows_at(world: World, version: int) -> Rows:
    events = [event for event in world.events if event.version <= version]
    return fold(world.run.spec, world.plans, events)


def changeable(rows: Rows) -> Rows:
    return rows._replace(
        executions={k: one for k, one in rows.executions.items() if one.status in OPEN},
        questions={
            k: one for k, one in rows.questions.items() if one.status is QuestionStatus.OPEN
        },
    )


def test_commit_has_a_checkpoint_if_an_event_gives_it_a_name() -> None:
    world = circling(3)
    for commit in world.commits:
        named = [(event.number, event.type) for event in commit.events if event.type in NAMED]
        found = commit.checkpoint
        events = found.state.events if found is not None else ()
        assert [(event.number, event.type) for event in events] == named
        if found is not None:
            last = commit.events[-1]
            assert (found.version, found.iteration) == (commit.version, commit.run.iteration)
            assert (found.state.last_event, found.created_us) == (last.number, last.time_us)
    types = [[str(event.type) for event in one.state.events] for one in checkpoints_of(world)]
    assert types == [
        ["RUN_STARTED"],
        ["PLAN_ACCEPTED"],
        ["ITERATION_COMPLETED", "PLAN_ACCEPTED"],
        ["ITERATION_COMPLETED", "PLAN_ACCEPTED"],
    ]


def test_checkpoint_says_what_has_changed_since_the_one_before() -> None:
    found = checkpoints_of(circling(3))
    since = [one.state.since for one in found]
    assert [one.version for one in since] == [0, *(one.version for one in found[:-1])]
    assert [(one.counts.total, one.counts.completed) for one in since] == [
        *((0, 0), (2, 0), (2, 2), (2, 2))
    ]
    # The plan; then two tasks and a reflection each time.
    assert [one.attempts.completed for one in since] == [0, 1, 3, 3]


@pytest.mark.usefixtures("early_bases")
def test_S20_base_is_the_fold_of_all_events_up_to_it() -> None:
    world = circling(12)
    based = [one for one in checkpoints_of(world) if one.base]
    assert len(based) > 2
    for one in based:
        assert rows_of(world.run.spec, one) == changeable(rows_at(world, one.version))


@pytest.mark.usefixtures("early_bases")
def test_checkpoint_has_a_base_once_the_events_since_the_last_outweigh_its_rows() -> None:
    world, last = circling(30), 0
    for one in checkpoints_of(world):
        rows = changeable(rows_at(world, one.version))
        many = len(rows.tasks) + len(rows.executions) + len(rows.questions)
        since = one.state.last_event - last
        assert bool(one.base) is (since >= max(MIN, many)), one.version
        last = one.state.last_event if one.base else last
        assert one.state.base_event == last


def test_short_run_has_no_base() -> None:
    world = circling(10)
    assert world.run.last_event < checkpoints.BASE_EVENTS_MIN
    assert not any(one.base for one in checkpoints_of(world))


@pytest.mark.usefixtures("early_bases")
async def test_replica_that_loads_the_run_makes_the_same_checkpoint(store: Store) -> None:
    world = circling(7)
    for commit in world.commits:
        await store.commit([commit])
    loaded = await store.load("tenant", "run")
    assert loaded is not None
    context = Context(now_us=world.now_us)
    here, there = (
        committed(advance(state, [Cancel(actor="caller")], context)).checkpoint
        for state in (world.state, RunState.of(loaded))
    )
    assert here == there
    assert here is not None
    assert here.state.base_event > 0
    assert here.state.since.version > 0


@pytest.mark.usefixtures("early_bases")
def test_base_of_another_form_is_passed_over() -> None:
    world = circling(5)
    one = next(one for one in checkpoints_of(world) if one.base)
    text = zlib.decompress(one.base)
    later = text.replace(b'"format":1', b'"format":2,"more":[]')
    assert later != text
    assert rows_of(world.run.spec, replace(one, base=zlib.compress(later))) is None
    # A field of its own is no other form: events with fields that a reader doesn't know are read, too.
    more = text.replace(b'"format":1', b'"format":1,"more":[]')
    assert rows_of(world.run.spec, replace(one, base=zlib.compress(more))) == rows_of(
        world.run.spec, one
    )

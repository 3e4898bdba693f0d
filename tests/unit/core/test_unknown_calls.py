"""AT_MOST_ONCE calls with unknown outcomes: their step waits for a person's finding."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    Cancel,
    Delivery,
    Resolve,
    Resume,
    SkipTask,
    UnknownCall,
)
from stepwell.core.port import EntryWrite
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Failure, RetryPolicy, Usage
from stepwell.core.records.states import Effect, Finding, JournalMark, StepKind
from tests.unit.core.loop_world import ONCE, YES, World, at_step, started, task

UNKNOWN = UnknownCall(call="charge", reason="begun by attempt 1")
BEGUN = EntryWrite(
    journal="task:a@1",
    generation=1,
    entry=Entry(key="charge", mark=JournalMark.BEGIN, number=1, effect=Effect.AT_MOST_ONCE),
)


def unknown(**fields: object) -> World:
    """Return a run whose task found a call that was begun and has no end."""
    world = started(task("a", **fields), "b")
    world.record("task:a#1")
    world.expire("task:a#1")
    assert world.deliver("task:a#2", UNKNOWN, usage=Usage(input_tokens=2)).status == "ACCEPTED"
    return world


def resolve(world: World, finding: Finding, call: str = "charge", **fields: object) -> str:
    command = Resolve(execution_id="task:a#2", finding=finding, call=call)
    reply = world.do(replace(command, **fields))[0]
    return reply.reason or str(reply.status)


def test_a_step_with_an_unknown_call_waits_for_a_person_and_spends_no_attempt() -> None:
    world = unknown(retry=RetryPolicy(initial_backoff_ms=0, max_attempts=1, max_losses=1))

    assert world.status_of("task:a#2") == "UNKNOWN_OUTCOME"
    assert world.executions["task:a#2"].unknown_call == "charge"
    assert (world.task("a").status, world.task("a").spent) == ("BLOCKED", 0)
    assert (world.events[-1].type, world.events[-1].message) == (
        "OUTCOME_UNKNOWN",
        "charge: begun by attempt 1",
    )
    assert world.run.usage.input_tokens == 2
    world.complete("b")
    assert (world.run.status, world.run.blocked_on) == ("WAITING", "UNKNOWN_OUTCOME")


@pytest.mark.parametrize("kind", [StepKind.PLAN, StepKind.REFLECT, StepKind.SYNTHESIZE])
def test_any_kind_of_step_may_have_an_unknown_call(kind: StepKind) -> None:
    world = at_step(kind)
    step = f"{kind.lower()}:1"
    world.deliver(f"{step}#1", UNKNOWN)
    assert (world.run.blocked_on, world.ready()) == ("UNKNOWN_OUTCOME", [])

    world.do(Resolve(execution_id=f"{step}#1", finding=Finding.DONE, call="charge", result=YES))
    assert world.ready() == [f"{step}#2"]
    assert world.commits[-1].entries[0].entry.value == YES


def test_a_call_that_took_effect_has_its_value_and_the_step_goes_on() -> None:
    world = unknown()
    assert resolve(world, Finding.DONE, result=YES) == "ACCEPTED"

    written = world.commits[-1].entries[0]
    assert (written.journal, written.entry) == (
        "task:a@1",
        Entry(key="charge", effect=Effect.AT_MOST_ONCE, value=YES),
    )
    assert world.task("a").journal.entries == 2
    assert world.status_of("task:a#2") == "RELEASED"
    assert world.ready() == ["task:b#1", "task:a#3"]


def test_a_call_that_took_no_effect_may_run_again() -> None:
    world = unknown()
    assert resolve(world, Finding.NOT_DONE, begun=(BEGUN,)) == "ACCEPTED"

    assert world.commits[-1].forgotten == (BEGUN,)
    assert world.commits[-1].entries == ()
    assert world.task("a").journal.entries == 0
    assert world.ready() == ["task:b#1", "task:a#3"]


def test_a_finding_names_the_call_that_is_unknown() -> None:
    world = unknown()

    assert resolve(world, Finding.DONE, call="") == "OUTCOME_NOT_UNKNOWN"
    assert resolve(world, Finding.DONE, call="other") == "OUTCOME_NOT_UNKNOWN"
    assert resolve(world, Finding.DONE, failure=Failure(kind="X")) == "CALL_FAILURE"
    assert world.status_of("task:a#2") == "UNKNOWN_OUTCOME"


def test_a_finding_about_a_tasks_effect_names_no_call() -> None:
    world = started(task("a", effect=Effect.AT_MOST_ONCE))
    world.begin("task:a#1")
    world.expire("task:a#1")
    command = Resolve(execution_id="task:a#1", finding=Finding.DONE, call="charge")

    assert world.do(command)[0].reason == "OUTCOME_NOT_UNKNOWN"


def test_no_reconcile_step_looks_into_a_call() -> None:
    world = unknown(effect=Effect.AT_MOST_ONCE, reconcile=True)

    assert not [one for one in world.ready() if one.startswith("reconcile")]


def test_a_late_unknown_call_ends_the_search_for_the_tasks_own_outcome() -> None:
    world = started(task("a", effect=Effect.AT_MOST_ONCE, reconcile=True))
    token = world.begin("task:a#1")
    world.expire("task:a#1")
    assert world.ready() == ["reconcile:a#1"]
    assert world.late("task:a#1", token, UNKNOWN) == "ACCEPTED"

    assert world.status_of("reconcile:a#1") == "CANCELLED"
    assert world.executions["task:a#1"].unknown_call == "charge"


def test_the_worker_has_no_lease_once_it_has_reported_an_unknown_call() -> None:
    world = unknown()
    token = world.held("task:a#2").token
    again = Delivery(execution_id="task:a#2", token=token, result=UNKNOWN)

    assert world.do(again)[0].status == "LEASE_LOST"


@pytest.mark.parametrize(
    ("end", "status"), [(Cancel(), "CANCELLED"), (SkipTask(task_id="a"), "SKIPPED")]
)
def test_a_step_with_an_unknown_call_can_be_ended(end: Cancel | SkipTask, status: str) -> None:
    world = unknown()
    world.do(end)

    assert (world.status_of("task:a#2"), world.task("a").status) == ("CANCELLED", status)


def test_a_failed_run_asks_about_the_call_again_after_its_resume() -> None:
    world = started("a", task("b", retry=ONCE))
    world.record("task:a#1")
    world.deliver("task:a#1", UNKNOWN)
    world.fail("b")
    world.do(Resume())

    assert world.ready() == ["task:a#2", "task:b#2"]
    assert world.deliver("task:a#2", UNKNOWN).status == "ACCEPTED"

"""Waits that calls open while their step runs: how they are opened, how they end, and what the worker gets to know."""

from __future__ import annotations

from stepwell.core.loop.occurrences import (
    Answer,
    AwaitChild,
    AwaitSignal,
    NeedsAnswer,
    Open,
    SendSignal,
    Sleep,
    Suspended,
    SuspendedCall,
    TimerDue,
)
from stepwell.core.loop.transition import Reply
from stepwell.core.records.model import Payload
from stepwell.core.records.states import Effect
from tests.unit.core.loop_world import YES, World, started, task

NOTE = AwaitSignal(name="note")
SOON = AwaitSignal(name="note", expires_ms=1_500)
AT_ONCE = AwaitSignal(name="note", at_once=True)
NOW = NeedsAnswer(prompt="now?")
Kind = AwaitSignal | AwaitChild | NeedsAnswer


def running(**fields: object) -> World:
    """Return a run whose only task is leased."""
    world = started(task("a", **fields))
    world.lease("task:a#1")
    return world


def opening(world: World, number: int, *, known: tuple[str, ...] = (), **waits: Kind) -> Open:
    held = world.held("task:a#1")
    calls = tuple(
        SuspendedCall(call=call, wait=wait, arguments=f"digest of {call}")
        for call, wait in waits.items()
    )
    return Open(execution_id="task:a#1", token=held.token, number=number, calls=calls, known=known)


def opened(world: World, number: int = 1, *, known: tuple[str, ...] = (), **waits: Kind) -> Reply:
    return world.do(opening(world, number, known=known, **waits))[0]


def ids(world: World) -> dict[str, str]:
    return {one.call: one.question_id for one in world.state.questions.values()}


def test_calls_are_opened_while_their_step_goes_on() -> None:
    world = running()
    reply = opened(world, s=NOTE, c=AwaitChild(goal="child"), q=NOW)
    assert reply.status == "ACCEPTED"
    assert world.status_of("task:a#1") == "LEASED"
    kinds = {one.call: one.kind for one in world.state.questions.values()}
    assert kinds == {"s": "SIGNAL", "c": "CHILD", "q": "VALUE"}
    events = [(one.type, one.message) for one in world.commits[-1].events]
    assert events == [
        ("WAIT_OPENED", "child run, question, signal note"),
        ("QUESTION_ASKED", "now?"),
    ]


def test_opening_that_comes_again_opens_nothing() -> None:
    world = running()
    first = opening(world, 1, q=NOW)
    assert world.do(first)[0].status == "ACCEPTED"
    world.answer(ids(world)["q"])
    assert world.do(first)[0].status == "UNCHANGED"
    assert ids(world) == {}


def test_call_that_is_open_already_keeps_its_question() -> None:
    world = running()
    opened(world, q=NOW)
    before = ids(world)
    assert opened(world, 2, q=NOW, s=NOTE).status == "ACCEPTED"
    assert ids(world)["q"] == before["q"]


def test_call_whose_end_the_attempt_does_not_know_is_not_opened_again() -> None:
    world = running()
    opened(world, q=NOW)
    world.answer(ids(world)["q"])
    opened(world, 2, q=NOW)
    assert ids(world) == {}
    assert world.task("a").journal.answered == ("q",)
    opened(world, 3, s=NOTE, known=("q",))
    assert world.task("a").journal.answered == ()


def test_worker_of_a_running_step_gets_the_answer() -> None:
    world = running()
    opened(world, q=NOW)
    transition = world.advance(Answer(question_id=ids(world)["q"], payload=YES))
    (ended,) = transition.ended_calls
    assert (ended.execution_id, ended.entry.key, ended.entry.value) == ("task:a#1", "q", YES)
    assert ended.worker_id == world.held("task:a#1").worker_id
    assert transition.commit is not None
    assert transition.commit.entries[0].entry == ended.entry


def test_step_that_is_suspended_without_knowing_of_an_end_goes_on_at_once() -> None:
    world = running()
    opened(world, q=NOW, s=NOTE)
    world.answer(ids(world)["q"])
    world.suspend("task:a#1", q=NOW, s=NOTE)
    assert world.ready() == ["task:a#2"]


def test_step_with_more_waits_goes_on_at_once_after_an_end_that_is_not_listed() -> None:
    for more in (False, True):
        world = running()
        opened(world, q=NOW, s=NOTE)
        world.answer(ids(world)["q"])
        call = SuspendedCall(call="s", wait=NOTE)
        world.deliver("task:a#1", Suspended(waits=(call,), more=more))
        assert ("task:a#2" in world.ready()) is more


def test_run_whose_steps_wait_for_signals_alone_is_blocked_on_them() -> None:
    world = started("a")
    world.suspend("task:a#1", s=NOTE)
    assert (world.run.status, world.run.blocked_on) == ("WAITING", "SIGNAL")
    world = started("a")
    world.suspend("task:a#1", c=AwaitChild(goal="child"))
    assert world.run.blocked_on == "CHILD"
    world = started("a")
    world.suspend("task:a#1", s=NOTE, nap=Sleep(remaining_ms=60_000))
    assert world.run.blocked_on == "TIMER"


def test_signal_that_does_not_come_in_time_ends_its_call_and_fails_nothing() -> None:
    world = started("a")
    world.suspend("task:a#1", s=SOON)
    name = f"question:{ids(world)['s']}"
    assert world.timers == {name: 1_500}
    world.do(TimerDue(name=name))
    (write,) = world.commits[-1].entries
    assert (write.entry.key, write.entry.name, write.entry.value) == ("s", "receive", None)
    assert write.entry.failure.kind == "TIMEOUT"
    assert "'note'" in write.entry.failure.message
    assert (world.ready(), world.timers, ids(world)) == (["task:a#2"], {}, {})
    assert [one.type for one in world.commits[-1].events][:2] == ["WAIT_EXPIRED", "STEP_WOKEN"]


def test_no_person_answers_what_a_call_waits_for() -> None:
    world = started("a")
    world.suspend("task:a#1", s=NOTE)
    reply = world.do(Answer(question_id=ids(world)["s"], payload=Payload(data=b"1")))[0]
    assert (reply.status, reply.reason) == ("REFUSED", "QUESTION_NOT_OPEN")


def test_call_of_a_lost_lease_is_not_opened() -> None:
    world = running()
    late = opening(world, 1, s=NOTE)
    world.expire("task:a#1")
    assert world.do(late)[0].status == "LEASE_LOST"
    assert ids(world) == {}


def test_task_that_has_begun_opens_nothing() -> None:
    world = started(task("a", effect=Effect.AT_MOST_ONCE))
    world.begin("task:a#1")
    assert opened(world, s=NOTE).reason == "INVALID_OUTCOME"


def test_waits_end_with_their_task() -> None:
    world = running()
    opened(world, s=SOON)
    world.complete("a")
    assert (ids(world), world.timers) == ({}, {})


def test_call_that_waits_for_no_signal_ends_at_once_without_one() -> None:
    world = running()
    transition = world.advance(opening(world, 1, s=AT_ONCE))
    (ended,) = transition.ended_calls
    assert (ended.entry.failure.kind, ended.entry.value) == ("NO_SIGNAL", None)
    opened(world, s=AT_ONCE)
    assert ids(world) == {}


def test_call_that_waits_for_no_signal_takes_one_that_is_kept() -> None:
    world = running()
    world.do(SendSignal(name="note", value=YES))
    opened(world, s=AT_ONCE, t=AT_ONCE)
    ends = {one.entry.key: one.entry for one in world.commits[-1].entries}
    assert (ends["s"].value, ends["t"].failure.kind) == (YES, "NO_SIGNAL")
    assert world.run.signals.kept == 0


def test_step_that_is_suspended_for_such_a_call_goes_on_at_once() -> None:
    world = running()
    world.suspend("task:a#1", s=AT_ONCE)
    assert (world.ready(), world.run.blocked_on) == (["task:a#2"], "WORKER")

"""Signals of a step to its child runs, in the rules of the loop."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stepwell.core.loop.letters import CancelRun, SignalRun
from stepwell.core.loop.occurrences import (
    AwaitSignal,
    Cancel,
    ChildEnds,
    LettersDelivered,
    Open,
    SendSignal,
    SignalChild,
    SignalSent,
    SuspendedCall,
)
from stepwell.core.loop.transition import Reply
from stepwell.core.records import limits
from stepwell.core.records.family import Letters
from stepwell.core.records.model import Failure, Payload, Question
from stepwell.core.records.states import BlockedKind
from tests.unit.core.loop_world import World
from tests.unit.core.test_children import CHILD, END, child_of, open_child, parent, written

NOTE = SignalChild(child="kid", name="note", value=Payload(data=b"1"))
FROM_PARENT = SendSignal(name="note", value=Payload(data=b"1"), sender="above", letter=3)


def send(world: World, number: int, note: SignalChild = NOTE) -> Reply:
    token = world.lease("task:a#1") if number == 1 else world.state.open["task:a#1"].token
    calls = (SuspendedCall(call="say", wait=note),)
    opens = Open(execution_id="task:a#1", token=token, number=number, calls=calls)
    return world.do(opens)[0]


def failure_of(world: World) -> Failure:
    """Return the failure in the END of the call, which the last commit wrote."""
    [entry] = [one.entry for one in world.commits[-1].entries if one.entry.key == "say"]
    return entry.failure


def test_opening_a_call_says_the_id_of_its_child_also_when_it_is_repeated() -> None:
    world = parent()
    token = world.lease("task:a#1")
    calls = (SuspendedCall(call="kid", wait=CHILD),)
    opens = Open(execution_id="task:a#1", token=token, number=1, calls=calls)
    first = world.do(opens)[0]
    assert first.children == {"kid": child_of(world).prompt}
    again = world.do(opens)[0]
    assert (again.status, again.children) == ("UNCHANGED", first.children)
    later = world.do(replace(opens, number=2))[0]
    assert (later.status, later.children) == ("ACCEPTED", first.children)


def test_a_signal_to_a_child_is_one_letter_and_ends_when_the_child_has_it() -> None:
    world = parent()
    child = open_child(world, "task:a#1")
    send(world, 2)
    send(world, 2)
    [letter] = [one for one in written(world) if isinstance(one, SignalRun)]
    assert (letter.run_id, letter.name, letter.value) == (child, "note", NOTE.value)

    sent = SignalSent(question_id=letter.question_id)
    done = LettersDelivered(last=2, signals=(sent,))
    assert world.do(done)[0].status == "ACCEPTED"
    assert failure_of(world) == Failure()
    assert world.do(done)[0].status == "UNCHANGED"


def test_a_signal_that_the_child_refuses_ends_with_its_reason() -> None:
    world = parent()
    open_child(world, "task:a#1")
    send(world, 2)
    [letter] = [one for one in written(world) if isinstance(one, SignalRun)]
    failure = Failure(kind="RUN_ENDED", message="it is over", retryable=False)
    sent = SignalSent(question_id=letter.question_id, failure=failure)
    world.do(LettersDelivered(last=2, signals=(sent,)))
    assert failure_of(world) == failure


def test_a_signal_to_a_child_that_has_ended_is_no_letter() -> None:
    world = parent()
    open_child(world, "task:a#1")
    question = child_of(world)
    ends = ChildEnds(
        question_id=question.question_id, run_id=question.prompt, status="SUCCEEDED", value=END
    )
    world.do(ends)
    assert send(world, 2).status == "ACCEPTED"
    assert failure_of(world).kind == "CHILD_ENDED"
    assert not any(isinstance(one, SignalRun) for one in written(world))


def test_a_signal_to_what_is_no_child_is_no_letter() -> None:
    world = parent()
    open_child(world, "task:a#1")
    calls = (SuspendedCall(call="in", wait=AwaitSignal(name="note")),)
    token = world.state.open["task:a#1"].token
    world.do(Open(execution_id="task:a#1", token=token, number=2, calls=calls))
    send(world, 3, replace(NOTE, child="in"))
    assert failure_of(world).kind == "CHILD_ENDED"
    assert not any(isinstance(one, SignalRun) for one in written(world))


def test_a_step_that_ends_before_its_signal_is_delivered_cancels_its_child_once() -> None:
    world = parent()
    child = open_child(world, "task:a#1")
    send(world, 2)
    [letter] = [one for one in written(world) if isinstance(one, SignalRun)]
    world.do(Cancel())
    assert [one.run_id for one in written(world) if isinstance(one, CancelRun)] == [child]
    sent = SignalSent(question_id=letter.question_id)
    assert world.do(LettersDelivered(last=3, signals=(sent,)))[0].status == "ACCEPTED"


def test_signals_beyond_the_letters_of_a_run_are_refused_by_name() -> None:
    world = parent()
    open_child(world, "task:a#1")
    run = replace(world.state.run, letters=Letters(first=1, next=limits.LETTERS_MAX + 1))
    world.state.run = run
    assert send(world, 2).reason == "TOO_MANY_LETTERS"


def test_a_letter_that_is_delivered_twice_is_one_signal() -> None:
    world = parent()
    assert world.do(FROM_PARENT)[0].status == "ACCEPTED"
    assert world.do(FROM_PARENT)[0].status == "UNCHANGED"
    assert world.do(replace(FROM_PARENT, letter=2))[0].status == "UNCHANGED"
    assert world.run.signals.kept == 1
    assert world.do(replace(FROM_PARENT, sender="other", letter=1))[0].status == "ACCEPTED"
    assert world.run.signals.kept == 2


def test_a_letter_is_known_after_its_signal_was_taken_and_after_the_end() -> None:
    world = parent()
    world.suspend("task:a#1", note=AwaitSignal(name="note"))
    assert world.do(FROM_PARENT)[0].status == "ACCEPTED"
    assert world.run.signals.kept == 0
    assert world.do(FROM_PARENT)[0].status == "UNCHANGED"
    world.do(Cancel())
    assert world.do(FROM_PARENT)[0].status == "UNCHANGED"
    assert world.do(replace(FROM_PARENT, letter=4))[0].reason == "RUN_ENDED"


class Unread(dict[str, Question]):
    def items(self) -> Any:
        raise AssertionError("all open questions are read, of which there are as many as children")


def test_a_signal_reads_no_child_that_its_receiver_waits_for() -> None:
    world = parent()
    world.lease("task:a#1")
    world.suspend("task:a#1", kid=CHILD)
    assert world.run.blocked_on is BlockedKind.CHILD
    world.state.questions = Unread(world.state.questions)
    assert world.advance(SendSignal(name="note")).replies[0].status == "ACCEPTED"

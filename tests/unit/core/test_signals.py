"""Signals in the loop: kept in order, taken once, and given at once to the call that waits for their name."""

from __future__ import annotations

from stepwell.core.loop.occurrences import (
    AwaitSignal,
    Cancel,
    Open,
    SendSignal,
    Suspended,
    SuspendedCall,
)
from stepwell.core.loop.signals import JOURNAL, generation_of
from stepwell.core.loop.transition import Reply
from stepwell.core.records.limits import SIGNALS_MAX
from stepwell.core.records.model import Payload
from tests.unit.core.loop_world import World, started

NOTE = AwaitSignal(name="note")
ONE_GENERATION = ("gnyijstj", "etislvlf")
"""Names with the same digest."""


def value(text: str) -> Payload:
    return Payload(data=text.encode())


def sent(world: World, text: str, name: str = "note", actor: str = "") -> Reply:
    return world.do(SendSignal(name=name, value=value(text), actor=actor))[0]


def ends(world: World) -> list[tuple[str, bytes]]:
    """Return the calls that have ended, with their values."""
    return [
        (one.entry.key, one.entry.value.data if one.entry.value else b"")
        for commit in world.commits
        for one in commit.entries
        if one.journal != JOURNAL
    ]


def test_signal_is_kept_until_a_call_takes_it() -> None:
    world = started("a")
    assert sent(world, "1").status == "ACCEPTED"
    assert (world.run.signals.kept, world.run.signals.bytes, world.run.signals.last) == (1, 1, 1)
    (event,) = [one for one in world.commits[-1].events if one.type == "SIGNAL_RECEIVED"]
    assert (event.message, event.question_id) == ("note", "")


def test_waiting_call_takes_the_signal_at_once_and_its_step_goes_on() -> None:
    world = started("a")
    world.suspend("task:a#1", s=NOTE)
    sent(world, "1", actor="ann")
    assert (ends(world), world.ready()) == ([("s", b"1")], ["task:a#2"])
    assert (world.run.signals.kept, world.state.questions) == (0, {})
    assert next(one.actor for one in world.events if one.type == "SIGNAL_RECEIVED") == "ann"


def test_signal_of_another_name_is_kept_while_a_call_waits() -> None:
    world = started("a")
    world.suspend("task:a#1", s=NOTE)
    sent(world, "1", name="other")
    assert (ends(world), world.ready(), world.run.signals.kept) == ([], [], 1)


def test_kept_signals_are_taken_once_and_in_their_order() -> None:
    world = started("a")
    for text, name in (("1", "note"), ("x", "other"), ("2", "note"), ("3", "note")):
        sent(world, text, name)
    world.lease("task:a#1")
    token = world.held("task:a#1").token
    calls = tuple(SuspendedCall(call=call, wait=NOTE) for call in ("k", "l"))
    opening = Open(execution_id="task:a#1", token=token, number=1, calls=calls)
    assert world.advance(opening).asks
    assert world.do(opening)[0].status == "ACCEPTED"
    assert ends(world) == [("k", b"1"), ("l", b"2")]
    assert [one.entry.name for one in world.kept_signals] == ["other", "note"]
    assert (world.run.signals.kept, world.run.signals.bytes, world.run.signals.last) == (2, 2, 4)
    assert world.state.questions == {}


def test_step_that_is_suspended_for_a_kept_signal_goes_on_at_once() -> None:
    world = started("a")
    sent(world, "1")
    world.suspend("task:a#1", s=NOTE)
    assert (ends(world), world.ready(), world.run.signals.kept) == ([("s", b"1")], ["task:a#2"], 0)


def test_signals_beyond_the_limit_are_refused_by_name() -> None:
    world = started("a")
    for _ in range(SIGNALS_MAX):
        assert sent(world, "1").status == "ACCEPTED"
    reply = sent(world, "1")
    assert (reply.status, reply.reason) == ("REFUSED", "SIGNALS_FULL")
    assert world.run.signals.kept == SIGNALS_MAX


def test_signal_to_a_run_that_is_over_is_refused_and_a_repeated_one_is_not() -> None:
    world = started("a")
    first = SendSignal(name="note", value=value("1"), request_id="r", fingerprint="f")
    assert world.do(first)[0].status == "ACCEPTED"
    world.do(Cancel())
    assert world.do(first)[0].status == "UNCHANGED"
    assert sent(world, "2").reason == "RUN_ENDED"


def test_run_that_keeps_signals_of_other_names_opens_the_wait() -> None:
    world = started("a")
    sent(world, "x", name="other")
    call = SuspendedCall(call="s", wait=NOTE)
    world.deliver("task:a#1", Suspended(waits=(call,)))
    assert [one.prompt for one in world.state.questions.values()] == ["note"]
    assert world.run.blocked_on == "SIGNAL"


def opening(world: World, *calls: str) -> Open:
    """Return a message that opens waits of the running step."""
    world.lease("task:a#1")
    token = world.held("task:a#1").token
    waits = tuple(SuspendedCall(call=call, wait=NOTE) for call in calls)
    return Open(execution_id="task:a#1", token=token, number=1, calls=waits)


def test_signal_of_the_same_commit_as_the_wait_is_taken_by_its_call() -> None:
    world = started("a")
    waits = opening(world, "k")
    world.do(SendSignal(name="note", value=value("1")), waits)
    assert (ends(world), world.kept_signals) == ([("k", b"1")], ())
    assert (world.run.signals.kept, world.run.signals.bytes, world.state.questions) == (0, 0, {})


def test_kept_signal_is_taken_before_one_of_the_same_commit() -> None:
    world = started("a")
    sent(world, "1")
    waits = opening(world, "k", "l", "m")
    signals = [SendSignal(name=name, value=value(name)) for name in ("other", "note")]
    world.do(*signals, waits)
    assert ends(world) == [("k", b"1"), ("l", b"note")]
    assert [one.entry.name for one in world.kept_signals] == ["other"]
    assert [one.call for one in world.state.questions.values()] == ["m"]


def test_call_that_one_message_opens_twice_takes_one_signal() -> None:
    world = started("a")
    sent(world, "1")
    sent(world, "2")
    world.do(opening(world, "k", "k"))
    assert ends(world) == [("k", b"1")]
    assert (world.run.signals.kept, len(world.kept_signals)) == (1, 1)


def test_calls_that_take_one_name_together_read_it_together() -> None:
    world = started("a")
    for number in range(6):
        sent(world, str(number))
    world.do(opening(world, *"klmno"))
    assert [value for _, value in ends(world)] == [b"0", b"1", b"2", b"3", b"4"]
    assert [one.limit for one in world.read] == [1, 2, 4, 8]


def test_names_of_one_generation_keep_their_signals_apart() -> None:
    name, same = ONE_GENERATION
    assert generation_of(name) == generation_of(same)
    world = started("a")
    for number in range(3):
        sent(world, str(number), name=same)
    sent(world, "mine", name=name)
    world.suspend("task:a#1", s=AwaitSignal(name=name))
    assert ends(world) == [("s", b"mine")]
    assert [one.limit for one in world.read] == [1, 2, 4]


def test_wait_reads_nothing_once_all_signals_are_taken() -> None:
    world = started("a")
    sent(world, "1")
    world.do(opening(world, "k"))
    read = world.read
    world.suspend("task:a#1", s=NOTE)
    assert world.read == read

"""Messages and state of a thread in the loop: numbered, taken once from the run that works, and sent with an outcome."""

from __future__ import annotations

import pytest

from stepwell.core.loop import letters, thread_messages
from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import (
    Completed,
    Failed,
    LettersDelivered,
    Occurrence,
    Planned,
    Reflected,
    Released,
    StartInThread,
    WriteToThread,
)
from stepwell.core.loop.state import RunState
from stepwell.core.loop.thread_occurrences import RunLeft, RunWrites
from stepwell.core.port import Commit
from stepwell.core.records.family import Thread
from stepwell.core.records.model import Failure, Payload, RunSpec
from stepwell.core.records.states import Decision
from stepwell.core.records.threads import ThreadMessageDraft, ThreadWrite
from tests.unit.core.loop_world import BOTH, World, chain


def message(text: str, role: str = "user") -> ThreadMessageDraft:
    return ThreadMessageDraft(role=role, content=Payload(data=text.encode()))


def written(*texts: str, state: str = "") -> ThreadWrite:
    return ThreadWrite(
        messages=tuple(message(text) for text in texts),
        state=Payload(data=state.encode()) if state else None,
    )


def outside(write: ThreadWrite, **fields: int | str) -> WriteToThread:
    return WriteToThread(thread_id="t1", write=write, **fields)  # pyright: ignore[reportArgumentType] - by name


class ThreadWorld:
    """A thread and its commits. The checks of `World` are those of runs, of which something can always move."""

    def __init__(self, *run_ids: str) -> None:
        self.state = RunState.empty("tenant/threads", "thread")
        self.commits: list[Commit] = []
        for run_id in run_ids:
            spec = RunSpec(
                tenant_id="tenant", run_id=run_id, thread_id="t1", request_fingerprint=run_id
            )
            self.do(StartInThread(spec=spec, plan=tuple(chain("a"))))

    def do(self, *occurrences: Occurrence) -> list[str]:
        """Advance and apply; return the replies' reasons, or their statuses."""
        transition = advance(self.state, occurrences, Context(now_us=1))
        if transition.commit is not None:
            self.commits.append(transition.commit)
            self.state.apply(transition.commit)
        return [one.reason or str(one.status) for one in transition.replies]

    @property
    def thread(self) -> Thread:
        return self.state.run.thread


def kept(world: World | ThreadWorld, journal: str) -> dict[str, bytes]:
    """Return the entries that the thread's store has of a journal, by their keys."""
    found: dict[str, bytes] = {}
    for commit in world.commits:
        for one in commit.forgotten:
            if one.journal == journal:
                del found[one.entry.key]
        for one in commit.entries:
            if one.journal == journal:
                assert one.entry.value is not None
                found[one.entry.key] = one.entry.value.data
    return found


def test_messages_from_outside_make_the_thread_and_have_numbers() -> None:
    world = ThreadWorld()
    assert world.do(outside(written("1", "2"))) == ["ACCEPTED"]
    once = outside(written("3"), request_id="r", fingerprint="f")
    assert [world.do(once), world.do(once)] == [["ACCEPTED"], ["UNCHANGED"]]
    spec = world.state.run.spec
    assert (spec.thread_id, spec.is_thread) == ("t1", True)
    assert (world.thread.messages, world.thread.bytes) == (3, 3)
    assert kept(world, thread_messages.MESSAGES) == {
        f"{number:012}": b"%d" % number for number in (1, 2, 3)
    }
    events = [one for commit in world.commits for one in commit.events]
    assert [(one.type, one.message) for one in events] == [
        ("THREAD_WRITTEN", "2 messages"),
        ("THREAD_WRITTEN", "1 message"),
    ]


def test_state_is_set_only_at_the_version_that_its_writer_knows() -> None:
    world = ThreadWorld()
    assert world.do(outside(written(state="1"), expected_state=0)) == ["ACCEPTED"]
    assert world.do(outside(written(state="2"), expected_state=0)) == ["VERSION_CHANGED"]
    assert world.do(outside(written(state="2"), expected_state=1)) == ["ACCEPTED"]
    assert world.do(outside(written(state="3"))) == ["ACCEPTED"]
    assert (world.thread.state, kept(world, thread_messages.STATE)) == (3, {"3": b"3"})


def test_only_the_run_that_works_writes_and_each_letter_once() -> None:
    world = ThreadWorld("one", "two")
    first = RunWrites(run_id="one", letter=1, write=written("1", state="1"))
    second = RunWrites(run_id="one", letter=3, write=written("2", state="2"))
    early = RunWrites(run_id="two", letter=1, write=written("3"))
    replies = world.do(early, first, second, first)
    assert replies == ["UNCHANGED", "ACCEPTED", "ACCEPTED", "UNCHANGED"]
    # Of two states in one commit the last one is kept.
    assert (world.thread.state, kept(world, thread_messages.STATE)) == (2, {"2": b"2"})
    world.do(RunLeft(run_id="one"))
    late = RunWrites(run_id="one", letter=9, write=written("no"))
    assert world.do(late, early) == ["UNCHANGED", "ACCEPTED"]
    assert list(kept(world, thread_messages.MESSAGES).values()) == [b"1", b"2", b"3"]


def sent(world: World) -> list[str]:
    """Return the kinds of letters that the run has written, in order."""
    return [str(one.entry.name) for commit in world.commits for one in commit.entries]


def test_every_kind_of_step_sends_what_it_wrote_before_its_run_leaves() -> None:
    world = World()
    world.start(thread_id="t1", stages=BOTH)
    writes = {"thread": written("1")}
    world.deliver("plan:1#1", Planned(tasks=tuple(chain("a"))), **writes)
    world.deliver("task:a#1", Completed(), **writes)
    world.deliver("reflect:1#1", Reflected(decision=Decision.FINISH), **writes)
    world.deliver("synthesize:1#1", Completed(), **writes)
    assert world.run.ended
    assert sent(world) == ["APPEND"] * 4 + ["LEFT"]
    known = [number for commit in world.commits for number, _ in letters.written(commit)]
    assert known == [1, 2, 3, 4, 5]
    world.do(LettersDelivered(last=5))
    assert kept(world, letters.JOURNAL) == {}


@pytest.mark.parametrize("result", [Failed(failure=Failure(kind="Boom")), Released()])
def test_an_attempt_that_completes_nothing_sends_nothing(result: Failed | Released) -> None:
    world = World()
    world.start(thread_id="t1", plan=chain("a"))
    world.deliver("task:a#1", result, thread=written("1"))
    assert sent(world) == []


def test_a_step_of_a_run_in_no_thread_can_not_write_to_one() -> None:
    world = World()
    world.start(plan=chain("a"))
    reply = world.deliver("task:a#1", Completed(), thread=written("1"))
    assert (reply.status, reply.reason) == ("REJECTED", "INVALID_OUTCOME")
    assert world.status_of("task:a#1") == "FAILED"

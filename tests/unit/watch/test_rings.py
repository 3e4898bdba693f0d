"""Rings: consecutive events of whole commits, made here one on another, encoded once and bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from stepwell.core.port import Commit
from stepwell.core.records.events import Event
from stepwell.core.records.states import RunStatus
from stepwell.watch import rings
from stepwell.watch.rings import Follower, Rings
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.runtime import ManualRuntime

KEY = (b.TENANT, b.RUN)
SIZE = 100
"""The bytes of an encoded event."""


class World:
    """Rings, what they encoded, and the version that is being committed."""

    def __init__(self) -> None:
        self.encodings: Counter[int] = Counter()
        self.committing = 0
        self.rings = Rings(
            self._encode, lambda _tenant_id, _run_id: self.committing, ManualRuntime()
        )

    def _encode(self, event: Event) -> bytes:
        self.encodings[event.number] += 1
        return b"x" * SIZE

    def reader(self) -> Follower:
        return self.rings.follow(*KEY, reads=True)

    def waiter(self) -> Follower:
        return self.rings.follow(*KEY, reads=False)


@pytest.fixture
def world() -> World:
    return World()


def follow_on(*counts: int, run_id: str = b.RUN) -> list[Commit]:
    """Return commits of one run that follow one another, with so many events each."""
    commits = [b.created(run_id, events=counts[0])]
    for count in counts[1:]:
        before = commits[-1]
        commits.append(replace(b.step(before, events=count), follows=before.commit_id))
    return commits


def numbers(follower: Follower, after: int) -> list[int] | None:
    events = follower.ring.after(after)
    return None if events is None else [event.number for event in events]


def commit_all(world: World, commits: Iterable[Commit]) -> None:
    for commit in commits:
        world.rings.committed(commit)


def test_events_of_commits_here_are_held_and_a_reader_is_woken(world: World) -> None:
    reader = world.reader()

    commit_all(world, follow_on(2, 3))

    assert reader.changed.is_set()
    assert numbers(reader, 0) == [1, 2, 3, 4, 5]
    assert numbers(reader, 4) == [5]
    assert numbers(reader, 5) == []
    assert reader.ring.run is not None
    assert reader.ring.run.version == 2


def test_an_event_is_encoded_once_for_all_readers(world: World) -> None:
    readers = [world.reader() for _ in range(3)]

    commit_all(world, follow_on(2, 3))

    assert {tuple(numbers(one, 0) or ()) for one in readers} == {(1, 2, 3, 4, 5)}
    assert world.encodings == dict.fromkeys(range(1, 6), 1)


def test_a_run_that_nobody_follows_has_no_ring(world: World) -> None:
    commit_all(world, follow_on(2, 3))
    world.rings.hint(*KEY, 2)
    world.rings.uncertain(*KEY)

    assert (world.rings.bytes, world.rings.followers) == (0, 0)
    assert not world.encodings


def test_for_those_who_wait_for_the_end_no_event_is_encoded(world: World) -> None:
    waiter = world.waiter()
    one, two = follow_on(2, 1)

    world.rings.committed(one)
    assert not waiter.changed.is_set()
    ended = replace(two, run=replace(two.run, status=RunStatus.SUCCEEDED))
    world.rings.committed(ended)

    assert waiter.changed.is_set()
    assert waiter.ring.run is ended.run
    assert not world.encodings
    # A reader that comes later and has not seen these events reads the store.
    assert numbers(world.reader(), 2) is None


def test_who_has_not_seen_what_was_before_the_ring_reads_the_store(world: World) -> None:
    one, two, three = follow_on(2, 3, 1)
    world.rings.committed(one)
    reader = world.reader()

    commit_all(world, (two, three))

    assert numbers(reader, 1) is None
    assert numbers(reader, 2) == [3, 4, 5, 6]


def test_a_commit_of_another_replica_in_between_empties_the_ring(world: World) -> None:
    reader = world.reader()
    one, _, three = follow_on(2, 3, 1)
    world.rings.committed(one)
    reader.changed.clear()

    world.rings.committed(three)

    assert reader.changed.is_set()
    assert numbers(reader, 2) is None
    assert numbers(reader, 5) == [6]


def test_a_commit_without_events_in_between_empties_it_too(world: World) -> None:
    # The same number of events says nothing: a store that lost commits may have others of these numbers.
    reader = world.reader()
    one, two = follow_on(2, 1)
    world.rings.committed(one)

    world.rings.committed(replace(two, follows="another"))

    assert numbers(reader, 0) is None
    assert numbers(reader, 2) == [3]


def test_own_commits_without_events_keep_it_whole(world: World) -> None:
    reader = world.reader()
    one, two, three = follow_on(2, 0, 1)
    world.rings.committed(one)
    reader.changed.clear()

    world.rings.committed(two)
    assert not reader.changed.is_set()
    world.rings.committed(three)

    assert numbers(reader, 0) == [1, 2, 3]


def test_uncertain_commit_empties_it_and_sends_readers_to_the_store(world: World) -> None:
    reader = world.reader()
    one, two = follow_on(2, 1)
    world.rings.committed(one)
    reader.changed.clear()
    news = reader.ring.news

    world.rings.uncertain(*KEY)

    assert reader.changed.is_set()
    assert reader.ring.news > news
    assert (numbers(reader, 0), reader.ring.run, world.rings.bytes) == ([], None, 0)
    world.rings.committed(two)
    assert numbers(reader, 0) is None
    assert numbers(reader, 2) == [3]


def test_too_many_bytes_of_a_run_drop_its_oldest_commits_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rings, "RING_BYTES_MAX", 5 * SIZE)
    reader = world.reader()

    commit_all(world, follow_on(2, 2, 3))

    assert numbers(reader, 1) is None
    assert numbers(reader, 2) == [3, 4, 5, 6, 7]
    assert world.rings.bytes == reader.ring.bytes == 5 * SIZE
    larger = replace(b.step(follow_on(2, 2, 3)[-1], events=6), follows=f"{b.RUN}@3")
    world.rings.committed(larger)
    assert numbers(reader, 7) is None
    assert numbers(reader, 13) == []
    assert world.rings.bytes == 0


def test_too_many_bytes_of_all_runs_drop_those_of_the_run_that_rested_longest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rings, "RINGS_BYTES_MAX", 4 * SIZE)
    runs = ["first", "second"]
    first, second = [world.rings.follow(b.TENANT, one, reads=True) for one in runs]
    old, new = follow_on(2, 1, run_id="first")
    world.rings.committed(old)
    commit_all(world, follow_on(3, run_id="second"))

    assert numbers(first, 0) is None
    # It had seen them all, so it misses nothing.
    assert numbers(first, 2) == []
    assert numbers(second, 0) == [1, 2, 3]
    world.rings.committed(new)
    assert numbers(first, 2) == [3]
    assert world.rings.bytes == 4 * SIZE


def test_the_last_to_leave_takes_the_ring_along(world: World) -> None:
    readers = [world.reader() for _ in range(2)]
    waiter = world.waiter()
    commit_all(world, follow_on(2))

    for reader in readers:
        world.rings.leave(reader)
    assert (world.rings.bytes, world.rings.followers) == (0, 1)
    world.rings.leave(waiter)

    assert world.rings.followers == 0
    assert world.reader().ring is not waiter.ring


def test_hints_about_own_commits_send_nobody_to_the_store(world: World) -> None:
    reader = world.reader()
    world.rings.committed(follow_on(2)[0])
    news = reader.ring.news

    world.committing = 2
    world.rings.hint(*KEY, 1)
    world.rings.hint(*KEY, 2)

    assert reader.ring.news == news


@pytest.mark.parametrize("version", [0, 2])
def test_other_hints_send_readers_to_the_store(world: World, version: int) -> None:
    reader = world.reader()
    world.rings.committed(follow_on(2)[0])
    reader.changed.clear()
    news = reader.ring.news

    world.rings.hint(*KEY, version)

    assert reader.changed.is_set()
    assert reader.ring.news > news
    # What was committed here stays: it is in the store.
    assert numbers(reader, 0) == [1, 2]

"""Journal entries in an order that no worker can have made are refused by the field at fault."""

from __future__ import annotations

import pytest

from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Failure
from stepwell.core.records.states import Effect, JournalMark
from stepwell.engine.entry_order import LEASES_MAX, KnownNumbers, out_of_order
from tests.unit.engine.executor_world import ExecutorWorld
from tests.unit.engine.test_executor_journals import answer_to, serving, write

BEGIN, END, TRY = JournalMark.BEGIN, JournalMark.END, JournalMark.TRY


def once(mark: JournalMark, number: int = 0, attempt: int = 0) -> Entry:
    return Entry(key="k", mark=mark, number=number, attempt=attempt, effect=Effect.AT_MOST_ONCE)


def tried(number: int, attempt: int = 1) -> Entry:
    return Entry(key="k", mark=TRY, number=number, attempt=attempt)


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ([Entry(key="k")], ""),
        ([tried(1), tried(2), Entry(key="k")], ""),
        ([once(BEGIN, 1), once(TRY, 1, 1), once(BEGIN, 2), once(END)], ""),
        ([once(END)], "entries[0].mark: is END"),
        ([tried(2)], "entries[0].number: is 2, and the last of the call 'k' was 0; send 1"),
        (
            [tried(1), tried(3)],
            "entries[1].number: is 3, and the last of the call 'k' was 1; send 2",
        ),
        (
            [tried(1, attempt=99)],
            "entries[0].attempt: is 99; a TRY has the number of its own attempt, 1",
        ),
        (
            [once(TRY, 1, 1)],
            "entries[0].number: is 1, and the call 'k' has no BEGIN of that number",
        ),
    ],
)
def test_an_entry_that_does_not_follow_is_refused(entries: list[Entry], fault: str) -> None:
    refused = out_of_order(entries, {}, attempt=1)

    assert len(refused) == bool(fault)
    assert all(fault in one.message for one in refused.values())


def test_numbers_of_the_leases_used_last_are_remembered() -> None:
    known = KnownNumbers()
    for token in range(LEASES_MAX + 1):
        known.add(str(token), [tried(1)])

    assert known.of("0") == {}
    assert known.of("1") == {"k": 1}


async def test_what_another_replica_wrote_is_read_before_an_entry_is_refused(
    world: ExecutorWorld,
) -> None:
    store, executor, _, got = await serving(world)
    other = world.executor(store=store)

    await write(executor, got, [once(BEGIN, 1)])
    (ended,) = (await answer_to(other, got, [once(END)])).entries
    (gap,) = (await answer_to(other, got, [tried(3)])).entries

    assert not isinstance(ended, Failure)
    assert isinstance(gap, Failure)
    assert (gap.kind, gap.retryable) == ("INVALID_ENTRY", False)

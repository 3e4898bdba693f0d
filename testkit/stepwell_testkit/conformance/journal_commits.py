"""Journal entries and commits: races with the end of a lease, and entries that commits write and forget."""
# ruff: noqa: N802, S106 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from stepwell.core.port import Commit, EntryAck, Store
from stepwell.core.records.journal import Entry
from stepwell.core.records.states import JournalMark, Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory
from stepwell_testkit.conformance.journal_writes import accepts, journal, kept, recorded

COMMITTED, CONFLICT, LEASE_LOST = Verdict.COMMITTED, Verdict.CONFLICT, Verdict.LEASE_LOST
ROUNDS = 20
"""Rounds of cases that depend on chance."""


def dropping(before: Commit, *entries: Entry, number: int = 1) -> Commit:
    """Return the commit by which the worker of the run's one step drops calls."""
    execution = replace(b.leased(), forget_number=number)
    commit = b.step(before, executions=[execution], fences=[b.fence()])
    return replace(commit, forgotten=tuple(b.entry_write(entry) for entry in entries))


class TestJournalRaces(Cases):
    """A journal write concurrent with the commit that ends its lease: before it, or not at all."""

    @promises(
        "write_journal",
        "The check of the token and the write are atomic against whatever ends the lease",
    )
    @promises("commit", "or a fence's lease has `recorded` another number of journal entries.")
    async def test_J1_J4_record_at_the_end_of_its_lease_is_known_to_it_or_refused(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        for at in range(ROUNDS):
            run_id = f"r{at}"
            first = await ask.must(store, b.created_leased(run_id))
            end = b.step(first, executions=[b.ended()], fences=[b.fence(recorded=0)])
            ends = ask.verdicts(store, end)
            before = recorded(door, b.journal_write(b.entry("a"), run_id=run_id))
            after = recorded(store, b.journal_write(b.entry("b"), run_id=run_id))
            # Each is requested first in half of the rounds.
            if at % 2:
                (verdict,), (one,), (two,) = await asyncio.gather(ends, before, after)
            else:
                (one,), (verdict,), (two,) = await asyncio.gather(before, ends, after)
            keys = [key for key, answer in (("a", one), ("b", two)) if answer.live]
            assert sorted(entry.key for entry in await kept(store, run_id)) == keys
            if verdict is COMMITTED:
                assert keys == []
                continue
            assert verdict is CONFLICT
            assert keys
            known = b.fence(recorded=len(keys))
            await ask.must(store, replace(end, commit_id="again", fences=(known,)))
            late = b.journal_write(b.entry("c"), run_id=run_id)
            assert [answer.live for answer in await recorded(door, late)] == [False]

    @promises("write_journal", "The same entry again is accepted and written once.")
    @promises(
        "write_journal",
        "Another one under that name is not accepted, and stops none of the others.",
    )
    async def test_J2_of_values_recorded_at_once_under_one_name_one_is_kept(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        await ask.must(store, b.created_leased())
        for at in range(ROUNDS):
            values = [b.entry(f"k{at}", f"{which}".encode()) for which in range(4)]
            answers = await asyncio.gather(
                *(
                    accepts(store if which % 2 else door, b.journal_write(value))
                    for which, value in enumerate(values)
                )
            )
            assert sorted(answers) == [[False]] * 3 + [[True]]
            taken = values[answers.index([True])]
            assert [entry for entry in await kept(store) if entry.key == f"k{at}"] == [taken]

    @promises("write_journal", "and is counted in the `recorded` of the lease.")
    async def test_J1_entries_recorded_at_once_are_all_kept_and_counted(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        names = [f"r{at}" for at in range(8)]
        for run_id in names:
            await ask.must(store, b.created_leased(run_id))
        calls = [
            recorded(door if at % 3 else store, b.journal_write(b.entry(f"{at}"), run_id=run_id))
            for at in range(10)
            for run_id in names
        ]
        await asyncio.gather(*calls)
        for run_id in names:
            assert sorted(entry.key for entry in await kept(store, run_id)) == [
                str(at) for at in range(10)
            ]
            (row,) = (await ask.loaded(store, run_id)).executions
            assert row.recorded.entries == 10

    @promises(
        "write_journal",
        "The check of the token and the write are atomic against whatever ends the lease",
    )
    async def test_J4_record_during_a_deletion_writes_before_it_or_not_at_all(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        for at in range(ROUNDS):
            run_id = f"r{at}"
            await ask.must(store, b.created_leased(run_id))
            await asyncio.gather(
                recorded(door, b.journal_write(b.entry(), run_id=run_id)),
                store.delete_run(b.TENANT, run_id, version=1),
            )
            assert await kept(store, run_id) == []
            late = await recorded(door, b.journal_write(b.entry(), run_id=run_id))
            assert [answer.live for answer in late] == [False]

    @promises(
        "write_journal",
        "That check and the write are atomic, too, against the commit that raises the number.",
    )
    async def test_J3_copy_during_the_commit_that_drops_its_call_brings_nothing_back(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        for at in range(ROUNDS):
            run_id = f"r{at}"
            first = await ask.must(store, b.created_leased(run_id))
            copy = b.journal_write(b.entry("a"), run_id=run_id)
            assert await accepts(store, copy) == [True]
            drop = ask.must(store, dropping(first, b.entry("a")))
            copies = [recorded(door, copy), recorded(store, copy)]
            both = [drop, *copies] if at % 2 else [*copies, drop]
            await asyncio.gather(*both)
            assert await kept(store, run_id) == []


class TestCommitEntries(Cases):
    """A commit itself writes journal entries, and removes some."""

    @promises("Commit.entries", "such as a person's answer; one of the same name stays.")
    async def test_J2_commit_writes_entries_unless_their_name_is_taken(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created_leased())
        await recorded(store, b.journal_write(b.entry("a", b"first")))
        answer = b.entry("ask#1", b"yes")
        wait = Entry(key="sleep#1", mark=JournalMark.WAIT, sleep_ms=7)
        writes = tuple(b.entry_write(one) for one in (b.entry("a", b"other"), answer, wait))
        second = await ask.must(store, replace(b.step(first), entries=writes))
        # A commit that was applied before writes nothing twice.
        assert await ask.verdicts(store, second) == [COMMITTED]
        for _ in range(2):
            one, two, three = await journal(store)
            assert [one.entry, two.entry, three.entry] == [b.entry("a", b"first"), answer, wait]
            assert (two.execution_id, two.version, two.until_us) == ("", 2, 0)
            assert three.until_us == three.written_us + 7_000
            store = await open_store.reopen(store)
        assert await accepts(store, b.journal_write(answer)) == [True]
        assert await accepts(store, b.journal_write(b.entry("ask#1", b"no"))) == [False]
        (row,) = (await ask.loaded(store)).executions
        assert row.recorded.entries == 1

    @promises("Commit.forgotten", "by their names, in the generation given")
    async def test_forgotten_begin_of_an_earlier_generation_frees_its_name(
        self, store: Store
    ) -> None:
        first = await ask.must(store, b.created_leased())
        begin = b.mark(JournalMark.BEGIN)
        await recorded(store, b.journal_write(begin))
        await ask.must(store, replace(b.step(first), forgotten=(b.entry_write(begin),)))
        other = replace(begin, arguments="other")
        assert await accepts(store, b.journal_write(other, generation=2)) == [True]
        assert await kept(store) == [other]

    @promises("JournalWrite.forget_number", "as the worker knew it when it sent this.")
    @promises("JournalAck.late", "Calls were dropped since it was sent, and nothing was written.")
    @promises(
        "write_journal",
        "One whose `forget_number` is below that of its execution, as the last commit left it, writes nothing:",
    )
    async def test_J3_copy_that_comes_after_its_call_was_dropped_writes_nothing(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        old, new, other = b.entry("a", b"old"), b.entry("a", b"new"), b.entry("b")
        first = await ask.must(store, b.created_leased())
        assert await accepts(store, b.journal_write(old, other)) == [True, True]
        second = await ask.must(store, dropping(first, old))
        store = await open_store.reopen(store)
        copy, anew = b.journal_write(old, b.entry("c")), b.journal_write(new, forget_number=1)
        for writes in ((copy, anew, copy), (anew, copy)):
            for one, answer in zip(writes, await recorded(store, *writes), strict=True):
                assert (answer.live, answer.late) == (True, one is copy)
                assert answer.written == (() if one is copy else (EntryAck(),))
        assert await kept(store) == [other, new]
        # Entries written in between are dropped, and copies of them are late.
        await ask.must(store, dropping(second, new, number=2))
        for _ in range(2):
            answers = await recorded(store, copy, anew, replace(anew, token="t2"))
            assert [one.late for one in answers] == [True, True, False]
            assert [one.live for one in answers] == [True, True, False]
            (now,) = await recorded(store, b.journal_write(forget_number=2))
            assert (now.late, now.totals.entries) == (False, 3)
            store = await open_store.reopen(store)
        assert await kept(store) == [other]

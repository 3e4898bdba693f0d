"""Sums of what a lease recorded, and pages of journals."""
# ruff: noqa: N802, S106 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stepwell.core.port import JournalQuery, Store
from stepwell.core.records import limits
from stepwell.core.records.journal import Entry, StoredEntry, Totals, entry_bytes, words_bytes
from stepwell.core.records.model import Failure, Message, Payload, Usage
from stepwell.core.records.states import Effect, JournalMark, Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.fidelity import ODD_BYTES
from stepwell_testkit.conformance.harness import Cases, StoreFactory
from stepwell_testkit.conformance.journal_writes import journal, kept, recorded
from stepwell_testkit.conformance.odd_rows import odd_entry
from stepwell_testkit.conformance.tenants import TEXTS

CONFLICT, LEASE_LOST = Verdict.CONFLICT, Verdict.LEASE_LOST


class TestJournalTotals(Cases):
    """Each lease has sums of what it recorded."""

    @promises(
        "OpenExecution.recorded", "Sums of the entries that were recorded under its lease so far."
    )
    @promises("JournalAck.totals", "All that was recorded under this lease so far.")
    async def test_sums_of_a_lease_grow_with_each_new_entry(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased())
        assert (await _sums(store)) == Totals()
        usage = Usage(input_tokens=3, output_tokens=2, cost_micros=2**53 + 1, model="m")
        paid = replace(
            b.entry("a", b"12345"), usage=usage, messages=(b.message("x"), b.message("y"))
        )
        (one,) = await recorded(store, b.journal_write(paid, b.entry("b", b"1"), paid))
        size = entry_bytes(paid)
        total = Totals(entries=2, bytes=size + 1, usage=replace(usage, model=""), messages=2)
        assert one.totals == total
        (two, three) = await recorded(
            store,
            b.journal_write(replace(paid, key="c")),
            b.journal_write(b.entry("d", None), b.entry("a")),
        )
        assert two.totals == Totals(
            entries=3, bytes=2 * size + 1, usage=replace(usage + usage, model=""), messages=4
        )
        total = replace(two.totals, entries=4)
        assert three.totals == total
        for _ in range(2):
            assert await _sums(store) == total
            assert [answer.totals for answer in await recorded(store, b.journal_write(paid))] == [
                total
            ]
            store = await open_store.reopen(store)

    @promises("write_journal", "A new lease begins with nothing recorded.")
    async def test_new_lease_begins_with_nothing_recorded(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created_leased())
        await recorded(store, b.journal_write(b.entry("a")))
        taken = b.step(first, executions=[b.leased()], leases=[b.lease(token="t2")])
        await ask.must(store, taken)
        for _ in range(2):
            assert await _sums(store) == Totals()
            store = await open_store.reopen(store)
        (answer,) = await recorded(store, b.journal_write(b.entry("b"), token="t2"))
        assert answer.totals.entries == 1
        assert (await _sums(store)).entries == 1

    @promises(
        "Fence.recorded", "The number of journal entries that must have been recorded under it"
    )
    @promises("Fence.recorded", "below 0: any number.")
    @promises("commit", "or a fence's lease has `recorded` another number of journal entries.")
    async def test_J1_commit_that_does_not_know_all_entries_is_a_conflict(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created_leased())
        known = await ask.must(store, b.step(first, fences=[b.fence(recorded=0)]))
        await recorded(store, b.journal_write(b.entry("a"), b.entry("b")))
        await recorded(store, b.journal_write(b.entry("a")))
        for _ in range(2):
            for wrong in (0, 1, 3, 2**40):
                end = b.step(
                    known,
                    commit_id=f"{wrong}",
                    executions=[b.ended()],
                    fences=[b.fence(recorded=wrong)],
                )
                assert await ask.verdicts(store, end) == [CONFLICT], wrong
            store = await open_store.reopen(store)
        any_number = await ask.must(store, b.step(known, fences=[b.fence()]))
        await ask.must(store, b.step(any_number, fences=[b.fence(recorded=2)]))

    @promises(
        "Loaded.executions", "and in any case those that recorded something under their lease."
    )
    async def test_load_since_tells_of_what_was_recorded_meanwhile(self, store: Store) -> None:
        leases = [b.lease("e1", token="x"), b.lease("e2", token="y")]
        first = await ask.must(
            store, b.created(executions=[b.leased("e1"), b.leased("e2")], leases=leases)
        )
        await recorded(store, b.journal_write(b.entry(), execution_id="e1", token="x"))
        found = {
            row.execution.execution_id: row.recorded.entries
            for row in (await ask.loaded(store, since=1)).executions
        }
        assert found["e1"] == 1
        ended = b.step(first, executions=[b.ended("e1")])
        await ask.must(store, ended, b.step(ended))
        rows = await ask.loaded(store, since=2)
        assert not rows.complete or [row.execution.execution_id for row in rows.executions] == [
            "e2"
        ]
        assert rows.complete or "e1" not in {row.execution.execution_id for row in rows.executions}


class TestJournals(Cases):
    """Pages of a run's journals."""

    @promises("JournalQuery", "In the order in which they were written.")
    @promises("JournalQuery", "A page's cursor is always set, also at the end")
    async def test_J1_pages_hold_all_entries_in_the_order_of_writing(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased())
        query = JournalQuery(tenant_id=b.TENANT, run_id=b.RUN)
        empty = await store.page(query)
        assert empty.items == ()
        entries = [b.entry(f"{at}") for at in range(7)]
        await recorded(store, *(b.journal_write(entry) for entry in entries[:3]))
        await recorded(store, b.journal_write(*entries[3:]))
        for _ in range(2):
            for limit in (1, 2, 3, 7, 100):
                assert await _all(store, replace(query, limit=limit)) == entries
            assert await _all(store, replace(query, cursor=empty.cursor)) == entries
            store = await open_store.reopen(store)
        end = (await store.page(query)).cursor
        assert await _all(store, replace(query, cursor=end)) == []
        await recorded(store, b.journal_write(b.entry("late"), entries[0]))
        assert await _all(store, replace(query, cursor=end)) == [b.entry("late")]

    @promises("JournalQuery", "A page has at least one entry where there is one")
    @promises(
        "JournalQuery",
        "and ends before the one that would take its values, messages and failures (`entry_bytes`) over `bytes_limit`;",
    )
    async def test_page_ends_before_its_values_are_over_the_limit(self, store: Store) -> None:
        await ask.must(store, b.created_leased())
        sizes = {"a": 5, "b": 5, "c": 0, "d": 6, "e": 20, "f": 1, "g": 9}
        await recorded(
            store, b.journal_write(*(b.entry(key, b"x" * size) for key, size in sizes.items()))
        )
        query = JournalQuery(tenant_id=b.TENANT, run_id=b.RUN, bytes_limit=10)
        pages: list[str] = []
        while True:
            page = await store.page(query)
            if not page.items:
                break
            pages.append("".join(one.entry.key for one in page.items))
            query = replace(query, cursor=page.cursor)
        assert pages == ["abc", "d", "e", "fg"]

    @promises("JournalQuery", "values count where they come with their bytes.")
    @promises(
        "JournalQuery",
        "ends before the one that would take its values, messages and failures (`entry_bytes`) over `bytes_limit`",
    )
    async def test_messages_and_failures_count_in_a_page_and_in_the_sums(
        self, store: Store
    ) -> None:
        await ask.must(store, b.created_leased())
        said = (Message(role="assistant", content="é" * 500), Message(role="user", content="x"))
        failed = Entry(key="d", mark=JournalMark.TRY, failure=Failure(kind="E", message="m" * 900))
        entries = [replace(b.entry(key, b"x" * 200), messages=said) for key in "abc"]
        (answer,) = await recorded(store, b.journal_write(*entries, failed, b.entry("e")))
        one = entry_bytes(entries[0])
        assert one > 1_200
        assert answer.totals.bytes == 3 * one + entry_bytes(failed) + entry_bytes(b.entry("e"))
        query = JournalQuery(tenant_id=b.TENANT, run_id=b.RUN, bytes_limit=2 * one)
        first = await store.page(query)
        assert [stored.entry for stored in first.items] == entries[:2]
        rest = await store.page(replace(query, cursor=first.cursor))
        assert [stored.entry.key for stored in rest.items] == ["c", "d", "e"]
        names = replace(query, names_only=True)
        for limit, found in ((3 * (one - 200), "abc"), (3 * (one - 200) - 1, "ab")):
            page = await store.page(replace(names, bytes_limit=limit))
            assert "".join(stored.entry.key for stored in page.items) == found

    @promises("JournalQuery.journal", "Only this one.", "Empty: all of the run's.")
    @promises(
        "JournalQuery.execution_id", "Only those that this attempt wrote.", "Empty: everyone's."
    )
    @promises(
        "JournalQuery.version",
        "Only those written at this version of the run or before.",
        "0: all.",
    )
    async def test_journals_attempts_and_versions_are_read_apart(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        leases = [b.lease("e1", token="x"), b.lease("e2", token="y")]
        first = await ask.must(
            store, b.created(executions=[b.leased("e1"), b.leased("e2")], leases=leases)
        )
        await recorded(
            store,
            b.journal_write(b.entry("a"), execution_id="e1", token="x"),
            b.journal_write(b.entry("b"), execution_id="e2", token="y", journal="task:b@1"),
        )
        answer = (b.entry_write(b.entry("c")),)
        await ask.must(store, replace(b.step(first), entries=answer))
        await recorded(store, b.journal_write(b.entry("d"), execution_id="e1", token="x"))
        asked: list[tuple[dict[str, Any], str]] = [
            ({}, "abcd"),
            ({"journal": b.JOURNAL}, "acd"),
            ({"journal": "task:b@1"}, "b"),
            ({"journal": "task:a"}, ""),
            ({"execution_id": "e1"}, "ad"),
            ({"execution_id": "e2"}, "b"),
            ({"execution_id": "e"}, ""),
            ({"version": 1}, "ab"),
            ({"version": 2}, "abcd"),
            ({"journal": b.JOURNAL, "execution_id": "e1", "version": 1}, "a"),
        ]
        for _ in range(2):
            for filters, keys in asked:
                query = JournalQuery(tenant_id=b.TENANT, run_id=b.RUN, **filters)
                for limit in (1, 100):
                    found = await _all(store, replace(query, limit=limit))
                    assert "".join(entry.key for entry in found) == keys, filters
            store = await open_store.reopen(store)

    @promises(
        "JournalQuery.generation",
        "Only this one, and what AT_MOST_ONCE calls left in those before.",
    )
    @promises("JournalQuery.generation", "0: every generation's.")
    async def test_generation_is_read_with_what_at_most_once_calls_left_before(
        self, store: Store
    ) -> None:
        await ask.must(store, b.created_leased())
        for generation in (1, 2, 3):
            once = Entry(key=f"once {generation}", effect=Effect.AT_MOST_ONCE)
            await recorded(store, b.journal_write(b.entry("plain"), once, generation=generation))
        expected = {
            0: ["plain", "once 1", "plain", "once 2", "plain", "once 3"],
            1: ["plain", "once 1"],
            2: ["once 1", "plain", "once 2"],
            3: ["once 1", "once 2", "plain", "once 3"],
            4: ["once 1", "once 2", "once 3"],
        }
        for generation, keys in expected.items():
            query = JournalQuery(tenant_id=b.TENANT, run_id=b.RUN, generation=generation)
            assert [entry.key for entry in await _all(store, query)] == keys, generation

    @promises(
        "JournalQuery.names_only", "Values come without their bytes; `took_ms`, and their sizes"
    )
    async def test_names_come_without_the_bytes_of_values(self, store: Store) -> None:
        await ask.must(store, b.created_leased())
        full, nothing = odd_entry(), b.entry("none", None)
        await recorded(store, b.journal_write(full, nothing))
        room = words_bytes(full)
        query = JournalQuery(tenant_id=b.TENANT, run_id=b.RUN, names_only=True, bytes_limit=room)
        one, two = (await store.page(query)).items
        assert full.value is not None
        assert one.entry == replace(full, value=replace(full.value, data=b""))
        assert (one.size, two.size, two.entry) == (len(full.value.data), 0, nothing)

    @promises("Names", "Ids, keys and all other texts hold any characters but NUL")
    @promises("write_journal", "an entry that was accepted is in every read after that")
    async def test_D2_every_field_of_an_entry_comes_back_unchanged(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased())
        entries = [odd_entry()]
        for name, data in ODD_BYTES.items():
            entries.append(Entry(key=name, value=Payload(data=data, media_type="a/b")))
        entries.append(Entry(key="x" * limits.CALL_KEY_CHARS_MAX))
        entries.append(
            Entry(key="failed", mark=JournalMark.TRY, failure=Failure(kind="E", message="m"))
        )
        await recorded(store, b.journal_write(*entries))
        for _ in range(2):
            query = JournalQuery(tenant_id=b.TENANT, run_id=b.RUN, bytes_limit=2**30)
            assert await _all(store, query) == entries
            (answer,) = await recorded(store, b.journal_write(*entries))
            assert all(one.accepted for one in answer.written)
            store = await open_store.reopen(store)

    @promises("Names", "Ids, keys and all other texts hold any characters but NUL")
    async def test_T4_hostile_keys_and_journals_are_kept_apart(self, store: Store) -> None:
        await ask.must(store, b.created_leased())
        for label, text in TEXTS.items():
            await recorded(
                store, b.journal_write(b.entry(text[:512], label.encode()), journal=text[:128])
            )
        assert len(await kept(store)) == len(TEXTS)
        for label, text in TEXTS.items():
            query = JournalQuery(tenant_id=b.TENANT, run_id=b.RUN, journal=text[:128])
            assert await _all(store, query) == [b.entry(text[:512], label.encode())], label

    @promises("JournalQuery", "reading on from it later returns what was written since.")
    async def test_cursor_stays_good_over_what_is_forgotten(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created_leased())
        query = JournalQuery(tenant_id=b.TENANT, run_id=b.RUN)
        entries = [b.entry(f"{at}") for at in range(6)]
        await recorded(store, b.journal_write(*entries))
        cursors = [(await store.page(replace(query, limit=many))).cursor for many in range(1, 7)]
        # The newest entry is among them; its number is not reused.
        gone = tuple(b.entry_write(entries[at]) for at in (1, 3, 5))
        await ask.must(store, replace(b.step(first), forgotten=gone))
        store = await open_store.reopen(store)
        await recorded(store, b.journal_write(b.entry("6")))
        for read, cursor in enumerate(cursors, start=1):
            expected = [str(at) for at in (0, 2, 4, 6) if at >= read]
            found = await _all(store, replace(query, cursor=cursor))
            assert [entry.key for entry in found] == expected, read

    @promises("delete_run", "Remove a run with all that belongs to it")
    @promises("JournalQuery", "Entries of a run's journals.")
    async def test_deleted_run_has_no_journal(self, store: Store, open_store: StoreFactory) -> None:
        for run_id in (b.RUN, "other"):
            await ask.must(store, b.created_leased(run_id))
            await recorded(store, b.journal_write(b.entry(), run_id=run_id))
        assert await store.delete_run(b.TENANT, b.RUN, version=1)
        for _ in range(2):
            assert await journal(store) == []
            assert await journal(store, "missing") == []
            assert await kept(store, "other") == [b.entry()]
            store = await open_store.reopen(store)


async def _sums(store: Store) -> Totals:
    (row,) = (await ask.loaded(store)).executions
    return row.recorded


async def _all(store: Store, query: JournalQuery) -> list[Entry]:
    """Read pages until one is empty, and check that each has a cursor and respects its limit."""
    found: list[StoredEntry] = []
    while True:
        page = await store.page(query)
        assert page.cursor
        assert len(page.items) <= query.limit
        if not page.items:
            return [one.entry for one in found]
        found += page.items
        query = replace(query, cursor=page.cursor)

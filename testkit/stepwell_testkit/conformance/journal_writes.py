"""Journal entries: each written once under a lease, and never after its loss."""
# ruff: noqa: N802, S106 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stepwell.core.port import EntryAck, FeedQuery, JournalAck, JournalQuery, JournalWrite, Store
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.journal import Entry, StoredEntry
from stepwell.core.records.model import Payload
from stepwell.core.records.states import DueKind, JournalMark, Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps

COMMITTED, CONFLICT, LEASE_LOST = Verdict.COMMITTED, Verdict.CONFLICT, Verdict.LEASE_LOST
ROUNDS = 20
"""Rounds of cases that depend on chance."""


async def recorded(store: Store, *writes: JournalWrite) -> list[JournalAck]:
    """Record in one call."""
    answers = await store.write_journal(writes)
    assert len(answers) == len(writes)
    return list(answers)


async def accepts(store: Store, write: JournalWrite) -> list[bool]:
    """Record under a valid lease, and return which entries were accepted."""
    (answer,) = await recorded(store, write)
    assert answer.live
    return [written.accepted for written in answer.written]


async def journal(
    store: Store, run_id: str = b.RUN, *, tenant: str = b.TENANT
) -> list[StoredEntry]:
    """Read all entries of a run."""
    page = await store.page(JournalQuery(tenant_id=tenant, run_id=run_id))
    return list(page.items)


async def kept(store: Store, run_id: str = b.RUN, *, tenant: str = b.TENANT) -> list[Entry]:
    """Read all entries of a run as they were written."""
    return [stored.entry for stored in await journal(store, run_id, tenant=tenant)]


class TestJournalWrites(Cases):
    """Only a worker with the lease writes entries."""

    @promises("write_journal", "Keep journal entries, each under its lease;")
    @promises("JournalWrite.journal", "The journal of the execution's step")
    @promises("write_journal", "One result per journal write, in order.")
    @promises("JournalAck.written", "One for each entry, in order.")
    @promises("write_journal", "an entry that was accepted is in every read after that")
    async def test_J1_an_accepted_entry_is_in_every_later_read(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased(), b.created_leased("other", token="t2"))
        first, second, third = b.entry("a"), b.entry("b", b""), b.entry("c", None)
        answers = await recorded(
            store,
            b.journal_write(first, second),
            b.journal_write(first, run_id="other", token="t2"),
            b.journal_write(third),
        )
        assert [answer.live for answer in answers] == [True] * 3
        assert [len(answer.written) for answer in answers] == [2, 1, 1]
        assert all(written == EntryAck() for answer in answers for written in answer.written)
        door = await open_store.join(store)
        assert await kept(door) == [first, second, third]
        for _ in range(2):
            assert await kept(store) == [first, second, third]
            assert await kept(store, "other") == [first]
            store = await open_store.reopen(store)

    @promises("JournalAck.live", "False: the token isn't that of the execution's lease")
    async def test_J4_a_token_that_is_not_the_leases_writes_nothing(self, store: Store) -> None:
        await ask.must(store, b.created_leased(), b.created(executions=[b.ready()], run_id="r"))
        for token in ("t2", "", "T1", "t1 "):
            (answer,) = await recorded(store, b.journal_write(b.entry(), token=token))
            assert (answer.live, answer.written, answer.totals.entries) == (False, (), 0), token
        for where in (
            b.journal_write(b.entry(), execution_id="task:unknown#1"),
            b.journal_write(b.entry(), run_id="missing"),
            b.journal_write(b.entry(), run_id="r"),
            b.journal_write(b.entry(), run_id="r", token=""),
        ):
            assert [answer.live for answer in await recorded(store, where)] == [False]
        assert await kept(store) == []
        assert await kept(store, "r") == []

    @promises("Names", "one tenant's id under another tenant is a missing run.")
    async def test_T3_J4_a_token_of_another_tenant_writes_nothing(self, store: Store) -> None:
        await ask.must(store, b.created_leased(tenant="b", token="theirs"))
        await ask.must(store, b.created_leased(tenant="a", token="mine"))
        foreign = b.journal_write(b.entry(), tenant="a", token="theirs")
        assert [answer.live for answer in await recorded(store, foreign)] == [False]
        for tenant in ("a", "b"):
            assert await kept(store, tenant=tenant) == []

    @promises(
        "write_journal",
        "An expired lease still records in its holder's favour until a commit ends it;",
    )
    async def test_J1_C1_an_expired_lease_still_records(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased(lease_ms=1_000))
        await open_store.advance(60_000)
        assert [due.kind for due in await ask.due_now(store)] == [DueKind.LEASE_EXPIRED]
        assert await accepts(store, b.journal_write(b.entry())) == [True]
        assert await kept(store) == [b.entry()]

    @promises(
        "write_journal",
        "Changes no version, makes no event and no feed entry, and moves no deadline.",
    )
    async def test_recording_is_no_commit(self, store: Store, open_store: StoreFactory) -> None:
        await ask.must(store, b.created_leased(lease_ms=10_000))
        before = await store.get_run(b.TENANT, b.RUN)
        await open_store.advance(9_000)
        assert await accepts(store, b.journal_write(b.entry())) == [True]
        assert await store.get_run(b.TENANT, b.RUN) == before
        page = await store.read_events(b.TENANT, b.RUN, after=0, limit=100)
        assert page is not None
        assert page.latest == 1
        assert not keeps("feed") or len((await store.page(FeedQuery())).items) == 1
        await open_store.advance(1_000)
        assert [due.token for due in await ask.due_now(store)] == ["t1"]

    @promises("write_journal", "The same entry again is accepted and written once.")
    @promises(
        "write_journal",
        "OutcomeUnknown: each of them may or may not have been; send the same ones again.",
    )
    @promises("EntryAck.accepted", "It is kept, now or before.")
    async def test_J2_the_same_entry_again_is_accepted_and_written_once(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created_leased())
        again = b.journal_write(b.entry("a"), b.entry("b"), b.entry("a"))
        assert await accepts(store, again) == [True] * 3
        for _ in range(2):
            answers = await recorded(store, again, again)
            assert [one.accepted for answer in answers for one in answer.written] == [True] * 6
            assert [answer.totals.entries for answer in answers] == [2, 2]
            store = await open_store.reopen(store)
        # Another attempt has the earlier one's entries, and may write them again.
        await ask.must(store, b.step(first, executions=[b.leased()], leases=[b.lease(token="t2")]))
        (answer,) = await recorded(store, replace(again, token="t2"))
        assert [one.accepted for one in answer.written] == [True] * 3
        assert answer.totals.entries == 0
        assert [entry.key for entry in await kept(store)] == ["a", "b"]

    @promises(
        "write_journal",
        "Another one under that name is not accepted, and stops none of the others.",
    )
    @promises(
        "EntryAck.accepted",
        "False: another one of the same name is, with other bytes; that one stays.",
    )
    async def test_J2_another_value_under_a_name_is_refused_and_the_first_stays(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased())
        mine = b.entry("a", b"first")
        others = [
            b.entry("a", b"other"),
            b.entry("a", b""),
            b.entry("a", None),
            replace(mine, value=Payload(data=b"first", media_type="text/plain")),
            replace(mine, arguments="digest"),
            replace(mine, took_ms=1),
        ]
        assert await accepts(store, b.journal_write(mine, others[0], b.entry("b"))) == [
            True,
            False,
            True,
        ]
        for _ in range(2):
            for other in others:
                assert await accepts(store, b.journal_write(other)) == [False]
            (answer,) = await recorded(
                store, b.journal_write(b.entry("c"), others[0], mine, b.entry("d"))
            )
            assert [one.accepted for one in answer.written] == [True, False, True, True]
            assert answer.totals.entries == 4
            store = await open_store.reopen(store)
        assert await kept(store) == [mine, b.entry("b"), b.entry("c"), b.entry("d")]

    @promises("write_journal", "that of an AT_MOST_ONCE call in all generations of its journal.")
    async def test_J2_name_of_an_at_most_once_call_is_taken_in_all_generations(
        self, store: Store
    ) -> None:
        await ask.must(store, b.created_leased())
        begin, end = b.mark(JournalMark.BEGIN), b.mark(JournalMark.END, number=0)
        await accepts(store, b.journal_write(begin))
        assert await accepts(store, b.journal_write(end, generation=2)) == [True]
        for generation in (1, 2, 3):
            again = b.journal_write(begin, end, generation=generation)
            assert await accepts(store, again) == [True, True]
            other = b.journal_write(
                replace(begin, arguments="x"),
                replace(end, value=Payload(data=b"x")),
                b.entry(),
                generation=generation,
            )
            assert await accepts(store, other) == [False] * 3
        assert await accepts(store, b.journal_write(begin, journal="task:a@2")) == [True]
        assert [(one.generation, one.entry) for one in await journal(store)] == [
            (1, begin),
            (2, end),
            (1, begin),
        ]

    @promises("EntryAck.until_us", "The end of a WAIT's sleep, as it was stamped the first time.")
    async def test_C2_the_end_of_a_sleep_is_stamped_once(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created_leased())
        wait = Entry(key="sleep#1", mark=JournalMark.WAIT, sleep_ms=5_000)
        (answer,) = await recorded(store, b.journal_write(wait))
        until_us = answer.written[0].until_us
        assert until_us == answer.now_us + 5_000_000
        await open_store.advance(2_000)
        await ask.must(store, b.step(first, executions=[b.leased()], leases=[b.lease(token="t2")]))
        store = await open_store.reopen(store)
        (answer,) = await recorded(store, b.journal_write(wait, b.entry(), token="t2"))
        assert [(one.accepted, one.until_us) for one in answer.written] == [
            (True, until_us),
            (True, 0),
        ]
        (answer,) = await recorded(store, b.journal_write(replace(wait, sleep_ms=1), token="t2"))
        assert [(one.accepted, one.until_us) for one in answer.written] == [(False, until_us)]
        assert [one.until_us for one in await journal(store)] == [until_us, 0]

    @promises("write_journal", "StoreUnavailable: nothing of it was written.")
    @promises("Errors", "A store that was closed is unavailable.")
    async def test_closed_store_records_nothing(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased())
        again = await open_store.reopen(store)
        with pytest.raises(StoreUnavailable):
            await store.write_journal([b.journal_write(b.entry())])
        assert await kept(again) == []

    @promises("delete_run", "Remove a run with all that belongs to it")
    async def test_J4_run_created_anew_under_a_deleted_id_has_no_journal(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created_leased(), b.created("other"))
        await recorded(store, b.journal_write(b.entry("a", b"old")))
        assert await store.delete_run(b.TENANT, b.RUN, version=1)
        await open_store.advance(3 * 3_600 * 1_000)
        # Some stores drop old tombstones with a later deletion.
        assert await store.delete_run(b.TENANT, "other", version=1)
        anew = replace(b.created_leased(token="t2"), commit_id="anew")
        is_created = await ask.verdicts(store, anew) == [COMMITTED]
        assert [one.live for one in await recorded(store, b.journal_write(b.entry()))] == [False]
        assert await kept(store) == []
        # The id may be refused for longer.
        if is_created:
            assert await accepts(store, b.journal_write(b.entry("a", b"new"), token="t2")) == [True]

"""Journals on a Redis whose answers are lost, whose memory is full, or which is killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepwell.core.port import JournalQuery, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreFull
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.chaos.load.chains import opened
from tests.support.backends.redis import Redis
from tests.support.patience import insisting


@pytest.fixture(scope="module")
def server(backends: None) -> Iterator[Redis]:
    with Redis() as running:
        yield running


async def keys_in(store: Store, run_id: str = b.RUN) -> list[str]:
    """Return the keys of all entries of the run."""
    page = await store.page(JournalQuery(tenant_id=b.TENANT, run_id=run_id))
    return [stored.entry.key for stored in page.items]


async def test_D4_full_memory_refuses_entries_until_there_is_room(backends: None) -> None:
    with Redis() as server:
        async with opened(server.url()) as store:
            await ask.must(store, b.created_leased())
            server.configure(maxmemory="1mb")
            with pytest.raises(StoreFull, match="maxmemory"):
                await store.write_journal([b.journal_write(b.entry("a"))])
            assert await keys_in(store) == []
            server.configure(maxmemory="0")
            (answer,) = await store.write_journal([b.journal_write(b.entry("a"))])
            assert answer.totals.entries == 1


@pytest.mark.parametrize("kind", ["redis", "valkey"])
async def test_J1_acknowledged_entries_outlive_kills_of_the_server(
    kind: str, backends: None
) -> None:
    with Redis(kind) as server:
        async with opened(server.url()) as store:
            await ask.must(store, b.created_leased())
            for number in range(5):
                keys = [f"{number}.{at}" for at in range(10)]
                for key in keys:
                    await insisting(
                        lambda key=key: store.write_journal([b.journal_write(b.entry(key))])
                    )
                server.restart(kill=True)
                found = await insisting(lambda: keys_in(store))
                assert found[-10:] == keys
                assert len(found) == 10 * (number + 1)
            (row,) = (await ask.loaded(store)).executions
            assert row.recorded.entries == 50
            known = b.fence(recorded=50)
            await ask.must(
                store, b.step(b.created_leased(), executions=[b.ended()], fences=[known])
            )


async def test_S4_entries_recorded_in_a_part_of_the_partitions_are_unknown(backends: None) -> None:
    with Redis() as server:
        async with opened(server.url(partitions="8")) as store:
            names = [f"part-{at}" for at in range(8)]
            await ask.must(store, *map(b.created_leased, names))
            bodies = [b"x"] * 7 + [b"x" * 8_000_000]
            together = [
                b.journal_write(b.entry("a", body), run_id=name)
                for name, body in zip(names, bodies, strict=True)
            ]
            # The script is there: what follows is sent once.
            await store.write_journal([b.journal_write(run_id=names[0])])
            # Room for all of them but the last.
            used = int(server.execute("INFO", "memory")["used_memory"])
            server.configure(maxmemory=str(used + 4_000_000))
            with pytest.raises(OutcomeUnknown, match="only a part"):
                await store.write_journal(together)
            server.configure(maxmemory="0")
            assert await keys_in(store, names[0]) == ["a"]
            assert await keys_in(store, names[-1]) == []
            answers = await store.write_journal(together)
            assert [one.totals.entries for one in answers] == [1] * 8

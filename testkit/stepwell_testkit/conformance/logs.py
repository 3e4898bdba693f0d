"""Removal of logs: chunks that have become a result, and old entries."""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import LogQuery, LogsOfExecution, OldLogs, Store
from stepwell.core.records.states import LogKind
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory


class TestLogsRemoved(Cases):
    """Entries are removed without disturbing readers."""

    @promises("remove_logs", "Remove log entries and return how many.")
    async def test_T3_a_trim_where_nothing_is_removes_nothing(self, store: Store) -> None:
        await ask.must(store, b.created(), b.created(tenant="other"))
        await store.append_logs(b.TENANT, b.RUN, [b.line("x", "e", LogKind.CHUNK)])
        for tenant, run_id, execution_id, kind in (
            ("other", b.RUN, "e", LogKind.CHUNK),
            (b.TENANT, "missing", "e", LogKind.CHUNK),
            (b.TENANT, b.RUN, "", LogKind.CHUNK),
            (b.TENANT, b.RUN, "e", LogKind.LINE),
        ):
            which = LogsOfExecution(
                tenant_id=tenant, run_id=run_id, execution_id=execution_id, kind=kind
            )
            assert await store.remove_logs(which) == 0
        assert len((await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN))).items) == 1
        for removed in (1, 0):
            which = LogsOfExecution(
                tenant_id=b.TENANT, run_id=b.RUN, execution_id="e", kind=LogKind.CHUNK
            )
            assert await store.remove_logs(which) == removed
        assert (await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN))).items == ()

    @promises("remove_logs", "Remove log entries")
    @promises("OldLogs.older_ms", "by the store's clock.")
    async def test_C3_a_purge_goes_by_the_moment_of_appending(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        for tenant in ("a", "b"):
            await ask.must(store, b.created(tenant=tenant))
        now_us = await ask.now_us(store)
        for at, tenant in enumerate(("a", "b", "a", "b")):
            # The writers' times don't matter to the store.
            written_us = now_us + (2 - at) * 3_600_000_000
            entry = replace(b.line(str(at)), written_us=written_us)
            await store.append_logs(tenant, b.RUN, [entry])
            await open_store.advance(60_000)
        await open_store.step_wall(3_600_000)
        assert await store.remove_logs(OldLogs(older_ms=300_000, limit=100)) == 0
        assert await store.remove_logs(OldLogs(older_ms=150_000, limit=100)) == 2
        assert [await _texts(store, tenant=tenant) for tenant in ("a", "b")] == [["2"], ["3"]]
        assert await store.remove_logs(OldLogs(older_ms=150_000, limit=100)) == 0
        await open_store.advance(60_000)
        assert await store.remove_logs(OldLogs(older_ms=150_000, limit=100)) == 1
        assert [await _texts(store, tenant=tenant) for tenant in ("a", "b")] == [[], ["3"]]

    @promises("OldLogs.limit", "About how many to remove at the most.")
    @promises("OldLogs", "Fewer removed than `limit`: there are no more.")
    @promises("remove_logs", "Cursors stay good.")
    async def test_E3_a_purge_goes_on_from_the_oldest_until_there_are_no_more(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        runs = ("r0", "r1", "r2")
        await ask.must(store, *(b.created(name) for name in runs))
        texts: dict[str, list[str]] = {name: [] for name in runs}
        for at in range(30):
            name = runs[at % 3]
            pair = [f"{at}a", f"{at}b"]
            await store.append_logs(b.TENANT, name, [b.line(text) for text in pair])
            texts[name] += pair
            await open_store.advance(10)
        cursors = {
            name: (await store.page(LogQuery(tenant_id=b.TENANT, run_id=name, limit=7))).cursor
            for name in runs
        }
        await open_store.advance(60_000)
        await store.append_logs(b.TENANT, "r0", [b.line("fresh")])
        removed = 0
        while True:
            many = await store.remove_logs(OldLogs(older_ms=30_000, limit=7))
            removed += many
            there = 0
            for name in runs:
                left = await _texts(store, run_id=name)
                expected = [*texts[name], *(["fresh"] if name == "r0" else [])]
                # The end of the log is left, without gaps.
                assert left == expected[len(expected) - len(left) :]
                read = await _texts(store, cursors[name], run_id=name, limit=2)
                assert read == [text for text in expected[7:] if text in left]
                there += len(left)
            assert removed + there == 61
            if many < 7:
                break
        assert removed == 60

    @promises("remove_logs", "return how many.")
    async def test_lines_of_a_deleted_run_are_not_counted_by_a_purge(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created(), b.created("other"))
        for name in (b.RUN, "other"):
            await store.append_logs(b.TENANT, name, [b.line("x"), b.line("y")])
        assert await store.delete_run(b.TENANT, b.RUN, version=1)
        await open_store.advance(1_000)
        assert await store.remove_logs(OldLogs(older_ms=0, limit=100)) == 2


async def _texts(
    store: Store,
    cursor: str = "",
    *,
    tenant: str = b.TENANT,
    run_id: str = b.RUN,
    limit: int = 100,
) -> list[str]:
    """Read a log from a cursor to its end."""
    found: list[str] = []
    while True:
        page = await store.page(
            LogQuery(tenant_id=tenant, run_id=run_id, cursor=cursor, limit=limit)
        )
        if not page.items:
            return found
        found += [entry.text for entry in page.items]
        cursor = page.cursor

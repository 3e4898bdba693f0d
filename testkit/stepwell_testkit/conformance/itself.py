"""Hints, a store's description, and its close."""
# ruff: noqa: N802 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stepwell.core.port import (
    INPUT_KEY,
    CheckpointQuery,
    Claim,
    EndedQuery,
    ExecutionQuery,
    FeedQuery,
    KeySwap,
    LeaseQuery,
    LogQuery,
    LogsOfExecution,
    MessageQuery,
    OldLogs,
    PresenceQuery,
    QuestionQuery,
    RunQuery,
    Store,
    TaskQuery,
)
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.states import LogKind, RunStatus, Verdict
from stepwell.runtime import SystemRuntime
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, soon, turns


class TestHints(Cases):
    """Hints shorten a wait, and nothing depends on them."""

    @promises("subscribe", "Call `hint(tenant_id, run_id, version)` when a run may have changed")
    @promises("subscribe", "Empty names: anything may have changed.")
    @promises("subscribe", "The version is one that the run has reached; 0: not known")
    async def test_a_commit_is_hinted_at_on_every_door(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        received: dict[str, list[tuple[str, str, int]]] = {"own": [], "other": []}
        store.subscribe(lambda tenant, run, version: received["own"].append((tenant, run, version)))
        door = await open_store.join(store)
        door.subscribe(
            lambda tenant, run, version: received["other"].append((tenant, run, version))
        )
        first = await ask.must(store, b.created())
        for hints in received.values():
            assert await soon(lambda hints=hints: bool(hints))
            hints.clear()
        await ask.must(store, b.step(first))
        for hints in received.values():
            assert await soon(lambda hints=hints: bool(hints))
            # A late hint of the first commit may still come.
            assert set(hints) <= {(b.TENANT, b.RUN, at) for at in (0, 1, 2)} | {("", "", 0)}

    @promises("subscribe", "and are called on the event loop.")
    async def test_a_hint_is_called_on_the_event_loop_after_the_commit(self, store: Store) -> None:
        loops: list[asyncio.AbstractEventLoop] = []
        store.subscribe(lambda _tenant, _run, _version: loops.append(asyncio.get_running_loop()))
        await ask.must(store, b.created())
        assert await soon(lambda: bool(loops))
        assert set(loops) == {asyncio.get_running_loop()}

    @promises("subscribe", "returns how to stop.")
    async def test_R1_unsubscribed_hint_is_not_called(self, store: Store) -> None:
        received: list[str] = []
        stop = store.subscribe(lambda _tenant, _run, _version: received.append("stopped"))
        store.subscribe(lambda _tenant, _run, _version: received.append("other"))
        commit = await ask.must(store, b.created())
        assert await soon(lambda: len(received) >= 2)
        await turns()
        stop()
        stop()
        received.clear()
        await ask.must(store, b.step(commit))
        assert await soon(lambda: "other" in received)
        assert "stopped" not in received

    @promises("subscribe", "Hints may be lost, repeated or late, are never the only source")
    async def test_S2_a_refused_commit_hides_no_later_hint(self, store: Store) -> None:
        received: list[tuple[str, str]] = []
        store.subscribe(lambda tenant, run, _version: received.append((tenant, run)))
        first = await ask.must(store, b.created("one"))
        assert await ask.verdicts(store, b.step(first, version=9)) == [Verdict.CONFLICT]
        await ask.must(store, b.created("two"))
        assert await soon(lambda: (b.TENANT, "two") in received or ("", "") in received)


class TestStore(Cases):
    """The store's description, and its close."""

    @promises("describe", "Return what this store is and what it promises.")
    @promises("StoreInfo.detail", "The reason for that class, in words", "No secret is in it.")
    async def test_S3_a_store_declares_its_durability(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        info = await store.describe()
        assert info.durability is open_store.durability
        assert info.driver
        assert info.detail
        assert "password" not in info.detail.lower()

    @promises(
        "StoreInfo.store_id", "Drawn when the store was created; no two stores have the same."
    )
    async def test_a_store_keeps_its_id_and_shares_it_with_none(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        other = await open_store.open()
        created_as = (await store.describe()).store_id
        assert created_as
        assert (await other.describe()).store_id != created_as
        await other.close()
        store = await open_store.reopen(store)
        assert (await store.describe()).store_id == created_as

    @promises("close", "Safe to call twice.")
    async def test_a_store_may_be_closed_twice(self, store: Store) -> None:
        await ask.must(store, b.created())
        await store.close()
        await store.close()

    @promises("close", "Finish what was begun and release everything.")
    async def test_S3_what_was_begun_is_finished_or_refused_by_a_close(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        begun = [
            SystemRuntime().spawn(store.commit([b.created(f"r{at}")]), name="begun")
            for at in range(20)
        ]
        await turns(1)
        reopened = await open_store.reopen(store)
        for at, answer in enumerate(await asyncio.gather(*begun, return_exceptions=True)):
            there = await ask.version_of(reopened, f"r{at}") == 1
            assert there or isinstance(answer, StoreUnavailable)

    @promises("Errors", "Every method may raise `StoreUnavailable` (nothing was done).")
    @promises(
        "Errors",
        "A store that was closed is unavailable.",
        "Nothing else is raised for a legal call; a driver translates its own errors.",
    )
    async def test_a_closed_store_is_unavailable(self, store: Store) -> None:
        await store.close()
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.commit([b.created()]),
            lambda: store.renew([b.renewal()]),
            lambda: store.put_presence([b.presence()], ttl_ms=1),
            lambda: store.append_logs(b.TENANT, b.RUN, [b.line("x")]),
            lambda: store.delete_run(b.TENANT, b.RUN, version=1),
            lambda: store.claim(Claim(wants=(b.want(),))),
            lambda: store.get_run(b.TENANT, b.RUN),
            lambda: store.load(b.TENANT, b.RUN),
            lambda: store.read_payloads(b.TENANT, b.RUN, [INPUT_KEY]),
            lambda: store.read_payloads(b.TENANT, b.RUN, ["x"], texts=True),
            lambda: store.read_plan(b.TENANT, b.RUN, 1),
            lambda: store.read_base(b.TENANT, b.RUN, version=1),
            lambda: store.read_events(b.TENANT, b.RUN, after=0, limit=1),
            lambda: store.page(RunQuery(tenant_id=b.TENANT)),
            lambda: store.page(QuestionQuery(tenant_id=b.TENANT)),
            lambda: store.read_questions(b.TENANT, b.RUN, ["q"]),
            lambda: store.swap_keys(b.TENANT, "", [KeySwap(key="k")]),
            lambda: store.page(EndedQuery(statuses=(RunStatus.FAILED,))),
            lambda: store.remove_logs(
                LogsOfExecution(
                    tenant_id=b.TENANT, run_id=b.RUN, execution_id="x", kind=LogKind.CHUNK
                )
            ),
            lambda: store.remove_logs(OldLogs(older_ms=1, limit=1)),
            lambda: store.page(TaskQuery(tenant_id=b.TENANT, run_id=b.RUN)),
            lambda: store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN)),
            lambda: store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN)),
            lambda: store.page(CheckpointQuery(tenant_id=b.TENANT, run_id=b.RUN)),
            lambda: store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN)),
            lambda: store.page(PresenceQuery(tenant_id=b.TENANT)),
            lambda: store.page(LeaseQuery(tenant_id=b.TENANT, worker_id="worker-1")),
            lambda: store.page(FeedQuery()),
        ]
        for call in calls:
            with pytest.raises(StoreUnavailable):
                await call()

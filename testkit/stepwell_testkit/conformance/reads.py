"""Reads by key and by page: payloads, outcomes, plans, tasks, executions, messages, runs."""
# ruff: noqa: N802 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stepwell.core.port import (
    INPUT_KEY,
    ExecutionQuery,
    LogQuery,
    MessageQuery,
    Page,
    QuestionQuery,
    RunQuery,
    Store,
    TaskQuery,
)
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.model import Outcome, Payload
from stepwell.core.records.states import TaskStatus
from stepwell.runtime import SystemRuntime
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, keeps


class TestByKey(Cases):
    """Payloads, outcomes and plans."""

    @promises("read_payloads", "Return what is stored under these keys")
    async def test_payloads_come_in_the_order_of_their_keys(self, store: Store) -> None:
        first = await ask.must(store, b.created(input=Payload(data=b"in")))
        results = [b.outcome(name.encode(), name) for name in ("e1", "e2", "e3")]
        await ask.must(store, b.step(first, outcomes=results))
        keys = ["e3", INPUT_KEY, "e1"]
        found = await store.read_payloads(b.TENANT, b.RUN, keys)
        assert [(stored.key, ask.data_of(stored)) for stored in found] == [
            ("e3", b"e3"),
            (INPUT_KEY, b"in"),
            ("e1", b"e1"),
        ]
        assert list(await store.read_payloads(b.TENANT, b.RUN, [])) == []

    @promises("read_payloads", "Bytes come back as they were written, empty ones too.")
    async def test_D2_empty_bytes_are_not_absent_ones(self, store: Store) -> None:
        empty = Payload(data=b"", media_type="text/plain")
        first = await ask.must(store, b.created(input=empty))
        await ask.must(store, b.step(first, outcomes=[Outcome(execution_id="e1", result=empty)]))
        found = await store.read_payloads(b.TENANT, b.RUN, [INPUT_KEY, "e1"])
        assert [stored.payload for stored in found] == [empty, empty]

    @promises(
        "read_payloads",
        "with `texts` an execution that left an outcome comes all the same, with prompt, response and receipt.",
    )
    @promises("StoredPayload.payload", "Absent: an execution that left no bytes.")
    @promises("StoredPayload.prompt", "The agent's question to its model; read with `texts` only.")
    @promises("StoredPayload.response", "The model's answer; read with `texts` only.")
    @promises("StoredPayload.receipt", "The outcome's `receipt`; read with `texts` only.")
    async def test_outcomes_come_back_whole_and_in_order(self, store: Store) -> None:
        first = await ask.must(store, b.created())
        left = {
            "e1": Outcome(execution_id="e1", result=Payload(data=b"r"), prompt="p", response="a"),
            "e2": Outcome(execution_id="e2", prompt="only asked"),
            "e3": Outcome(execution_id="e3", result=Payload(data=b"")),
        }
        await ask.must(store, b.step(first, outcomes=list(left.values())))
        keys = ["e3", "unknown", "e1", "e2"]
        assert await ask.outcomes(store, keys) == [left["e3"], left["e1"], left["e2"]]
        assert await ask.outcomes(store, ["e1"], "missing") == []
        bytes_alone = await store.read_payloads(b.TENANT, b.RUN, keys)
        assert [(one.key, one.prompt, one.response) for one in bytes_alone] == [
            ("e3", "", ""),
            ("e1", "", ""),
        ]


class TestPages(Cases):
    """Tasks, executions and messages, page by page."""

    @promises("TaskQuery", "In the order of revision, then of their plan.")
    @promises("page", "Return the rows that a query asks for, a page at a time.")
    @promises("Query", "`cursor` is that of the page before; empty: the first page.")
    @promises("Page.cursor", "For the next page; empty: this was the last.")
    async def test_tasks_come_in_the_order_of_revision_then_of_their_plan(
        self, store: Store
    ) -> None:
        first = b.created(
            plan=b.plan("z", "m", "a", "k"), tasks=[b.task(name) for name in ("a", "k", "m", "z")]
        )
        second = b.step(
            first,
            plan=b.plan("y", "b", "m", revision=2),
            tasks=[b.task(name, revision=2) for name in ("b", "m", "y")],
        )
        third = b.step(second, tasks=[b.task("z", TaskStatus.COMPLETED)])
        await ask.must(store, first, second, third)
        for limit in (1, 2, 5, 6, 100):
            assert await _task_ids(store, limit) == ["z", "a", "k", "y", "b", "m"], limit
        page = await store.page(TaskQuery(tenant_id=b.TENANT, run_id=b.RUN))
        assert page.cursor == ""
        assert page.items[0] == third.tasks[0]

    @promises("Errors", "A cursor that no store made raises `InvalidArgument`.")
    @pytest.mark.parametrize("cursor", ["nonsense", "1.5", "\x00", "\u0663", "x" * 10_000])
    async def test_a_page_cursor_that_no_store_made_is_an_invalid_argument(
        self, store: Store, cursor: str
    ) -> None:
        await ask.must(store, b.created())
        query = RunQuery(tenant_id=b.TENANT, cursor=cursor)
        reads: list[Callable[[], Awaitable[object]]] = [
            lambda: store.page(TaskQuery(tenant_id=b.TENANT, run_id=b.RUN, cursor=cursor)),
            lambda: store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN, cursor=cursor)),
            lambda: store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN, cursor=cursor)),
            lambda: store.page(query),
            lambda: store.page(QuestionQuery(tenant_id=b.TENANT, cursor=cursor)),
            lambda: store.page(QuestionQuery(tenant_id=b.TENANT, run_id=b.RUN, cursor=cursor)),
        ]
        if keeps("logs"):
            reads.append(
                lambda: store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN, cursor=cursor))
            )
        for read in reads:
            with pytest.raises(InvalidArgument):
                await read()

    @promises("page", "Without any that matches, the page is empty.")
    async def test_a_missing_run_has_no_pages(self, store: Store) -> None:
        assert await store.page(TaskQuery(tenant_id=b.TENANT, run_id=b.RUN)) == Page()
        assert await store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN)) == Page()
        assert await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN)) == Page()
        assert (
            not keeps("logs")
            or (await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN))).items == ()
        )
        await ask.must(store, b.created())
        assert await store.page(TaskQuery(tenant_id=b.TENANT, run_id=b.RUN)) == Page()
        assert await store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN)) == Page()
        assert await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN)) == Page()

    @promises("ExecutionQuery", "In the order in which they were created.")
    async def test_executions_come_in_the_order_of_their_birth(self, store: Store) -> None:
        names = [f"e{(at * 7) % 10}" for at in range(10)]
        commit = b.created(executions=[b.ready(name) for name in names[:4]])
        await ask.must(store, commit)
        for name in names[4:]:
            commit = await ask.must(store, b.step(commit, executions=[b.ready(name)]))
        done = b.ended(names[2])
        await ask.must(store, b.step(commit, executions=[done, b.leased(names[5])]))
        for limit in (1, 3, 10, 11):
            assert await _execution_ids(store, limit) == names, limit
        page = await store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN))
        assert (page.items[2], page.cursor) == (done, "")

    @promises("ExecutionQuery.task_id", "Only this task's.", "Empty: every task's.")
    async def test_executions_of_one_task(self, store: Store) -> None:
        executions = [
            b.ready(f"task:{task}#{attempt}", task_id=task)
            for attempt in range(1, 6)
            for task in ("a", "b")
        ]
        await ask.must(store, b.created(executions=executions))
        for limit in (1, 2, 100):
            found = await _execution_ids(store, limit, task_id="b")
            assert found == [f"task:b#{attempt}" for attempt in range(1, 6)]
        assert await _execution_ids(store, 100, task_id="c") == []

    @promises("MessageQuery.task_id", "Only this task's.", "Empty: every task's.")
    async def test_messages_of_one_task(self, store: Store) -> None:
        texts = [b.message(f"{name}{at}", task_id=name) for at in range(4) for name in ("a", "b")]
        await ask.must(store, b.step(await ask.must(store, b.created()), messages=texts))
        for limit in (1, 3, 100):
            assert await _texts(store, limit, task_id="b") == ["b0", "b1", "b2", "b3"]
        assert await _texts(store, 100, task_id="c") == []


async def _task_ids(store: Store, limit: int) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = await store.page(
            TaskQuery(tenant_id=b.TENANT, run_id=b.RUN, cursor=cursor, limit=limit)
        )
        assert len(page.items) <= limit
        found += [task.task_id for task in page.items]
        cursor = page.cursor
        if not cursor:
            return found


async def _execution_ids(store: Store, limit: int, task_id: str = "") -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = await store.page(
            ExecutionQuery(
                tenant_id=b.TENANT, run_id=b.RUN, task_id=task_id, cursor=cursor, limit=limit
            )
        )
        assert len(page.items) <= limit
        found += [execution.execution_id for execution in page.items]
        cursor = page.cursor
        if not cursor:
            return found


async def _texts(store: Store, limit: int, task_id: str = "") -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = await store.page(
            MessageQuery(
                tenant_id=b.TENANT, run_id=b.RUN, task_id=task_id, cursor=cursor, limit=limit
            )
        )
        assert len(page.items) <= limit
        found += [message.content for message in page.items]
        cursor = page.cursor
        if not cursor:
            return found


class TestDuringWrites(Cases):
    """Reads don't wait for writers."""

    @promises("load", "Return the rows that the loop needs")
    async def test_L5_reads_advance_during_large_commits(self, store: Store) -> None:
        await ask.must(store, b.created("read", executions=[b.ready()]))
        large = Payload(data=bytes(256 * 1024))
        writers = [
            SystemRuntime().spawn(
                store.commit([b.created(f"w{at}-{part}", input=large) for part in range(8)]),
                name=f"writer {at}",
            )
            for at in range(8)
        ]
        async with asyncio.timeout(10):
            for _ in range(20):
                assert await store.get_run(b.TENANT, "read") is not None
                assert await store.load(b.TENANT, "read") is not None
                assert await store.read_events(b.TENANT, "read", after=0, limit=10) is not None
        for answers in await asyncio.gather(*writers):
            assert len(answers) == 8

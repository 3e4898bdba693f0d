"""Fidelity and durability: values come back unchanged, now and after a restart."""
# ruff: noqa: N802, S106 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

import math

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from stepwell.core.port import (
    INPUT_KEY,
    ExecutionQuery,
    FeedQuery,
    FoundQuestion,
    LogQuery,
    MessageQuery,
    QuestionQuery,
    Store,
    TaskQuery,
)
from stepwell.core.records import limits
from stepwell.core.records.model import Outcome, Payload
from stepwell.core.records.states import Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps
from stepwell_testkit.conformance.odd_rows import ODD, full_commit, odd_events, parent_commit

ODD_BYTES = {
    "empty": b"",
    "NUL": b"\x00",
    "every byte": bytes(range(256)),
    "not UTF-8": b"\xff\xfe\xc3\x28",
    "JSON": b'{"a": [1, null]}',
    "spaces": b"  ",
    "one under the limit": b"x" * (limits.PAYLOAD_BYTES_MAX - 1),
    "the limit": b"x" * limits.PAYLOAD_BYTES_MAX,
    "one over the limit": b"x" * (limits.PAYLOAD_BYTES_MAX + 1),
}


class TestFidelity(Cases):
    """D2: odd values come back unchanged."""

    @promises("Commit", "Rows are whole and replace those of the same key")
    @promises("load", "Return the rows that the loop needs, all of one version.")
    async def test_D2_S3_every_field_of_every_row_comes_back_unchanged(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        commit = full_commit()
        await ask.must(store, parent_commit())
        await ask.must(store, commit)
        for _ in range(2):
            rows = await ask.loaded(store)
            assert rows.run == commit.run
            assert rows.plans == (commit.plan,)
            assert sorted(rows.tasks, key=lambda task: task.task_id) == list(commit.tasks)
            assert [row.execution for row in rows.executions] == list(commit.executions)
            assert rows.questions == commit.questions
            assert rows.requests == (commit.request,)
            assert await store.read_base(b.TENANT, b.RUN, version=1) == commit.checkpoint
            assert await store.get_run(b.TENANT, b.RUN) == commit.run
            assert await store.read_plan(b.TENANT, b.RUN, 2) == commit.plan
            page = await store.read_events(b.TENANT, b.RUN, after=0, limit=10)
            assert page is not None
            assert page.events == commit.events
            assert await ask.outcomes(store, [ODD]) == list(commit.outcomes)
            assert (
                await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN))
            ).items == commit.messages
            executions = (await store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN))).items
            assert executions == commit.executions
            assert tuple(await store.read_questions(b.TENANT, b.RUN, [ODD])) == commit.questions
            found = await store.page(QuestionQuery(tenant_id=b.TENANT))
            assert found.items == (FoundQuestion(run_id=b.RUN, question=commit.questions[0]),)
            store = await open_store.reopen(store)

    @promises("get_run", "Return the run's row as of the last commit")
    async def test_D2_a_negative_zero_keeps_its_sign(self, store: Store) -> None:
        await ask.must(store, parent_commit())
        await ask.must(store, full_commit())
        rows = await ask.loaded(store)
        policies = [rows.run.spec.step_retry, rows.plans[0].tasks[0].retry]
        assert [math.copysign(1, policy.jitter) for policy in policies] == [-1, -1]
        assert [policy.backoff_multiplier for policy in policies] == [1.1, 1.1]

    @promises("read_events", "Return the events numbered above `after`")
    async def test_D2_an_unset_field_of_a_change_is_not_an_empty_one(self, store: Store) -> None:
        await ask.must(store, parent_commit())
        await ask.must(store, full_commit())
        page = await store.read_events(b.TENANT, b.RUN, after=0, limit=10)
        assert page is not None
        # As JSON, which has the sign of a zero, and in which names of maps can be put in order.
        found, wanted = (encode(one, order="deterministic") for one in (page.events, odd_events()))
        assert found == wanted

    @promises("read_payloads", "Bytes come back as they were written, empty ones too.")
    @pytest.mark.parametrize("data", ODD_BYTES.values(), ids=ODD_BYTES.keys())
    async def test_D2_bytes_come_back_as_they_were_given(
        self, store: Store, open_store: StoreFactory, data: bytes
    ) -> None:
        payload = Payload(data=data, media_type="application/octet-stream")
        first = b.created(input=payload, executions=[b.leased()], leases=[b.lease()])
        second = b.step(
            first,
            outcomes=[Outcome(execution_id=b.STEP, result=payload)],
            questions=[replace(b.question("q"), answer=payload)],
        )
        await ask.must(store, first, second)
        assert list(await store.renew([b.renewal(progress=payload)])) == [True]
        for _ in range(2):
            found = await store.read_payloads(b.TENANT, b.RUN, [INPUT_KEY, b.STEP])
            assert [stored.payload for stored in found] == [payload, payload]
            (outcome,) = await ask.outcomes(store, [b.STEP])
            assert outcome.result == payload
            rows = await ask.loaded(store)
            assert [question.answer for question in rows.questions] == [payload]
            assert [row.progress for row in rows.executions] == [payload]
            store = await open_store.reopen(store)

    @promises("MessageQuery", "In the order of its commits.")
    @pytest.mark.parametrize(
        "size", [0, 1, limits.RESPONSE_BYTES_MAX, limits.RESPONSE_BYTES_MAX + 1]
    )
    async def test_D2_long_texts_come_back_whole(self, store: Store, size: int) -> None:
        text = ("é\x01" * (size // 3 + 1)).encode()[:size].decode(errors="ignore")
        outcome = Outcome(execution_id=b.STEP, prompt=text, response=text)
        first = b.created()
        await ask.must(store, first, b.step(first, outcomes=[outcome], messages=[b.message(text)]))
        assert await ask.outcomes(store, [b.STEP]) == [outcome]
        (message,) = (await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN))).items
        assert message.content == text

    @promises("read_plan", "Return one plan revision")
    async def test_D2_the_largest_plan_comes_back_whole(self, store: Store) -> None:
        names = [f"t{at}" for at in range(limits.PLAN_TASKS_MAX)]
        plan = b.plan(*names)
        last = replace(plan.tasks[-1], depends_on=tuple(names[:-1]))
        plan = replace(plan, tasks=(*plan.tasks[:-1], last))
        tasks = [b.task(name) for name in names]
        await ask.must(store, b.created(plan=plan, tasks=tasks))
        assert await store.read_plan(b.TENANT, b.RUN, 1) == plan
        page = await store.page(TaskQuery(tenant_id=b.TENANT, run_id=b.RUN, limit=1_000))
        assert [task.task_id for task in page.items] == names[:1_000]
        assert len((await ask.loaded(store)).tasks) == limits.PLAN_TASKS_MAX


class TestDurability(Cases):
    """Durability: acknowledged commits exist after the store is reopened."""

    @promises("commit", "make all that were applied durable together.")
    @promises("commit", "as long as the store's durability class holds")
    async def test_S3_what_was_acknowledged_is_there_after_a_restart(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        version = 1
        commit = await ask.must(store, b.created())
        for restart in range(4):
            for _ in range(5):
                commit = await ask.must(store, b.step(commit, messages=[b.message(str(version))]))
                version += 1
            await ask.must(store, *(b.created(f"r{restart}-{at}") for at in range(10)))
            store = await open_store.reopen(store)
            assert await ask.version_of(store) == version
            if keeps("feed"):
                assert len((await store.page(FeedQuery())).items) == version + 10 * (restart + 1)
            messages = (await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN))).items
            assert [int(message.content) for message in messages] == list(range(1, version))

    @promises("append_logs", "Append to a run's log, apart from its commits.")
    async def test_S3_logs_are_there_after_a_restart(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await ask.must(store, b.created())
        await store.append_logs(b.TENANT, b.RUN, [b.line("before")])
        cursor = (await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN))).cursor
        store = await open_store.reopen(store)
        await store.append_logs(b.TENANT, b.RUN, [b.line("after")])
        logs = await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN))
        assert [entry.text for entry in logs.items] == ["before", "after"]
        logs = await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN, cursor=cursor))
        assert [entry.text for entry in logs.items] == ["after"]

    @promises("commit", "An expired lease still fences in its holder's favour")
    async def test_S3_S8_leases_are_there_after_a_restart(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        first = await ask.must(store, b.created_leased(lease_ms=10_000))
        store = await open_store.reopen(store)
        assert list(await store.renew([b.renewal(lease_ms=10_000)])) == [True]
        (row,) = (await ask.loaded(store)).executions
        assert (row.token, row.worker_id, row.instance_id) == ("t1", "worker-1", "instance-1")
        wrong = b.step(first, fences=[b.fence(token="t2")])
        assert await ask.verdicts(store, wrong) == [Verdict.LEASE_LOST]
        await open_store.advance(10_000)
        assert await ask.due_names(store) == [b.STEP]
        await ask.must(store, b.step(first, fences=[b.fence()], executions=[b.ended()]))

"""Tenants: nothing of one is seen, delayed or touched by another, whatever its name."""
# ruff: noqa: N802, S106 - invariants keep their names, and these tokens open nothing

from __future__ import annotations

from itertools import cycle

import pytest
from msgspec.structs import replace

from stepwell.core.port import (
    INPUT_KEY,
    CheckpointQuery,
    Claim,
    EventPage,
    ExecutionQuery,
    FeedQuery,
    LeaseQuery,
    Loaded,
    LogQuery,
    MessageQuery,
    Page,
    PresenceQuery,
    RunQuery,
    Store,
    TaskQuery,
)
from stepwell.core.records import limits
from stepwell.core.records.model import Payload, RunSpec
from stepwell.core.records.routing import TaskPattern
from stepwell.core.records.states import Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory, keeps

NAMES = {
    "colon": "a:b",
    "colon at its end": "a:",
    "colons": "a::b",
    "at": "a@localhost",
    "parent folder": "a/../../etc/passwd",
    "slash": "a/b",
    "dots": "a..",
    "plus": "a+b",
    "comment": "a--",
    "underscore": "a_b",
    "underscore's match": "a-b",
    "capitals": "ACME",
    "small letters": "acme-",
    "number": "0",
    "digits": "00",
    "null word": "null",
    "a payload's key": INPUT_KEY,
    "longest": "x" * limits.NAME_CHARS_MAX,
    "one less": "x" * (limits.NAME_CHARS_MAX - 1),
}
TEXTS = {
    "closing brace": "a}b",
    "opening brace": "{a",
    "braces": "{}",
    "colon": "a:b",
    "percent": "100%s%00",
    "underscore": "a_b%",
    "parent folder": "../../etc/passwd",
    "slash": "/",
    "backslash": "a\\b\\",
    "quotes": "'\"`; DROP TABLE runs; --",
    "placeholders": "$1 %s %(x)s :name {0}",
    "right to left": "\u202eabc\u05d0",
    "four bytes": "\U0001f600\U0010ffff",
    "combining": "e\u0301",
    "composed": "\u00e9",
    "1 KiB": "x" * 1024,
    "line ends": "a\r\nb\n",
    "spaces": " a ",
    "capitals": "ACME",
    "number": "0",
    "star": "*",
    "question mark": "a?b=c&d#e",
    "at": "@localhost",
    "null word": "null",
    "unit separator": "a\x1fb",
    "first character": "\x01\x01\x02",
    "escape of NUL": "\\u0000\\x00",
}
"""Names and other texts that have broken some store's keys, hash tags, channels, statements or files."""

HOSTILE = {
    label: (name, text)
    for (label, text), name in zip(TEXTS.items(), cycle(NAMES.values()), strict=False)
}
"""Every text, each with a name, so that all names occur."""


class TestTenants(Cases):
    """Two tenants with the same ids."""

    @promises("Names", "A run is named by `(tenant_id, run_id)`, always both")
    async def test_T1_two_tenants_with_equal_ids_have_two_runs(self, store: Store) -> None:
        for tenant in ("a", "b"):
            first = b.created(
                tenant=tenant,
                commit_id="same",
                input=Payload(data=tenant.encode()),
                plan=b.plan("a", prompt=tenant),
                tasks=[b.task("a")],
            )
            second = b.step(
                first,
                reason=tenant,
                outcomes=[b.outcome(tenant.encode())],
                messages=[b.message(tenant)],
                questions=[replace(b.question("q"), prompt=tenant)],
            )
            await ask.must(store, first, second)
            if keeps("logs"):
                await store.append_logs(tenant, b.RUN, [b.line(tenant)])
        for tenant in ("a", "b"):
            rows = await ask.loaded(store, tenant=tenant)
            assert (rows.run.reason, rows.run.spec.tenant_id) == (tenant, tenant)
            assert [plan.tasks[0].prompt for plan in rows.plans] == [tenant]
            assert [question.prompt for question in rows.questions] == [tenant]
            payloads = await store.read_payloads(tenant, b.RUN, [INPUT_KEY, b.STEP])
            assert {ask.data_of(stored) for stored in payloads} == {tenant.encode()}
            messages = (await store.page(MessageQuery(tenant_id=tenant, run_id=b.RUN))).items
            assert [message.content for message in messages] == [tenant]
            if keeps("logs"):
                lines = (await store.page(LogQuery(tenant_id=tenant, run_id=b.RUN))).items
                assert [line.text for line in lines] == [tenant]

    @promises("Names", "one tenant's id under another tenant is a missing run.")
    async def test_T2_a_foreign_run_answers_as_a_missing_one(self, store: Store) -> None:
        await ask.must(store, b.created_leased(tenant="b"))
        assert await _answers(store, "a", b.RUN) == await _answers(store, "a", "missing")
        assert await _answers(store, "a", b.RUN) == await _answers(store, "nobody", b.RUN)
        assert await ask.version_of(store, tenant="b") == 1

    @promises("commit", "CONFLICT: the run's stored version is not `version - 1`")
    async def test_T3_a_commit_under_another_tenant_touches_nothing(self, store: Store) -> None:
        theirs = await ask.must(store, b.created_leased(tenant="b"))
        mine = replace(b.step(theirs, fences=[b.fence()], reason="mine"), tenant_id="a")
        assert await ask.verdicts(store, mine) == [Verdict.CONFLICT]
        assert (await ask.loaded(store, tenant="b")).run == theirs.run

    @promises("renew", "False: it isn't, and nothing changed.")
    @promises("commit", "LEASE_LOST: a fence's token is not that of the execution's lease.")
    async def test_T3_a_token_of_another_tenant_opens_nothing(self, store: Store) -> None:
        await ask.must(store, b.created_leased(tenant="b", token="theirs"))
        mine = await ask.must(store, b.created(tenant="a", executions=[b.ready()]))
        heartbeat = b.renewal(tenant="a", token="theirs", progress=Payload(data=b"x"))
        assert list(await store.renew([heartbeat])) == [False]
        fenced = b.step(mine, fences=[b.fence(token="theirs")])
        assert await ask.verdicts(store, fenced) == [Verdict.LEASE_LOST]
        (row,) = (await ask.loaded(store, tenant="b")).executions
        assert (row.token, row.progress) == ("theirs", None)

    @promises("claim", "For each want: READY executions of its tenant")
    async def test_T3_a_worker_is_never_offered_a_step_of_another_tenant(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        for tenant in ("a", "b"):
            await ask.must(store, b.created(f"of-{tenant}", tenant=tenant, executions=[b.ready()]))
        await open_store.advance(10)
        for _ in range(2):
            found = await ask.ready_steps(store, b.want(tenant="a", limit=9))
            assert {step.tenant_id for step in found} <= {"a"}
        assert [step.run_id for step in await ask.ready_steps(store, b.want(tenant="b"))] == [
            "of-b"
        ]
        assert await ask.ready_ids(store, b.want(tenant="")) == []

    @promises("claim", "at most `due_limit`, of every tenant.")
    async def test_due_things_of_every_tenant_are_returned(self, store: Store) -> None:
        for tenant in ("a", "b"):
            await ask.must(store, b.created(tenant=tenant, timers=[b.timer(0)]))
        assert sorted(due.tenant_id for due in await ask.due_now(store)) == ["a", "b"]

    @promises("delete_run", "Otherwise False.")
    async def test_T3_deleting_under_another_tenant_deletes_nothing(self, store: Store) -> None:
        await ask.must(store, b.created(tenant="b"))
        assert not await store.delete_run("a", b.RUN, version=1)
        assert await ask.version_of(store, tenant="b") == 1

    @promises("append_logs", "For a run that isn't there: nothing.")
    async def test_T3_a_log_under_another_tenant_is_dropped(self, store: Store) -> None:
        await ask.must(store, b.created(tenant="b"))
        await store.append_logs("a", b.RUN, [b.line("x")])
        assert (await store.page(LogQuery(tenant_id="b", run_id=b.RUN))).items == ()

    @promises("RunQuery", "Newest first, by time of creation.")
    @promises("PresenceQuery", "On any replica")
    async def test_T1_lists_show_their_tenant_alone(self, store: Store) -> None:
        for tenant in ("a", "b"):
            await ask.must(store, b.created(f"of-{tenant}", tenant=tenant))
            await store.put_presence([b.presence(tenant=tenant)], ttl_ms=10_000)
        assert await ask.run_ids(store, RunQuery(tenant_id="a")) == ["of-a"]
        here = [each.tenant_id for each in (await store.page(PresenceQuery(tenant_id="a"))).items]
        assert here == (["a"] if keeps("presence") else [])
        assert list((await store.page(LeaseQuery(tenant_id="a", worker_id="worker-1"))).items) == []
        assert await ask.run_ids(store, RunQuery(tenant_id="c")) == []
        assert list((await store.page(PresenceQuery(tenant_id="c"))).items) == []

    @promises("Names", "A run is named by `(tenant_id, run_id)`, always both")
    async def test_T1_answers_are_the_same_with_and_without_another_tenant(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        alone = await open_store.open()
        for at in range(6):
            for each in (store, alone):
                first = b.created(f"r{at}", executions=[b.ready()], tasks=[b.task("a")])
                await ask.must(each, first, b.step(first, messages=[b.message("x")]))
            for noise in range(5):
                name = f"r{at}" if noise == 0 else f"n{at}-{noise}"
                await ask.must(store, b.created(name, tenant="b", executions=[b.ready()]))
        await store.claim(Claim(wants=(b.want(tenant="b"),)))
        for at in range(6):
            for each in (store, alone):
                assert await ask.version_of(each, f"r{at}") == 2
            theirs, mine = [await _answers(each, b.TENANT, f"r{at}") for each in (store, alone)]
            assert theirs == mine
        theirs, mine = [await ask.run_ids(each) for each in (store, alone)]
        assert theirs == mine
        if keeps("feed"):
            feeds = [await each.page(FeedQuery(tenant_id=b.TENANT)) for each in (store, alone)]
            assert feeds[0].items == feeds[1].items
        theirs, mine = [len(await ask.ready_ids(each)) for each in (store, alone)]
        assert theirs == mine == 6
        await alone.close()


async def _answers(store: Store, tenant: str, run_id: str) -> list[object]:
    """Return everything that a store answers about one run, except times and cursors."""
    loaded: Loaded | None = await store.load(tenant, run_id)
    events: EventPage | None = await store.read_events(tenant, run_id, after=0, limit=100)
    return [
        await store.get_run(tenant, run_id),
        replace(loaded, now_us=0) if loaded is not None else None,
        events,
        list(await store.read_payloads(tenant, run_id, [INPUT_KEY, b.STEP])),
        list(await store.read_payloads(tenant, run_id, [b.STEP], texts=True)),
        await store.read_plan(tenant, run_id, 1),
        await store.read_base(tenant, run_id, version=9),
        (await store.page(CheckpointQuery(tenant_id=tenant, run_id=run_id))).items,
        (await store.page(TaskQuery(tenant_id=tenant, run_id=run_id))).items,
        (await store.page(ExecutionQuery(tenant_id=tenant, run_id=run_id))).items,
        (await store.page(MessageQuery(tenant_id=tenant, run_id=run_id))).items,
        (await store.page(LogQuery(tenant_id=tenant, run_id=run_id))).items
        if keeps("logs")
        else None,
    ]


class TestHostileNames(Cases):
    """Names and texts that are legal and odd."""

    @promises("Names", "by names that match `NAME_PATTERN`, of at most 128 characters.")
    @promises("Names", "Ids, keys and all other texts hold any characters but NUL")
    @pytest.mark.parametrize(("name", "text"), HOSTILE.values(), ids=HOSTILE.keys())
    async def test_T4_a_hostile_name_names_its_own_run_and_no_other(
        self, store: Store, open_store: StoreFactory, name: str, text: str
    ) -> None:
        await ask.must(store, b.created("bystander", executions=[b.ready("bystander")]))
        first = b.created(
            name,
            tenant=name,
            commit_id=text,
            spec=RunSpec(
                tenant_id=name, run_id=name, pipeline_id=name, queue=name, labels={text: text}
            ),
            input=Payload(data=text.encode(), media_type=text),
            executions=[b.ready(text, queue=name, role=name, task_id=text), b.leased("held")],
            leases=[b.lease("held", token=text)],
            timers=[b.timer(0, text)],
        )
        await ask.must(store, first)
        if keeps("logs"):
            await store.append_logs(name, name, [b.line(text, text)])
        await store.put_presence([b.presence(name, tenant=name, instance_id=name)], ttl_ms=60_000)
        assert await ask.verdicts(store, first) == [Verdict.COMMITTED]
        store = await open_store.reopen(store)
        assert await store.get_run(name, name) == first.run
        query = RunQuery(tenant_id=name)
        if keeps("filters"):
            query = replace(query, pipeline_id=name, queue=name, labels={text: text})
        assert (await store.page(query)) == Page(items=(first.run,))
        (stored,) = await store.read_payloads(name, name, [INPUT_KEY])
        assert stored.payload == first.input
        tasks = [TaskPattern(role=name)]
        assert await ask.ready_ids(store, b.want(tenant=name, queues=[name], tasks=tasks)) == [text]
        assert [(due.tenant_id, due.name) for due in await ask.due_now(store)] == [(name, text)]
        held = b.renewal(name, tenant=name, execution_id="held", token=text)
        assert list(await store.renew([held])) == [True]
        if keeps("logs"):
            logs = await store.page(LogQuery(tenant_id=name, run_id=name, execution_id=text))
            assert [entry.text for entry in logs.items] == [text]
        if keeps("feed"):
            assert len((await store.page(FeedQuery(tenant_id=name))).items) == 1
        if keeps("delete"):
            assert await store.delete_run(name, name, version=1)
        assert await ask.ready_ids(store) == ["bystander"]

    @promises("Names", "by names that match `NAME_PATTERN`, of at most 128 characters.")
    async def test_T4_names_that_join_to_one_text_are_kept_apart(self, store: Store) -> None:
        pairs = [("a", "b:c"), ("a:b", "c"), ("a:", "b:c"), ("a:b:", "c"), ("a::b", "c")]
        pairs += [("a/b", "c"), ("a", "b/c"), ("A", "b:c"), ("a", "B:c"), ("a@b", "c")]
        pairs += [("a", "b@c"), ("a+b", "c"), ("a", "b+c"), ("a", "1"), ("a", "01")]
        for at, (tenant, run_id) in enumerate(pairs):
            await ask.must(
                store, b.created(run_id, tenant=tenant, commit_id=str(at), events=at + 1)
            )
        for at, (tenant, run_id) in enumerate(pairs):
            run = await store.get_run(tenant, run_id)
            assert run is not None, (tenant, run_id)
            assert run.last_event == at + 1, (tenant, run_id)

    @promises("Names", "by names that match `NAME_PATTERN`, of at most 128 characters.")
    async def test_T4_wanting_a_hostile_queue_or_role_takes_nothing_else(
        self, store: Store
    ) -> None:
        await ask.must(
            store, b.created(executions=[b.ready("plain"), b.ready("coder", role="coder")])
        )
        for name in NAMES.values():
            wanted = b.want(queues=[name], tasks=[TaskPattern(type=name, role=name)])
            assert await ask.ready_ids(store, wanted) == [], name
        tasks = [TaskPattern(role=role) for role in ("", *NAMES.values())]
        assert await ask.ready_ids(store, b.want(tasks=tasks)) == ["plain"]

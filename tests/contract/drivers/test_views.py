"""The views `runs`, `tasks`, `events` and `journal` of both SQL drivers: names, types, ids, words, plans of queries."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import fields, replace

from stepwell.core.port import Commit, EntryWrite
from stepwell.core.records import events, model
from stepwell.core.records.events import SHORT, ExecutionChange, RunChange, TaskChange
from stepwell.core.records.model import Counts, Payload, RunSpec
from stepwell.core.records.record import Record
from stepwell.core.records.states import RunStatus, StepKind, TaskStatus, Verdict
from stepwell_drivers.sql import views
from stepwell_drivers.sql.bodies import uuid_of
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.contract.drivers.postgres_place import Place
from tests.contract.drivers.sql_places import File
from tests.docs.pages import TOP, blocks

UUID = "8c1f5f0e-6a52-4d7e-9b1a-3f2d1c0b9a87"
LIKE_UUID = UUID[:-1] + "8"
"""Another UUID that begins with the same 20 digits."""
STARTS = "SELECT count(*), count(DISTINCT substr(CAST(id AS text), 1, 23)) FROM runs"


def with_tasks(
    run_id: str,
    tenant: str = b.TENANT,
    *task_ids: str,
    entries: tuple[EntryWrite, ...] = (),
    **more: Any,
) -> Commit:
    """Return the birth of a run with these tasks, an event about each, and journal entries."""
    first = b.created(
        run_id,
        tenant=tenant,
        plan=b.plan(*task_ids),
        tasks=[b.task(task_id) for task_id in task_ids],
        events=len(task_ids) + 1,
        **more,
    )
    about = ("", *task_ids)
    events = [replace(one, task_id=name) for one, name in zip(first.events, about, strict=True)]
    return replace(first, events=tuple(events), entries=entries)


async def rows(place: File | Place, sql: str) -> list[tuple[Any, ...]]:
    """Return what a query answers; ids as text."""
    found = await place.fetch(sql)
    return [tuple(str(one) if hasattr(one, "hex") else one for one in row) for row in found]


# --- names and types -----------------------------------------------------------------------------


DOCUMENT: dict[str, dict[str, tuple[str, ...]]] = {
    "runs": {
        "uuid": ("id",),
        "text": ("pipeline_id", "status", "executor_id", "tenant_id", "run_id"),
        "jsonb": ("input_params",),
    },
    "tasks": {
        "uuid": ("id", "run_id"),
        "text": ("type", "status", "idempotency_key", "tenant_id", "task_id", "run_name"),
    },
    "events": {
        "uuid": ("id", "run_id", "task_id"),
        "text": ("type", "run_name", "task_name"),
        "jsonb": ("payload",),
    },
    "journal": {
        "uuid": ("run_id",),
        "text": (
            *("journal", "name", "key", "mark", "tenant_id", "run_name", "execution_id"),
            *("effect", "arguments"),
        ),
        "jsonb": ("failure", "usage"),
        "bytea": ("value",),
        "bigint": (
            *("number", "run_key", "took_ms", "generation", "version", "written_us", "until_us"),
        ),
    },
}
IN_SQLITE = {"bytea": "blob", "bigint": "integer"}
"""The types that are not text there."""


async def test_views_have_the_documented_columns_and_types(
    place: File | Place, store: SqlStore
) -> None:
    await ask.must(
        store,
        with_tasks(
            *(UUID, b.TENANT, "a"),
            input=Payload(data=b'{"dir": "/src"}'),
            entries=(b.entry_write(b.entry()),),
        ),
    )
    for view, types in DOCUMENT.items():
        for kind, names in types.items():
            for name in names:
                if isinstance(place, Place):
                    (row,) = await rows(
                        place, f"SELECT pg_typeof({name})::text FROM {view} LIMIT 1"
                    )
                    assert row == (kind,), (view, name)
                else:
                    (row,) = await rows(place, f"SELECT typeof({name}) FROM {view} LIMIT 1")
                    # The run's own first event is about no task.
                    no_task = name == "task_id" and view == "events"
                    assert row == ("null" if no_task else IN_SQLITE.get(kind, "text"),)


async def test_views_join_by_uuids_and_by_keys(place: File | Place, store: SqlStore) -> None:
    await ask.must(store, *[with_tasks(name, b.TENANT, "a", "b") for name in (UUID, "nightly")])
    for by in (
        "tasks.run_id = runs.id JOIN events ON events.run_id = runs.id AND events.task_id = tasks.id",
        (
            "tasks.run_key = runs.run_key JOIN events"
            " ON events.run_key = tasks.run_key AND events.task_name = tasks.task_id"
        ),
    ):
        found = await rows(
            place,
            "SELECT runs.run_id, tasks.task_id, tasks.status, events.number FROM runs"
            f" JOIN tasks ON {by} ORDER BY 1, 2",
        )
        assert found == [
            (run_id, task_id, "pending", number)
            for run_id in (UUID, "nightly")
            for task_id, number in (("a", 2), ("b", 3))
        ]
    (without,) = await rows(
        place, f"SELECT task_id, task_name FROM events WHERE run_id = '{UUID}' AND number = 1"
    )
    assert without == (None, "")


async def test_the_documented_queries_find_their_rows(place: File | Place, store: SqlStore) -> None:
    spec = RunSpec(tenant_id="default", run_id=UUID, pipeline_id="survey", executor_id="me")
    running = replace(with_tasks(UUID, "default", "count", spec=spec, status=RunStatus.RUNNING))
    nightly = with_tasks(
        "nightly", "default", "a", "b", executions=[b.leased()], leases=[b.lease()]
    )
    await ask.must(store, running, nightly)
    (block,) = [
        one.text for one in blocks(TOP / "docs" / "operating.md", "sql") if "FROM runs" in one.text
    ]
    await store.write_journal([b.journal_write(b.entry(), tenant="default", run_id="nightly")])
    await store.append_logs("default", "nightly", [b.line("half done", "task:a#1")])
    of_pipeline, of_run, of_task, of_journal, of_attempts, of_lines = [
        await rows(place, sql) for sql in block.split(";")[:-1]
    ]
    assert of_pipeline == [(UUID, UUID, "running", "me", None)]
    assert [row[:4] for row in sorted(of_run)] == [
        ("queued", "a", "", "pending"),
        ("queued", "b", "", "pending"),
    ]
    ((number, kind, _),) = of_task
    assert (number, kind) == (2, "EXECUTION_LEASED")
    assert of_journal == [("call", "end", 0, 2)]
    assert [row[:4] for row in of_attempts] == [(0, 1, "leased", "task")]
    assert [(*row[:4], row[5]) for row in of_lines] == [(0, 1, "leased", "task", "half done")]


async def test_attempts_and_log_lines_have_their_columns(
    place: File | Place, store: SqlStore
) -> None:
    done = replace(b.ended(), type="echo", iteration=2, offered_us=5)
    await ask.must(store, with_tasks("nightly", b.TENANT, "b", "a", executions=[done]))
    wanted = "flow_index, cycle, status, concept, run_name, task_id"
    assert await rows(place, f"SELECT {wanted}, time_us FROM attempts") == [
        (1, 2, "completed", "echo", "nightly", "a", 5)
    ]
    await store.append_logs(b.TENANT, "nightly", [b.line("half done", done.execution_id)])
    ((*found, time_us),) = await rows(
        place, f"SELECT {wanted}, level, text, time_us FROM log_lines"
    )
    assert found == [1, 2, "completed", "echo", "nightly", "a", "INFO", "half done"]
    assert time_us > 0


async def test_no_row_is_without_its_run_before_and_after_a_deletion(
    place: File | Place, store: SqlStore
) -> None:
    page = TOP / "docs" / "from-the-documents.md"
    (block,) = [one.text for one in blocks(page, "sql")]
    await ask.must(store, *[with_tasks(name, b.TENANT, "a", "b") for name in ("gone", "kept")])
    for deleted in (False, True):
        if deleted:
            assert await store.delete_run(b.TENANT, "gone", version=1)
        for sql in block.split(";")[:-1]:
            assert await rows(place, sql) == []
        for view in ("tasks", "events"):
            found = await rows(place, f"SELECT DISTINCT run_name FROM {view} ORDER BY 1")
            assert found == ([("kept",)] if deleted else [("gone",), ("kept",)])


# --- ids -------------------------------------------------------------------------------------------


async def test_a_uuid_is_kept_and_another_run_id_gets_one(
    place: File | Place, store: SqlStore
) -> None:
    upper = "0C1F5F0E-6A52-4D7E-9B1A-3F2D1C0B9A87"
    await ask.must(store, *[b.created(name) for name in (UUID, upper, "nightly")])
    found = dict(await rows(place, "SELECT run_id, id FROM runs"))
    assert found[UUID] == UUID
    assert found[upper] == upper.lower()
    assert uuid_of(found["nightly"]) == found["nightly"]


async def test_ids_stay_when_tasks_move_and_are_planned_again(
    place: File | Place, store: SqlStore
) -> None:
    first = await ask.must(store, with_tasks("nightly", b.TENANT, "a", "b"))
    before = await rows(place, "SELECT id, run_id, task_id FROM tasks ORDER BY task_id")
    again = b.step(
        first,
        plan=b.plan("c", "b", revision=2),
        tasks=[
            b.task("b", TaskStatus.RUNNING, revision=2),
            b.task("c", revision=2),
            b.task("a", TaskStatus.FAILED),
        ],
    )
    # Two in one transaction, of which only the last form is written.
    await asyncio.gather(store.commit([again]), store.commit([b.step(again, tasks=[b.task("d")])]))
    after = await rows(place, "SELECT id, run_id, task_id FROM tasks ORDER BY task_id")
    assert [row[2] for row in after] == ["a", "b", "c", "d"]
    assert after[:2] == before
    assert len({row[0] for row in after}) == 4
    for view in ("tasks", "events"):
        ids = await rows(place, f"SELECT id, run_id FROM {view}")
        assert all(one[:24] == run[:24] for one, run in ids), ids


async def test_ids_are_unique_where_run_ids_are_the_same_or_count_up(
    place: File | Place, store: SqlStore
) -> None:
    births = [
        with_tasks(run_id, tenant, "a", "b")
        for tenant in ("acme", "other")
        for run_id in (UUID, LIKE_UUID, UUID.upper())
    ]
    await asyncio.gather(*[store.commit([birth]) for birth in births])
    assert await rows(place, STARTS) == [(6, 6)]
    for view, many in (("tasks", 12), ("events", 18)):
        found = await rows(place, f"SELECT count(*), count(DISTINCT id) FROM {view}")
        assert found == [(many, many)]
    # The id is free again with its run.
    holder = f"SELECT tenant_id, run_id FROM runs WHERE id = '{UUID}'"
    ((tenant, run_id),) = await rows(place, holder)
    assert await store.delete_run(tenant, run_id, version=1)
    await ask.must(store, b.created(UUID, tenant="third"))
    assert await rows(place, holder) == [("third", UUID)]


async def test_births_at_once_with_the_same_first_digits_all_succeed(place: File | Place) -> None:
    doors = [await place.open() for _ in range(2 if isinstance(place, Place) else 1)]
    births = [
        b.created(UUID[:-2] + f"{at:02x}", tenant=tenant)
        for at in range(40)
        for tenant in ("acme", "other")
    ]
    answers = await asyncio.gather(
        *[doors[at % len(doors)].commit([birth]) for at, birth in enumerate(births)]
    )
    assert {result.verdict for (result,) in answers} == {Verdict.COMMITTED}
    assert await rows(place, STARTS) == [(80, 80)]
    for door in doors:
        await door.close()


# --- values ----------------------------------------------------------------------------------------


async def test_each_status_has_its_word(place: File | Place, store: SqlStore) -> None:
    await ask.must(store, with_tasks(UUID, b.TENANT, "a"))
    for words, table, view in (
        (views.RUN_WORDS, "run_rows", "runs"),
        (views.TASK_WORDS, "task_rows", "tasks"),
    ):
        for status, word in words.items():
            await place.fetch(f"UPDATE {table} SET status = '{status.value}'")
            assert await rows(place, f"SELECT status FROM {view}") == [(word,)]
    assert set(views.RUN_WORDS) == set(RunStatus)
    assert set(views.TASK_WORDS) == set(TaskStatus)
    assert views.TASK_WORDS[TaskStatus.READY] == "pending"


SHOWN: tuple[tuple[bytes, object], ...] = (
    (b'{"dir": "/src", "deep": [1, null]}', {"dir": "/src", "deep": [1, None]}),
    (b'"a \\\\u0000 that is text"', "a \\u0000 that is text"),
    (b"1.5e3", 1500),
    (b"null", None),
    (b"[" * 200 + b"]" * 200, json.loads("[" * 200 + "]" * 200)),
)
NOT_SHOWN: tuple[bytes, ...] = (
    *(b"", b"NaN", b"Infinity", b"1e400", b"-1e131073", b"{", b"\xff", b"\xef\xbb\xbf1"),
    *(b'"\\u0000"', b'{"\\u0000": 1}', b'"\\\\\\u0000"', b'"\\ud800"', b"[" * 2_000 + b"]" * 2_000),
    *(b"[" + b"1" * 4_097 + b"]", b"0." + b"1" * 20_000),
)
LARGE = b'{"a \\" 1": [' + b'"' + b"1" * 200_000 + b'", 1.5], "b": "' + b"x" * 700_000 + b'"}'


@pytest.mark.parametrize(
    "data",
    [*[given for given, _ in SHOWN], *NOT_SHOWN, b"1e-400", b"1" * 4_000, b"1e300", b"1e30", LARGE],
    ids=lambda data: f"{len(data)} bytes {data[:20]!r}",
)
async def test_any_input_starts_a_run_and_json_is_shown(
    place: File | Place, store: SqlStore, data: bytes
) -> None:
    await ask.must(store, b.created(input=Payload(data=data)))
    ((shown,),) = await rows(place, "SELECT input_params FROM runs")
    assert (shown is None) == (data in NOT_SHOWN)
    if data == LARGE:
        assert (json.loads(shown) if isinstance(shown, str) else shown) == json.loads(data)
    if data in dict(SHOWN):
        assert json.loads(shown) == dict(SHOWN)[data]


async def test_input_of_another_media_type_is_not_shown(
    place: File | Place, store: SqlStore
) -> None:
    await ask.must(store, b.created(input=Payload(data=b"{}", media_type="text/plain")))
    assert await rows(place, "SELECT input_params FROM runs") == [(None,)]


async def test_a_payload_has_the_names_of_the_records(place: File | Place, store: SqlStore) -> None:
    tricky = '{"t":"x","s": "y:"}, "e":'
    first = b.created()
    event = replace(
        first.events[0],
        task_id="a",
        message=tricky,
        run=RunChange(reason=tricky, counts=Counts(total=1)),
        tasks=(TaskChange(task_id="a", status=TaskStatus.RUNNING, attempts=2, started_us=3),),
        executions=(ExecutionChange(execution_id=tricky, kind=StepKind.TASK, has_result=True),),
    )
    await ask.must(store, replace(first, events=(event,)))
    ((payload, message),) = await rows(place, "SELECT payload, message FROM events")
    assert message == tricky
    assert json.loads(payload) == {
        "run": {"reason": tricky, "counts": {"total": 1}},
        "tasks": [{"task_id": "a", "status": "RUNNING", "attempts": 2, "started_us": 3}],
        "executions": [{"execution_id": tricky, "kind": "TASK", "has_result": True}],
    }


def test_a_short_name_is_of_one_field_and_no_record_s_own() -> None:
    records = [kind for module in (model, events) for kind in vars(module).values()]
    names = {
        field.name
        for kind in records
        if inspect.isclass(kind) and issubclass(kind, Record)
        for field in fields(kind)
    }
    assert len({*SHORT.values()}) == len(SHORT)
    assert names.isdisjoint(SHORT.values())


async def test_no_number_makes_a_view_fail(place: File | Place, store: SqlStore) -> None:
    await ask.must(store, with_tasks(UUID, b.TENANT, "a"))
    for number in (2**63 - 1, -(2**63), -1, 2**48):
        await place.fetch(f"UPDATE task_specs SET number = {number}")
        # The second event, the last one of its commit, is the task's.
        await place.fetch(f"UPDATE commits SET last_event = {number}")
        ((task_id,),) = await rows(place, "SELECT id FROM tasks")
        (found,) = await rows(place, "SELECT id, task_id FROM events WHERE task_name = 'a'")
        assert found == (task_id, task_id)
        assert uuid_of(task_id) == task_id


# --- plans of queries ------------------------------------------------------------------------------


ASKED: Sequence[tuple[str, frozenset[str]]] = (
    (f"SELECT * FROM runs WHERE id = '{UUID}'", frozenset({"runs_by_uuid"})),
    (
        f"SELECT * FROM tasks WHERE run_id = '{UUID}'",
        frozenset({"runs_by_uuid", "task_specs_pkey", "task_rows_pkey"}),
    ),
    (
        f"SELECT * FROM events WHERE run_id = '{UUID}'",
        frozenset({"runs_by_uuid", "commits_run_key_version_key"}),
    ),
    (
        f"SELECT * FROM runs JOIN tasks ON tasks.run_id = runs.id WHERE runs.id = '{UUID}'",
        frozenset({"runs_by_uuid", "task_specs_pkey", "task_rows_pkey"}),
    ),
    (
        "SELECT * FROM tasks WHERE run_key = 7",
        frozenset({"run_rows_pkey", "tasks_in_order", "task_rows_pkey"}),
    ),
    (
        "SELECT * FROM events WHERE run_key = 7",
        frozenset({"run_rows_pkey", "commits_by_event"}),
    ),
    (
        (
            "SELECT * FROM events JOIN tasks ON tasks.run_key = events.run_key"
            f" AND tasks.task_id = events.task_name WHERE events.run_id = '{UUID}'"
        ),
        frozenset({"runs_by_uuid", "commits_run_key_version_key", "task_specs_pkey"}),
    ),
    (
        f"SELECT * FROM journal WHERE run_id = '{UUID}'",
        frozenset({"runs_by_uuid", "journal_by_name"}),
    ),
    (
        (
            "SELECT * FROM runs JOIN journal ON journal.run_key = runs.run_key"
            f" WHERE runs.tenant_id = '{b.TENANT}' AND runs.run_id = '{UUID}'"
        ),
        frozenset({"run_rows_tenant_id_run_id_key", "journal_by_name"}),
    ),
)


@pytest.mark.parametrize(("sql", "indexes"), ASKED)
async def test_a_join_goes_by_index(
    place: File | Place, store: SqlStore, sql: str, indexes: frozenset[str]
) -> None:
    # Large enough that no table is read as fast as an index.
    births = [
        with_tasks(
            *(name, b.TENANT, "a", "b"),
            spec=RunSpec(tenant_id=b.TENANT, run_id=name, goal="x" * 500),
            entries=(b.entry_write(b.entry("a", b"x" * 500)),),
        )
        for name in (f"run-{at}" for at in range(200))
    ]
    await ask.must(store, *births, with_tasks(UUID, b.TENANT, "a"))
    if isinstance(place, Place):
        await place.fetch("ANALYZE")
        plan = "\n".join(row[0] for row in await place.fetch(f"EXPLAIN {sql}"))
        assert "Seq Scan" not in plan, plan
        assert {
            name for name in indexes if f" using {name} on" in plan or f" on {name}" in plan
        } == indexes
        return
    plan = "\n".join(row[3] for row in await place.fetch(f"EXPLAIN QUERY PLAN {sql}"))
    # The list of a commit's events is no table.
    assert "SCAN" not in plan.replace("SCAN j VIRTUAL TABLE", ""), plan
    assert "AUTOMATIC" not in plan, plan


async def test_a_join_that_is_not_asked_for_costs_nothing(
    place: File | Place, store: SqlStore
) -> None:
    await ask.must(store, b.created())
    explain = "EXPLAIN" if isinstance(place, Place) else "EXPLAIN QUERY PLAN"
    for view, sql in (
        ("tasks", "SELECT task_id, title, prompt FROM tasks"),
        ("events", "SELECT number, type FROM events ORDER BY time_us"),
    ):
        plan = "\n".join(str(row[-1]) for row in await place.fetch(f"{explain} {sql}"))
        assert "Join" not in plan, (view, plan)
        assert "SEARCH" not in plan, (view, plan)

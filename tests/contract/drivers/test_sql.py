"""Promises of both SQL drivers beyond the port: group commit, versions of the schema, tables that a person reads."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.port import ExecutionQuery
from stepwell.core.records.errors import InvalidArgument, StoreRefused
from stepwell.core.records.model import Outcome, Payload, RunSpec, Session, TaskSpec
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql import migrate, schema
from stepwell_drivers.sql.postgres import migrate_store as postgres_migrating
from stepwell_drivers.sql.postgres import opening as postgres_opening
from stepwell_drivers.sql.sqlite import migrate_store as sqlite_migrating
from stepwell_drivers.sql.sqlite import opening as sqlite_opening
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.contract.drivers.postgres_place import Place
from tests.contract.drivers.sql_places import File
from tests.support.logs import capture_logs

# --- groups --------------------------------------------------------------------------------------


async def test_writes_queued_during_a_transaction_share_the_next(store: SqlStore) -> None:
    writer: Any = store._writer
    before = writer.groups
    calls = [store.commit([b.created_leased(f"run-{at}")]) for at in range(100)]
    logs = [store.append_logs(b.TENANT, f"run-{at}", [b.line("x")]) for at in range(50)]
    beats = [store.renew([b.renewal(f"run-{at}")]) for at in range(50)]
    await asyncio.gather(*calls, *logs, *beats, store.put_presence([b.presence()], ttl_ms=1_000))
    # The first may have gone alone before the others came.
    assert writer.groups - before <= 3


async def test_a_run_may_take_many_steps_in_one_transaction(store: SqlStore) -> None:
    chain = [b.created_leased()]
    for at in range(2, 40):
        chain.append(
            b.step(
                chain[-1],
                fences=[b.fence(f"task:a#{at - 1}", token=f"t{at - 1}")],
                executions=[b.ended(f"task:a#{at - 1}"), b.leased(f"task:a#{at}")],
                leases=[b.lease(f"task:a#{at}", token=f"t{at}")],
                outcomes=[b.outcome(str(at).encode(), f"task:a#{at - 1}")],
            )
        )
    answers = await asyncio.gather(*[store.commit([commit]) for commit in chain])
    assert {result.verdict for (result,) in answers} == {Verdict.COMMITTED}
    rows = await ask.loaded(store)
    assert [(one.execution.execution_id, one.token) for one in rows.executions] == [
        ("task:a#39", "t39")
    ]
    page = await store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN))
    assert [one.execution_id for one in page.items] == [f"task:a#{at}" for at in range(1, 40)]
    events = await store.read_events(b.TENANT, b.RUN, after=0, limit=1_000)
    assert events is not None
    assert [one.number for one in events.events] == list(range(1, 40))


async def test_one_that_fails_harms_nobody_in_its_group(store: SqlStore) -> None:
    bad = b.created("bad", spec=RunSpec(tenant_id=b.TENANT, run_id="bad", goal="\ud800"))
    large = b.created("large", spec=RunSpec(tenant_id=b.TENANT, run_id="large", priority=2**63))
    births = [b.created(f"run-{at}") for at in range(30)]
    births[10:10] = [bad]
    births[20:20] = [large]
    answers = await asyncio.gather(
        *[store.commit([birth]) for birth in births], return_exceptions=True
    )
    for birth, answer in zip(births, answers, strict=True):
        if birth in (bad, large):
            assert isinstance(answer, InvalidArgument)
            assert answer.reason == "NOT_STORABLE"
        else:
            assert not isinstance(answer, BaseException)
            assert await ask.version_of(store, birth.run_id) == 1


async def test_a_cancelled_caller_cancels_no_commit(store: SqlStore) -> None:
    call = asyncio.ensure_future(store.commit([b.created()]))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await ask.verdicts(store, b.created()) == [Verdict.COMMITTED]
    assert await ask.version_of(store) == 1


# --- the schema ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0002", "7777"], ids=["unreleased", "newer"])
async def test_an_unknown_schema_is_refused(place: File | Place, version: str) -> None:
    await (await place.open()).close()
    await place.fetch(f"UPDATE alembic_version SET version_num = '{version}'")
    if version == "0002":
        await place.fetch(f"DELETE FROM meta WHERE key = '{migrate.LEAST}'")
    else:
        await place.fetch(f"UPDATE meta SET value = '{version}' WHERE key = '{migrate.LEAST}'")
    with pytest.raises(StoreRefused, match=f"{version}.*name a new store") as caught:
        await place.open()
    assert schema.REVISIONS[-1] in caught.value.message


LATER = """
from alembic import op
from sqlalchemy import Column, Text

revision = "7777"
down_revision = "{head}"
only_adds = {only_adds}


def upgrade() -> None:
    op.add_column("run_rows", Column("made_up", Text(), nullable=False, server_default="new"))
    op.create_table("made_up", Column("word", Text()))
"""


def make_newer(patch: pytest.MonkeyPatch, folder: Path, *, only_adds: bool) -> None:
    """Make this a newer program, whose schema has a column and a table more."""
    shutil.copytree(migrate.MIGRATIONS, folder / "migrations")
    later = folder / "migrations" / "versions" / "v7777_later.py"
    later.write_text(LATER.format(head=migrate.HEAD, only_adds=only_adds))
    patch.setattr(migrate, "MIGRATIONS", folder / "migrations")
    patch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "7777"))
    for module in (migrate, postgres_opening, sqlite_opening):
        patch.setattr(module, "HEAD", "7777")


async def test_an_older_schema_is_brought_up_with_its_rows(
    place: File | Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open()
    await ask.must(store, b.created())
    await store.close()
    make_newer(monkeypatch, tmp_path, only_adds=False)
    if isinstance(place, Place):
        with pytest.raises(StoreRefused, match="stepwell migrate"):
            await place.open(migrate="false")
    store = await place.open()
    assert (await store.describe()).schema_version == "7777"
    assert tuple((await place.fetch("SELECT run_id, made_up FROM run_rows"))[0]) == (b.RUN, "new")
    assert await ask.version_of(store) == 1
    await store.close()


@pytest.mark.parametrize("only_adds", [True, False])
async def test_the_program_before_goes_on_if_a_newer_schema_only_adds(
    place: File | Place, tmp_path: Path, only_adds: bool
) -> None:
    # A SQLite file is one server's; a Postgres schema may be migrated while others use it.
    running = await place.open() if isinstance(place, Place) else None
    with pytest.MonkeyPatch.context() as patch:
        make_newer(patch, tmp_path, only_adds=only_adds)
        newer = await place.open()
        first = await ask.must(newer, b.created_leased())
        await newer.close()
    if running is not None:
        await ask.must(running, b.created("of one that was there before"))
    if not only_adds:
        with pytest.raises(StoreRefused, match=r"7777.*name a new store"):
            await place.open()
        return
    with capture_logs() as lines:
        store = await place.open()
    (line,) = [line for line in lines if line.get("schema") == "7777"]
    assert (line["log_level"], line["own"]) == ("warning", migrate.HEAD)
    assert (await store.describe()).schema_version == "7777"
    await ask.must(store, b.step(first, tasks=[b.task("a")]), b.created("another"))
    assert await ask.version_of(store) == 2
    assert tuple((await place.fetch("SELECT DISTINCT made_up FROM run_rows"))[0]) == ("new",)
    assert tuple((await place.fetch("SELECT version_num FROM alembic_version"))[0]) == ("7777",)
    await store.close()


async def test_the_migrations_as_a_script_make_a_store(place: File | Place) -> None:
    parts: list[str] = []
    url = place.url()
    migrate_store = postgres_migrating if isinstance(place, Place) else sqlite_migrating
    await migrate_store(url, runtime=SystemRuntime(), check=False, sql=parts.append)
    script = "".join(parts)
    for revision in schema.REVISIONS:
        assert f"-> {revision}\n" in script
    await place.run_script(script)
    found = await migrate_store(url, runtime=SystemRuntime(), check=True)
    assert found == (migrate.HEAD, migrate.HEAD)
    store = await place.open(migrate="false") if isinstance(place, Place) else await place.open()
    await ask.must(store, b.created())
    assert tuple((await place.fetch("SELECT status FROM runs"))[0]) == ("queued",)
    await store.close()


# --- what a person reads -------------------------------------------------------------------------


READ: tuple[tuple[str, tuple[Any, ...]], ...] = (
    (
        (
            "SELECT tenant_id, pipeline_id, status, phase, goal, executor_id,"
            " labels ->> 'team', input_params ->> 'dir' FROM runs"
        ),
        (b.TENANT, "survey", "queued", "PLANNING", "count the files", "me", "a", "/src"),
    ),
    (
        "SELECT task_id, title, role, status, prompt, idempotency_key FROM tasks",
        ("a", "Count", "coder", "pending", "count all", f"{b.RUN}/task:a@1"),
    ),
    (
        (
            "SELECT e.status, e.body ->> 'worker_id', o.prompt, o.response,"
            " e.body -> 'session' ->> 'session_id', e.body -> 'session' ->> 'backend'"
            " FROM executions e JOIN outcomes o USING (run_key, execution_id)"
        ),
        ("COMPLETED", "worker-1", "how many?", "42", "s-1", "cli-agent"),
    ),
    ("SELECT backend, session_id, task_id FROM sessions", ("cli-agent", "s-1", "a")),
    ("SELECT role, body ->> 'content' FROM messages", ("assistant", "hello")),
    (
        "SELECT number, type, actor, on_behalf_of FROM events ORDER BY number DESC",
        (2, "EXECUTION_LEASED", "bot", "ann"),
    ),
    ("SELECT count(*) FROM executions WHERE worker_id = 'worker-1'", (0,)),
)
ONLY_POSTGRES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ('SELECT run_id FROM runs WHERE labels @> \'{"team": "a"}\'', (b.RUN,)),
    ("SELECT jsonb_typeof(payload) FROM events LIMIT 1", ("object",)),
)


async def test_a_person_reads_the_tables(place: File | Place, store: SqlStore) -> None:
    spec = RunSpec(
        tenant_id=b.TENANT,
        run_id=b.RUN,
        pipeline_id="survey",
        goal="count the files",
        labels={"team": "a"},
        executor_id="me",
    )
    task = TaskSpec(task_id="a", title="Count", role="coder", prompt="count all")
    first = b.created(
        spec=spec,
        input=Payload(data=b'{"dir": "/src"}'),
        plan=replace(b.plan(), tasks=(task,)),
        tasks=[b.task("a")],
        executions=[b.leased()],
        leases=[b.lease()],
    )
    session = Session(backend="cli-agent", session_id="s-1")
    second = b.step(
        first,
        executions=[replace(b.ended(), session=session, has_result=True)],
        outcomes=[Outcome(execution_id=b.STEP, prompt="how many?", response="42")],
        messages=[b.message("hello")],
    )
    named = [replace(one, actor="bot", on_behalf_of="ann") for one in second.events]
    await ask.must(store, first, replace(second, events=tuple(named)))
    for sql, wanted in (*READ, *(ONLY_POSTGRES if isinstance(place, Place) else ())):
        assert tuple((await place.fetch(sql))[0]) == wanted, sql

"""Commits and heartbeats in Postgres: their round trips, and the function that a commit calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import fields
from typing import Any

import asyncpg
import pytest

from stepwell_drivers.sql import rows as forms
from stepwell_drivers.sql.postgres import commits
from stepwell_drivers.sql.postgres.renewals import RENEW
from stepwell_drivers.sql.rows import Rows
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.harness import soon
from tests.contract.drivers.postgres_place import Place
from tests.support.backends.pgbouncer import PgBouncer
from tests.support.backends.postgres import Postgres
from tests.support.backends.shared import postgres_server

FORMS = {
    "heads": commits.HEAD,
    "fences": commits.FENCE,
    "runs": forms.RUN_NEW,
    "run_specs": forms.RUN_SPEC,
    "moved_runs": forms.RUN_MOVED,
    "plans": forms.PLAN,
    "task_specs": forms.TASK_SPEC,
    "tasks": forms.TASK,
    "dropped_tasks": ("run_key", "name"),
    "executions": forms.EXECUTION,
    "outcomes": forms.OUTCOME,
    "timers": forms.TIMER,
    "dropped_timers": ("run_key", "name"),
    "questions": forms.QUESTION,
    "messages": forms.MESSAGE,
    "requests": forms.REQUEST,
    "sessions": forms.SESSION,
    "checkpoints": forms.CHECKPOINT,
    "commits": forms.COMMIT,
    "journal_writes": forms.JOURNAL_WRITE,
}
"""The columns of the function's arguments, in their order."""
ARGUMENTS = """
SELECT array_agg(a.attname::text ORDER BY a.attnum) AS names
FROM pg_proc AS p
CROSS JOIN unnest(p.proargtypes) WITH ORDINALITY AS given(type, place)
JOIN pg_type AS t ON t.typarray = given.type
JOIN pg_attribute AS a ON a.attrelid = t.typrelid
WHERE p.oid = 'stepwell_commit_0008'::regproc
GROUP BY given.place ORDER BY given.place
"""


@pytest.fixture
async def place(backends: None) -> AsyncIterator[Place]:
    found = Place(postgres_server())
    yield found
    await found.close()


async def _open(place: Place, **options: str) -> SqlStore:
    """Open a store with one link for commits and one for heartbeats, on which asyncpg knows all types."""
    store = await place.open(pool_size="2", **options)
    await ask.must(store, b.created_leased("first"))
    assert await store.renew([b.renewal("first")]) == [True]
    return store


async def statements_of(writer: Any, action: Awaitable[Any]) -> list[str]:
    """Return what a writer with one link sends meanwhile."""
    sent: list[str] = []

    def note(query: asyncpg.connection.LoggedQuery) -> None:
        sent.append(query.query)

    async with writer._links.one() as link:
        connection = link.driver_connection
        connection.add_query_logger(note)
    await action
    connection.remove_query_logger(note)
    return sent


async def test_the_first_commit_is_one_statement_once_a_link_is_ready(
    place: Place,
) -> None:
    store = await place.open(pool_size="2")
    writer: Any = store._writer
    assert await soon(lambda: bool(writer._links._idle))
    assert len(await statements_of(writer, ask.must(store, b.created("first")))) == 1


async def test_a_store_that_is_closed_at_once_waits_for_no_link(
    place: Place,
) -> None:
    store = await place.open(pool_size="2")
    client = await place.client()
    async with client.transaction():
        await client.execute("LOCK TABLE run_rows")
        async with asyncio.timeout(5):
            await store.close()
    await client.close()


@pytest.mark.parametrize("many", [1, 64])
async def test_commits_are_one_statement_without_a_transaction_around_it(
    place: Place, many: int
) -> None:
    store = await _open(place)
    first = [b.created_leased(f"run-{at}") for at in range(many)]
    assert await statements_of(store._writer, ask.must(store, *first)) == [commits.CALL]
    seconds = [b.step(one, executions=[b.ended()], fences=[b.fence()]) for one in first]
    assert await statements_of(store._writer, ask.must(store, *seconds)) == [commits.CALL]


async def test_heartbeats_are_one_statement_without_a_transaction_around_it(place: Place) -> None:
    store = await _open(place)
    names = [f"run-{at}" for at in range(8)]
    await ask.must(store, *[b.created_leased(name) for name in names])
    calls = [store.renew([b.renewal(name)]) for name in names]
    assert await statements_of(store._beats, asyncio.gather(*calls)) == [RENEW]


async def test_several_commits_of_a_run_are_one_transaction(place: Place) -> None:
    store = await _open(place)
    first = b.created()
    second = b.step(first)
    fork = b.fork("fork-1")
    sent = await statements_of(
        store._writer, ask.must(store, first, b.created("other"), fork, second)
    )
    assert sent == ["BEGIN", commits.CALL, commits.CALL, "COMMIT"]
    assert await ask.version_of(store) == 2


async def test_behind_a_pooler_a_commit_is_one_transaction(backends: None) -> None:
    server = postgres_server()
    if not isinstance(server, Postgres):
        pytest.skip("needs a server of its own")
    with PgBouncer(server) as pooler:
        place = Place(pooler)
        store = await _open(place, pooler="transaction")
        begin, *calls, commit = await statements_of(store._writer, ask.must(store, b.created()))
        assert begin.startswith("BEGIN; SET LOCAL")
        assert (calls, commit) == ([commits.CALL], "COMMIT")
        await place.close()


async def test_the_functions_arguments_are_the_lists_of_rows(place: Place) -> None:
    await place.open()
    stored = [tuple(row[0]) for row in await place.fetch(ARGUMENTS)]
    assert stored == [
        tuple("at" if name == "run_key" else name for name in form) for form in FORMS.values()
    ]
    assert list(FORMS) == ["heads", "fences", *[field.name for field in fields(Rows)]]

"""Fields that a newer version has written into a body stay there when this one writes it again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.records.model import Counts
from stepwell.core.records.states import ExecutionStatus, QuestionStatus, RunStatus, TaskStatus
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.contract.drivers.postgres_place import Place
from tests.contract.drivers.sql_places import File

NEWER = {"newer": {"deep": [1.5, None, "é"]}}
BODIES = (
    ("run_rows", "state"),
    ("task_rows", "state"),
    ("executions", "body"),
    ("questions", "body"),
)


async def body(place: File | Place, table: str, column: str) -> dict[str, Any]:
    """Return the only body in a table."""
    ((text,),) = await place.fetch(f"SELECT CAST({column} AS text) FROM {table}")
    return json.loads(text)


async def put(place: File | Place, table: str, column: str, value: dict[str, Any]) -> None:
    """Write a body as another version would."""
    text = json.dumps(value).replace("'", "''")
    await place.fetch(f"UPDATE {table} SET {column} = '{text}'")


@pytest.mark.parametrize("since", [0, 1])
async def test_unknown_fields_stay_when_a_body_is_written_again(
    place: File | Place, store: SqlStore, since: int
) -> None:
    first = b.created_leased()
    first = replace(first, tasks=(b.task("a"),), questions=(b.question("q"),))
    first = replace(first, run=replace(first.run, counts=Counts(total=1)))
    await ask.must(store, first)
    second = b.step(
        first, tasks=first.tasks, executions=first.executions, questions=first.questions
    )
    await ask.must(store, second)
    for table, column in BODIES:
        await put(place, table, column, NEWER | await body(place, table, column))
    run = await body(place, "run_rows", "state")
    await put(place, "run_rows", "state", run | {"counts": {"total": 1, "newer": 7}})

    loaded = await ask.loaded(store, since=since)
    third = b.step(
        replace(second, run=replace(loaded.run, counts=Counts(total=1, completed=1))),
        status=RunStatus.RUNNING,
        tasks=[replace(loaded.tasks[0], status=TaskStatus.COMPLETED)],
        executions=[replace(loaded.executions[0].execution, status=ExecutionStatus.COMPLETED)],
        questions=[replace(loaded.questions[0], status=QuestionStatus.ANSWERED)],
    )
    await ask.must(store, third)

    found = [await body(place, table, column) for table, column in BODIES]
    assert [{name: one[name] for name in NEWER} for one in found] == [NEWER] * 4
    assert [one["status"] for one in found] == ["RUNNING", "COMPLETED", "COMPLETED", "ANSWERED"]
    assert found[0]["counts"] == {"total": 1, "completed": 1, "newer": 7}
    assert "unknown" not in str(found)


async def test_rows_of_this_version_have_no_unknown_fields(store: SqlStore) -> None:
    first = replace(b.created_leased(), tasks=(b.task("a"),), questions=(b.question("q"),))
    await ask.must(store, first)
    loaded = await ask.loaded(store)
    assert loaded.run == first.run
    assert loaded.tasks == first.tasks
    assert loaded.executions[0].execution == first.executions[0]
    assert loaded.questions == first.questions

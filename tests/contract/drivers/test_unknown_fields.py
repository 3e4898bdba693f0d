"""Fields that a newer version has written into a body of SQL stay there when this one writes it again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell_drivers.sql.store import SqlStore
from tests.contract.drivers.newer import unknown_fields_stay
from tests.contract.drivers.postgres_place import Place
from tests.contract.drivers.sql_places import File

NEWER = {"newer": {"deep": [1.5, None, "é"]}}
BODIES = (
    ("run_rows", "state"),
    ("task_rows", "state"),
    ("executions", "body"),
    ("questions", "body"),
)


@pytest.mark.parametrize("since", [0, 1])
async def test_unknown_fields_stay_when_a_body_is_written_again(
    place: File | Place, store: SqlStore, since: int
) -> None:
    async def read(row: tuple[str, str]) -> dict[str, Any]:
        ((text,),) = await place.fetch(f"SELECT CAST({row[1]} AS text) FROM {row[0]}")
        return json.loads(text)

    async def put(row: tuple[str, str], value: dict[str, Any]) -> None:
        text = json.dumps(value).replace("'", "''")
        await place.fetch(f"UPDATE {row[0]} SET {row[1]} = '{text}'")

    await unknown_fields_stay(store, BODIES, read, put, NEWER, since)

"""Fields that a newer version has written into a row of Redis stay there when this one writes it again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from stepwell.core.records.model import Counts
from stepwell.core.records.states import ExecutionStatus, QuestionStatus, RunStatus, TaskStatus
from stepwell.runtime import SystemRuntime
from stepwell_drivers.redis.base import Base
from stepwell_drivers.redis.opening import opened
from stepwell_drivers.redis.store import RedisStore
from stepwell_drivers.redis.url import parse
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.support.backends.redis import Redis

NEWER = {"newer": {"deep": [1.5, None, "é", b"\x00\xff"]}}
FIELDS = ("run", "t:a", f"e:{b.STEP}", "i:q")
_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(dict[str, Any]).decode


@pytest.fixture(scope="module")
def server(backends: None) -> Iterator[Redis]:
    with Redis(appendfsync=None) as running:
        yield running


@pytest.fixture
async def door(server: Redis) -> AsyncIterator[tuple[RedisStore, Base]]:
    server.flush()
    found = await opened(parse(server.url()), SystemRuntime())
    store = RedisStore(found)
    yield store, found.base
    await store.close()


async def row(base: Base, field: str) -> tuple[bytes, dict[str, Any]]:
    """Return what stands before a record in a row, and the record."""
    run = base.run(b.TENANT, b.RUN)
    found: bytes = await base.read(run, ("HGET", run.rows, field))
    size = {"e": len(found) - len(found.split(b"\0", 3)[-1]), "i": 32}.get(field[0], 0)
    return found[:size], _decode(found[size:])


async def put(base: Base, field: str, value: dict[str, Any]) -> None:
    """Write a record as another version would."""
    run, (before, _) = base.run(b.TENANT, b.RUN), await row(base, field)
    await base.read(run, ("HSET", run.rows, field, before + _encode(value)))


@pytest.mark.parametrize("since", [0, 1])
async def test_unknown_fields_stay_when_a_row_is_written_again(
    door: tuple[RedisStore, Base], since: int
) -> None:
    store, base = door
    first = b.created_leased()
    first = replace(first, plan=b.plan("a"), tasks=(b.task("a"),), questions=(b.question("q"),))
    first = replace(first, run=replace(first.run, counts=Counts(total=1)))
    await ask.must(store, first)
    second = b.step(
        first, tasks=first.tasks, executions=first.executions, questions=first.questions
    )
    await ask.must(store, second)
    for field in FIELDS:
        await put(base, field, NEWER | (await row(base, field))[1])
    await put(base, "run", (await row(base, "run"))[1] | {"counts": {"total": 1, "newer": 7}})

    loaded = await ask.loaded(store, since=since)
    third = b.step(
        replace(second, run=replace(loaded.run, counts=Counts(total=1, completed=1))),
        status=RunStatus.RUNNING,
        tasks=[replace(loaded.tasks[0], status=TaskStatus.COMPLETED)],
        executions=[replace(loaded.executions[0].execution, status=ExecutionStatus.COMPLETED)],
        questions=[replace(loaded.questions[0], status=QuestionStatus.ANSWERED)],
    )
    await ask.must(store, third)

    found = [(await row(base, field))[1] for field in FIELDS]
    assert [{name: one[name] for name in NEWER} for one in found] == [NEWER] * 4
    assert [one["status"] for one in found] == ["RUNNING", "COMPLETED", "COMPLETED", "ANSWERED"]
    assert found[0]["counts"] == {"total": 1, "completed": 1, "newer": 7}
    assert "unknown" not in str(found)


async def test_rows_of_this_version_have_no_unknown_fields(door: tuple[RedisStore, Base]) -> None:
    store, _ = door
    first = b.created_leased()
    first = replace(first, plan=b.plan("a"), tasks=(b.task("a"),), questions=(b.question("q"),))
    await ask.must(store, first)
    loaded = await ask.loaded(store)
    assert loaded.run == first.run
    assert loaded.tasks == first.tasks
    assert loaded.executions[0].execution == first.executions[0]
    assert loaded.questions == first.questions

"""Fields that a newer version has written into a row stay there when this version writes it again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from stepwell.core.port import Store
from stepwell.core.records.model import Counts
from stepwell.core.records.states import ExecutionStatus, QuestionStatus, RunStatus, TaskStatus
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b


async def unknown_fields_stay(
    store: Store,
    rows: tuple[Any, ...],
    read: Callable[[Any], Awaitable[dict[str, Any]]],
    put: Callable[[Any, dict[str, Any]], Awaitable[None]],
    newer: dict[str, Any],
    since: int,
) -> None:
    """Put fields into the rows of a run, of its task, execution and question, and write all of them again."""
    first = b.created_leased()
    first = replace(first, plan=b.plan("a"), tasks=(b.task("a"),), questions=(b.question("q"),))
    first = replace(first, run=replace(first.run, counts=Counts(total=1)))
    await ask.must(store, first)
    second = b.step(
        first, tasks=first.tasks, executions=first.executions, questions=first.questions
    )
    await ask.must(store, second)
    for row in rows:
        await put(row, newer | await read(row))
    await put(rows[0], await read(rows[0]) | {"counts": {"total": 1, "newer": 7}})

    loaded = await ask.loaded(store, since=since)
    third = b.step(
        replace(second, run=replace(loaded.run, counts=Counts(total=1, completed=1))),
        status=RunStatus.RUNNING,
        tasks=[replace(loaded.tasks[0], status=TaskStatus.COMPLETED)],
        executions=[replace(loaded.executions[0].execution, status=ExecutionStatus.COMPLETED)],
        questions=[replace(loaded.questions[0], status=QuestionStatus.ANSWERED)],
    )
    await ask.must(store, third)

    found = [await read(row) for row in rows]
    assert [{name: one[name] for name in newer} for one in found] == [newer] * 4
    assert [one["status"] for one in found] == ["RUNNING", "COMPLETED", "COMPLETED", "ANSWERED"]
    assert found[0]["counts"] == {"total": 1, "completed": 1, "newer": 7}
    assert "unknown" not in str(found)

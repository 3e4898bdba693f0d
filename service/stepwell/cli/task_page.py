"""A task for `stepwell show RUN TASK`: its definition, its attempts with what they recorded, its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stepwell.cli import describe, results
from stepwell.cli.exits import CliError
from stepwell.cli.terminal import console, document
from stepwell.cli.text import lines, micros, one_line, short_id, span
from stepwell_client import ExecutionRecord, ExecutionStatus, SyncClient, TaskStatus, word
from stepwell_client.v1 import orchestrator_pb2, types_pb2

_INDENT = "    "


class TaskPage(NamedTuple):
    """A task, or one execution of any step, as it stands."""

    run_id: str
    entry: orchestrator_pb2.TaskEntry | None
    """None: an execution was named."""
    executions: Sequence[types_pb2.Execution]
    records: dict[str, ExecutionRecord]
    """Records that hold anything, by execution id."""
    result: orchestrator_pb2.Result | None


def read(client: SyncClient, run_id: str, name: str) -> TaskPage:
    """Read the task or execution of that id. Raises CliError where the run has neither."""
    entry = None
    for one in client.tasks(run_id, full_specs=True):
        if one.task.task_id == name:
            entry = one  # The last: a later plan may have defined it anew.
    of_task = client.executions(run_id, task_id=name if entry is not None else "")
    executions = [one for one in of_task if entry is not None or one.execution_id == name]
    if entry is None and not executions:
        short = short_id(run_id)
        raise CliError(
            f"run {short} has no task or execution {name!r}; see: stepwell show {short} --all"
        )
    records = {one.execution_id: client.record(run_id, one.execution_id) for one in executions}
    result = None
    if entry is not None and entry.task.status == TaskStatus.COMPLETED:
        result = next(iter(client.results(run_id, task_ids=[name]).results), None)
    return TaskPage(
        run_id, entry, executions, {key: one for key, one in records.items() if any(one)}, result
    )


def as_json(page: TaskPage) -> dict[str, Any]:
    """Return the page by the field names of the protocol."""
    shown: dict[str, Any] = {
        "executions": [document(one) for one in page.executions],
        "records": {key: one._asdict() for key, one in page.records.items()},
    }
    if page.entry is not None:
        shown["task"] = document(page.entry)
    if page.result is not None:
        shown["result"] = results.plain(page.result)
    return shown


def put(page: TaskPage, now_us: int) -> None:
    """Print the page for people."""
    if page.entry is not None:
        print("\n".join(_definition(page.entry)))
    made: Counter[str] = Counter()
    for one in page.executions:
        step = one.execution_id.rpartition("#")[0]
        # What was handed back is no attempt, though it has a number of its own.
        made[step] += one.status != ExecutionStatus.RELEASED
        record = page.records.get(one.execution_id)
        number = made[step] if page.entry is not None else one.attempt
        print("\n".join(_attempt(one, number, record, now_us)))
    if page.result is not None and page.entry is not None:
        print("result")
        name = f"{short_id(page.run_id)} {page.entry.task.task_id}"
        results.put(page.result, console(), name)


def _definition(entry: orchestrator_pb2.TaskEntry) -> Iterator[str]:
    task, spec = entry.task, entry.spec
    title = f"  {one_line(spec.title)}" if spec.title else ""
    yield f"task {one_line(task.task_id)}  {word(TaskStatus, task.status)}{title}"
    fields = {"type": spec.type, "role": spec.role, "after": ", ".join(spec.depends_on)}
    if task.journal.entries:
        entries = "entry" if task.journal.entries == 1 else "entries"
        fields["calls"] = f"{task.journal.entries:,} {entries}; stepwell journal shows them"
    if task.waits:
        fields["waits"] = ", ".join(one.call for one in task.waits)
    for name, value in fields.items():
        if value:
            yield f"{name:<6} {one_line(value)}"
    if spec.prompt:
        yield from _block("prompt of the task", spec.prompt)


def _attempt(
    one: types_pb2.Execution, number: int, record: ExecutionRecord | None, now_us: int
) -> Iterator[str]:
    released = one.status == ExecutionStatus.RELEASED
    parts = [
        "no attempt" if released else f"attempt {number}",
        one.execution_id,
        word(ExecutionStatus, one.status),
    ]
    if one.worker_id:
        parts.append(f"by {one.worker_id}")
    if began := micros(one.leased_time):
        parts.append(span((micros(one.ended_time) or now_us) - began))
    if one.usage.input_tokens or one.usage.output_tokens:
        parts.append(f"{one.usage.input_tokens:,} tokens in, {one.usage.output_tokens:,} out")
    if one.usage.model:
        parts.append(one.usage.model)
    yield "  ".join(one_line(part) for part in parts)
    if one.unknown_call:
        yield f"{_INDENT}nobody knows what became of its call {one_line(one.unknown_call)}"
    if why := describe.failure(one.failure):
        yield _INDENT + why
    if one.failure.details:
        yield from _block("", one.failure.details)
    if record is not None:
        yield from _block("prompt", record.prompt)
        yield from _block("response", record.response)


def _block(title: str, text: str) -> Iterator[str]:
    if not text:
        return
    if title:
        yield f"{_INDENT}{title}"
    for line in lines(text).splitlines():
        yield f"{_INDENT}  {line}"

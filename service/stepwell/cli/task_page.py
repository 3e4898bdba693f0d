"""A task for `stepwell show RUN TASK`: its definition, its attempts with what they recorded and wrote, its result."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from stepwell.cli import describe, results
from stepwell.cli.exits import CliError
from stepwell.cli.json_output import document
from stepwell.cli.log_lines import call_lines, log_head, log_text, message_head
from stepwell.cli.terminal import console
from stepwell.cli.text import count, lines, micros, one_line, short_id, span
from stepwell_client import ExecutionRecord, ExecutionStatus, TaskStatus, word
from stepwell_client.internal import SyncMessageClient
from stepwell_client.v1 import orchestrator_pb2, types_pb2

Item = TypeVar("Item")
_INDENT = "    "
_LAST_MAX = 20
"""The number of messages, calls and log entries that are shown: the last ones."""
_VALUE_LINES_MAX = 40


class TaskPage(NamedTuple):
    """A task, or one execution of any step, as it stands."""

    run_id: str
    entry: orchestrator_pb2.TaskEntry | None
    """None: an execution was named."""
    executions: Sequence[types_pb2.Execution]
    records: dict[str, ExecutionRecord]
    """Records that hold anything, by execution id."""
    result: orchestrator_pb2.Result | None
    messages: Sequence[types_pb2.Message]
    calls: Sequence[types_pb2.StoredEntry]
    logs: Sequence[types_pb2.LogEntry]
    """All, or the last ones: one more than are shown."""


def read(client: SyncMessageClient, run_id: str, name: str, *, whole: bool) -> TaskPage:
    """Read the task or execution of that id; `whole`: all that it wrote, not only the last of it.

    Raises CliError where the run has neither.
    """
    kept_max = None if whole else _LAST_MAX + 1
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
    task_id, execution_id = (name, "") if entry is not None else ("", name)
    said = client.messages(run_id, task_id=executions[-1].task_id if executions else name)
    with client.logs(run_id, task_id=task_id, execution_id=execution_id) as entries:
        logs = deque(entries, kept_max)
    return TaskPage(
        run_id,
        entry,
        executions,
        {key: one for key, one in records.items() if any(one)},
        result,
        deque((one for one in said if entry is not None or one.execution_id == name), kept_max),
        deque(client.journal(run_id, task_id=task_id, execution_id=execution_id), kept_max),
        logs,
    )


def as_json(page: TaskPage) -> dict[str, Any]:
    """Return the page by the field names of the protocol."""
    shown: dict[str, Any] = {
        "executions": [document(one) for one in page.executions],
        "records": {key: one._asdict() for key, one in page.records.items()},
        "messages": [document(one) for one in page.messages],
        "journal": [document(one) for one in page.calls],
        "logs": [document(one) for one in page.logs],
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
        print("\n".join(attempt(one, number, record, now_us)))
    for line in _written(page):
        print(line)
    if page.result is not None and page.entry is not None:
        print("result")
        name = f"{short_id(page.run_id)} {page.entry.task.task_id}"
        results.put(page.result, console(), name)


def _written(page: TaskPage) -> Iterator[str]:
    """Yield what the attempts said, called and logged, the last of each."""
    run = short_id(page.run_id)
    task = page.entry.task.task_id if page.entry is not None else ""
    of_task = f" {task}" if task else ""
    yield from _section("messages", f"stepwell messages {run}{of_task}", page.messages, _message)
    yield from _section("calls", f"stepwell journal {run}{of_task}", page.calls, call_lines)
    option = f" --task {task}" if task else f" --execution {page.executions[0].execution_id}"
    yield from _section("log", f"stepwell logs {run}{option}", page.logs, _log_lines)


def _section(
    title: str,
    command: str,
    items: Sequence[Item],
    show: Callable[[Item], Iterable[str]],
) -> Iterator[str]:
    if not items:
        return
    shown = list(items)[-_LAST_MAX:]
    yield f"{title}  (the last {_LAST_MAX}; all: {command})" if len(items) > _LAST_MAX else title
    for item in shown:
        for line in show(item):
            yield f"{_INDENT}{line}"


def _message(message: types_pb2.Message) -> Iterator[str]:
    yield message_head(message)
    for line in _cut(lines(message.content)):
        yield f"  {line}"


def _log_lines(entry: types_pb2.LogEntry) -> Iterator[str]:
    first, *others = _cut(log_text(entry)) or [""]
    yield log_head(entry) + first
    for line in others:
        yield f"  {line}"


def _cut(text: str) -> list[str]:
    """Return the text's lines, and of a long text its beginning."""
    all_lines = text.splitlines()
    kept = all_lines[:_VALUE_LINES_MAX]
    left = len(all_lines) - len(kept)
    return [*kept, f"… and {count(left, 'line')}"] if left else kept


def _definition(entry: orchestrator_pb2.TaskEntry) -> Iterator[str]:
    task, spec = entry.task, entry.spec
    title = f"  {one_line(spec.title)}" if spec.title else ""
    yield f"task {one_line(task.task_id)}  {word(TaskStatus, task.status)}{title}"
    fields = {
        "type": spec.type,
        "role": spec.role,
        "after": ", ".join(spec.depends_on),
        "effect": "AT_MOST_ONCE" if spec.effect == types_pb2.EFFECT_AT_MOST_ONCE else "",
        "key": spec.idempotency_key,
    }
    if task.waits:
        fields["waits"] = ", ".join(one.call for one in task.waits)
    for name, value in fields.items():
        if value:
            yield f"{name:<6} {one_line(value)}"
    if spec.prompt:
        yield from _block("prompt of the task", spec.prompt)
    if spec.HasField("input"):
        text = results.text(spec.input)
        shown = f"{len(spec.input.data):,} bytes of {spec.input.media_type}"
        yield from _block("input", "\n".join(_cut(shown if text is None else text)))


def attempt(
    one: types_pb2.Execution, number: int, record: ExecutionRecord | None, now_us: int
) -> Iterator[str]:
    """Yield the lines of an attempt: who made it, how it ended, its failure with the traceback, what it recorded."""
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

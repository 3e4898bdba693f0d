"""A task for `stepwell show RUN TASK`: its definition, its attempts with what they recorded and wrote, its result."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, TypeVar

from stepwell.cli.exits import CliError
from stepwell.cli.view import describe, results
from stepwell.cli.view.log_lines import call_lines, log_head, log_text, message_head
from stepwell.cli.view.terminal import console
from stepwell.cli.view.text import count, lines, micros, one_line, short_id, span
from stepwell_client import (
    Effect,
    Execution,
    ExecutionStatus,
    JournalEntry,
    LogEntry,
    Message,
    Payload,
    Result,
    RunTask,
    SyncClient,
    Task,
    TaskStatus,
    Transcript,
)

Item = TypeVar("Item")
_INDENT = "    "
_LAST_MAX = 20
"""The number of messages, calls and log entries that are shown: the last ones."""
_VALUE_LINES_MAX = 40


class TaskPage(NamedTuple):
    """A task, or one execution of any step, as it stands."""

    run_id: str
    entry: RunTask | None
    """None: an execution was named."""
    executions: Sequence[Execution]
    transcripts: dict[str, Transcript]
    """Transcripts that hold anything, by execution id."""
    result: Result | None
    messages: Sequence[Message]
    calls: Sequence[JournalEntry]
    logs: Sequence[LogEntry]
    """All, or the last ones: one more than are shown."""


def read(client: SyncClient, run_id: str, name: str, *, whole: bool) -> TaskPage:
    """Read the task or execution of that id; `whole`: all that it wrote, not only the last of it.

    Raises CliError where the run has neither.
    """
    kept_max = None if whole else _LAST_MAX + 1
    entry = None
    for one in client.run(run_id).tasks(full_specs=True):
        if one.id == name:
            entry = one  # The last one, because a later plan may have redefined it.
    of_task = client.run(run_id).executions(task_id=name if entry is not None else "")
    executions = [one for one in of_task if entry is not None or one.id == name]
    if entry is None and not executions:
        short = short_id(run_id)
        raise CliError(
            f"run {short} has no task or execution {name!r}; see: stepwell show {short} --all"
        )
    transcripts = {one.id: client.run(run_id).transcript(one.id) for one in executions}
    result = None
    if entry is not None and entry.status == TaskStatus.COMPLETED:
        result = next(iter(client.run(run_id).results(task_ids=[name]).results), None)
    task_id, execution_id = (name, "") if entry is not None else ("", name)
    said = client.run(run_id).messages(task_id=executions[-1].task_id if executions else name)
    with client.run(run_id).logs(task_id=task_id, execution_id=execution_id) as entries:
        logs = deque(entries, kept_max)
    return TaskPage(
        run_id,
        entry,
        executions,
        {key: one for key, one in transcripts.items() if one != Transcript()},
        result,
        deque((one for one in said if entry is not None or one.execution_id == name), kept_max),
        deque(client.run(run_id).journal(task_id=task_id, execution_id=execution_id), kept_max),
        logs,
    )


def as_json(page: TaskPage) -> dict[str, Any]:
    """Return the page by the field names of the protocol."""
    shown: dict[str, Any] = {
        "executions": page.executions,
        "records": {key: asdict(one) for key, one in page.transcripts.items()},
        "messages": page.messages,
        "journal": page.calls,
        "logs": page.logs,
    }
    if page.entry is not None:
        shown["task"] = page.entry
    if page.result is not None:
        shown["result"] = results.plain(page.result)
    return shown


def put(page: TaskPage, now_us: int) -> None:
    """Print the page for people."""
    if page.entry is not None:
        print("\n".join(_definition(page.entry)))
    made: Counter[str] = Counter()
    for one in page.executions:
        step = one.id.rpartition("#")[0]
        # What was handed back is no attempt, though it has a number of its own.
        made[step] += one.status != ExecutionStatus.RELEASED
        record = page.transcripts.get(one.id)
        number = made[step] if page.entry is not None else one.attempt
        print("\n".join(attempt(one, number, record, now_us)))
    for line in _written(page):
        print(line)
    if page.result is not None and page.entry is not None:
        print("result")
        name = f"{short_id(page.run_id)} {page.entry.id}"
        results.put(page.result, console(), name)


def _written(page: TaskPage) -> Iterator[str]:
    """Yield what the attempts said, called and logged, the last of each."""
    run = short_id(page.run_id)
    task = page.entry.id if page.entry is not None else ""
    of_task = f" {task}" if task else ""
    yield from _section("messages", f"stepwell messages {run}{of_task}", page.messages, _message)
    yield from _section("calls", f"stepwell journal {run}{of_task}", page.calls, call_lines)
    option = f" --task {task}" if task else f" --execution {page.executions[0].id}"
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


def _message(message: Message) -> Iterator[str]:
    yield message_head(message)
    for line in _cut(lines(message.content)):
        yield f"  {line}"


def _log_lines(entry: LogEntry) -> Iterator[str]:
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


def _gathers(spec: Task) -> str:
    rules = {"at least": spec.at_least, "failures at most": spec.failures_max}
    return ", ".join([spec.gathers, *(f"{name} {value}" for name, value in rules.items() if value)])


def _definition(entry: RunTask) -> Iterator[str]:
    task, spec = entry, entry.definition
    title = f"  {one_line(spec.title)}" if spec.title else ""
    yield f"task {one_line(task.id)}  {task.status.name}{title}"
    fields = {
        "type": spec.type,
        "role": spec.role,
        "after": ", ".join(spec.depends_on),
        "effect": "AT_MOST_ONCE" if spec.effect == Effect.AT_MOST_ONCE else "",
        "key": spec.idempotency_key,
        "group": spec.group,
        "gathers": _gathers(spec),
    }
    if task.waits:
        fields["waits"] = ", ".join(one.call for one in task.waits)
    for name, value in fields.items():
        if value:
            yield f"{name:<6} {one_line(value)}"
    if spec.prompt:
        yield from _block("prompt of the task", spec.prompt)
    if isinstance(spec.input, Payload):
        text = results.text(spec.input)
        shown = f"{len(spec.input.data):,} bytes of {spec.input.media_type}"
        yield from _block("input", "\n".join(_cut(shown if text is None else text)))


def attempt(one: Execution, number: int, record: Transcript | None, now_us: int) -> Iterator[str]:
    """Yield the lines of an attempt: who made it, how it ended, its failure with the traceback, what it recorded."""
    released = one.status == ExecutionStatus.RELEASED
    parts = [
        "no attempt" if released else f"attempt {number}",
        one.id,
        one.status.name,
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
    if one.failure is not None and one.failure.details:
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

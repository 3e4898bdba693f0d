"""Lines for what steps wrote: log entries, messages of conversations, and what calls recorded."""

from __future__ import annotations

from collections.abc import Iterator

from stepwell.cli.text import count, lines, micros, moment, one_line, span
from stepwell_client import LogKind
from stepwell_client.v1 import types_pb2


def step_of(execution_id: str) -> str:
    """Return an execution's id as people read it: tasks are most of them."""
    return one_line(execution_id.removeprefix("task:"))


def log_head(entry: types_pb2.LogEntry) -> str:
    """Return the beginning of a log entry's line: its time and its execution."""
    clock = moment(micros(entry.written_time)).rpartition(" ")[2]
    return f"{clock}  {step_of(entry.execution_id)}  "


def log_text(entry: types_pb2.LogEntry) -> str:
    """Return the text of a log entry, with its level where that is another than INFO."""
    is_plain = entry.kind == LogKind.CHUNK or entry.level == "INFO"
    level = "" if is_plain else f"{one_line(entry.level)}: "
    return f"{level}{lines(entry.text)}"


def message_head(message: types_pb2.Message) -> str:
    """Return the line above a message: who says it, and in which attempt."""
    number = f" {message.number}" if message.number else ""
    session = message.session.session_id
    suffix = f", session {session}" if session else ""
    return one_line(f"{message.role}{number} ({step_of(message.execution_id)}{suffix})")


def call_lines(stored: types_pb2.StoredEntry, *, values: bool = False) -> Iterator[str]:
    """Yield the lines of an entry of a journal, with its value if that is wanted."""
    entry = stored.entry
    clock = moment(micros(stored.written_time)).rpartition(" ")[2]
    # An answer or a finding came without an attempt.
    step = step_of(stored.execution_id or stored.journal)
    took = f", {span(entry.took.ToMicroseconds())}" if entry.took.ToMicroseconds() else ""
    yield f"{clock}  {step}  {one_line(entry.key)}  {_state(stored)}{took}"
    if values and entry.HasField("value"):
        yield lines(entry.value.data.decode(errors="replace"))


def _state(stored: types_pb2.StoredEntry) -> str:
    entry = stored.entry
    if entry.mark == types_pb2.JOURNAL_MARK_BEGIN:
        return f"began, run {entry.number}"
    if entry.mark == types_pb2.JOURNAL_MARK_TRY:
        failure = entry.failure
        words = f"{failure.kind}: {failure.message}" if failure.kind else failure.message
        return f"failed, run {entry.number}: {one_line(words)}"
    if entry.mark == types_pb2.JOURNAL_MARK_WAIT:
        return f"sleeps until {moment(micros(stored.until_time))}"
    return f"done, {count(stored.size, 'byte')}"

"""Lines for what steps wrote: log entries, messages of conversations, and what calls recorded."""

from __future__ import annotations

from collections.abc import Iterator

from stepwell.cli.view.describe import failure
from stepwell.cli.view.text import count, lines, micros, moment, one_line, span, span_us
from stepwell_client import JournalEntry, LogEntry, LogKind, Message
from stepwell_client.enums import JournalMark


def step_of(execution_id: str) -> str:
    """Return an execution's id as people read it: tasks are most of them."""
    return one_line(execution_id.removeprefix("task:"))


def log_head(entry: LogEntry) -> str:
    """Return the beginning of a log entry's line: its time and its execution."""
    clock = moment(micros(entry.written_time)).rpartition(" ")[2]
    return f"{clock}  {step_of(entry.execution_id)}  "


def log_text(entry: LogEntry) -> str:
    """Return the text of a log entry, with its level where that is another than INFO."""
    is_plain = entry.kind == LogKind.CHUNK or entry.level == "INFO"
    level = "" if is_plain else f"{one_line(entry.level)}: "
    return f"{level}{lines(entry.text)}"


def message_head(message: Message) -> str:
    """Return the line above a message: who says it, and in which attempt."""
    number = f" {message.number}" if message.number else ""
    session = message.session.session_id if message.session is not None else ""
    suffix = f", session {session}" if session else ""
    return one_line(f"{message.role}{number} ({step_of(message.execution_id)}{suffix})")


def call_lines(entry: JournalEntry, *, values: bool = False) -> Iterator[str]:
    """Yield the lines of an entry of a journal, with its value if that is wanted."""
    clock = moment(micros(entry.written_time)).rpartition(" ")[2]
    # An answer or a finding came without an attempt.
    step = step_of(entry.execution_id or entry.journal)
    took = f", {span(span_us(entry.took))}" if entry.took else ""
    yield f"{clock}  {step}  {one_line(entry.key)}  {_state(entry)}{took}"
    if values and entry.value is not None:
        yield lines(entry.value.data.decode(errors="replace"))


def _state(entry: JournalEntry) -> str:
    if entry.mark == JournalMark.BEGIN:
        return f"began, run {entry.number}"
    if entry.mark == JournalMark.TRY:
        return f"failed, run {entry.number}: {failure(entry.failure)}"
    if entry.mark == JournalMark.WAIT:
        return f"sleeps until {moment(micros(entry.until_time))}"
    return f"done, {count(entry.size, 'byte')}"

"""The pairs of records and messages.

Every record of `core.records` except the loop's own, and of `core.port`, what a worker
delivers (`core.loop.occurrences`), and the requests and responses of the Store service (`wire.store`) have
the message of their own name, with the exceptions below. Records of which callers see a part have two messages: the
whole in `stepwell.store.v1`, and that part in `stepwell.v1`.
"""

from __future__ import annotations

import inspect
from types import ModuleType

from google.protobuf.message import Message
from scripts.conversions.fields import Pair

from stepwell.core import port
from stepwell.core.loop import occurrences
from stepwell.core.records import (
    checkpoints,
    counts,
    events,
    family,
    journal,
    model,
    routing,
    step_journal,
    task_spec,
    threads,
)
from stepwell.core.records.record import Record
from stepwell.wire.store import METHODS
from stepwell_client.store.v1 import store_pb2
from stepwell_client.v1 import types_pb2, worker_pb2

_IS_SET_APART = "the servicer reads it and passes it along with the record"
_EXCEPTIONS: tuple[Pair, ...] = (
    # The stored outcome and the reported one have a name each in the protocol.
    Pair(model.Outcome, store_pb2.StoredOutcome),
    # What the orchestrator lists by that name are the events of these.
    Pair(checkpoints.Checkpoint, store_pb2.StoredCheckpoint),
    Pair(step_journal.Source, store_pb2.JournalSource),
    Pair(step_journal.Wait, types_pb2.Wait, renamed={"key": "call"}),
    Pair(port.JournalPage, worker_pb2.JournalPage, renamed={"cursor": "next_page_token"}),
    Pair(journal.Entry, types_pb2.JournalEntry, checked=True),
    Pair(journal.Totals, store_pb2.JournalTotals),
    # What a worker sends, and is answered, is shaped for it; these are the store's.
    Pair(port.JournalWrite, store_pb2.JournalWrite),
    Pair(port.EntryAck, store_pb2.EntryAck),
    Pair(port.JournalAck, store_pb2.JournalAck),
    Pair(model.TaskSpec, types_pb2.TaskSpec, checked=True),
    Pair(model.Tally, store_pb2.Tally, renamed={"repeats": "alike"}),
    Pair(
        port.Assignment,
        worker_pb2.Assignment,
        renamed={"token": "lease.token", "lease_ms": "lease_duration"},
    ),
    Pair(
        occurrences.Delivery,
        worker_pb2.Outcome,
        renamed={"token": "lease.token", "execution_id": "lease.execution_id"},
        message_only={"delivery_id": _IS_SET_APART},
        checked=True,
    ),
    Pair(
        occurrences.Begin,
        worker_pb2.Begin,
        renamed={"token": "lease.token", "execution_id": "lease.execution_id"},
        message_only={"delivery_id": _IS_SET_APART},
        checked=True,
    ),
    Pair(task_spec.ChildRun, types_pb2.ChildRun, renamed={"tasks": "plan"}),
    # A plan draft is a message of its own; the loop's record has its tasks.
    Pair(occurrences.Planned, worker_pb2.Outcome.Planned, renamed={"tasks": "plan"}),
    Pair(occurrences.Reflected, worker_pb2.Outcome.Reflected, renamed={"tasks": "plan"}),
    Pair(occurrences.Completed, worker_pb2.Outcome.Completed, renamed={"tasks": "more"}),
    Pair(occurrences.Failed, worker_pb2.Outcome.Failed),
    Pair(occurrences.NeedsAnswer, worker_pb2.Outcome.NeedsAnswer),
    Pair(occurrences.Released, worker_pb2.Outcome.Released),
    Pair(occurrences.Reconciled, worker_pb2.Outcome.Reconciled),
    Pair(occurrences.Suspended, worker_pb2.Outcome.Suspended),
    Pair(occurrences.SuspendedCall, worker_pb2.Outcome.SuspendedCall),
    Pair(occurrences.Sleep, worker_pb2.Outcome.Sleep),
    Pair(occurrences.BudgetSpent, worker_pb2.Outcome.BudgetSpent),
    Pair(occurrences.AwaitSignal, worker_pb2.Outcome.AwaitSignal),
    Pair(occurrences.AwaitChild, worker_pb2.Outcome.AwaitChild, renamed={"tasks": "plan"}),
    Pair(occurrences.SignalChild, worker_pb2.Outcome.SignalChild),
    Pair(occurrences.UnknownCall, worker_pb2.Outcome.UnknownCall),
)

_TALLY = {"tasks_used": "tally.tasks", "iterations_before": "tally.iterations_before"}
_ENTRIES = {"journal_entries": "journal.entries"}
_SHOWN: tuple[Pair, ...] = (
    Pair(
        model.Run,
        types_pb2.Run,
        message_only={"waiting_for": "it depends on who is connected when the run is read"},
        derived=_TALLY,
        shown=True,
    ),
    Pair(model.RunSpec, types_pb2.RunSpec, shown=True),
    Pair(
        model.Task,
        types_pb2.Task,
        derived={"progress": "previous.progress", **_ENTRIES},
        shown=True,
    ),
    Pair(model.Execution, types_pb2.Execution, shown=True),
    Pair(events.Event, types_pb2.Event, shown=True),
    Pair(events.RunChange, types_pb2.RunChange, derived=_TALLY, shown=True),
    Pair(events.TaskChange, types_pb2.TaskChange, derived=_ENTRIES, shown=True),
    Pair(events.ExecutionChange, types_pb2.ExecutionChange, shown=True),
)
"""The parts of the loop's records that callers see."""


_GENERIC = (Record, port.Query, port.Page)
"""Records that no message carries by themselves."""


def _records(module: ModuleType) -> list[type[Record]]:
    """Return the records that a module defines, itself and not by import."""
    return [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind)
        and issubclass(kind, Record)
        and kind not in _GENERIC
        and kind.__module__ == module.__name__
        and not kind.__name__.startswith("_")
    ]


def _message_of(record: type[Record]) -> type[Message]:
    for module in (store_pb2, types_pb2, worker_pb2):
        kind = getattr(module, record.__name__, None)
        if kind is not None:
            return kind
    raise TypeError(f"the protocol has no message {record.__name__}")


def pairs() -> list[Pair]:
    """Return all pairs.

    Raises:
        TypeError: a record has no message of its name.
    """
    apart = {pair.record for pair in _EXCEPTIONS}
    modules = (
        model,
        counts,
        family,
        routing,
        step_journal,
        events,
        checkpoints,
        journal,
        task_spec,
        threads,
        port,
    )
    records = [kind for module in modules for kind in _records(module)]
    same_name = [kind for kind in records if kind not in apart]
    calls = [kind for method in METHODS.values() for kind in (method.request, method.response)]
    same = (Pair(kind, _message_of(kind)) for kind in (*same_name, *calls))
    return [*same, *_EXCEPTIONS, *_SHOWN]

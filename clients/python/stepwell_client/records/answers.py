"""Records that several messages, or parts of one, are read into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, overload

from stepwell_client.enums import TaskStatus
from stepwell_client.records.messages_pb2 import Queue, Result
from stepwell_client.records.payloads import decode
from stepwell_client.records.record import Record
from stepwell_client.records.results import Results

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Transcript(Record):
    """An execution's prompt and its model's response; empty if it recorded none."""

    prompt: str = ""
    """The prompt."""
    response: str = ""
    """The model's response."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunResults(Record):
    """Results of a run and of its tasks."""

    run_result: Result | None = None
    """The run's own result; None: it has not SUCCEEDED, or its tasks' results are the answer."""
    results: tuple[Result, ...] = ()
    """Results of its tasks, or of the requested executions."""

    @property
    def tasks(self) -> Results:
        """The results of completed tasks, decoded, by id."""
        done = [one for one in self.results if one.status == TaskStatus.COMPLETED]
        return Results({one.task_id: one.payload and one.payload.message() for one in done})

    @overload
    def answer(self, kind: type[T]) -> T: ...
    @overload
    def answer(self, kind: Any = Any) -> Any: ...
    def answer(self, kind: Any = Any) -> Any:
        """Return the run's own result decoded as the type, or else a dict of its tasks' results."""
        if self.run_result is None:
            return dict(self.tasks)
        payload = self.run_result.payload
        return decode(None if payload is None else payload.message(), kind)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class QueueList(Record):
    """The queues that have a limit, a worker or a waiting run."""

    queues: tuple[Queue, ...] = ()
    """The queues, by name."""
    complete: bool = True
    """False: more runs wait, or more steps run, than were counted, so the numbers are lower bounds."""

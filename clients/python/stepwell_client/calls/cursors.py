"""Positions of watches, without the network: the effect of a message, and when to reconnect.

A watch is a series of streams. Its cursor moves with the items that were returned, so the next
stream begins right after them: nothing is lost, and duplicates are dropped. `Watch` reads the
streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypedDict, TypeVar

import grpc

from stepwell_client.enums import EventType, LogKind, RunStatus, to_wire
from stepwell_client.errors import (
    RunPurged,
    ServerError,
    StepwellClientError,
    Unauthenticated,
    Unavailable,
)
from stepwell_client.link.outages import Retries
from stepwell_client.records.plans import Span, duration
from stepwell_client.v1 import orchestrator_pb2, types_pb2

Item = TypeVar("Item")
MessageT = TypeVar("MessageT")
RequestT = TypeVar("RequestT")

_BROKEN = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
"""Codes of a connection that was reset within a message."""


class WatchOptions(TypedDict, total=False):
    """Filters of a run's events, and how often an idle stream sends progress."""

    types: Iterable[EventType]
    """Only events of these types; none: of all types."""
    task_ids: Iterable[str]
    """Only events about these tasks; none: about all tasks, and about none."""
    progress_interval: Span | None
    """The interval at which an idle stream reports its position; None: 15 s."""


class WatchRunsOptions(TypedDict, total=False):
    """Filters of the runs that are watched, and how often an idle stream sends progress."""

    pipeline: str
    """Only runs of this pipeline."""
    statuses: Iterable[RunStatus]
    """Only runs of these statuses; none: of all statuses."""
    labels: Mapping[str, str] | None
    """Only runs with all of these labels."""
    root_run_id: str
    """Only this run, which no run started, and all child runs below it; each update has the events of a commit."""
    thread: str
    """Only the runs of this thread, with the events of each commit, and its messages; it doesn't go with `root_run_id`."""
    after_message: int | None
    """With `thread`, and without a cursor of such a watch: messages with greater numbers. None: all, or with the cursor
    `now` those to come.
    """
    chunks: bool
    """With `thread`: also what the run that works streams, as `chunks` of an update."""
    progress_interval: Span | None
    """The interval at which an idle stream reports its position; None: 15 s."""


class LogOptions(TypedDict, total=False):
    """Filters of a run's log, and how often an idle stream sends progress."""

    task_id: str
    """Only entries of this task."""
    execution_id: str
    """Only entries of this attempt."""
    kinds: Iterable[LogKind]
    """Only entries of these kinds; none: of all kinds."""
    progress_interval: Span | None
    """The interval at which an idle stream reports its position; None: 15 s."""


class Cursor(ABC, Generic[RequestT, MessageT, Item]):
    """The position of a watch. A client reads streams, and the cursor tells it what to do."""

    method = ""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._outage = retries.outage(retries.reconnect_seconds)
        self._worked = False
        self._renewed = False
        self.over = False
        """True once the watch has ended."""
        self.broken = False
        """True once this stream can't be used any more."""
        self.received_at = retries.runtime.monotonic()
        """The time of the last message by the runtime's clock; before the first one, the time of the start."""
        self.run: types_pb2.Run | None = None
        """The run after its end; None before it, and for watches of more than one run's events."""

    @property
    @abstractmethod
    def position(self) -> Any:
        """The position after the last item, from which another watch continues."""

    @abstractmethod
    def request(self) -> RequestT:
        """Return the request for the next stream."""

    @abstractmethod
    def accept(self, message: MessageT) -> Iterable[Item]:
        """Take over a message; return its new items, each to be taken."""

    def opened(self) -> None:
        """Begin with another stream."""
        self.broken = False

    def lost(self, error: StepwellClientError | None) -> float:
        """Return how many seconds to wait before the next stream; raise if there must be none."""
        if isinstance(error, Unauthenticated) and not self._renewed:
            self._renewed = self._retries.access.reload()
            if self._renewed:
                return 0.0
        if error is not None and not _is_loss(error):
            raise error
        # An unreachable server may be starting; one that breaks every stream may do so without end.
        patient = self._worked or isinstance(error, Unavailable)
        ended = Unavailable("it ends the watch again and again", reason="WATCH_ENDED")
        return self._outage.pause(error or ended, patient=patient)

    def _received(self) -> None:
        """Note that the stream works."""
        self._worked = True
        self._renewed = False
        self.received_at = self._retries.runtime.monotonic()
        self._outage.end()

    def _accept_end(self, reason: orchestrator_pb2.WatchEndReason, what: str) -> None:
        """End the watch if it is FINISHED, raise if PURGED, else reconnect."""
        if reason == orchestrator_pb2.WATCH_END_REASON_FINISHED:
            self.over = True
        elif reason == orchestrator_pb2.WATCH_END_REASON_PURGED:
            raise RunPurged(f"{what} was deleted while it was watched")
        else:
            self.broken = True


def _is_loss(error: StepwellClientError) -> bool:
    if isinstance(error, ServerError):
        return error.status in _BROKEN
    return isinstance(error, Unavailable)


class RunCursor(
    Cursor[orchestrator_pb2.WatchRunRequest, orchestrator_pb2.WatchRunResponse, types_pb2.Event]
):
    """A position in the events of one run."""

    method = "WatchRun"

    def __init__(self, retries: Retries, run_id: str, after: int, options: WatchOptions) -> None:
        super().__init__(retries)
        self._request = orchestrator_pb2.WatchRunRequest(
            run_id=run_id,
            types=[to_wire(kind) for kind in options.get("types", ())],
            task_ids=options.get("task_ids"),
            progress_interval=duration(options.get("progress_interval")),
        )
        self._complete = not self._request.types and not self._request.task_ids
        self.after = after
        """The number of the last event that was returned or filtered out."""

    @property
    def position(self) -> int:
        return self.after

    def request(self) -> orchestrator_pb2.WatchRunRequest:
        self._request.resume_token = str(self.after)
        return self._request

    def accept(self, message: orchestrator_pb2.WatchRunResponse) -> Iterable[types_pb2.Event]:
        kind = message.WhichOneof("message")
        if kind == "events":
            return self._accept_events(message.events)
        if kind == "progress":
            self._received()
            self.after = max(self.after, int(message.progress.resume_token))
        elif kind == "end":
            self._accept_end(message.end.reason, f"run {self._request.run_id}")
            if self.over and message.end.HasField("run"):
                self.run = message.end.run
        return ()

    def _accept_events(self, batch: orchestrator_pb2.EventBatch) -> Iterable[types_pb2.Event]:
        fresh = [event for event in batch.events if event.number > self.after]
        if self._complete and fresh and fresh[0].number != self.after + 1:
            self.broken = True  # Something is missing: ask again from here.
            return ()
        self._received()
        return self._passing(fresh, int(batch.resume_token))

    def _passing(
        self, events: Sequence[types_pb2.Event], covered: int
    ) -> Iterator[types_pb2.Event]:
        """Yield a message's events. The position passes each with it, and with the last all that the message covers."""
        for event in events[:-1]:
            self.after = event.number
            yield event
        self.after = max(self.after, covered, *(event.number for event in events[-1:]))
        yield from events[-1:]


class TokenCursor(Cursor[RequestT, MessageT, Item]):
    """A position that only the server understands."""

    cursor = ""
    """The position, from which another stream continues."""

    @property
    def position(self) -> str:
        return self.cursor

    def _passing(self, items: Sequence[Item], resume_token: str) -> Iterator[Item]:
        """Yield a message's items. The position passes them with the last one, so that none is lost to a reader that
        goes on from it elsewhere.
        """
        for index, item in enumerate(items, 1):
            if index == len(items):
                self.cursor = resume_token or self.cursor
            yield item


class RunsCursor(
    TokenCursor[
        orchestrator_pb2.WatchRunsRequest,
        orchestrator_pb2.WatchRunsResponse,
        orchestrator_pb2.RunUpdate,
    ]
):
    """A position in the commits of all runs."""

    method = "WatchRuns"

    def __init__(self, retries: Retries, cursor: str, options: WatchRunsOptions) -> None:
        super().__init__(retries)
        self._request = orchestrator_pb2.WatchRunsRequest(
            pipeline_id=options.get("pipeline", ""),
            statuses=[to_wire(status) for status in options.get("statuses", ())],
            labels=options.get("labels"),
            root_run_id=options.get("root_run_id", ""),
            thread_id=options.get("thread", ""),
            after_message=options.get("after_message"),
            chunks=options.get("chunks", False),
            progress_interval=duration(options.get("progress_interval")),
        )
        self.cursor = cursor

    def request(self) -> orchestrator_pb2.WatchRunsRequest:
        self._request.resume_token = self.cursor
        return self._request

    def accept(
        self, message: orchestrator_pb2.WatchRunsResponse
    ) -> Iterable[orchestrator_pb2.RunUpdate]:
        kind = message.WhichOneof("message")
        if kind == "updates":
            self._received()
            batch = message.updates
            return self._passing(batch.updates, batch.resume_token)
        if kind == "progress":
            self._received()
            self.cursor = message.progress.resume_token or self.cursor
        elif kind == "end":
            self._accept_end(message.end.reason, "what")
        return ()


class LogCursor(
    TokenCursor[
        orchestrator_pb2.WatchLogsRequest,
        orchestrator_pb2.WatchLogsResponse,
        types_pb2.LogEntry,
    ]
):
    """A position in the log of one run."""

    method = "WatchLogs"

    def __init__(
        self, retries: Retries, run_id: str, cursor: str, options: LogOptions, *, follow: bool
    ) -> None:
        super().__init__(retries)
        self._request = orchestrator_pb2.WatchLogsRequest(
            run_id=run_id,
            task_id=options.get("task_id", ""),
            execution_id=options.get("execution_id", ""),
            kinds=[to_wire(kind) for kind in options.get("kinds", ())],
            follow=follow,
            progress_interval=duration(options.get("progress_interval")),
        )
        self.cursor = cursor

    def request(self) -> orchestrator_pb2.WatchLogsRequest:
        self._request.resume_token = self.cursor
        return self._request

    def accept(self, message: orchestrator_pb2.WatchLogsResponse) -> Iterable[types_pb2.LogEntry]:
        kind = message.WhichOneof("message")
        if kind == "entries":
            self._received()
            return self._passing(message.entries.entries, message.entries.resume_token)
        if kind == "progress":
            self._received()
            self.cursor = message.progress.resume_token or self.cursor
        elif kind == "end":
            self._accept_end(message.end.reason, f"run {self._request.run_id}")
            if self.over:
                self.cursor = message.end.resume_token or self.cursor
        return ()

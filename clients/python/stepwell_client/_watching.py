"""Watches without the network: where they stand, what a message brings, when to come again.

A watch is one stream after another. Its cursor moves with what was handed on, so the next stream
begins right after it: nothing is lost, and what comes twice is dropped. `Client` and `SyncClient`
each read the streams; what the messages mean stands here, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypedDict, TypeVar

import grpc

from stepwell_client._enums import EventType, RunStatus, wire
from stepwell_client._errors import (
    RunPurged,
    ServerError,
    StepwellClientError,
    Unauthenticated,
    Unavailable,
)
from stepwell_client._plans import Span, duration
from stepwell_client._procedures import ATTEMPTS_MAX, Procedures
from stepwell_client.v1 import orchestrator_pb2, types_pb2

Item = TypeVar("Item")
MessageT = TypeVar("MessageT")
RequestT = TypeVar("RequestT")

_BROKEN = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
"""What a connection that is reset in mid-message may look like."""


class WatchOptions(TypedDict, total=False):
    """What a watch shows and how often it says that it lives."""

    types: Iterable[EventType]
    task_ids: Iterable[str]
    progress_interval: Span


class WatchRunsOptions(TypedDict, total=False):
    """Which runs are watched."""

    pipeline: str
    statuses: Iterable[RunStatus]
    labels: dict[str, str]
    progress_interval: Span


class Cursor(Generic[RequestT, MessageT, Item]):
    """Where a watch stands. A shell reads streams and asks it what to do."""

    method = ""

    def __init__(self, procedures: Procedures) -> None:
        self._procedures = procedures
        self._failures = 0
        self._lost_since: float | None = None
        self._worked = False
        self._renewed = False
        self.over = False
        """The watch has come to its end."""
        self.broken = False
        """This stream is of no more use."""

    def request(self) -> RequestT:
        """Return the request for the next stream."""
        raise NotImplementedError

    def take(self, message: MessageT) -> Sequence[Item]:
        """Take a message in; return what it brings that is new."""
        raise NotImplementedError

    def opened(self) -> None:
        """Begin with another stream."""
        self.broken = False

    def lost(self, error: StepwellClientError | None) -> float:
        """Return how many seconds to wait before the next stream; raise if there is to be none."""
        if isinstance(error, Unauthenticated) and not self._renewed:
            self._renewed = self._procedures.access.reload()
            if self._renewed:
                return 0.0
        if error is not None and not _is_loss(error):
            raise error
        self._failures += 1
        if self._lost_since is None:
            self._lost_since = self._procedures.runtime.monotonic()
        if self._worked:
            give_up = self._procedures.gives_up(self._lost_since)
        else:
            give_up = self._failures >= ATTEMPTS_MAX
        if give_up:
            raise error or Unavailable("the server ends the watch again and again")
        return self._procedures.backoff(self._failures)

    def _lives(self) -> None:
        self._worked = True
        self._renewed = False
        self._failures = 0
        self._lost_since = None

    def _take_end(self, end: orchestrator_pb2.WatchEnd, what: str) -> None:
        """FINISHED ends the watch, PURGED is an error, all else means: come again."""
        if end.reason == orchestrator_pb2.WATCH_END_REASON_FINISHED:
            self.over = True
        elif end.reason == orchestrator_pb2.WATCH_END_REASON_PURGED:
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
    """Of the events of one run."""

    method = "WatchRun"

    def __init__(
        self, procedures: Procedures, run_id: str, after: int, options: WatchOptions
    ) -> None:
        super().__init__(procedures)
        self._request = orchestrator_pb2.WatchRunRequest(
            run_id=run_id,
            types=[wire(kind) for kind in options.get("types", ())],
            task_ids=options.get("task_ids"),
            progress_interval=duration(options.get("progress_interval")),
        )
        self._complete = not self._request.types and not self._request.task_ids
        self.after = after
        """The number of the last event that was handed on or filtered out."""
        self.run: types_pb2.Run | None = None
        """With the end of the watch: the run as it ended."""

    def request(self) -> orchestrator_pb2.WatchRunRequest:
        self._request.after = self.after
        return self._request

    def take(self, message: orchestrator_pb2.WatchRunResponse) -> Sequence[types_pb2.Event]:
        kind = message.WhichOneof("message")
        if kind == "events":
            return self._take_events(message.events)
        if kind == "progress":
            self._lives()
            self.after = max(self.after, message.progress.after)
        elif kind == "end":
            self._take_end(message.end, f"run {self._request.run_id}")
            if self.over and message.end.HasField("run"):
                self.run = message.end.run
        return ()

    def _take_events(self, batch: orchestrator_pb2.EventBatch) -> Sequence[types_pb2.Event]:
        fresh = [event for event in batch.events if event.number > self.after]
        if self._complete and fresh and fresh[0].number != self.after + 1:
            self.broken = True  # Something is missing: ask again from where we are.
            return ()
        self._lives()
        last = fresh[-1].number if fresh else 0
        self.after = max(self.after, batch.next_after, last)
        return fresh


class RunsCursor(
    Cursor[
        orchestrator_pb2.WatchRunsRequest,
        orchestrator_pb2.WatchRunsResponse,
        orchestrator_pb2.RunUpdate,
    ]
):
    """Of the commits of all runs."""

    method = "WatchRuns"

    def __init__(self, procedures: Procedures, cursor: str, options: WatchRunsOptions) -> None:
        super().__init__(procedures)
        self._request = orchestrator_pb2.WatchRunsRequest(
            pipeline_id=options.get("pipeline", ""),
            statuses=[wire(status) for status in options.get("statuses", ())],
            labels=options.get("labels"),
            progress_interval=duration(options.get("progress_interval")),
        )
        self.cursor = cursor
        """Go on after it, with another watch."""

    def request(self) -> orchestrator_pb2.WatchRunsRequest:
        self._request.cursor = self.cursor
        return self._request

    def take(
        self, message: orchestrator_pb2.WatchRunsResponse
    ) -> Sequence[orchestrator_pb2.RunUpdate]:
        kind = message.WhichOneof("message")
        if kind == "updates":
            self._lives()
            self.cursor = message.updates.cursor or self.cursor
            return list(message.updates.updates)
        if kind == "progress":
            self._lives()
            self.cursor = message.progress.cursor or self.cursor
        elif kind == "end":
            self._take_end(message.end, "what")
        return ()

"""Logs and conversations of runs: where a reader of a log stands, and messages by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TypedDict

from stepwell_client._enums import LogKind, wire
from stepwell_client._parts import AsyncPart, SyncPart
from stepwell_client._plans import Span, duration
from stepwell_client._procedures import Procedure, Procedures
from stepwell_client._watching import Cursor
from stepwell_client.v1 import orchestrator_pb2, types_pb2

PAGE_SIZE = 100


class LogOptions(TypedDict, total=False):
    """What of a log is read, and how often an idle stream says that it lives."""

    task_id: str
    execution_id: str
    kinds: Iterable[LogKind]
    progress_interval: Span


class LogCursor(
    Cursor[
        orchestrator_pb2.ReadLogsRequest,
        orchestrator_pb2.ReadLogsResponse,
        types_pb2.LogEntry,
    ]
):
    """Of the log of one run."""

    method = "ReadLogs"

    def __init__(
        self,
        procedures: Procedures,
        run_id: str,
        cursor: str,
        options: LogOptions,
        *,
        follow: bool,
    ) -> None:
        super().__init__(procedures)
        self._request = orchestrator_pb2.ReadLogsRequest(
            run_id=run_id,
            task_id=options.get("task_id", ""),
            execution_id=options.get("execution_id", ""),
            kinds=[wire(kind) for kind in options.get("kinds", ())],
            follow=follow,
            progress_interval=duration(options.get("progress_interval")),
        )
        self.cursor = cursor
        """Go on after it, with another call."""

    def request(self) -> orchestrator_pb2.ReadLogsRequest:
        self._request.cursor = self.cursor
        return self._request

    def take(self, message: orchestrator_pb2.ReadLogsResponse) -> Sequence[types_pb2.LogEntry]:
        kind = message.WhichOneof("message")
        if kind == "entries":
            self._lives()
            self.cursor = message.entries.cursor or self.cursor
            return list(message.entries.entries)
        if kind == "progress":
            self._lives()
            self.cursor = message.progress.cursor or self.cursor
        elif kind == "end":
            self._take_end(
                orchestrator_pb2.WatchEnd(reason=message.end.reason),
                f"run {self._request.run_id}",
            )
            if self.over:
                self.cursor = message.end.cursor or self.cursor
        return ()


def messages_page(
    procedures: Procedures, run_id: str, task_id: str, page_token: str
) -> Procedure[orchestrator_pb2.GetMessagesResponse]:
    """Read a page of messages."""
    request = orchestrator_pb2.GetMessagesRequest(
        run_id=run_id, task_id=task_id, page_size=PAGE_SIZE, page_token=page_token
    )
    return procedures.call("GetMessages", request)


class AsyncLogs(AsyncPart):
    """Of `Client`. `logs` itself stands beside `watch`."""

    async def messages(self, run_id: str, *, task_id: str = "") -> AsyncIterator[types_pb2.Message]:
        """Yield the messages of a run's conversations, or of one task's, in the order of their commits."""
        token = ""
        while True:
            page = await self._do(messages_page(self._procedures, run_id, task_id, token))
            for message in page.messages:
                yield message
            token = page.next_page_token
            if not token:
                return


class SyncLogs(SyncPart):
    """Of `SyncClient`. `logs` itself stands beside `watch`."""

    def messages(self, run_id: str, *, task_id: str = "") -> Iterator[types_pb2.Message]:
        """Yield the messages of a run's conversations, or of one task's, in the order of their commits."""
        token = ""
        while True:
            page = self._do(messages_page(self._procedures, run_id, task_id, token))
            yield from page.messages
            token = page.next_page_token
            if not token:
                return

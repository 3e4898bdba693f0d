"""The services of a transport for the steps that it brings: the runner and the contexts of steps call them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from stepwell_client.v1 import types_pb2, worker_pb2


class StepServices(Protocol):
    """The transport's side of a step: begin, heartbeat, fetched results, journal, output.

    All are called on the event loop, except `heartbeat` and `write`, which any thread may call.
    """

    async def begin(self, assignment: worker_pb2.Assignment) -> None:
        """Make it durable that an AT_MOST_ONCE step starts; return when it is.

        Raises LeaseLost where the step must not start. Called at most once a step by the runner;
        by functions with `manual_begin` as often as they like, so a second call returns at once.
        """
        ...

    def heartbeat(
        self,
        assignment: worker_pb2.Assignment,
        progress: types_pb2.Payload | None,
        session: types_pb2.Session | None,
    ) -> None:
        """Send the step's progress and session for a later attempt. None: unchanged. Never waits."""
        ...

    async def read_results(
        self, assignment: worker_pb2.Assignment, task_ids: Sequence[str], page_token: str
    ) -> worker_pb2.ReadResultsResponse:
        """Return a page of results that the assignment lacks, as the RPC ReadResults does.

        Waits for a server that is away as long as the lease lives. Raises LeaseLost when it doesn't.
        """
        ...

    # Its journal.

    def record(
        self,
        assignment: worker_pb2.Assignment,
        recording: worker_pb2.Recording,
    ) -> asyncio.Future[worker_pb2.Recorded]:
        """Write entries into the step's journal, or drop calls from it; the future resolves once that is durable.

        The recording names no lease yet.
        Sent again until it is answered; given up only with the lease. With a lease that is LOST nothing was written.
        """
        ...

    async def read_journal(
        self, assignment: worker_pb2.Assignment, page_token: str
    ) -> worker_pb2.JournalPage:
        """Return the part of the step's journal after the page token, as the RPC ReadJournal does.

        Waits for a server that is away as long as the lease lives. Raises LeaseLost when it doesn't.
        """
        ...

    # Its output.

    def write(
        self, assignment: worker_pb2.Assignment, text: str, level: str, *, chunk: bool
    ) -> None:
        """Queue a line, or a chunk of the step's result, for the run's log.

        Any thread may call. Never waits and never raises: entries without room are left out.
        """
        ...

    async def flush(self, assignment: worker_pb2.Assignment) -> None:
        """Return when the step's log entries are stored, or can't be. Called before its outcome is sent."""
        ...

    async def save_messages(
        self,
        assignment: worker_pb2.Assignment,
        messages: Sequence[types_pb2.Message],
        after: int,
    ) -> None:
        """Append to the task's conversation now; return when that is durable.

        `after`: how many the step has appended before, so that none is appended twice. Raises LeaseLost
        where another worker has the step by now.
        """
        ...

    async def fetch_messages(
        self, assignment: worker_pb2.Assignment
    ) -> Sequence[types_pb2.Message]:
        """Return all messages of the assignment's task, in the order of their commits."""
        ...

"""The services that a transport offers to its steps: the runner and the steps' contexts call them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from stepwell_client.v1 import types_pb2, worker_pb2


class StepServices(Protocol):
    """The transport's side of a step: begin, heartbeat, fetched results, journal, output.

    All are called on the event loop, except `heartbeat` and `write`, which any thread may call.
    """

    async def begin(self, assignment: worker_pb2.Assignment) -> None:
        """Report that an AT_MOST_ONCE step starts; return once that is durable.

        Raises LeaseLost if the step must not start. The runner calls it at most once for a step.
        Functions with `manual_begin` may call it several times; a second call returns at once.
        """
        ...

    def heartbeat(
        self,
        assignment: worker_pb2.Assignment,
        progress: types_pb2.Payload | None,
        session: types_pb2.Session | None,
    ) -> None:
        """Send the step's progress and session (None: unchanged) for a later attempt. Never waits."""
        ...

    async def read_results(
        self, assignment: worker_pb2.Assignment, task_ids: Sequence[str], page_token: str
    ) -> worker_pb2.ReadResultsResponse:
        """Return a page of results that the assignment lacks, as the RPC ReadResults does.

        Waits for an unreachable server as long as the lease lives. Raises LeaseLost when it ends.
        """
        ...

    async def read_thread(
        self, assignment: worker_pb2.Assignment, *, last: int, to: int | None, state: bool
    ) -> worker_pb2.ReadThreadResponse:
        """Return the last messages of the run's thread, up to number `to`, or its state, as the RPC ReadThread does.

        All messages are in one response. Waits for an unreachable server as long as the lease lives. Raises LeaseLost when
        it ends.
        """
        ...

    # Journal.

    def write_journal(
        self,
        assignment: worker_pb2.Assignment,
        write: worker_pb2.JournalWrite,
    ) -> asyncio.Future[worker_pb2.JournalAck]:
        """Write entries into the step's journal, or drop calls from it; return a future that
        resolves once that is durable.

        The transport adds the lease. It repeats the journal write until it is answered, and gives it up
        only with the lease. If the answer's lease is LOST, nothing was written.
        """
        ...

    def follow(
        self,
        assignment: worker_pb2.Assignment,
        ended: Callable[[types_pb2.JournalEntry], None],
    ) -> None:
        """Have `ended` called with the END of each call that waits, while the step runs, when the server tells it."""
        ...

    async def read_journal(
        self, assignment: worker_pb2.Assignment, page_token: str
    ) -> worker_pb2.JournalPage:
        """Return the part of the step's journal after the page token, as the RPC ReadJournal does.

        Waits for an unreachable server as long as the lease lives. Raises LeaseLost when it ends.
        """
        ...

    # Output.

    def write(
        self, assignment: worker_pb2.Assignment, text: str, level: str, *, chunk: bool
    ) -> None:
        """Queue a line, or a chunk of the step's result, for the run's log.

        Any thread may call. Never waits and never raises; entries that don't fit are left out.
        """
        ...

    async def flush(self, assignment: worker_pb2.Assignment) -> None:
        """Return once the step's log entries are stored, or can't be. Called before the outcome is sent."""
        ...

    async def save_messages(
        self,
        assignment: worker_pb2.Assignment,
        messages: Sequence[types_pb2.Message],
        after: int,
    ) -> None:
        """Append to the task's conversation at once; return when that is durable.

        `after` is the number of messages that the step has appended before, so that none is
        appended twice. Raises LeaseLost if another worker has the step.
        """
        ...

    async def fetch_messages(
        self, assignment: worker_pb2.Assignment
    ) -> Sequence[types_pb2.Message]:
        """Return all messages of the assignment's task, in the order of their commits."""
        ...

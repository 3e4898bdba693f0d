"""The calls that read, with records in place of messages, written once for both clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, cast

from stepwell_client.calls.message_client import MessageCalls
from stepwell_client.calls.reads import ExecutionRecord
from stepwell_client.calls.requests import ListOptions
from stepwell_client.enums import BlockedKind, RunStatus
from stepwell_client.records.connected import ConnectedWorker, Queue, QueueList
from stepwell_client.records.history import (
    JournalEntry,
    Message,
    Question,
    ServerInfo,
)
from stepwell_client.records.payloads import Payload
from stepwell_client.records.reading import read, read_task, reader
from stepwell_client.records.run import (
    Checkpoint,
    Execution,
    PlanRevision,
    Result,
    Run,
    RunResults,
    RunTask,
)

T = TypeVar("T")


async def _each(messages: AsyncIterator[Any], convert: Callable[[Any], T]) -> AsyncIterator[T]:
    async with aclosing(cast("AsyncGenerator[Any, None]", messages)):
        async for message in messages:
            yield convert(message)


class RecordReads:
    """Calls that read runs and what serves them, and return records. `calls` are those beneath, with messages."""

    def __init__(self, calls: MessageCalls) -> None:
        self.calls = calls

    async def get(self, run_id: str, *, version: int = 0) -> Run:
        """Return a run as of its last commit, or as of that version."""
        return read(await self.calls.get(run_id, version=version), Run)

    def list(
        self,
        *,
        statuses: Iterable[RunStatus] = (),
        pipeline: str = "",
        queue: str = "",
        executor_id: str = "",
        labels: Mapping[str, str] | None = None,
        blocked_on: Iterable[BlockedKind] = (),
        parent_run_id: str = "",
        run_id_prefix: str = "",
        page_size: int = 0,
    ) -> AsyncIterator[Run]:
        """Yield runs, newest first, page by page.

        Args:
            statuses: Only runs of these statuses; none: of all.
            pipeline: Only runs of this kind.
            queue: Only runs whose steps wait in this queue.
            executor_id: Only runs that this one started.
            labels: Only runs with all of these labels.
            blocked_on: Only runs that wait for one of these things.
            parent_run_id: Only forks of this run.
            run_id_prefix: Only runs whose id begins with this.
            page_size: The number of runs that are read at once; 0: the server's choice.
        """
        options = ListOptions(
            statuses=statuses,
            pipeline=pipeline,
            queue=queue,
            executor_id=executor_id,
            labels=labels or {},
            blocked_on=blocked_on,
            parent_run_id=parent_run_id,
            run_id_prefix=run_id_prefix,
            page_size=page_size,
        )
        return _each(self.calls.list(**options), reader(Run))

    def tasks(
        self, run_id: str, *, full_specs: bool = False, version: int = 0
    ) -> AsyncIterator[RunTask]:
        """Yield a run's tasks with their definitions, page by page.

        Args:
            run_id: The run.
            full_specs: Read prompts and inputs, too.
            version: The tasks as of this version of the run; 0: as they stand.
        """
        entries = self.calls.tasks(run_id, full_specs=full_specs, version=version)
        return _each(entries, read_task)

    def executions(self, run_id: str, *, task_id: str = "") -> AsyncIterator[Execution]:
        """Yield every attempt at every step, or at one task, in the order in which they were offered."""
        return _each(self.calls.executions(run_id, task_id=task_id), reader(Execution))

    def plans(self, run_id: str, *, with_tasks: bool = False) -> AsyncIterator[PlanRevision]:
        """Yield the revisions of a run's plan, oldest first."""
        return _each(self.calls.plans(run_id, with_tasks=with_tasks), reader(PlanRevision))

    def checkpoints(self, run_id: str) -> AsyncIterator[Checkpoint]:
        """Yield a run's named checkpoints, oldest first, each with the run as of then."""
        return _each(self.calls.checkpoints(run_id), reader(Checkpoint))

    def messages(self, run_id: str, *, task_id: str = "") -> AsyncIterator[Message]:
        """Yield the messages of a run's conversations, or of one task's, in the order of their commits."""
        return _each(self.calls.messages(run_id, task_id=task_id), reader(Message))

    def journal(
        self,
        run_id: str,
        *,
        task_id: str = "",
        journal: str = "",
        execution_id: str = "",
        values: bool = False,
        follow: bool = False,
    ) -> AsyncIterator[JournalEntry]:
        """Yield what the calls within a run's steps recorded, in the order in which they did.

        Args:
            run_id: The run.
            task_id: Only this task, as the plan in force defines it.
            journal: Only the journal of this name.
            execution_id: Only this attempt.
            values: Read the values, too.
            follow: Go on until the run has ended.
        """
        entries = self.calls.journal(
            run_id,
            task_id=task_id,
            journal=journal,
            execution_id=execution_id,
            values=values,
            follow=follow,
        )
        return _each(entries, reader(JournalEntry))

    async def record(self, run_id: str, execution_id: str) -> ExecutionRecord:
        """Return what an execution recorded of its work with a model: `ctx.record(…)`."""
        return await self.calls.record(run_id, execution_id)

    def questions(self, run_id: str | None = None) -> AsyncIterator[Question]:
        """Yield the questions of a run, answered or not; without a run the open ones of all runs."""
        return _each(self.calls.questions(run_id), reader(Question))

    async def results(
        self, run_id: str, *, task_ids: Sequence[str] = (), execution_ids: Sequence[str] = ()
    ) -> RunResults:
        """Return the run's own result and those of its tasks, or of those asked for."""
        found = await self.calls.results(run_id, task_ids=task_ids, execution_ids=execution_ids)
        own = found.run_result
        return RunResults(
            run_result=None if own is None else read(own, Result),
            results=tuple(read(one, Result) for one in found.results),
        )

    async def payloads(self, run_id: str, execution_ids: Sequence[str]) -> dict[str, Payload]:
        """Return the bytes of results by execution id, however large they are together."""
        found = await self.calls.payloads(run_id, execution_ids)
        return {key: read(payload, Payload) for key, payload in found.items()}

    async def wait(self, run_id: str, timeout_seconds: float | None = None) -> Run:
        """Wait until a run has ended, or the time is over, and return it: see its status.

        A server that doesn't answer is waited for, as long as the client has patience. A run that
        meanwhile waits for somebody is logged, as a warning of `stepwell_client`, after 10 s and then
        ever more rarely.
        """
        return read(await self.calls.wait(run_id, timeout_seconds), Run)

    def workers(
        self, queue: str = "", *, run_id: str = "", with_input_schema: bool = False
    ) -> AsyncIterator[ConnectedWorker]:
        """Yield the workers that are connected to any replica, by id.

        Args:
            queue: Only those that serve it.
            run_id: Only those that hold a step of this run, with these steps and how far they are.
            with_input_schema: With the JSON schema of inputs that those connected to the server that answers gave.
        """
        found = self.calls.workers(queue, run_id=run_id, with_input_schema=with_input_schema)
        return _each(found, reader(ConnectedWorker))

    async def queues(self) -> QueueList:
        """Return the queues that have a limit, a worker or a run that waits, by name."""
        found = await self.calls.queues()
        queues = tuple(read(one, Queue) for one in found.queues)
        return QueueList(queues=queues, complete=found.complete)

    async def server_info(self) -> ServerInfo:
        """Return what the server is, what it promises, what its limits are and who calls."""
        return read(await self.calls.server_info(), ServerInfo)

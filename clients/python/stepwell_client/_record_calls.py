"""The calls of the Orchestrator service with records in place of messages, written once for both clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from stepwell_client._cursors import LogOptions, WatchOptions, WatchRunsOptions
from stepwell_client._enums import BlockedKind, EventType, LogKind, RunStatus
from stepwell_client._history_records import (
    Event,
    JournalEntry,
    LogEntry,
    Message,
    Question,
    ServerInfo,
)
from stepwell_client._message_client import MessageCalls
from stepwell_client._payloads import Payload
from stepwell_client._plans import Budget, Span
from stepwell_client._reading import read, read_event, read_task
from stepwell_client._reads import ExecutionRecord
from stepwell_client._requests import ListOptions, PurgeOptions, Resolution
from stepwell_client._run_records import (
    Checkpoint,
    Execution,
    PlanRevision,
    Purged,
    Result,
    Run,
    RunResults,
    RunTask,
    RunUpdate,
)
from stepwell_client._streams import Watch

T = TypeVar("T")


def _reader(kind: Callable[..., T]) -> Callable[[Any], T]:
    return lambda message: read(message, kind)


async def _each(messages: AsyncIterator[Any], convert: Callable[[Any], T]) -> AsyncIterator[T]:
    async for message in messages:
        yield convert(message)


class RecordCalls:
    """Calls that read and change runs, and return records. `calls` are those beneath, with messages."""

    def __init__(self, calls: MessageCalls) -> None:
        self.calls = calls

    # Reading.

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
        return _each(self.calls.list(**options), _reader(Run))

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
        return _each(self.calls.executions(run_id, task_id=task_id), _reader(Execution))

    def plans(self, run_id: str, *, with_tasks: bool = False) -> AsyncIterator[PlanRevision]:
        """Yield the revisions of a run's plan, oldest first."""
        return _each(self.calls.plans(run_id, with_tasks=with_tasks), _reader(PlanRevision))

    def checkpoints(self, run_id: str) -> AsyncIterator[Checkpoint]:
        """Yield a run's named checkpoints, oldest first, each with the run as of then."""
        return _each(self.calls.checkpoints(run_id), _reader(Checkpoint))

    def messages(self, run_id: str, *, task_id: str = "") -> AsyncIterator[Message]:
        """Yield the messages of a run's conversations, or of one task's, in the order of their commits."""
        return _each(self.calls.messages(run_id, task_id=task_id), _reader(Message))

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
        return _each(entries, _reader(JournalEntry))

    async def record(self, run_id: str, execution_id: str) -> ExecutionRecord:
        """Return what an execution recorded of its work with a model: `ctx.record(…)`."""
        return await self.calls.record(run_id, execution_id)

    def inputs(self, run_id: str | None = None) -> AsyncIterator[Question]:
        """Yield the questions of a run, answered or not; without a run the open ones of all runs."""
        return _each(self.calls.inputs(run_id), _reader(Question))

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

    async def server_info(self) -> ServerInfo:
        """Return what the server is, what it promises, what its limits are and who calls."""
        return read(await self.calls.server_info(), ServerInfo)

    # Commands.

    async def resume(
        self,
        run_id: str,
        *,
        retry_failed: bool = True,
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
        validate_only: bool = False,
    ) -> Run:
        """Make a PAUSED or FAILED run go on from its last checkpoint.

        Without `retry_failed` failed tasks stay as they are. Of a run that a task failed, what depends on it
        is skipped, the rest runs, and then the run fails with that failure. With `validate_only` nothing is changed.
        """
        response = await self.calls.resume(
            run_id,
            retry_failed=retry_failed,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=request_id,
            validate_only=validate_only,
        )
        return read(response.run, Run)

    async def pause(
        self, run_id: str, *, reason: str = "", on_behalf_of: str = "", request_id: str = ""
    ) -> Run:
        """Pause a run: it accepts outcomes of work in flight and dispatches nothing."""
        response = await self.calls.pause(
            run_id, reason=reason, on_behalf_of=on_behalf_of, request_id=request_id
        )
        return read(response.run, Run)

    async def cancel(
        self, run_id: str, *, reason: str = "", on_behalf_of: str = "", request_id: str = ""
    ) -> Run:
        """Cancel a run for good."""
        response = await self.calls.cancel(
            run_id, reason=reason, on_behalf_of=on_behalf_of, request_id=request_id
        )
        return read(response.run, Run)

    async def stop(
        self, run_id: str, *, reason: str = "", on_behalf_of: str = "", request_id: str = ""
    ) -> Run:
        """End a run after the iteration in progress, as though it were the last."""
        response = await self.calls.stop(
            run_id, reason=reason, on_behalf_of=on_behalf_of, request_id=request_id
        )
        return read(response.run, Run)

    async def retry_task(
        self,
        run_id: str,
        task_id: str,
        *,
        fresh: bool = False,
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
    ) -> Run:
        """Run a FAILED or SKIPPED task again, or one that waits for its back-off now.

        `fresh`: it makes the calls of its journal again, except AT_MOST_ONCE ones.
        """
        response = await self.calls.retry_task(
            run_id,
            task_id,
            fresh=fresh,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=request_id,
        )
        return read(response.run, Run)

    async def skip_task(
        self,
        run_id: str,
        task_id: str,
        *,
        skip_dependents: bool = False,
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
    ) -> Run:
        """Settle a task as SKIPPED, whatever it is doing; tasks that depend on it go on without."""
        response = await self.calls.skip_task(
            run_id,
            task_id,
            skip_dependents=skip_dependents,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=request_id,
        )
        return read(response.run, Run)

    async def raise_budget(
        self,
        run_id: str,
        budget: Budget,
        *,
        resume: bool = True,
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
    ) -> Run:
        """Set new, higher limits; a limit of 0 stays as it was. A run that is PAUSED for them goes on."""
        response = await self.calls.raise_budget(
            run_id,
            budget,
            resume=resume,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=request_id,
        )
        return read(response.run, Run)

    async def resolve(
        self,
        run_id: str,
        execution_id: str,
        resolution: Resolution,
        *,
        call: str = "",
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
    ) -> Run:
        """Settle an execution whose outcome is unknown.

        Done: the task is completed, with that value. NotDone: it is run again. A Failure: its effect
        took place and it failed for good. With the `call` within a step of which nobody knows what became: Done is
        the call's value, and with NotDone it may run again; either way the step goes on.
        """
        response = await self.calls.resolve(
            run_id,
            execution_id,
            resolution,
            call=call,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=request_id,
        )
        return read(response.run, Run)

    async def answer(
        self,
        run_id: str,
        input_id: str,
        value: object,
        *,
        replan: bool = False,
        reason: str = "",
        answered_by: str = "",
        request_id: str = "",
    ) -> Run:
        """Answer a run's question, once; its task goes on with the answer.

        `replan`: have the run make another plan before anything else is dispatched; its planner is
        shown the `reason`.
        """
        response = await self.calls.answer(
            run_id,
            input_id,
            value,
            replan=replan,
            reason=reason,
            answered_by=answered_by,
            request_id=request_id,
        )
        return read(response.run, Run)

    async def delete(self, run_id: str, *, on_behalf_of: str = "") -> None:
        """Remove a run that has ended, with all that belongs to it."""
        await self.calls.delete(run_id, on_behalf_of=on_behalf_of)

    async def purge(
        self,
        *,
        statuses: Iterable[RunStatus] = (),
        older_than: Span | None = None,
        pipeline: str = "",
        max_runs: int = 0,
        validate_only: bool = False,
        on_behalf_of: str = "",
    ) -> Purged:
        """Remove ended runs; `complete` is false if there may be more of them.

        Args:
            statuses: Only runs of these: SUCCEEDED, FAILED or CANCELLED; none: of all three.
            older_than: Only runs that ended at least so long ago.
            pipeline: Only runs of this kind.
            max_runs: The most that are removed, the oldest ends first; 0: 100.
            validate_only: Remove nothing: return which runs it would be.
            on_behalf_of: The name, for people, of whoever removes them.
        """
        options = PurgeOptions(
            statuses=statuses,
            older_than=older_than,
            pipeline=pipeline,
            max_runs=max_runs,
            validate_only=validate_only,
            on_behalf_of=on_behalf_of,
        )
        return read(await self.calls.purge(**options), Purged)

    # Streams.

    def watch(
        self,
        run_id: str,
        after: int = 0,
        *,
        types: Iterable[EventType] = (),
        task_ids: Iterable[str] = (),
        progress_interval: Span | None = None,
    ) -> Watch[Event, int]:
        """Return the events of a run from the one after `after`, each once, until it has ended.

        Args:
            run_id: The run.
            after: The number of the last event that is not wanted, such as an earlier watch's `position`.
            types: Only events of these types; none: of all.
            task_ids: Only events about these tasks; none: about all, and about no task.
            progress_interval: How often an idle stream says how far it is; None: every 15 s.
        """
        options = WatchOptions(types=types, task_ids=task_ids, progress_interval=progress_interval)
        cursor = self.calls.run_cursor(run_id, after, options)
        return Watch(self.calls, cursor, lambda event: read_event(event, run_id))

    def watch_runs(
        self,
        cursor: str = "",
        *,
        pipeline: str = "",
        statuses: Iterable[RunStatus] = (),
        labels: Mapping[str, str] | None = None,
        progress_interval: Span | None = None,
    ) -> Watch[RunUpdate, str]:
        """Return the changes of all runs since a cursor; `now`: from the next commit on.

        An update with `deleted` has a `run_id` and no run. Deletions come whatever the filters: ignore ids that
        you don't know.

        Args:
            cursor: The `position` of an earlier watch, or `now`. Empty: from the oldest commit that is kept.
            pipeline: Only runs of this kind.
            statuses: Only runs of these statuses; none: of all.
            labels: Only runs with all of these labels.
            progress_interval: How often an idle stream says how far it is; None: every 15 s.
        """
        options = WatchRunsOptions(
            pipeline=pipeline,
            statuses=statuses,
            labels=dict(labels or {}),
            progress_interval=progress_interval,
        )
        return Watch(self.calls, self.calls.runs_cursor(cursor, options), _reader(RunUpdate))

    def logs(
        self,
        run_id: str,
        cursor: str = "",
        *,
        follow: bool = False,
        task_id: str = "",
        execution_id: str = "",
        kinds: Iterable[LogKind] = (),
        progress_interval: Span | None = None,
    ) -> Watch[LogEntry, str]:
        """Return the log entries of a run's steps, in order; with `follow` also later ones, until it ends.

        Args:
            run_id: The run.
            cursor: The `position` of an earlier call, to go on after it.
            follow: Go on until the run has ended.
            task_id: Only entries of this task.
            execution_id: Only entries of this attempt.
            kinds: Only entries of these kinds; none: of all.
            progress_interval: How often an idle stream says how far it is; None: every 15 s.
        """
        options = LogOptions(
            task_id=task_id,
            execution_id=execution_id,
            kinds=kinds,
            progress_interval=progress_interval,
        )
        found = self.calls.log_cursor(run_id, cursor, options, follow=follow)
        return Watch(self.calls, found, _reader(LogEntry))

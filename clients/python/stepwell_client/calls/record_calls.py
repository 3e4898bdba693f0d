"""All calls of the Orchestrator service with records in place of messages, written once for both clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stepwell_client.calls.cursors import LogOptions, WatchOptions, WatchRunsOptions
from stepwell_client.calls.record_reads import RecordReads
from stepwell_client.calls.requests import PurgeOptions, Resolution
from stepwell_client.calls.streams import Watch
from stepwell_client.enums import EventType, LogKind, RunStatus
from stepwell_client.records.history import (
    Event,
    LogEntry,
)
from stepwell_client.records.plans import Budget, Span
from stepwell_client.records.reading import read, read_event, reader
from stepwell_client.records.run import (
    Purged,
    Run,
    RunUpdate,
)


class RecordCalls(RecordReads):
    """Calls that read and change runs, and return records."""

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
        question_id: str,
        value: object,
        *,
        replan: bool = False,
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
    ) -> Run:
        """Answer a run's question, once; its task goes on with the answer.

        `replan`: have the run make another plan before anything else is dispatched; its planner is
        shown the `reason`.
        """
        response = await self.calls.answer(
            run_id,
            question_id,
            value,
            replan=replan,
            reason=reason,
            on_behalf_of=on_behalf_of,
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
        return Watch(self.calls, self.calls.runs_cursor(cursor, options), reader(RunUpdate))

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
        return Watch(self.calls, found, reader(LogEntry))

"""The handle of a run: every call about one run, once, with records.

A run's events name the caller of each command by its credential, and `on_behalf_of` beside it. For
a removed run the server's log does.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any, TypeVar, Unpack, overload

from google.protobuf.message import Message as ProtoMessage

from stepwell_client.calls.base import CALL_SECONDS, Caller
from stepwell_client.calls.cursors import LogCursor, LogOptions, RunCursor, WatchOptions
from stepwell_client.calls.payloads import read_payloads
from stepwell_client.calls.requests import (
    CommandOptions,
    DeleteOptions,
    ForkOptions,
    Resolution,
    fork_request,
    resolve_request,
)
from stepwell_client.calls.streams import Watch
from stepwell_client.enums import QuestionStatus, RunStatus
from stepwell_client.errors import RunFailed, Unavailable
from stepwell_client.link.outages import Notices
from stepwell_client.options import takes
from stepwell_client.records.answers import RunResults, Transcript
from stepwell_client.records.messages_pb2 import (
    Checkpoint,
    Event,
    Execution,
    ForkCheck,
    JournalEntry,
    KeptSignal,
    LogEntry,
    Message,
    PlanRevision,
    Question,
    Result,
    Run,
    RunTask,
)
from stepwell_client.records.payloads import Payload, answer_payload
from stepwell_client.records.plans import Budget, duration
from stepwell_client.records.reading import read, read_event, read_task, reader
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

WAIT_SLICE_SECONDS = 15.0
"""The time of one call that waits for an end; proxies cut calls on which nothing passes for longer, often 60 s."""
NOTICE_SECONDS = 10.0
"""The time after which a run that waits for somebody is logged."""
MESSAGES_PAGE_SIZE = 100
SIGNALS_PAGE_SIZE = 1_000
JOURNAL_POLL_SECONDS = 0.5
"""The pause between two reads of a followed journal."""

T = TypeVar("T")

_log = logging.getLogger("stepwell_client")


def view_of(full: bool) -> types_pb2.View:
    """Return the view for a read with or without full details."""
    return types_pb2.VIEW_FULL if full else types_pb2.VIEW_BASIC


class RunHandle:
    """A run, with the calls that concern it."""

    def __init__(
        self,
        caller: Caller,
        run_id: str,
        snapshot: Run | None = None,
        response: ProtoMessage | None = None,
    ) -> None:
        self.caller = caller
        """The object that makes the calls."""
        self.id = run_id
        self.snapshot = snapshot
        """The run as last read, or None."""
        self.response = response
        """The protocol's answer to the start, the fork or the last command of this handle; None: there was none.

        Of a start a StartRunResponse, of `pause` a PauseRunResponse, and so on."""

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    @property
    def status(self) -> RunStatus:
        """The run's status as last read."""
        return RunStatus.UNSPECIFIED if self.snapshot is None else self.snapshot.status

    @property
    def created(self) -> bool:
        """True if this start or fork created the run; False if an earlier request did, or it was only validated."""
        return getattr(self.response, "created", False)

    @property
    def steered(self) -> bool:
        """True if this start started no run: it sent this run, which works in the thread, the signal `steer`."""
        return getattr(self.response, "steered", False)

    @property
    def changed(self) -> bool:
        """True if the last command changed the run; False if the run was in that state already."""
        return getattr(self.response, "changed", False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about a fork that this call made."""
        return tuple(getattr(self.response, "warnings", ()))

    # Reads.

    async def get(self, *, version: int = 0) -> Run:
        """Return the run as of its last commit, or as of this version."""
        request = pb.GetRunRequest(run_id=self.id, version=version)
        run = read((await self.caller.call("GetRun", request)).run, Run)
        if not version:
            self.snapshot = run
        return run

    def tasks(self, *, full_specs: bool = False, version: int = 0) -> AsyncIterator[RunTask]:
        """Yield the run's tasks with their definitions, page by page.

        Args:
            full_specs: Read prompts and inputs, too.
            version: The tasks as of this version of the run; 0: the current tasks.
        """
        request = pb.ListTasksRequest(run_id=self.id, view=view_of(full_specs), version=version)
        return self.caller.pages("ListTasks", request, "tasks", read_task)

    def executions(self, *, task_id: str = "") -> AsyncIterator[Execution]:
        """Yield every attempt at every step, or at one task, in the order of their offers."""
        request = pb.ListExecutionsRequest(run_id=self.id, task_id=task_id)
        return self.caller.pages("ListExecutions", request, "executions", reader(Execution))

    def plans(self, *, with_tasks: bool = False) -> AsyncIterator[PlanRevision]:
        """Yield the revisions of the run's plan, oldest first."""
        request = pb.ListPlansRequest(run_id=self.id, view=view_of(with_tasks))
        return self.caller.pages("ListPlans", request, "plans", reader(PlanRevision))

    def checkpoints(self) -> AsyncIterator[Checkpoint]:
        """Yield the run's named checkpoints, oldest first, each with the run at that version."""
        request = pb.ListCheckpointsRequest(run_id=self.id)
        return self.caller.pages("ListCheckpoints", request, "checkpoints", reader(Checkpoint))

    def messages(self, *, task_id: str = "") -> AsyncIterator[Message]:
        """Yield the messages of the run's conversations, or of one task's, in the order of their commits."""
        request = pb.ListMessagesRequest(
            run_id=self.id, task_id=task_id, page_size=MESSAGES_PAGE_SIZE
        )
        return self.caller.pages("ListMessages", request, "messages", reader(Message))

    def questions(self) -> AsyncIterator[Question]:
        """Yield the run's questions, answered or not."""
        request = pb.ListQuestionsRequest(run_id=self.id)
        return self.caller.pages("ListQuestions", request, "questions", reader(Question))

    def signals(self, *, values: bool = True) -> AsyncIterator[KeptSignal]:
        """Yield the signals that the run keeps, which no step has received, oldest first; without `values`, no values."""
        request = pb.ListSignalsRequest(
            run_id=self.id, view=view_of(values), page_size=SIGNALS_PAGE_SIZE
        )
        return self.caller.pages("ListSignals", request, "signals", reader(KeptSignal))

    async def journal(
        self,
        *,
        task_id: str = "",
        journal: str = "",
        execution_id: str = "",
        values: bool = False,
        follow: bool = False,
    ) -> AsyncIterator[JournalEntry]:
        """Yield the journal entries of calls within the run's steps, in the order of writing.

        Args:
            task_id: Only this task, as the plan in force defines it.
            journal: Only the journal of this name.
            execution_id: Only this attempt.
            values: Read the values, too.
            follow: Continue until the run has ended.
        """
        request = pb.ListJournalRequest(
            run_id=self.id,
            task_id=task_id,
            journal=journal,
            execution_id=execution_id,
            view=view_of(values),
        )
        ended = not follow
        while True:
            page: pb.ListJournalResponse = await self.caller.call("ListJournal", request)
            for entry in page.entries:
                yield read(entry, JournalEntry)
            request.page_token = page.resume_token
            if page.next_page_token:
                continue
            if ended:
                return
            ended = (await self.get()).has_ended
            if not ended:
                await self.caller.sleep(JOURNAL_POLL_SECONDS)

    async def transcript(self, execution_id: str) -> Transcript:
        """Return the prompt and response that an execution gave by `ctx.transcript(…)`."""
        prompt, response = b"", b""
        request = pb.ReadTranscriptRequest(run_id=self.id, execution_id=execution_id)
        while True:
            page: pb.ReadTranscriptResponse = await self.caller.call("ReadTranscript", request)
            prompt += page.prompt
            response += page.response
            request.page_token = page.next_page_token
            if not request.page_token:
                return Transcript(prompt=prompt.decode(), response=response.decode())

    async def results(
        self, *, task_ids: Sequence[str] = (), execution_ids: Sequence[str] = ()
    ) -> RunResults:
        """Return the run's own result and those of its tasks, or only the requested ones."""
        own: pb.Result | None = None
        results: list[pb.Result] = []
        request = pb.ListResultsRequest(
            run_id=self.id, task_ids=task_ids, execution_ids=execution_ids
        )
        while True:
            page: pb.ListResultsResponse = await self.caller.call("ListResults", request)
            if page.HasField("run_result"):
                own = page.run_result
            results.extend(page.results)
            request.page_token = page.next_page_token
            if not request.page_token:
                break
        # Large results come by reference and are fetched separately.
        absent = [one for one in (own, *results) if one is not None and one.by_reference]
        payloads = await self.payloads(list(dict.fromkeys(one.execution_id for one in absent)))
        for result in absent:
            if result.execution_id in payloads:
                result.payload.CopyFrom(payloads[result.execution_id].message())
            result.by_reference = False
        return RunResults(
            run_result=None if own is None else read(own, Result),
            results=tuple(read(one, Result) for one in results),
        )

    async def payloads(self, execution_ids: Sequence[str]) -> dict[str, Payload]:
        """Return the bytes of results by execution id, whatever their total size."""
        return await read_payloads(self.caller, self.id, execution_ids)

    @overload
    async def result(self, kind: type[T]) -> T: ...
    @overload
    async def result(self, kind: Any = Any) -> Any: ...
    async def result(self, kind: Any = Any) -> Any:
        """Wait for the end and return the run's result, decoded as `kind`.

        The result is that of its synthesis or, without one, a dict of its tasks' results. Raises
        RunFailed if the run ended FAILED or CANCELLED.
        """
        run = await self.wait()
        if run.status in (RunStatus.FAILED, RunStatus.CANCELLED):
            failed = run.failure
            why = failed.message if failed is not None and failed.message else run.reason
            raise RunFailed(self.id, run.status.name, failed.kind if failed else "", why)
        return (await self.results()).answer(kind)

    # Waits and streams.

    async def wait(
        self, timeout_seconds: float | None = None, *, until: Collection[RunStatus] = ()
    ) -> Run:
        """Wait until the run has ended, has one of these statuses, or the time is over; return the run.

        Waits for a server that doesn't answer, as long as the client has patience. A run that waits
        for somebody is logged as a warning of `stepwell_client`, after 10 s and then ever more
        rarely.
        """
        if not until:
            self.snapshot = await self._wait_for_end(timeout_seconds)
            return self.snapshot
        run = await self.get()
        if run.status not in until:
            await self._follow(run, lambda event: event.run.get("status") in until, timeout_seconds)
        return await self.get()

    async def _wait_for_end(self, timeout_seconds: float | None) -> Run:
        caller = self.caller
        now = caller.runtime.monotonic
        until = None if timeout_seconds is None else now() + timeout_seconds
        outage = caller.retries.outage(caller.retries.reconnect_seconds)
        waited, notices = 0.0, Notices(NOTICE_SECONDS)
        while True:
            left = WAIT_SLICE_SECONDS if until is None else max(0.0, until - now())
            span = min(WAIT_SLICE_SECONDS if waited else NOTICE_SECONDS, left)
            request = pb.WaitRunRequest(run_id=self.id, timeout=duration(span))
            try:
                response: pb.WaitRunResponse = await caller.call(
                    "WaitRun", request, seconds=span + CALL_SECONDS, repeat=False
                )
            except Unavailable as error:
                if left <= 0:
                    raise
                await caller.sleep(min(left, outage.pause(error)))
                continue
            outage.end()
            run = read(response.run, Run)
            if response.ended or (until is not None and now() >= until):
                return run
            waited += span
            if (why := run.standstill) and notices.due(waited):
                _log.warning("run %s %s", self.id, why)

    async def next_question(self) -> Question | None:
        """Wait until the run asks something, and return its oldest open question; None if the run has ended."""
        while True:
            run = await self.get()
            async for one in self.questions():
                if one.status == QuestionStatus.OPEN:
                    return one
            if run.has_ended:
                return None
            await self._follow(run, lambda event: bool(event.questions))

    async def _follow(
        self, run: Run, reached: Callable[[Event], bool], timeout_seconds: float | None = None
    ) -> None:
        """Read the run's next events until one is `reached`, the run has ended, or the time is over."""
        cursor = RunCursor(self.caller.retries, self.id, run.last_event, WatchOptions())
        watch: Watch[Event, int] = Watch(self.caller, cursor, self._event, timeout_seconds)
        async with watch as events:
            async for event in events:
                if reached(event):
                    return

    def _event(self, message: types_pb2.Event) -> Event:
        return read_event(message, self.id)

    @takes(WatchOptions)
    def watch(self, after: int = 0, **options: Unpack[WatchOptions]) -> Watch[Event, int]:
        """Return the run's events from the one after `after`, each once, until it has ended.

        `after` is the number of the last event to leave out, such as an earlier watch's `position`.
        """
        cursor = RunCursor(self.caller.retries, self.id, after, options)
        return Watch(self.caller, cursor, self._event)

    @takes(LogOptions)
    def logs(
        self, cursor: str = "", *, follow: bool = False, **options: Unpack[LogOptions]
    ) -> Watch[LogEntry, str]:
        """Return the log entries of the run's steps, in order; with `follow` also later ones, until it ends.

        `cursor` is the `position` of an earlier call, to continue after it.
        """
        found = LogCursor(self.caller.retries, self.id, cursor, options, follow=follow)
        return Watch(self.caller, found, reader(LogEntry))

    # Commands.

    async def _command(self, method: str, request: Any, options: CommandOptions) -> Run:
        """Make a command's call; keep its answer and, unless it only validates, the run."""
        response = await self.caller.command(method, request, self.id, options)
        self.response = response
        run = read(response.run, Run)
        if not options.get("validate_only"):
            self.snapshot = run
        return run

    @takes(CommandOptions)
    async def resume(self, *, retry_failed: bool = True, **options: Unpack[CommandOptions]) -> Run:
        """Continue a PAUSED or FAILED run from its last checkpoint.

        Without `retry_failed`, failed tasks stay failed. If one of them failed the run, its
        dependents are skipped, the other tasks run, and then the run fails with that failure.
        """
        request = pb.ResumeRunRequest(leave_failed=not retry_failed)
        return await self._command("ResumeRun", request, options)

    @takes(CommandOptions)
    async def pause(self, **options: Unpack[CommandOptions]) -> Run:
        """Pause the run: it accepts outcomes of work in flight and dispatches nothing."""
        return await self._command("PauseRun", pb.PauseRunRequest(), options)

    @takes(CommandOptions)
    async def cancel(self, **options: Unpack[CommandOptions]) -> Run:
        """Cancel the run for good."""
        return await self._command("CancelRun", pb.CancelRunRequest(), options)

    @takes(CommandOptions)
    async def stop(self, **options: Unpack[CommandOptions]) -> Run:
        """End the run after the iteration in progress, as if it were the last."""
        return await self._command("StopRun", pb.StopRunRequest(), options)

    @takes(CommandOptions)
    async def signal(
        self, name: str, value: object = None, **options: Unpack[CommandOptions]
    ) -> Run:
        """Send the run a signal: `ctx.receive(name)` of a step takes it, once, now or later.

        Raises FailedPrecondition if the run has ended, or keeps 1,000 signals or 16 MiB (SIGNALS_FULL).
        """
        request = pb.SendSignalRequest(name=name, value=answer_payload(value))
        return await self._command("SendSignal", request, options)

    @takes(CommandOptions)
    async def retry_task(
        self, task_id: str, *, fresh: bool = False, **options: Unpack[CommandOptions]
    ) -> Run:
        """Run a FAILED or SKIPPED task again, or end a task's back-off now.

        With `fresh` it repeats the calls in its journal, except AT_MOST_ONCE calls.
        """
        request = pb.RetryTaskRequest(task_id=task_id, fresh=fresh)
        return await self._command("RetryTask", request, options)

    @takes(CommandOptions)
    async def skip_task(
        self, task_id: str, *, skip_dependents: bool = False, **options: Unpack[CommandOptions]
    ) -> Run:
        """Settle a task as SKIPPED, whatever it is doing; dependent tasks continue without it."""
        request = pb.SkipTaskRequest(task_id=task_id, skip_dependents=skip_dependents)
        return await self._command("SkipTask", request, options)

    @takes(CommandOptions)
    async def raise_budget(
        self, budget: Budget, *, resume: bool = True, **options: Unpack[CommandOptions]
    ) -> Run:
        """Set new, higher limits; 0 leaves a limit unchanged. Continues a run that is PAUSED for its budget."""
        request = pb.RaiseBudgetRequest(budget=budget.message(), stay_paused=not resume)
        return await self._command("RaiseBudget", request, options)

    @takes(CommandOptions)
    async def resolve(
        self,
        execution_id: str,
        resolution: Resolution,
        *,
        call: str = "",
        **options: Unpack[CommandOptions],
    ) -> Run:
        """Resolve an execution whose outcome is unknown.

        Done completes the task with that value, NotDone runs it again, and a Failure says that its
        effect took place and it failed for good. With `call`, a call within the step whose outcome
        is unknown is resolved: Done has the call's value, and NotDone lets it run again. The step
        then continues.
        """
        request = resolve_request(execution_id, resolution, call)
        if not options.get("reason"):
            options["reason"] = request.reason
        return await self._command("ResolveExecution", request, options)

    @takes(CommandOptions)
    async def answer(
        self,
        question_id: str,
        value: object,
        *,
        replan: bool = False,
        **options: Unpack[CommandOptions],
    ) -> Run:
        """Answer the run's question, once; its task goes on with the answer.

        With `replan` the run makes another plan before anything else is dispatched; its planner is
        shown the `reason`.
        """
        answer = answer_payload(value)
        request = pb.AnswerQuestionRequest(question_id=question_id, answer=answer, replan=replan)
        return await self._command("AnswerQuestion", request, options)

    @takes(DeleteOptions)
    async def delete(self, **options: Unpack[DeleteOptions]) -> None:
        """Remove the run, which must have ended and have no forks, with all its data."""
        # Not repeated, because the second answer would be NOT_FOUND, whoever removed the run.
        request = pb.DeleteRunRequest(run_id=self.id, **options)
        await self.caller.call("DeleteRun", request, repeat=False)

    @takes(ForkOptions)
    async def fork(self, **options: Unpack[ForkOptions]) -> RunHandle:
        """Start a run from a version of this one; completed tasks are kept."""
        request = fork_request(self.id, options, self.caller.runtime.new_id())
        patience = self.caller.retries.reconnect_seconds
        response = await self.caller.call("ForkRun", request, patience_seconds=patience)
        run = read(response.run, Run)
        return RunHandle(self.caller, run.id, run, response)

    @takes(ForkOptions)
    async def check_fork(self, **options: Unpack[ForkOptions]) -> ForkCheck:
        """Return what a fork would keep and run again, or why it doesn't fit; start nothing."""
        request = fork_request(self.id, options, "", validate_only=True)
        return read(await self.caller.call("ForkRun", request), ForkCheck)

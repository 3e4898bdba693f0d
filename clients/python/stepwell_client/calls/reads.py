"""Calls that read, with the protocol's messages: runs, tasks, results, plans, conversations, questions."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Unpack

from stepwell_client.calls.base import CALL_SECONDS, CallsBase
from stepwell_client.calls.requests import ListOptions, list_request
from stepwell_client.enums import ENDED, BlockedKind, RunStatus
from stepwell_client.errors import ServerError, Unavailable
from stepwell_client.link.outages import Notices
from stepwell_client.records.plans import duration
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

WAIT_SLICE_SECONDS = 60.0
NOTICE_SECONDS = 10.0
"""A run that has waited for somebody so long is logged."""

_log = logging.getLogger("stepwell_client")
FETCH_IDS_MAX = 4
"""Results asked for together when they came by reference: one message surely holds as many."""
MESSAGES_PAGE_SIZE = 100
JOURNAL_POLL_SECONDS = 0.5
"""The pause between two reads of a journal that is followed."""


class ResultMessages(NamedTuple):
    """Results of a run and of its tasks, as messages."""

    run_result: pb.Result | None
    """The run's own; None: it has not SUCCEEDED, or its tasks' results are the answer."""
    results: tuple[pb.Result, ...]
    """Results of its tasks, or of the executions asked for."""


class QueueMessages(NamedTuple):
    """The queues of a tenant."""

    queues: tuple[pb.Queue, ...]
    complete: bool
    """False: more runs or steps were there than the server looks at, so the numbers are the least that there are."""


class ExecutionRecord(NamedTuple):
    """An execution's prompt and its model's response; empty: it recorded none."""

    prompt: str
    response: str


def _standstill(run: types_pb2.Run) -> str:
    """Return what a run waits for that doesn't come by itself, and what to do; empty: nothing."""
    if run.status == RunStatus.PAUSED:
        return f"is paused{f': {run.reason}' if run.reason else ''}; resume it, or stop waiting"
    if run.blocked_on == BlockedKind.QUESTION:
        return "waits for an answer; `questions` has the question, `answer` answers it"
    if run.blocked_on == BlockedKind.UNKNOWN_OUTCOME:
        return "waits for somebody to `resolve` an execution whose outcome is unknown"
    if run.blocked_on == BlockedKind.KEY:
        return f"waits for an idempotency key that run {run.blocked_run_id or '(not known)'!r} has"
    if run.blocked_on == BlockedKind.WORKER:
        return f"waits for a worker of queue {run.spec.queue!r}; none is connected"
    return ""


def view_of(full: bool) -> types_pb2.View:
    """Return the view of a read that is, or isn't, to return all of what it lists."""
    return types_pb2.VIEW_FULL if full else types_pb2.VIEW_BASIC


class ReadCalls(CallsBase):
    """The reading calls of the Orchestrator service."""

    async def get(self, run_id: str, *, version: int = 0) -> types_pb2.Run:
        """Return a run as of its last commit, or as of that version."""
        response = await self._call("GetRun", pb.GetRunRequest(run_id=run_id, version=version))
        return response.run

    def list(self, **options: Unpack[ListOptions]) -> AsyncIterator[types_pb2.Run]:
        """Yield runs, newest first, page by page."""
        return self._pages("ListRuns", lambda token: list_request(options, token), "runs")

    def tasks(
        self, run_id: str, *, full_specs: bool = False, version: int = 0
    ) -> AsyncIterator[pb.TaskEntry]:
        """Yield a run's tasks with their definitions, as they stand or as of a version, page by page."""

        def request(token: str) -> pb.ListTasksRequest:
            return pb.ListTasksRequest(
                run_id=run_id, view=view_of(full_specs), version=version, page_token=token
            )

        return self._pages("ListTasks", request, "tasks")

    def executions(self, run_id: str, *, task_id: str = "") -> AsyncIterator[types_pb2.Execution]:
        """Yield every attempt at every step, in the order in which they were offered."""

        def request(token: str) -> pb.ListExecutionsRequest:
            return pb.ListExecutionsRequest(run_id=run_id, task_id=task_id, page_token=token)

        return self._pages("ListExecutions", request, "executions")

    def plans(self, run_id: str, *, with_tasks: bool = False) -> AsyncIterator[types_pb2.Plan]:
        """Yield the revisions of a run's plan, oldest first."""

        def request(token: str) -> pb.ListPlansRequest:
            return pb.ListPlansRequest(run_id=run_id, view=view_of(with_tasks), page_token=token)

        return self._pages("ListPlans", request, "plans")

    def checkpoints(self, run_id: str) -> AsyncIterator[pb.Checkpoint]:
        """Yield a run's named checkpoints, oldest first, each with the run as of then."""

        def request(token: str) -> pb.ListCheckpointsRequest:
            return pb.ListCheckpointsRequest(run_id=run_id, page_token=token)

        return self._pages("ListCheckpoints", request, "checkpoints")

    def messages(self, run_id: str, *, task_id: str = "") -> AsyncIterator[types_pb2.Message]:
        """Yield the messages of a run's conversations, or of one task's, in the order of their commits."""

        def request(token: str) -> pb.ListMessagesRequest:
            return pb.ListMessagesRequest(
                run_id=run_id, task_id=task_id, page_size=MESSAGES_PAGE_SIZE, page_token=token
            )

        return self._pages("ListMessages", request, "messages")

    async def journal(
        self,
        run_id: str,
        *,
        task_id: str = "",
        journal: str = "",
        execution_id: str = "",
        values: bool = False,
        follow: bool = False,
    ) -> AsyncIterator[types_pb2.StoredEntry]:
        """Yield what the calls within a run's steps recorded, in the order in which they did.

        Of one task, as the plan in force defines it; of one `journal` by its name; or of one attempt. With `values`
        also the bytes of their values. With `follow` it goes on until the run has ended.
        """
        token, ended = "", not follow
        while True:
            request = pb.ListJournalRequest(
                run_id=run_id,
                task_id=task_id,
                journal=journal,
                execution_id=execution_id,
                view=view_of(values),
                page_token=token,
            )
            page: pb.ListJournalResponse = await self._call("ListJournal", request)
            for entry in page.entries:
                yield entry
            token = page.resume_token
            if page.next_page_token:
                continue
            if ended:
                return
            ended = (await self.get(run_id)).status in ENDED
            if not ended:
                await self.sleep(JOURNAL_POLL_SECONDS)

    async def record(self, run_id: str, execution_id: str) -> ExecutionRecord:
        """Return what an execution recorded of its work with a model: `ctx.record(…)`."""
        prompt, response, token = b"", b"", ""
        while True:
            request = pb.ReadTranscriptRequest(
                run_id=run_id, execution_id=execution_id, page_token=token
            )
            page: pb.ReadTranscriptResponse = await self._call("ReadTranscript", request)
            prompt += page.prompt
            response += page.response
            token = page.next_page_token
            if not token:
                return ExecutionRecord(prompt.decode(), response.decode())

    def questions(self, run_id: str | None = None) -> AsyncIterator[pb.RunQuestion]:
        """Yield the questions of a run, answered or not; without a run the open ones of all runs."""

        def request(token: str) -> pb.ListQuestionsRequest:
            return pb.ListQuestionsRequest(run_id=run_id or "", page_token=token)

        return self._pages("ListQuestions", request, "questions")

    def workers(
        self, queue: str = "", *, run_id: str = "", with_input_schema: bool = False
    ) -> AsyncIterator[pb.ConnectedWorker]:
        """Yield the workers that are connected to any replica, by id.

        Args:
            queue: Only those that serve it.
            run_id: Only those that hold a step of this run, with these steps and how far they are.
            with_input_schema: With the JSON schema of inputs that those connected to the server that answers gave.
        """

        def request(token: str) -> pb.ListWorkersRequest:
            return pb.ListWorkersRequest(
                queue=queue,
                run_id=run_id,
                page_token=token,
                view=view_of(with_input_schema),
            )

        return self._pages("ListWorkers", request, "workers")

    async def queues(self) -> QueueMessages:
        """Return the queues that have a limit, a worker or a run that waits, by name."""
        queues: list[pb.Queue] = []
        token, complete = "", True
        while True:
            request = pb.ListQueuesRequest(page_token=token)
            page: pb.ListQueuesResponse = await self._call("ListQueues", request)
            queues += page.queues
            complete = complete and page.complete
            token = page.next_page_token
            if not token:
                return QueueMessages(tuple(queues), complete)

    async def results(
        self, run_id: str, *, task_ids: Sequence[str] = (), execution_ids: Sequence[str] = ()
    ) -> ResultMessages:
        """Return the run's own result and those of its tasks, or of those asked for."""
        run_result: pb.Result | None = None
        results: list[pb.Result] = []
        token = ""
        while True:
            request = pb.ListResultsRequest(
                run_id=run_id, task_ids=task_ids, execution_ids=execution_ids, page_token=token
            )
            page: pb.ListResultsResponse = await self._call("ListResults", request)
            if page.HasField("run_result"):
                run_result = page.run_result
            results.extend(page.results)
            token = page.next_page_token
            if not token:
                break
        # Large results come by reference and are fetched by themselves.
        absent = [one for one in (run_result, *results) if one is not None and one.by_reference]
        payloads = await self.payloads(run_id, list(dict.fromkeys(r.execution_id for r in absent)))
        for result in absent:
            if result.execution_id in payloads:
                result.payload.CopyFrom(payloads[result.execution_id])
            result.by_reference = False
        return ResultMessages(run_result, tuple(results))

    async def payloads(
        self, run_id: str, execution_ids: Sequence[str]
    ) -> dict[str, types_pb2.Payload]:
        """Return the bytes of results by execution id, however large they are together."""
        payloads: dict[str, types_pb2.Payload] = {}
        starts = range(0, len(execution_ids), FETCH_IDS_MAX)
        groups = [list(execution_ids[n : n + FETCH_IDS_MAX]) for n in starts]
        while groups:
            ids = groups.pop()
            request = pb.ListResultsRequest(run_id=run_id, execution_ids=ids)
            page: pb.ListResultsResponse = await self._call("ListResults", request)
            absent = [item.execution_id for item in page.results if item.by_reference]
            if absent and len(ids) == 1:
                raise ServerError(f"the result of execution {ids[0]} doesn't come by itself either")
            groups += [[execution_id] for execution_id in absent]
            for item in page.results:
                if item.HasField("payload"):
                    payloads[item.execution_id] = item.payload
        return payloads

    async def wait(self, run_id: str, timeout_seconds: float | None = None) -> types_pb2.Run:
        """Wait until a run has ended, or the time is over, and return it: see its status.

        A server that doesn't answer is waited for, as long as the client has patience. A run that
        meanwhile waits for somebody is logged, as a warning of `stepwell_client`, after 10 s and then
        ever more rarely.
        """
        now = self.runtime.monotonic
        until = None if timeout_seconds is None else now() + timeout_seconds
        outage = self._retries.outage(self._retries.reconnect_seconds)
        waited, notices = 0.0, Notices(NOTICE_SECONDS)
        while True:
            left = WAIT_SLICE_SECONDS if until is None else max(0.0, until - now())
            span = min(WAIT_SLICE_SECONDS if waited else NOTICE_SECONDS, left)
            request = pb.WaitRunRequest(run_id=run_id, timeout=duration(span))
            try:
                response: pb.WaitRunResponse = await self._call(
                    "WaitRun", request, seconds=span + CALL_SECONDS, repeat=False
                )
            except Unavailable as error:
                if left <= 0:
                    raise
                await self.sleep(min(left, outage.pause(error)))
                continue
            outage.end()
            if response.ended or (until is not None and now() >= until):
                return response.run
            waited += span
            if (why := _standstill(response.run)) and notices.due(waited):
                _log.warning("run %s %s", run_id, why)

    async def server_info(self) -> pb.GetServerInfoResponse:
        """Return what the server is, what it promises, what its limits are and who calls."""
        return await self._call("GetServerInfo", pb.GetServerInfoRequest())

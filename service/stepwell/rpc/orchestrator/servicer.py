"""Servicer of the Orchestrator service; each RPC is in the module of its theme."""

# ruff: noqa: N802, ARG002 - names and arguments are the protocol's

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import cast

from stepwell.app.history import History
from stepwell.core.records import limits
from stepwell.rpc.allowance import Allowance
from stepwell.rpc.dependencies import Context, Dependencies, Service
from stepwell.rpc.orchestrator import (
    checkpoints,
    commands,
    connected,
    effects,
    forks,
    journals,
    lists,
    logs,
    plans,
    purge,
    questions,
    reads,
    results,
    signals,
    start,
    threads,
    watch,
)
from stepwell.rpc.orchestrator.presenter import RunPresenter
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1.orchestrator_pb2_grpc import (
    OrchestratorServicer,
    add_OrchestratorServicer_to_server,
)

NAME = "stepwell.v1.Orchestrator"


def make_service(deps: Dependencies) -> Service:
    """Return the service, to be added to a server."""
    servicer = Servicer(deps)
    return Service(NAME, partial(add_OrchestratorServicer_to_server, servicer))


class Servicer(OrchestratorServicer):
    """Passes each RPC to its module. The gate has checked the caller and the request's limits."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps
        self._presenter = RunPresenter(deps.executor, deps.runtime)
        self._history = History(deps.store, deps.runtime)
        self._by_token = Allowance(
            deps.runtime.monotonic,
            each=limits.ANSWERS_BY_TOKEN_EACH_MAX,
            together=limits.ANSWERS_BY_TOKEN_MAX,
        )

    async def StartRun(self, request: pb.StartRunRequest, context: Context) -> pb.StartRunResponse:
        return await start.start_run(self._deps, self._presenter, request)

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.GetRunResponse:
        return await reads.get_run(self._deps, self._presenter, self._history, request)

    async def ListRuns(self, request: pb.ListRunsRequest, context: Context) -> pb.ListRunsResponse:
        return await lists.list_runs(self._deps, self._presenter, request)

    async def ListTasks(
        self, request: pb.ListTasksRequest, context: Context
    ) -> pb.ListTasksResponse:
        return await lists.list_tasks(self._deps, self._history, request)

    async def ListExecutions(
        self, request: pb.ListExecutionsRequest, context: Context
    ) -> pb.ListExecutionsResponse:
        return await lists.list_executions(self._deps, request)

    async def ListResults(
        self, request: pb.ListResultsRequest, context: Context
    ) -> pb.ListResultsResponse:
        return await results.list_results(self._deps, request)

    async def WaitRun(self, request: pb.WaitRunRequest, context: Context) -> pb.WaitRunResponse:
        return await reads.wait_run(self._deps, self._presenter, request)

    def WatchRun(
        self, request: pb.WatchRunRequest, context: Context
    ) -> AsyncGenerator[pb.WatchRunResponse]:
        messages = watch.watch_one(self._deps, self._presenter, request, context)
        # Some are serialized messages already, which the gate sends unchanged.
        return cast("AsyncGenerator[pb.WatchRunResponse]", messages)

    def WatchRuns(
        self, request: pb.WatchRunsRequest, context: Context
    ) -> AsyncGenerator[pb.WatchRunsResponse]:
        return watch.watch_all(self._deps, self._presenter, request, context)

    async def ResumeRun(
        self, request: pb.ResumeRunRequest, context: Context
    ) -> pb.ResumeRunResponse:
        return await commands.resume_run(self._deps, self._presenter, request)

    async def PauseRun(self, request: pb.PauseRunRequest, context: Context) -> pb.PauseRunResponse:
        return await commands.pause_run(self._deps, self._presenter, request)

    async def CancelRun(
        self, request: pb.CancelRunRequest, context: Context
    ) -> pb.CancelRunResponse:
        return await commands.cancel_run(self._deps, self._presenter, request)

    async def DeleteRun(
        self, request: pb.DeleteRunRequest, context: Context
    ) -> pb.DeleteRunResponse:
        return await purge.delete_run(self._deps, request)

    def WatchLogs(
        self, request: pb.WatchLogsRequest, context: Context
    ) -> AsyncGenerator[pb.WatchLogsResponse]:
        return logs.watch_logs(self._deps, request, context)

    async def ListMessages(
        self, request: pb.ListMessagesRequest, context: Context
    ) -> pb.ListMessagesResponse:
        return await logs.list_messages(self._deps, request)

    async def ReadTranscript(
        self, request: pb.ReadTranscriptRequest, context: Context
    ) -> pb.ReadTranscriptResponse:
        return await logs.read_transcript(self._deps, request)

    async def ListJournal(
        self, request: pb.ListJournalRequest, context: Context
    ) -> pb.ListJournalResponse:
        return await journals.list_journal(self._deps, request)

    async def PurgeRuns(
        self, request: pb.PurgeRunsRequest, context: Context
    ) -> pb.PurgeRunsResponse:
        return await purge.purge_runs(self._deps, request)

    async def ForkRun(self, request: pb.ForkRunRequest, context: Context) -> pb.ForkRunResponse:
        return await forks.fork_run(self._deps, self._presenter, self._history, request)

    async def ListPlans(
        self, request: pb.ListPlansRequest, context: Context
    ) -> pb.ListPlansResponse:
        return await plans.list_plans(self._deps, request)

    async def ListCheckpoints(
        self, request: pb.ListCheckpointsRequest, context: Context
    ) -> pb.ListCheckpointsResponse:
        return await checkpoints.list_checkpoints(self._deps, request)

    async def ResolveExecution(
        self, request: pb.ResolveExecutionRequest, context: Context
    ) -> pb.ResolveExecutionResponse:
        return await effects.resolve_execution(self._deps, self._presenter, request)

    async def RetryTask(
        self, request: pb.RetryTaskRequest, context: Context
    ) -> pb.RetryTaskResponse:
        return await commands.retry_task(self._deps, self._presenter, request)

    async def SkipTask(self, request: pb.SkipTaskRequest, context: Context) -> pb.SkipTaskResponse:
        return await commands.skip_task(self._deps, self._presenter, request)

    async def SendSignal(
        self, request: pb.SendSignalRequest, context: Context
    ) -> pb.SendSignalResponse:
        return await commands.send_signal(self._deps, self._presenter, request)

    async def ListSignals(
        self, request: pb.ListSignalsRequest, context: Context
    ) -> pb.ListSignalsResponse:
        return await signals.list_signals(self._deps, request)

    async def GetThread(
        self, request: pb.GetThreadRequest, context: Context
    ) -> pb.GetThreadResponse:
        return await threads.get_thread(self._deps.executor, request)

    async def ListThreads(
        self, request: pb.ListThreadsRequest, context: Context
    ) -> pb.ListThreadsResponse:
        return await threads.list_threads(self._deps.executor, request)

    async def ListThreadMessages(
        self, request: pb.ListThreadMessagesRequest, context: Context
    ) -> pb.ListThreadMessagesResponse:
        return await threads.list_thread_messages(self._deps.executor, request)

    async def AppendToThread(
        self, request: pb.AppendToThreadRequest, context: Context
    ) -> pb.AppendToThreadResponse:
        return await threads.append_to_thread(self._deps.executor, request)

    async def SetThreadState(
        self, request: pb.SetThreadStateRequest, context: Context
    ) -> pb.SetThreadStateResponse:
        return await threads.set_thread_state(self._deps.executor, request)

    async def SetThreadLabels(
        self, request: pb.SetThreadLabelsRequest, context: Context
    ) -> pb.SetThreadLabelsResponse:
        return await threads.set_thread_labels(self._deps.executor, request)

    async def ForkThread(
        self, request: pb.ForkThreadRequest, context: Context
    ) -> pb.ForkThreadResponse:
        return await threads.fork_thread(self._deps.executor, request)

    async def DeleteThread(
        self, request: pb.DeleteThreadRequest, context: Context
    ) -> pb.DeleteThreadResponse:
        return await threads.delete_thread(self._deps.executor, request)

    async def StopRun(self, request: pb.StopRunRequest, context: Context) -> pb.StopRunResponse:
        return await commands.stop_run(self._deps, self._presenter, request)

    async def RaiseBudget(
        self, request: pb.RaiseBudgetRequest, context: Context
    ) -> pb.RaiseBudgetResponse:
        return await commands.raise_budget(self._deps, self._presenter, request)

    async def ListQuestions(
        self, request: pb.ListQuestionsRequest, context: Context
    ) -> pb.ListQuestionsResponse:
        return await questions.list_questions(self._deps, request)

    async def AnswerQuestion(
        self, request: pb.AnswerQuestionRequest, context: Context
    ) -> pb.AnswerQuestionResponse:
        return await questions.answer_question(self._deps, self._presenter, request)

    async def AnswerByToken(
        self, request: pb.AnswerByTokenRequest, context: Context
    ) -> pb.AnswerByTokenResponse:
        return await questions.answer_by_token(self._deps, self._by_token, request, context.peer())

    async def ListWorkers(
        self, request: pb.ListWorkersRequest, context: Context
    ) -> pb.ListWorkersResponse:
        return await connected.list_workers(self._deps.executor, request)

    async def ListQueues(
        self, request: pb.ListQueuesRequest, context: Context
    ) -> pb.ListQueuesResponse:
        return await connected.list_queues(self._deps.executor, request)

    async def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: Context
    ) -> pb.GetServerInfoResponse:
        return reads.get_server_info(self._deps)

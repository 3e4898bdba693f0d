"""The Orchestrator service: how clients start, watch, steer and read runs. One module a theme."""

# ruff: noqa: N802, ARG002 - names and arguments are the protocol's

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from stepwell.rpc.orchestrator import commands, lists, reads, results, start, watch
from stepwell.rpc.orchestrator.shown import Shown
from stepwell.rpc.parts import Context, Parts, Service
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1.orchestrator_pb2_grpc import (
    OrchestratorServicer,
    add_OrchestratorServicer_to_server,
)

NAME = "stepwell.v1.Orchestrator"


def make_service(parts: Parts) -> Service:
    """Return the service, to be added to a server."""
    servicer = Servicer(parts)
    return Service(NAME, partial(add_OrchestratorServicer_to_server, servicer))


class Servicer(OrchestratorServicer):
    """Hands each RPC to its module. Who may call, and what a request may hold, is the gate's."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._shown = Shown(parts.store)

    async def StartRun(self, request: pb.StartRunRequest, context: Context) -> pb.StartRunResponse:
        return await start.start_run(self._parts, self._shown, request)

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.GetRunResponse:
        return await reads.get_run(self._parts, self._shown, request)

    async def ListRuns(self, request: pb.ListRunsRequest, context: Context) -> pb.ListRunsResponse:
        return await lists.list_runs(self._parts, self._shown, request)

    async def ListTasks(
        self, request: pb.ListTasksRequest, context: Context
    ) -> pb.ListTasksResponse:
        return await lists.list_tasks(self._parts, request)

    async def ListExecutions(
        self, request: pb.ListExecutionsRequest, context: Context
    ) -> pb.ListExecutionsResponse:
        return await lists.list_executions(self._parts, request)

    async def GetResults(
        self, request: pb.GetResultsRequest, context: Context
    ) -> pb.GetResultsResponse:
        return await results.get_results(self._parts, request)

    async def WaitRun(self, request: pb.WaitRunRequest, context: Context) -> pb.WaitRunResponse:
        return await reads.wait_run(self._parts, self._shown, request)

    def WatchRun(
        self, request: pb.WatchRunRequest, context: Context
    ) -> AsyncGenerator[pb.WatchRunResponse]:
        return watch.watch_one(self._parts, self._shown, request, context)

    def WatchRuns(
        self, request: pb.WatchRunsRequest, context: Context
    ) -> AsyncGenerator[pb.WatchRunsResponse]:
        return watch.watch_all(self._parts, self._shown, request, context)

    async def ResumeRun(
        self, request: pb.ResumeRunRequest, context: Context
    ) -> pb.ResumeRunResponse:
        return await commands.resume_run(self._parts, self._shown, request)

    async def PauseRun(self, request: pb.PauseRunRequest, context: Context) -> pb.PauseRunResponse:
        return await commands.pause_run(self._parts, self._shown, request)

    async def CancelRun(
        self, request: pb.CancelRunRequest, context: Context
    ) -> pb.CancelRunResponse:
        return await commands.cancel_run(self._parts, self._shown, request)

    async def DeleteRun(
        self, request: pb.DeleteRunRequest, context: Context
    ) -> pb.DeleteRunResponse:
        return await commands.delete_run(self._parts, request)

    async def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: Context
    ) -> pb.GetServerInfoResponse:
        return reads.get_server_info(self._parts)

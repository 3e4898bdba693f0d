"""Changing a run on its way: retry a task, skip one, stop after the iteration, allow it more."""

from __future__ import annotations

from stepwell_client._parts import AsyncPart, SyncPart
from stepwell_client._plans import Budget
from stepwell_client._procedures import Procedure, Procedures
from stepwell_client.v1 import orchestrator_pb2


def retry_task(
    procedures: Procedures, run_id: str, task_id: str, *, reason: str, request_id: str
) -> Procedure[orchestrator_pb2.RetryTaskResponse]:
    request = orchestrator_pb2.RetryTaskRequest(
        run_id=run_id,
        task_id=task_id,
        reason=reason,
        request_id=request_id or procedures.runtime.new_id(),
    )
    return procedures.call("RetryTask", request)


def skip_task(
    procedures: Procedures,
    run_id: str,
    task_id: str,
    *,
    skip_dependents: bool,
    reason: str,
    request_id: str,
) -> Procedure[orchestrator_pb2.SkipTaskResponse]:
    request = orchestrator_pb2.SkipTaskRequest(
        run_id=run_id,
        task_id=task_id,
        skip_dependents=skip_dependents,
        reason=reason,
        request_id=request_id or procedures.runtime.new_id(),
    )
    return procedures.call("SkipTask", request)


def stop(
    procedures: Procedures, run_id: str, *, reason: str, request_id: str
) -> Procedure[orchestrator_pb2.StopRunResponse]:
    request = orchestrator_pb2.StopRunRequest(
        run_id=run_id, reason=reason, request_id=request_id or procedures.runtime.new_id()
    )
    return procedures.call("StopRun", request)


def raise_budget(
    procedures: Procedures,
    run_id: str,
    budget: Budget,
    *,
    resume: bool,
    reason: str,
    request_id: str,
) -> Procedure[orchestrator_pb2.RaiseBudgetResponse]:
    request = orchestrator_pb2.RaiseBudgetRequest(
        run_id=run_id,
        budget=budget.message(),
        resume=resume,
        reason=reason,
        request_id=request_id or procedures.runtime.new_id(),
    )
    return procedures.call("RaiseBudget", request)


class AsyncControl(AsyncPart):
    """Of `Client`."""

    async def retry_task(
        self, run_id: str, task_id: str, *, reason: str = "", request_id: str = ""
    ) -> orchestrator_pb2.RetryTaskResponse:
        """Run a FAILED or SKIPPED task again, or one that waits for its back-off now."""
        made = retry_task(self._procedures, run_id, task_id, reason=reason, request_id=request_id)
        return await self._do(made)

    async def skip_task(
        self,
        run_id: str,
        task_id: str,
        *,
        skip_dependents: bool = False,
        reason: str = "",
        request_id: str = "",
    ) -> orchestrator_pb2.SkipTaskResponse:
        """Settle a task as SKIPPED, whatever it is doing; what depends on it goes on without."""
        made = skip_task(
            self._procedures,
            run_id,
            task_id,
            skip_dependents=skip_dependents,
            reason=reason,
            request_id=request_id,
        )
        return await self._do(made)

    async def stop(
        self, run_id: str, *, reason: str = "", request_id: str = ""
    ) -> orchestrator_pb2.StopRunResponse:
        """End a run after the iteration in progress, as though it were the last."""
        return await self._do(stop(self._procedures, run_id, reason=reason, request_id=request_id))

    async def raise_budget(
        self,
        run_id: str,
        budget: Budget,
        *,
        resume: bool = True,
        reason: str = "",
        request_id: str = "",
    ) -> orchestrator_pb2.RaiseBudgetResponse:
        """Set new, higher limits; one that is 0 stays. A run that is PAUSED for them goes on."""
        made = raise_budget(
            self._procedures, run_id, budget, resume=resume, reason=reason, request_id=request_id
        )
        return await self._do(made)


class SyncControl(SyncPart):
    """Of `SyncClient`."""

    def retry_task(
        self, run_id: str, task_id: str, *, reason: str = "", request_id: str = ""
    ) -> orchestrator_pb2.RetryTaskResponse:
        """Run a FAILED or SKIPPED task again, or one that waits for its back-off now."""
        made = retry_task(self._procedures, run_id, task_id, reason=reason, request_id=request_id)
        return self._do(made)

    def skip_task(
        self,
        run_id: str,
        task_id: str,
        *,
        skip_dependents: bool = False,
        reason: str = "",
        request_id: str = "",
    ) -> orchestrator_pb2.SkipTaskResponse:
        """Settle a task as SKIPPED, whatever it is doing; what depends on it goes on without."""
        made = skip_task(
            self._procedures,
            run_id,
            task_id,
            skip_dependents=skip_dependents,
            reason=reason,
            request_id=request_id,
        )
        return self._do(made)

    def stop(
        self, run_id: str, *, reason: str = "", request_id: str = ""
    ) -> orchestrator_pb2.StopRunResponse:
        """End a run after the iteration in progress, as though it were the last."""
        return self._do(stop(self._procedures, run_id, reason=reason, request_id=request_id))

    def raise_budget(
        self,
        run_id: str,
        budget: Budget,
        *,
        resume: bool = True,
        reason: str = "",
        request_id: str = "",
    ) -> orchestrator_pb2.RaiseBudgetResponse:
        """Set new, higher limits; one that is 0 stays. A run that is PAUSED for them goes on."""
        made = raise_budget(
            self._procedures, run_id, budget, resume=resume, reason=reason, request_id=request_id
        )
        return self._do(made)

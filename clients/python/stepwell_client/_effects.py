"""Settling an unknown outcome: a person says what became of an AT_MOST_ONCE task."""

from __future__ import annotations

from stepwell_client._decisions import Done, Failure, NotDone
from stepwell_client._parts import AsyncPart, SyncPart
from stepwell_client._payloads import encode
from stepwell_client._procedures import Procedure, Procedures
from stepwell_client.v1 import orchestrator_pb2, types_pb2

Settled = Done | NotDone | Failure
"""What became of it. A Failure: the effect took place, and the task failed all the same."""


def resolve(
    procedures: Procedures,
    run_id: str,
    execution_id: str,
    found: Settled,
    *,
    reason: str,
    request_id: str,
) -> Procedure[orchestrator_pb2.ResolveExecutionResponse]:
    request = orchestrator_pb2.ResolveExecutionRequest(
        run_id=run_id,
        execution_id=execution_id,
        finding=types_pb2.FINDING_DONE,
        reason=reason,
        request_id=request_id or procedures.runtime.new_id(),
    )
    if isinstance(found, NotDone):
        request.finding = types_pb2.FINDING_NOT_DONE
    elif isinstance(found, Failure):
        request.failure.kind = found.kind
        request.failure.message = found.message
        request.failure.details = found.details
        request.failure.retryable = False
    elif (result := encode(found.value)) is not None:
        request.result.CopyFrom(result)
    if not isinstance(found, Failure):
        request.reason = reason or found.reason
    return procedures.call("ResolveExecution", request)


class AsyncEffects(AsyncPart):
    """Of `Client`."""

    async def resolve(
        self,
        run_id: str,
        execution_id: str,
        found: Settled,
        *,
        reason: str = "",
        request_id: str = "",
    ) -> orchestrator_pb2.ResolveExecutionResponse:
        """Say what became of an execution whose outcome is unknown.

        Done: the task is completed, with that value. NotDone: it is run again. A Failure: its effect
        took place and it failed for good.
        """
        made = resolve(
            self._procedures, run_id, execution_id, found, reason=reason, request_id=request_id
        )
        return await self._do(made)


class SyncEffects(SyncPart):
    """Of `SyncClient`."""

    def resolve(
        self,
        run_id: str,
        execution_id: str,
        found: Settled,
        *,
        reason: str = "",
        request_id: str = "",
    ) -> orchestrator_pb2.ResolveExecutionResponse:
        """Say what became of an execution whose outcome is unknown."""
        made = resolve(
            self._procedures, run_id, execution_id, found, reason=reason, request_id=request_id
        )
        return self._do(made)

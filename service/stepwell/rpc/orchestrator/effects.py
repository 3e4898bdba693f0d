"""ResolveExecution: a person resolves an AT_MOST_ONCE task, or a call within a step, with an unknown outcome."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop.occurrences import Resolve
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.model import Failure
from stepwell.core.records.states import Finding
from stepwell.rpc.caller import tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.commands import common_fields, steer
from stepwell.rpc.orchestrator.presenter import RunPresenter
from stepwell.wire.records import to_record
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

_FINDINGS = {
    types_pb2.FINDING_DONE: Finding.DONE,
    types_pb2.FINDING_NOT_DONE: Finding.NOT_DONE,
}


async def resolve_execution(
    deps: Dependencies, presenter: RunPresenter, request: pb.ResolveExecutionRequest
) -> pb.ResolveExecutionResponse:
    """Resolve an unknown outcome."""
    _check(request)
    call = request.call
    command = Resolve(
        execution_id=request.execution_id,
        finding=_FINDINGS[request.finding],
        result=to_record(request.result) if request.HasField("result") else None,
        failure=_failure_of(request),
        call=call,
        **common_fields(request),
    )
    if call and command.finding is Finding.NOT_DONE:
        journals = deps.executor.journals
        begun = await journals.begun(tenant(), request.run_id, request.execution_id, call)
        command = replace(command, begun=begun)
    return await steer(deps, presenter, request, command, pb.ResolveExecutionResponse)


def _failure_of(request: pb.ResolveExecutionRequest) -> Failure:
    """Return why the task failed; an empty failure also means that it did."""
    if not request.HasField("failure"):
        return Failure()
    failure: Failure = to_record(request.failure)
    return failure if failure != Failure() else Failure(kind="RESOLVED_AS_FAILED")


def _check(request: pb.ResolveExecutionRequest) -> None:
    if request.finding not in _FINDINGS:
        raise _fault("finding", "is DONE or NOT_DONE: a person decides")
    done = request.finding == types_pb2.FINDING_DONE
    if request.HasField("result") and not done:
        raise _fault("result", "comes with DONE only")
    if request.HasField("failure") and not done:
        raise _fault("failure", "comes with DONE only")
    if request.HasField("failure") and request.HasField("result"):
        raise _fault("failure", "does not go together with a result; leave one of them out")


def _fault(field: str, what: str) -> InvalidArgument:
    return InvalidArgument(f"{field} {what}", (Violation(field, what),))

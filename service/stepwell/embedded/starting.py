"""From arguments of Python's to the loop's commands, and from its refusals to errors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core.loop.signals import Reply, Start
from stepwell.core.records import canonical, limits
from stepwell.core.records.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    Violation,
)
from stepwell.core.records.model import Budget, Payload, Run, RunSpec, TaskSpec
from stepwell.core.records.states import StepKind
from stepwell.wire import to_record
from stepwell_client import Budget as ClientBudget
from stepwell_client import PlanLike
from stepwell_client import StepKind as ClientStepKind
from stepwell_client.toolkit import plan_draft
from stepwell_client.v1 import types_pb2


def start_command(
    spec: RunSpec,
    *,
    budget: ClientBudget | None,
    run_input: types_pb2.Payload | None,
    plan: PlanLike | None,
    stages: tuple[StepKind, ...],
) -> Start:
    """Return the command that starts the run, with a fingerprint that tells it from another's."""
    payload: Payload | None = None if run_input is None else to_record(run_input)
    check_size("input", len(payload.data) if payload else 0, 0, limits.PAYLOAD_BYTES_MAX)
    tasks: tuple[TaskSpec, ...] | None = None
    if plan is not None:
        tasks = tuple(to_record(task) for task in plan_draft(plan).tasks)
    if budget is not None:
        spec = replace(spec, budget=budget_record(budget))
    start = Start(spec=spec, input=payload, plan=tasks, stages=stages)
    fingerprint = hashlib.sha256(canonical.bytes_of(start)).hexdigest()
    return replace(start, spec=replace(spec, request_fingerprint=fingerprint))


def budget_record(budget: ClientBudget) -> Budget:
    """Return a budget as the loop takes it. Raises ValueError for a limit below zero."""
    made: Budget = to_record(budget.message())
    for name in made.__struct_fields__:
        check_size(f"budget.{name}", getattr(made, name), 0, limits.AMOUNT_MAX)
    return made


def kinds_of(kinds: Sequence[ClientStepKind]) -> tuple[StepKind, ...]:
    """Return the core's words for the client's numbers."""
    return tuple(StepKind(kind.name) for kind in kinds)


def expect(reply: Reply) -> Run:
    """Return the run as the command left it; raise the error that a refusal stands for."""
    if reply.run is not None:
        return reply.run
    if reply.violations:
        first = reply.violations[0]
        raise InvalidArgument(
            f"{reply.message}: {first.field}: {first.description}",
            tuple(Violation(one.field, one.description) for one in reply.violations),
            reason=reply.reason,
        )
    if reply.reason == "REQUEST_ID_REUSED":
        raise AlreadyExists("a run of this run_id was started with other arguments; choose another")
    raise FailedPrecondition(reply.message, reason=reply.reason)


def check_size(what: str, value: int, least: int, most: int) -> None:
    """Raise ValueError where a number is not within its bounds."""
    if not least <= value <= most:
        raise ValueError(f"{what} is {value:,}; it is at least {least:,} and at most {most:,}")

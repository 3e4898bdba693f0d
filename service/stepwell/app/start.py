"""The command that starts a run, with the defaults of its spec."""

from __future__ import annotations

from stepwell.core.loop.signals import Start
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.model import Payload, RunSpec, TaskSpec
from stepwell.core.records.states import StepKind

MAX_ITERATIONS_DEFAULT = 10
MAX_PARALLEL_DEFAULT = 32
QUEUE_DEFAULT = "default"
"""The queue of a run that names neither queue nor pipeline, and of a worker that names no queue."""


def start_command(
    spec: RunSpec,
    *,
    run_input: Payload | None,
    plan: tuple[TaskSpec, ...] | None,
    stages: tuple[StepKind, ...],
) -> Start:
    """Return the command.

    Raises:
        InvalidArgument: there are stages and no plan.
    """
    if stages and plan is None:
        what = "without a plan it is the planning worker that says which stages there are"
        raise InvalidArgument(f"stages: {what}", (Violation("stages", what),))
    return Start(spec=spec, input=run_input, plan=plan, stages=stages)

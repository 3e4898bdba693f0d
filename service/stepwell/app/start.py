"""The command that starts a run, with the defaults of its spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepwell.core.loop.children import OWN_LABELS
from stepwell.core.loop.occurrences import Start
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.model import Payload, RunSpec, TaskSpec
from stepwell.core.records.routing import WorkerVersion, version_key
from stepwell.core.records.states import StepKind, VersionMatch

MAX_ITERATIONS_DEFAULT = 10
MAX_PARALLEL_DEFAULT = 32
QUEUE_DEFAULT = "default"
"""The default queue of runs without a queue and a pipeline, and of workers."""


def checked_version(wanted: WorkerVersion) -> WorkerVersion:
    """Return the worker version of a run, after a check.

    Raises:
        InvalidArgument: the version is missing, superfluous, or has no order.
    """
    what = ""
    if wanted.match is VersionMatch.ANY:
        what = "goes with EXACT or AT_LEAST; leave it empty with ANY" if wanted.version else ""
    elif not wanted.version:
        what = f"must be given with {wanted.match}"
    elif wanted.match is VersionMatch.AT_LEAST and not version_key(wanted.version):
        what = "must consist of numbers with dots between them, as 1.4.2; with EXACT it may be any name"
    if what:
        field = "worker_version.version"
        raise InvalidArgument(f"{field} {what}", (Violation(field, what),))
    return wanted


def check_labels(labels: Mapping[str, str]) -> None:
    """Check that no label has a name that only the service may give.

    Raises:
        InvalidArgument: a name begins with `OWN_LABELS`.
    """
    what = f"begins with {OWN_LABELS!r}: the service itself gives such labels, such as a child run's parent"
    faults = [
        Violation(f"labels[{name}]", what) for name in sorted(labels) if name.startswith(OWN_LABELS)
    ]
    if faults:
        raise InvalidArgument(f"{faults[0].field} {what}", tuple(faults))


def check_reflects(reflect_on: Sequence[str], stages: Sequence[StepKind]) -> None:
    """Check that a run of these stages can reflect for signals.

    Raises:
        InvalidArgument: it is to reflect for signals, and lacks the stage REFLECT.
    """
    if reflect_on and StepKind.REFLECT not in stages:
        what = "needs the stage REFLECT, in which a signal of these names is judged"
        raise InvalidArgument(f"reflect_on: {what}", (Violation("reflect_on", what),))


def start_command(
    spec: RunSpec,
    *,
    run_input: Payload | None,
    plan: tuple[TaskSpec, ...] | None,
    stages: tuple[StepKind, ...],
) -> Start:
    """Return the command.

    Raises:
        InvalidArgument: there are stages and no plan, a label is one of the service's, or a plan
            with `reflect_on` lacks the stage REFLECT.
    """
    check_labels(spec.labels)
    if plan is not None:
        check_reflects(spec.reflect_on, stages)
    if stages and plan is None:
        what = "without a plan it is the planning worker that says which stages there are"
        raise InvalidArgument(f"stages: {what}", (Violation("stages", what),))
    return Start(spec=spec, input=run_input, plan=plan, stages=stages)

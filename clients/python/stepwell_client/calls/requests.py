"""Requests of the Orchestrator service, made from what a caller passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from stepwell_client.enums import BlockedKind, ForkMode, RunStatus, StepKind, to_wire
from stepwell_client.records.decisions import Done, Failure, NotDone
from stepwell_client.records.payloads import encode
from stepwell_client.records.plans import Budget, PlanLike, Retry, Span, duration, plan_draft
from stepwell_client.v1 import orchestrator_pb2, types_pb2


class StartOptions(TypedDict, total=False):
    """Options of a new run besides its goal. The server chooses those that are left out."""

    input: object
    """The run's input: every step is shown it."""
    pipeline: str
    """The kind of run that this is an instance of."""
    queue: str
    """The queue where its steps wait for workers; else the pipeline's name, else `default`."""
    plan: PlanLike | None
    """A plan of the caller's: no PLAN step is run."""
    stages: Sequence[StepKind]
    """With a plan: which of REFLECT and SYNTHESIZE the run has."""
    labels: Mapping[str, str] | None
    on_behalf_of: str
    """The name, for people, of whoever starts it."""
    max_iterations: int | None
    max_parallel: int | None
    priority: int
    no_progress_limit: int | None
    """It pauses after so many iterations with the same plan and the same results; 0: never."""
    worker_version: str
    """Only workers of this version do its steps: `1.4` exactly, `>=1.4` that or a later one; `any`: all."""
    budget: Budget | None
    step_retry: Retry | None
    """For PLAN, REFLECT and SYNTHESIZE."""
    step_timeout: Span | None
    start_delay: Span | None
    request_id: str
    """Identifies the request: sent again, it returns the same run. Made where it is left out."""
    validate_only: bool
    """Check everything and start nothing."""
    server_seconds: float | None
    """The time to wait for a server that doesn't answer; None: the client's `reconnect_seconds`. `math.inf`: without
    end."""


class ForkOptions(TypedDict, total=False):
    """Overrides for a fork; omitted fields are inherited from the run."""

    version: int
    """The version of the run to fork; left out: its last one."""
    mode: ForkMode
    """STRICT, the default: the plan is the one in force. PATCH: it may be another."""
    plan: PlanLike | None
    """A plan instead of the one in force."""
    replan: bool
    """Make another plan before anything else is done."""
    goal: str | None
    input: object
    labels: Mapping[str, str] | None
    """Added to the run's labels, or replacing them by key."""
    queue: str
    on_behalf_of: str
    """The name, for people, of whoever forks it."""
    max_iterations: int | None
    max_parallel: int | None
    priority: int | None
    budget: Budget | None
    """The fork's own budget."""
    worker_version: str
    """As in `StartOptions`; left out: the run's."""
    request_id: str
    """Identifies the request: sent again, it returns the same fork. Made where it is left out."""


class ListOptions(TypedDict, total=False):
    """Filters of a list of runs; those that are left out match all."""

    statuses: Iterable[RunStatus]
    pipeline: str
    queue: str
    executor_id: str
    labels: Mapping[str, str] | None
    blocked_on: Iterable[BlockedKind]
    parent_run_id: str
    """Forks of this run."""
    run_id_prefix: str
    """Runs whose id begins with this."""
    page_size: int


class PurgeOptions(TypedDict, total=False):
    """Filters of ended runs; those that are left out match all."""

    statuses: Iterable[RunStatus]
    """SUCCEEDED, FAILED or CANCELLED."""
    older_than: Span | None
    """Runs that ended at least so long ago."""
    pipeline: str
    max_runs: int
    """The most that are removed, the oldest ends first; left out: 100."""
    validate_only: bool
    """Remove nothing: return which runs it would be."""
    on_behalf_of: str
    """The name, for people, of whoever removes them."""


Resolution = Done | NotDone | Failure
"""The fate of an execution whose outcome is unknown. A Failure: the effect took place, and the task failed."""


def start_request(
    goal: str, options: StartOptions, request_id: str
) -> orchestrator_pb2.StartRunRequest:
    """Return the request that starts a run; `request_id` is used where the options have none."""
    plan, budget, retry = options.get("plan"), options.get("budget"), options.get("step_retry")
    return orchestrator_pb2.StartRunRequest(
        pipeline_id=options.get("pipeline", ""),
        queue=options.get("queue", ""),
        goal=goal,
        input=encode(options.get("input")),
        labels=options.get("labels"),
        on_behalf_of=options.get("on_behalf_of", ""),
        max_iterations=options.get("max_iterations"),
        max_parallel=options.get("max_parallel"),
        no_progress_limit=options.get("no_progress_limit"),
        priority=options.get("priority", 0),
        budget=budget.message() if budget else None,
        step_retry=retry.message() if retry else None,
        worker_version=_worker_version(options.get("worker_version", "")),
        step_timeout=duration(options.get("step_timeout")),
        start_delay=duration(options.get("start_delay")),
        plan=plan_draft(plan) if plan is not None else None,
        stages=[to_wire(stage) for stage in options.get("stages", ())],
        request_id=options.get("request_id") or request_id,
        validate_only=options.get("validate_only", False),
    )


def _worker_version(wanted: str) -> types_pb2.WorkerVersion | None:
    if not wanted:
        return None
    if wanted == "any":
        return types_pb2.WorkerVersion(match=types_pb2.VERSION_MATCH_ANY)
    least = wanted.removeprefix(">=").strip()
    match = types_pb2.VERSION_MATCH_AT_LEAST
    if least == wanted.strip():
        match = types_pb2.VERSION_MATCH_EXACT
    return types_pb2.WorkerVersion(match=match, version=least)


def fork_request(
    run_id: str, options: ForkOptions, request_id: str, *, validate_only: bool = False
) -> orchestrator_pb2.ForkRunRequest:
    """Return the request that forks a run; `request_id` is used where the options have none."""
    plan, budget = options.get("plan"), options.get("budget")
    return orchestrator_pb2.ForkRunRequest(
        run_id=run_id,
        version=options.get("version", 0),
        mode=to_wire(options.get("mode", ForkMode.UNSPECIFIED)),
        plan=plan_draft(plan) if plan is not None else None,
        replan=options.get("replan", False),
        goal=options.get("goal"),
        input=encode(options["input"]) if "input" in options else None,
        labels=options.get("labels"),
        queue=options.get("queue", ""),
        on_behalf_of=options.get("on_behalf_of", ""),
        max_iterations=options.get("max_iterations"),
        max_parallel=options.get("max_parallel"),
        priority=options.get("priority"),
        budget=budget.message() if budget else None,
        worker_version=_worker_version(options.get("worker_version", "")),
        request_id=options.get("request_id") or request_id,
        validate_only=validate_only,
    )


def list_request(options: ListOptions, page_token: str) -> orchestrator_pb2.ListRunsRequest:
    """Return the request for a page of runs."""
    return orchestrator_pb2.ListRunsRequest(
        statuses=[to_wire(status) for status in options.get("statuses", ())],
        pipeline_id=options.get("pipeline", ""),
        queue=options.get("queue", ""),
        executor_id=options.get("executor_id", ""),
        labels=options.get("labels"),
        blocked_on=[to_wire(kind) for kind in options.get("blocked_on", ())],
        parent_run_id=options.get("parent_run_id", ""),
        run_id_prefix=options.get("run_id_prefix", ""),
        page_size=options.get("page_size", 0),
        page_token=page_token,
    )


def purge_request(options: PurgeOptions) -> orchestrator_pb2.PurgeRunsRequest:
    """Return the request that removes ended runs."""
    return orchestrator_pb2.PurgeRunsRequest(
        statuses=[to_wire(status) for status in options.get("statuses", ())],
        older_than=duration(options.get("older_than")),
        pipeline_id=options.get("pipeline", ""),
        max_runs=options.get("max_runs", 0),
        validate_only=options.get("validate_only", False),
        on_behalf_of=options.get("on_behalf_of", ""),
    )


def resolve_request(
    run_id: str,
    execution_id: str,
    resolution: Resolution,
    *,
    call: str,
    reason: str,
    on_behalf_of: str,
    request_id: str,
) -> orchestrator_pb2.ResolveExecutionRequest:
    """Return the request that settles an unknown outcome."""
    request = orchestrator_pb2.ResolveExecutionRequest(
        run_id=run_id,
        execution_id=execution_id,
        finding=types_pb2.FINDING_DONE,
        call=call,
        reason=reason,
        on_behalf_of=on_behalf_of,
        request_id=request_id,
    )
    if isinstance(resolution, NotDone):
        request.finding = types_pb2.FINDING_NOT_DONE
    elif isinstance(resolution, Failure):
        request.failure.kind = resolution.kind
        request.failure.message = resolution.message
        request.failure.details = resolution.details
        request.failure.retryable = False
    elif (result := encode(resolution.value)) is not None:
        request.result.CopyFrom(result)
    if not isinstance(resolution, Failure):
        request.reason = reason or resolution.reason
    return request

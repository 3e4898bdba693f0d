"""Makes requests of the Orchestrator service from a caller's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypedDict

from stepwell_client.enums import BlockedKind, ForkMode, RunStatus, StepKind, to_wire
from stepwell_client.records.decisions import Done, Failure, NotDone
from stepwell_client.records.payloads import encode
from stepwell_client.records.plans import Budget, PlanLike, Retry, Span, duration, plan_draft
from stepwell_client.v1 import orchestrator_pb2, types_pb2

OnBusy = Literal["enqueue", "reject", "interrupt", "steer"]
_ON_BUSY: Mapping[OnBusy, orchestrator_pb2.OnBusy] = {
    "enqueue": orchestrator_pb2.ON_BUSY_ENQUEUE,
    "reject": orchestrator_pb2.ON_BUSY_REJECT,
    "interrupt": orchestrator_pb2.ON_BUSY_INTERRUPT,
    "steer": orchestrator_pb2.ON_BUSY_STEER,
}


class StartOptions(TypedDict, total=False):
    """Options of a new run besides its goal. The server chooses those that are left out."""

    input: object
    """The run's input, which every step is shown."""
    pipeline: str
    """The kind of run."""
    queue: str
    """The queue in which its steps wait for workers; default: the pipeline's name, or else `default`."""
    plan: PlanLike | None
    """A plan, which replaces the PLAN step."""
    stages: Sequence[StepKind]
    """With a plan: the stages, of REFLECT and SYNTHESIZE, that the run has."""
    labels: Mapping[str, str] | None
    """Labels by which the run can be found."""
    on_behalf_of: str
    """The name, for people, of whoever the run is started for."""
    max_iterations: int | None
    """The most iterations, after which the run ends whatever the reflection decides."""
    max_parallel: int | None
    """The most tasks that are offered or leased at once."""
    priority: int
    """Within a queue, steps of a run with a higher priority go first."""
    no_progress_limit: int | None
    """The run pauses after this many iterations with the same plan and results; 0: never."""
    reflect_on: Sequence[str]
    """Names of signals: one that is kept makes the run reflect before its tasks are settled."""
    worker_version: str
    """Only workers of this version do its steps: `1.4` exactly, `>=1.4` that or a later one, `any` all."""
    budget: Budget | None
    """The limits at which the run pauses."""
    step_retry: Retry | None
    """The retry policy of PLAN, REFLECT and SYNTHESIZE; tasks have their own."""
    step_timeout: Span | None
    """The time limit of one attempt at PLAN, REFLECT or SYNTHESIZE."""
    start_delay: Span | None
    """The time from the start to the offer of the first step; in a thread, from the run's turn."""
    thread: str
    """The thread that it is a run of; it is made where it is missing."""
    on_busy: OnBusy
    """With a thread in which a run works: wait for its end (`enqueue`, the default), fail with the reason THREAD_BUSY
    (`reject`), cancel that run and come next (`interrupt`), or send that run goal and input as the signal `steer`, and
    return its handle (`steer`)."""
    request_id: str
    """Identifies the request: repeated, it returns the same run. Generated if left out."""
    validate_only: bool
    """Check everything and start nothing."""
    server_seconds: float | None
    """The time to wait for a server that doesn't answer; None: the client's `reconnect_seconds`;
    `math.inf`: without limit."""


class ForkOptions(TypedDict, total=False):
    """Overrides for a fork; omitted fields are inherited from the run."""

    version: int
    """The version of the run to fork; default: its last one."""
    mode: ForkMode
    """STRICT (the default): the plan in force is kept. PATCH: the plan may differ."""
    plan: PlanLike | None
    """A plan that replaces the plan in force."""
    replan: bool
    """Make another plan first."""
    goal: str | None
    """Another goal."""
    input: object
    """Another input; None: the run's."""
    labels: Mapping[str, str] | None
    """Labels that are added to the run's, or replace those of the same key."""
    queue: str
    """Another queue."""
    on_behalf_of: str
    """The name, for people, of whoever the run is forked for."""
    max_iterations: int | None
    """Another limit of iterations."""
    max_parallel: int | None
    """Another limit of tasks that are offered or leased at once."""
    priority: int | None
    """Another priority."""
    budget: Budget | None
    """The fork's own budget."""
    worker_version: str
    """As in `StartOptions`; default: the run's."""
    reflect_on: Sequence[str]
    """Other names of signals for which it reflects early; none: the run's."""
    thread: str
    """The thread that it is a run of, as in `StartOptions`; default: none, also where the run is of one."""
    on_busy: OnBusy
    """As in `StartOptions`, without `steer`."""
    request_id: str
    """Identifies the request: repeated, it returns the same fork. Generated if left out."""


class DeleteOptions(TypedDict, total=False):
    """Options of a deletion, and of every command to a run."""

    on_behalf_of: str
    """A name, for people, besides the caller's own, which comes from the credential."""
    expected_version: int
    """Change the run only at this version, or else raise VersionChanged. 0: at any version."""
    validate_only: bool
    """Check everything and change nothing."""


class CommandOptions(DeleteOptions, total=False):
    """Options of every command to a run."""

    reason: str
    """The reason, for people, which events and the run keep."""
    request_id: str
    """Identifies the request: repeated, it finds what the first has done. Generated if left out."""


class ListOptions(TypedDict, total=False):
    """Filters of a list of runs; those that are left out match all."""

    statuses: Iterable[RunStatus]
    """Only runs of these statuses; none: of all statuses."""
    pipeline: str
    """Only runs of this pipeline."""
    queue: str
    """Only runs whose steps wait in this queue."""
    executor_id: str
    """Only runs that this executor started."""
    labels: Mapping[str, str] | None
    """Only runs with all of these labels."""
    blocked_on: Iterable[BlockedKind]
    """Only runs that wait for one of these things."""
    parent_run_id: str
    """Only forks of this run."""
    run_id_prefix: str
    """Only runs whose id begins with this."""
    child_of: str
    """Only child runs that a step of this run started."""
    root_run_id: str
    """Only child runs at any depth below this run, which no run started; without itself."""
    page_size: int
    """The number of runs that are read at once; default: the server's."""


class PurgeOptions(TypedDict, total=False):
    """Filters of ended runs; those that are left out match all."""

    statuses: Iterable[RunStatus]
    """SUCCEEDED, FAILED or CANCELLED."""
    older_than: Span | None
    """Runs that ended at least so long ago."""
    pipeline: str
    """Only runs of this pipeline."""
    max_runs: int
    """The most runs that are removed, the earliest ended first; default: 100."""
    validate_only: bool
    """Remove nothing; return the runs that would be removed."""
    on_behalf_of: str
    """The name, for people, of whoever removes the runs."""


Resolution = Done | NotDone | Failure
"""The outcome of an execution that was unknown. A Failure: the effect took place, and the task failed."""


def start_request(
    goal: str, options: StartOptions, request_id: str
) -> orchestrator_pb2.StartRunRequest:
    """Return the request that starts a run; `request_id` is used if the options have none."""
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
        reflect_on=options.get("reflect_on", ()),
        budget=budget.message() if budget else None,
        step_retry=retry.message() if retry else None,
        worker_version=_worker_version(options.get("worker_version", "")),
        step_timeout=duration(options.get("step_timeout")),
        start_delay=duration(options.get("start_delay")),
        plan=plan_draft(plan) if plan is not None else None,
        stages=[to_wire(stage) for stage in options.get("stages", ())],
        request_id=options.get("request_id") or request_id,
        validate_only=options.get("validate_only", False),
        thread_id=options.get("thread", ""),
        on_busy=_on_busy(options.get("on_busy", "enqueue")),
    )


def _on_busy(word: OnBusy) -> orchestrator_pb2.OnBusy:
    if word not in _ON_BUSY:
        raise ValueError(f"on_busy is {word!r}; it is one of {', '.join(_ON_BUSY)}")
    return _ON_BUSY[word]


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
    """Return the request that forks a run; `request_id` is used if the options have none."""
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
        reflect_on=options.get("reflect_on", ()),
        thread_id=options.get("thread", ""),
        on_busy=_on_busy(options.get("on_busy", "enqueue")),
        request_id=options.get("request_id") or request_id,
        validate_only=validate_only,
    )


def list_request(options: ListOptions) -> orchestrator_pb2.ListRunsRequest:
    """Return the request for the first page of runs."""
    return orchestrator_pb2.ListRunsRequest(
        statuses=[to_wire(status) for status in options.get("statuses", ())],
        pipeline_id=options.get("pipeline", ""),
        queue=options.get("queue", ""),
        executor_id=options.get("executor_id", ""),
        labels=options.get("labels"),
        blocked_on=[to_wire(kind) for kind in options.get("blocked_on", ())],
        parent_run_id=options.get("parent_run_id", ""),
        run_id_prefix=options.get("run_id_prefix", ""),
        child_of=options.get("child_of", ""),
        root_run_id=options.get("root_run_id", ""),
        page_size=options.get("page_size", 0),
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
    execution_id: str, resolution: Resolution, call: str
) -> orchestrator_pb2.ResolveExecutionRequest:
    """Return the request that resolves an unknown outcome."""
    request = orchestrator_pb2.ResolveExecutionRequest(
        execution_id=execution_id, finding=types_pb2.FINDING_DONE, call=call
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
        request.reason = resolution.reason
    return request

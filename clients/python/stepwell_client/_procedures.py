"""What the clients do, without doing it: requests, retries, pages, as generators.

A procedure yields a Call or a Pause and is sent the response, or thrown the error, until it returns.
`Client` drives it with await, `SyncClient` without; everything that decides stands here, once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

from google.protobuf.message import Message

from stepwell_client._connect import Access
from stepwell_client._context import Results
from stepwell_client._enums import BlockedKind, RunStatus, StepKind, TaskStatus, wire
from stepwell_client._errors import (
    DeadlineExceeded,
    RunFailed,
    ServerError,
    Unauthenticated,
    Unavailable,
)
from stepwell_client._payloads import decode, encode
from stepwell_client._plans import Budget, Planned, Retry, Span, draft, duration
from stepwell_client._runtime import Runtime, full_jitter
from stepwell_client.v1 import orchestrator_pb2, types_pb2

CALL_SECONDS = 30.0
ATTEMPTS_MAX = 5
BACKOFF_SECONDS = 0.1
BACKOFF_SECONDS_MAX = 2.0
WAIT_SLICE_SECONDS = 60.0
RECONNECT_SECONDS = 60.0
"""How long a watch or a wait that has worked looks for a lost server before it gives up."""
FETCH_IDS_MAX = 4
"""Results asked for together when they came by reference: as many as one message surely holds."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One unary call of the Orchestrator service."""

    method: str
    request: Message
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait before the next call."""

    seconds: float


Procedure = Generator[Call | Pause, Any, T]


class StartOptions(TypedDict, total=False):
    """What a run may be started with besides its goal. What is left out is left to the server."""

    input: object
    """What it works on; every step is shown it."""
    pipeline: str
    """What it is an instance of."""
    queue: str
    """Where its steps wait for workers; else the pipeline's name, else `default`."""
    plan: Planned
    """A plan of the caller's: no PLAN step is asked for."""
    stages: Sequence[StepKind]
    """With a plan: which of REFLECT and SYNTHESIZE the run has."""
    labels: Mapping[str, str]
    executor_id: str
    """Who starts it, as people should see it."""
    max_iterations: int
    max_parallel: int
    priority: int
    no_progress_limit: int
    """It pauses after so many iterations with the same plan and the same results; 0: never."""
    budget: Budget
    step_retry: Retry
    """For PLAN, REFLECT and SYNTHESIZE."""
    step_timeout: Span
    start_delay: Span
    request_id: str
    """Names the request: sent again, it finds the same run. Else one is made."""
    validate_only: bool
    """Check everything and start nothing."""


class ListOptions(TypedDict, total=False):
    """Which runs; what is left out matches all."""

    statuses: Iterable[RunStatus]
    pipeline: str
    queue: str
    executor_id: str
    labels: Mapping[str, str]
    blocked_on: Iterable[BlockedKind]
    parent_run_id: str
    """Forks of this run."""
    page_size: int


@dataclass(frozen=True, slots=True)
class RunResults:
    """What a run came to."""

    run_result: orchestrator_pb2.Result | None
    """The run's own; None: it has not SUCCEEDED, or its tasks' results are the answer."""
    results: tuple[orchestrator_pb2.Result, ...]
    """Those of its tasks, or of the executions asked for."""

    @property
    def tasks(self) -> Results:
        """The results of completed tasks, decoded, by id."""
        done = [item for item in self.results if item.status == TaskStatus.COMPLETED]
        return Results({item.task_id: _payload(item) for item in done})

    def answer(self, kind: Any = Any) -> Any:
        """Return the run's own result, decoded; else a dict of those of its tasks."""
        if self.run_result is None:
            return dict(self.tasks)
        return decode(_payload(self.run_result), kind)


def _payload(result: orchestrator_pb2.Result) -> types_pb2.Payload | None:
    return result.payload if result.HasField("payload") else None


def start_request(
    goal: str, options: StartOptions, request_id: str
) -> orchestrator_pb2.StartRunRequest:
    """Shape a request from what the caller gave."""
    plan, budget, retry = options.get("plan"), options.get("budget"), options.get("step_retry")
    request = orchestrator_pb2.StartRunRequest(
        pipeline_id=options.get("pipeline", ""),
        queue=options.get("queue", ""),
        goal=goal,
        input=encode(options.get("input")),
        labels=options.get("labels"),
        executor_id=options.get("executor_id", ""),
        priority=options.get("priority", 0),
        budget=budget.message() if budget else None,
        step_retry=retry.message() if retry else None,
        step_timeout=duration(options.get("step_timeout")),
        start_delay=duration(options.get("start_delay")),
        plan=draft(plan) if plan is not None else None,
        stages=[wire(stage) for stage in options.get("stages", ())],
        request_id=options.get("request_id") or request_id,
        validate_only=options.get("validate_only", False),
    )
    if "max_iterations" in options:
        request.max_iterations = options["max_iterations"]
    if "max_parallel" in options:
        request.max_parallel = options["max_parallel"]
    if "no_progress_limit" in options:
        request.no_progress_limit = options["no_progress_limit"]
    return request


def list_request(options: ListOptions, page_token: str) -> orchestrator_pb2.ListRunsRequest:
    """Shape a request for a page of runs."""
    return orchestrator_pb2.ListRunsRequest(
        statuses=[wire(status) for status in options.get("statuses", ())],
        pipeline_id=options.get("pipeline", ""),
        queue=options.get("queue", ""),
        executor_id=options.get("executor_id", ""),
        labels=options.get("labels"),
        blocked_on=[wire(kind) for kind in options.get("blocked_on", ())],
        parent_run_id=options.get("parent_run_id", ""),
        page_size=options.get("page_size", 0),
        page_token=page_token,
    )


def ensure_succeeded(run: types_pb2.Run) -> None:
    """Raise RunFailed for a run that ended otherwise."""
    if run.status in (RunStatus.FAILED, RunStatus.CANCELLED):
        name = RunStatus(run.status).name
        message = run.failure.message or run.reason
        raise RunFailed(run.spec.run_id, name, run.failure.kind, message)


class Procedures:
    """Makes procedures. Holds what they share: chance, the clock, the token."""

    def __init__(
        self, runtime: Runtime, access: Access, *, reconnect_seconds: float | None
    ) -> None:
        self.runtime = runtime
        self.access = access
        self.reconnect_seconds = reconnect_seconds

    def call(
        self, method: str, request: Message, *, seconds: float = CALL_SECONDS, repeat: bool = True
    ) -> Procedure[Any]:
        """Make a call; where it may be repeated, again while the server is UNAVAILABLE."""
        failures = 0
        renewed = False
        while True:
            try:
                return (yield Call(method, request, seconds))
            except DeadlineExceeded:
                raise
            except Unavailable:
                failures += 1
                if not repeat or failures >= ATTEMPTS_MAX:
                    raise
            except Unauthenticated:
                if renewed or not self.access.reload():
                    raise
                renewed = True
                continue
            yield Pause(self.backoff(failures))

    def backoff(self, failures: int) -> float:
        """Return how many seconds to wait after so many failures in a row."""
        return full_jitter(self.runtime, failures, base=BACKOFF_SECONDS, cap=BACKOFF_SECONDS_MAX)

    def start(
        self, goal: str, options: StartOptions
    ) -> Procedure[orchestrator_pb2.StartRunResponse]:
        # The id is made once, so that a repetition finds what the first call may have started.
        return self.call("StartRun", start_request(goal, options, self.runtime.new_id()))

    def get(self, run_id: str, version: int = 0) -> Procedure[types_pb2.Run]:
        request = orchestrator_pb2.GetRunRequest(run_id=run_id, version=version)
        response = yield from self.call("GetRun", request)
        return response.run

    def runs(
        self, options: ListOptions, page_token: str
    ) -> Procedure[orchestrator_pb2.ListRunsResponse]:
        return self.call("ListRuns", list_request(options, page_token))

    def tasks(
        self, run_id: str, full_specs: bool, page_token: str, version: int = 0
    ) -> Procedure[orchestrator_pb2.ListTasksResponse]:
        request = orchestrator_pb2.ListTasksRequest(
            run_id=run_id, full_specs=full_specs, page_token=page_token, version=version
        )
        return self.call("ListTasks", request)

    def executions(
        self, run_id: str, task_id: str, page_token: str
    ) -> Procedure[orchestrator_pb2.ListExecutionsResponse]:
        request = orchestrator_pb2.ListExecutionsRequest(
            run_id=run_id, task_id=task_id, page_token=page_token
        )
        return self.call("ListExecutions", request)

    def results(
        self, run_id: str, task_ids: Sequence[str], execution_ids: Sequence[str]
    ) -> Procedure[RunResults]:
        """Read all pages, then by themselves those that found no room in them."""
        run_result: orchestrator_pb2.Result | None = None
        found: list[orchestrator_pb2.Result] = []
        token = ""
        while True:
            request = orchestrator_pb2.GetResultsRequest(
                run_id=run_id, task_ids=task_ids, execution_ids=execution_ids, page_token=token
            )
            page = yield from self.call("GetResults", request)
            if page.HasField("run_result"):
                run_result = page.run_result
            found.extend(page.results)
            token = page.next_page_token
            if not token:
                break
        apart = [item for item in (run_result, *found) if item is not None and item.by_reference]
        ids = list(dict.fromkeys(item.execution_id for item in apart))
        payloads = yield from self.payloads(run_id, ids)
        for item in apart:
            if item.execution_id in payloads:
                item.payload.CopyFrom(payloads[item.execution_id])
            item.by_reference = False
        return RunResults(run_result, tuple(found))

    def payloads(
        self, run_id: str, execution_ids: Sequence[str]
    ) -> Procedure[dict[str, types_pb2.Payload]]:
        """Fetch the bytes of results, a few at a time, by execution."""
        found: dict[str, types_pb2.Payload] = {}
        waiting = [list(execution_ids[n : n + FETCH_IDS_MAX]) for n in _starts(execution_ids)]
        while waiting:
            ids = waiting.pop()
            request = orchestrator_pb2.GetResultsRequest(run_id=run_id, execution_ids=ids)
            page = yield from self.call("GetResults", request)
            apart = [item.execution_id for item in page.results if item.by_reference]
            if apart and len(ids) == 1:
                raise ServerError(f"the result of execution {ids[0]} doesn't come by itself either")
            waiting += [[each] for each in apart]
            for item in page.results:
                if item.HasField("payload"):
                    found[item.execution_id] = item.payload
        return found

    def wait(self, run_id: str, timeout_seconds: float | None) -> Procedure[types_pb2.Run]:
        """Wait for the end by slices; a server that goes and comes back is waited for too."""
        now = self.runtime.monotonic
        until = None if timeout_seconds is None else now() + timeout_seconds
        lost_since: float | None = None
        worked = False
        failures = 0
        while True:
            left = WAIT_SLICE_SECONDS if until is None else max(0.0, until - now())
            span = min(WAIT_SLICE_SECONDS, left)
            request = orchestrator_pb2.WaitRunRequest(run_id=run_id, timeout=duration(span))
            try:
                answer = yield from self.call("WaitRun", request, seconds=span + CALL_SECONDS)
            except Unavailable:
                lost_since = now() if lost_since is None else lost_since
                failures += 1
                if not worked or self.gives_up(lost_since) or left <= 0:
                    raise
                yield Pause(self.backoff(failures))
                continue
            worked, lost_since, failures = True, None, 0
            if answer.ended or (until is not None and now() >= until):
                return answer.run

    def gives_up(self, lost_since: float) -> bool:
        """Whether a server that was lost then has been looked for long enough."""
        span = self.reconnect_seconds
        return span is not None and self.runtime.monotonic() - lost_since >= span

    def resume(
        self, run_id: str, *, retry_failed: bool, reason: str, request_id: str, validate_only: bool
    ) -> Procedure[orchestrator_pb2.ResumeRunResponse]:
        request = orchestrator_pb2.ResumeRunRequest(
            run_id=run_id,
            retry_failed=retry_failed,
            reason=reason,
            request_id=request_id or self.runtime.new_id(),
            validate_only=validate_only,
        )
        return self.call("ResumeRun", request)

    def pause(
        self, run_id: str, reason: str, request_id: str
    ) -> Procedure[orchestrator_pb2.PauseRunResponse]:
        request = orchestrator_pb2.PauseRunRequest(
            run_id=run_id, reason=reason, request_id=request_id or self.runtime.new_id()
        )
        return self.call("PauseRun", request)

    def cancel(
        self, run_id: str, reason: str, request_id: str
    ) -> Procedure[orchestrator_pb2.CancelRunResponse]:
        request = orchestrator_pb2.CancelRunRequest(
            run_id=run_id, reason=reason, request_id=request_id or self.runtime.new_id()
        )
        return self.call("CancelRun", request)

    def delete(self, run_id: str) -> Procedure[orchestrator_pb2.DeleteRunResponse]:
        # Not repeated: the second answer would be NOT_FOUND, whoever removed the run.
        request = orchestrator_pb2.DeleteRunRequest(run_id=run_id)
        return self.call("DeleteRun", request, repeat=False)

    def server_info(self) -> Procedure[orchestrator_pb2.GetServerInfoResponse]:
        return self.call("GetServerInfo", orchestrator_pb2.GetServerInfoRequest())


def _starts(ids: Sequence[str]) -> range:
    return range(0, len(ids), FETCH_IDS_MAX)

"""Runs one step of an agent, from its assignment to its outcome, independent of transport.

A Worker receives assignments over a stream; an orchestrator in the caller's own process makes them
itself. Both do the same:

    runner = AgentRunner(agent)
    outcome = await runner.run(assignment, services)

`run` returns for everything that an agent can do: a value, a failure (any exception, with its
traceback as data), a question, a hand-back. The outcome carries the assignment's run, execution and
lease token; `delivery_id` is left to the transport. It raises only where nobody waits for an outcome:
CancelledError when its task was cancelled, LeaseLost when another worker has the step.

To cancel a step, cancel the task that runs it. An async function gets the CancelledError; a
synchronous one can't be interrupted: `ctx.cancelled` turns true, and `run` ends when the function
does, or at the second cancellation.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, cast

from stepwell_client._agent import Agent, Step
from stepwell_client._context import (
    PlanContext,
    ReconcileContext,
    ReflectContext,
    StepContext,
    SynthesizeContext,
    TaskContext,
)
from stepwell_client._decisions import Failure, NeedsInput, Release, reconciled, reflected
from stepwell_client._enums import StepKind, word
from stepwell_client._errors import DecodeError, LeaseLost, Misconfigured, NotLoaded
from stepwell_client._limits import (
    FAILURE_BYTES_MAX,
    KIND_CHARS_MAX,
    LOG_TEXT_BYTES_MAX,
    OUTCOME_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PLAN_BYTES_MAX,
    REASON_BYTES_MAX,
    VIOLATION_BYTES_MAX,
    VIOLATIONS_MAX,
    clip,
)
from stepwell_client._payloads import encode_into
from stepwell_client._plans import Plan, plan_draft
from stepwell_client._step_output import AttemptRecord
from stepwell_client._step_services import StepServices
from stepwell_client._texts import storable
from stepwell_client._threads import Threads
from stepwell_client.v1 import types_pb2, worker_pb2

_log = logging.getLogger("stepwell_client.execution")

UNKNOWN_TASK_TYPE = "UNKNOWN_TASK_TYPE"
UNKNOWN_STEP_KIND = "UNKNOWN_STEP_KIND"
INVALID_INPUT = "INVALID_INPUT"
INVALID_RESULT = "INVALID_RESULT"
RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
PLAN_INVALID = "PLAN_INVALID"

_CONTEXTS: dict[int, type[StepContext]] = {
    StepKind.PLAN: PlanContext,
    StepKind.TASK: TaskContext,
    StepKind.REFLECT: ReflectContext,
    StepKind.SYNTHESIZE: SynthesizeContext,
    StepKind.RECONCILE: ReconcileContext,
}


_NOT_DONE = frozenset({"failed", "needs_input", "released"})


class AgentRunner:
    """Runs steps of one agent, any number at once, on one event loop."""

    def __init__(self, agent: Agent) -> None:
        if not agent.kinds:
            raise Misconfigured(
                f"agent {agent.name!r} has no functions: decorate some with @agent.task, "
                "@agent.plan, @agent.reflect or @agent.synthesize"
            )
        self.agent = agent
        self._threads = Threads(f"{agent.name}-step")

    def close(self) -> None:
        """End the threads of synchronous functions, each when its function has ended."""
        self._threads.close()

    async def run(
        self, assignment: worker_pb2.Assignment, services: StepServices
    ) -> worker_pb2.Outcome:
        """Run the step and return its outcome."""
        execution = assignment.execution
        outcome = worker_pb2.Outcome(
            run_id=assignment.run.run_id,
            execution_id=execution.execution_id,
            lease_token=assignment.lease_token,
        )
        record = AttemptRecord()
        trace = ""
        try:
            await self._attempt(assignment, services, record, outcome)
        except asyncio.CancelledError as error:
            record.cancelled = True
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The function itself raised it: something that it awaited was cancelled.
            trace = _fail(outcome, error)
        except LeaseLost as error:
            if record.cancelled:
                raise
            trace = _fail(outcome, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - every exception of the agent is data
            trace = _fail(outcome, error)
        _add_record(outcome, record)
        _fit(outcome)
        if outcome.HasField("failed"):
            _log_failure(outcome, trace)
        if trace:
            record.wrote = True
            text = clip(trace, LOG_TEXT_BYTES_MAX, keep_end=True)
            services.write(assignment, text, "ERROR", chunk=False)
        if record.progress is not None and outcome.WhichOneof("result") in _NOT_DONE:
            outcome.progress.CopyFrom(record.progress)
        if record.wrote:
            await services.flush(assignment)
        return outcome

    async def _attempt(
        self,
        assignment: worker_pb2.Assignment,
        services: StepServices,
        record: AttemptRecord,
        outcome: worker_pb2.Outcome,
    ) -> None:
        kind = assignment.execution.kind
        task = assignment.task
        step = self.agent.find(kind, task.type, task.role)
        if step is None:
            raise self._unknown(assignment)
        context = _CONTEXTS[kind](assignment, services, record, asyncio.get_running_loop())
        try:
            takes_input = step.wants_input and (context.has_input or not step.has_default)
            arguments = (context, context.input(step.annotation)) if takes_input else (context,)
        except DecodeError as error:
            failure = _failure(INVALID_INPUT, f"the step's input: {error.message}", retryable=False)
            for violation in error.violations[:VIOLATIONS_MAX]:
                failure.violations.add(
                    field=clip(violation.field, VIOLATION_BYTES_MAX),
                    description=clip(violation.description, VIOLATION_BYTES_MAX),
                )
            outcome.failed.failure.CopyFrom(failure)
            return
        begins = kind == StepKind.TASK and task.effect == types_pb2.EFFECT_AT_MOST_ONCE
        if begins and not step.manual_begin:
            await context.begin()
        value = await self._call(step, arguments, record)
        try:
            _set_value(outcome, kind, value)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"what {_name(step)} returned can't be used: {error}"
            outcome.failed.failure.CopyFrom(_failure(INVALID_RESULT, message, retryable=False))

    async def _call(self, step: Step, arguments: tuple[Any, ...], record: AttemptRecord) -> object:
        if step.is_async:
            return await cast("Awaitable[object]", step.function(*arguments))
        future = self._threads.call(partial(_whole, step.function, *arguments))
        try:
            value, error = await asyncio.shield(future)
        except asyncio.CancelledError:
            record.cancelled = True  # The function may read it, and ends in its own time.
            await asyncio.shield(future)
            raise
        if error is not None:
            raise error
        return await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value

    def _unknown(self, assignment: worker_pb2.Assignment) -> Failure:
        if assignment.execution.kind == StepKind.TASK:
            task = assignment.task
            return Failure(
                f"no function for task {task.task_id!r} of type {task.type!r} and role "
                f"{task.role!r}; this agent knows: {self.agent.known()}",
                kind=UNKNOWN_TASK_TYPE,
                retryable=False,
            )
        if assignment.execution.kind == StepKind.RECONCILE:
            task = assignment.task
            return Failure(
                f"no reconcile function for task {task.task_id!r} of type {task.type!r} and role "
                f"{task.role!r}: decorate one with @agent.reconcile({task.type!r}), or settle "
                f"{assignment.unknown_execution_id} with ResolveExecution (`stepwell resolve`)",
                kind=UNKNOWN_TASK_TYPE,
                retryable=False,
            )
        return Failure(
            f"this agent has no function for {word(StepKind, assignment.execution.kind)}",
            kind=UNKNOWN_STEP_KIND,
            retryable=False,
        )


def _whole(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; if it is a generator, run it to its end here, where it may wait."""
    value = function(*arguments)
    return list(value) if inspect.isgenerator(value) else value


def _set_value(outcome: worker_pb2.Outcome, kind: int, value: Any) -> None:
    """Put a function's return value into the outcome, as its kind of step requires."""
    if kind == StepKind.PLAN:
        if value is None or isinstance(value, str | bytes | dict):
            raise TypeError("a plan is a Plan, or an iterable of Task")
        reason = storable(value.reason) if isinstance(value, Plan) else ""
        planned = worker_pb2.Outcome.Planned(plan=plan_draft(value), reason=reason)
        outcome.planned.CopyFrom(planned)
    elif kind == StepKind.REFLECT:
        outcome.reflected.CopyFrom(reflected(value))
    elif kind == StepKind.RECONCILE:
        outcome.reconciled.CopyFrom(reconciled(value))
    else:
        outcome.completed.SetInParent()
        if value is not None:
            encode_into(value, outcome.completed.result)


def _fail(outcome: worker_pb2.Outcome, error: BaseException) -> str:
    """Put a function's exception into the outcome.

    Returns its traceback if people should see it: that of a Failure, which the author raised on
    purpose, is kept with the attempt and shown to nobody who doesn't ask.
    """
    if isinstance(error, Release):
        outcome.released.reason = clip(error.reason, REASON_BYTES_MAX)
        outcome.released.SetInParent()
        return ""
    if isinstance(error, NeedsInput):
        try:
            outcome.needs_input.CopyFrom(error.outcome())
        except (TypeError, ValueError) as problem:
            outcome.failed.failure.CopyFrom(
                _failure(INVALID_RESULT, f"the question can't be asked: {problem}", retryable=False)
            )
        return ""
    kind = error.kind if isinstance(error, Failure) else type(error).__name__
    details = error.details if isinstance(error, Failure) else ""
    retryable = error.retryable if isinstance(error, Failure) else None
    if isinstance(error, NotLoaded):
        retryable = False  # The same function would ask for it in the same way.
    if not details and kind not in (UNKNOWN_TASK_TYPE, UNKNOWN_STEP_KIND):
        details = _traceback(error)
    failure = _failure(kind, _text_of(error), details=details, retryable=retryable)
    if isinstance(error, Failure) and error.retry_after is not None:
        failure.retry_after.CopyFrom(error.retry_after)
    outcome.failed.failure.CopyFrom(failure)
    return "" if isinstance(error, Failure) else failure.details


def _log_failure(outcome: worker_pb2.Outcome, trace: str) -> None:
    """Write the failure of an attempt to the worker's own log, with the traceback that there may be."""
    failure = outcome.failed.failure
    what = trace or f"{failure.kind}: {failure.message}"
    _log.warning("execution %s of run %s failed: %s", outcome.execution_id, outcome.run_id, what)


def _failure(
    kind: str, message: str, *, details: str = "", retryable: bool | None = None
) -> types_pb2.Failure:
    failure = types_pb2.Failure(
        kind=clip(kind, KIND_CHARS_MAX),
        message=clip(message, FAILURE_BYTES_MAX),
        details=clip(details, FAILURE_BYTES_MAX, keep_end=True),
    )
    if retryable is not None:
        failure.retryable = retryable
    return failure


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:  # noqa: BLE001 - an exception whose own text fails must be reported too
        return f"(its text can't be had: {type(problem).__name__})"


def _traceback(error: BaseException) -> str:
    """Return the traceback from the agent's own first frame on."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and str(frames.tb_frame.f_globals.get("__name__")).startswith(
        "stepwell_client."
    ):
        frames = frames.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception:  # noqa: BLE001 - as above: the report goes without it
        return ""


def _add_record(outcome: worker_pb2.Outcome, record: AttemptRecord) -> None:
    """Put the attempt's usage, session and messages into the outcome."""
    if record.usage is not None:
        outcome.usage.CopyFrom(record.usage)
    if record.session is not None:
        outcome.session.CopyFrom(record.session)
    if record.prompt:
        outcome.prompt = record.prompt
    if record.response:
        outcome.response = record.response
    if record.messages:
        outcome.messages.extend(record.messages)
        outcome.messages_after = record.saved


def _fit(outcome: worker_pb2.Outcome) -> None:
    """Replace an outcome that is too large for the server by a failure with its size."""
    size = outcome.ByteSize()
    if size <= PAYLOAD_BYTES_MAX:
        return
    for plan in (outcome.planned.plan, outcome.reflected.plan):
        if plan.ByteSize() > PLAN_BYTES_MAX:
            problem = f"the plan has {plan.ByteSize():,} bytes; {PLAN_BYTES_MAX:,} is the most"
            # Another attempt may plan less.
            _fail_unfit(outcome, _failure(PLAN_INVALID, problem))
            return
    problem = ""
    result = max(
        len(outcome.completed.result.data) if outcome.HasField("completed") else 0,
        len(outcome.reconciled.result.data) if outcome.HasField("reconciled") else 0,
    )
    if result > PAYLOAD_BYTES_MAX:
        problem = f"the result has {result:,} bytes; {PAYLOAD_BYTES_MAX:,} is the most"
    if not problem and size > OUTCOME_BYTES_MAX:
        problem = (
            f"result, prompt, response and messages have {size:,} bytes together; "
            f"{OUTCOME_BYTES_MAX:,} is the most"
        )
    if problem:
        _fail_unfit(outcome, _failure(RESULT_TOO_LARGE, problem, retryable=False))


def _fail_unfit(outcome: worker_pb2.Outcome, failure: types_pb2.Failure) -> None:
    outcome.failed.failure.CopyFrom(failure)
    for field in ("prompt", "response", "messages"):
        outcome.ClearField(field)


def _name(step: Step) -> str:
    return str(getattr(step.function, "__qualname__", step.function))

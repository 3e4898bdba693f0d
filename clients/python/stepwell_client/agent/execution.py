"""Runs one step of an agent, from its assignment to its outcome, independent of transport.

A Worker receives assignments over a stream; an orchestrator in the caller's own process makes them
itself. Both use it like this:

    runner = AgentRunner(agent)
    outcome = await runner.run(assignment, services)

`run` returns an outcome for everything that an agent can do: a value, a failure (any exception,
with its traceback as data), a question, a hand-back. The outcome has the assignment's run,
execution and lease token; the transport sets `delivery_id`. `run` raises only if nobody waits for
an outcome: CancelledError when its task was cancelled, LeaseLost when another worker has the step.

To cancel a step, cancel the task that runs it. An async function gets the CancelledError; a
synchronous one can't be interrupted: `ctx.cancelled` turns true, and `run` ends when the function
does, or at the second cancellation.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from functools import partial
from typing import Any, cast

from stepwell_client.agent.agent import Agent, Step
from stepwell_client.agent.contexts import (
    RUNNING,
    RUNNING_IDS,
    PlanContext,
    ReconcileContext,
    ReflectContext,
    StepContext,
    SynthesizeContext,
    TaskContext,
)
from stepwell_client.agent.failures import failure_message, failure_of, find_in
from stepwell_client.agent.final_errors import is_final
from stepwell_client.agent.journal.call_run import INVALID_RESULT
from stepwell_client.agent.journal.context import calls_of, opened_calls
from stepwell_client.agent.journal.journal_calls import Calls
from stepwell_client.agent.journal.waits import note_swallowed
from stepwell_client.agent.step_output import AttemptRecord
from stepwell_client.agent.step_services import StepServices
from stepwell_client.agent.threads import Threads, finished, whole
from stepwell_client.enums import StepKind
from stepwell_client.errors import (
    DecodeError,
    JournalError,
    LeaseLost,
    Misconfigured,
    Suspended,
    UnknownOutcome,
)
from stepwell_client.link.runtime import Runtime
from stepwell_client.records.clean_text import storable
from stepwell_client.records.decisions import (
    Failure,
    Grow,
    NeedsAnswer,
    NonRetryable,
    Release,
    reconciled,
    reflected,
)
from stepwell_client.records.limits import (
    LOG_TEXT_BYTES_MAX,
    OUTCOME_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PLAN_BYTES_MAX,
    REASON_BYTES_MAX,
    RESULT_TOO_LARGE,
    VIOLATION_BYTES_MAX,
    VIOLATIONS_MAX,
    clip,
)
from stepwell_client.records.payloads import encode_into
from stepwell_client.records.plans import Plan, plan_draft
from stepwell_client.v1 import types_pb2, worker_pb2

_log = logging.getLogger("stepwell_client.execution")

UNKNOWN_TASK_TYPE = "UNKNOWN_TASK_TYPE"
UNKNOWN_STEP_KIND = "UNKNOWN_STEP_KIND"
INVALID_INPUT = "INVALID_INPUT"
PLAN_INVALID = "PLAN_INVALID"
UNASKED_CALLS = "UNASKED_CALLS"
UNASKED_MAX = 20
"""The most unasked calls that a message names."""

_CONTEXTS: dict[int, type[StepContext]] = {
    StepKind.PLAN: PlanContext,
    StepKind.TASK: TaskContext,
    StepKind.REFLECT: ReflectContext,
    StepKind.SYNTHESIZE: SynthesizeContext,
    StepKind.RECONCILE: ReconcileContext,
}


_RETURNING: frozenset[int] = frozenset({StepKind.TASK, StepKind.SYNTHESIZE})
"""Kinds of step whose functions return a value of a type of their own."""
_COMPLETES = frozenset({"planned", "completed", "reflected"})
_NOT_DONE = frozenset({"failed", "needs_answer", "released"})


class AgentRunner:
    """Runs steps of one agent, any number at once, on one event loop."""

    def __init__(self, agent: Agent, runtime: Runtime | None = None) -> None:
        if not agent.kinds:
            raise Misconfigured(
                f"agent {agent.name!r} has no functions: decorate some with @agent.task, "
                "@agent.plan, @agent.reflect or @agent.synthesize"
            )
        self.agent = agent
        self._threads = Threads(f"{agent.name}-step")
        self._runtime = runtime or Runtime()

    def close(self) -> None:
        """End the threads of synchronous functions, each after its function has ended."""
        self._threads.close()

    async def run(
        self, assignment: worker_pb2.Assignment, services: StepServices
    ) -> worker_pb2.Outcome:
        """Run the step and return its outcome."""
        outcome = worker_pb2.Outcome(
            lease=assignment.lease,
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
            # The function raised it by itself, because something that it awaited was cancelled.
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
        context = _CONTEXTS[kind](
            assignment, services, record, asyncio.get_running_loop(), self._runtime, self._threads
        )
        try:
            takes_input = step.wants_input and (context.has_input or not step.has_default)
            arguments = (context, context.input(step.annotation)) if takes_input else (context,)
        except DecodeError as error:
            failure = failure_message(
                INVALID_INPUT, f"the step's input: {error.message}", retryable=False
            )
            for violation in error.violations[:VIOLATIONS_MAX]:
                failure.violations.add(
                    field=clip(violation.field, VIOLATION_BYTES_MAX),
                    description=clip(violation.description, VIOLATION_BYTES_MAX),
                )
            outcome.failed.failure.CopyFrom(failure)
            return
        returns, flaw = step.returned() if kind in _RETURNING else (Any, None)
        if flaw is not None:
            message = f"what {_name(step)} would return can't be kept: {flaw}"
            outcome.failed.failure.CopyFrom(
                failure_message(INVALID_RESULT, message, retryable=False)
            )
            return
        begins = kind == StepKind.TASK and task.effect == types_pb2.EFFECT_AT_MOST_ONCE
        if begins and not step.manual_begin:
            await context.begin()
        value = await self._call(step, context, arguments, record, outcome)
        if outcome.WhichOneof("result") is not None:
            return
        try:
            _set_value(outcome, kind, value, returns)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"what {_name(step)} returned can't be used: {error}"
            outcome.failed.failure.CopyFrom(
                failure_message(INVALID_RESULT, message, retryable=False)
            )

    async def _call(
        self,
        step: Step,
        context: StepContext,
        arguments: tuple[Any, ...],
        record: AttemptRecord,
        outcome: worker_pb2.Outcome,
    ) -> object:
        """Run the step's function and return its value, or put the reason for having none into the outcome."""
        problem: BaseException | None = None
        value: object = None
        token = RUNNING.set(context)
        RUNNING_IDS.add(id(context))
        try:
            if step.is_async:
                returned: Any = step.function(*arguments)
                value = await returned
            else:
                value = await self._in_thread(step, context, arguments, record)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                _abandon(context, record)
                raise
            problem = error
        except BaseException as error:  # noqa: BLE001 - what it means is judged below
            problem = error
        finally:
            RUNNING.reset(token)
            RUNNING_IDS.discard(id(context))
        if problem is not None or step.strict or calls_of(context) is not None:
            await _judge(step, context, record, problem, outcome)
        return value

    async def _in_thread(
        self, step: Step, context: StepContext, arguments: tuple[Any, ...], record: AttemptRecord
    ) -> object:
        future = self._threads.call(partial(whole, step.function, *arguments))
        # The function can read that it is cancelled, and ends at its own pace.
        value = await finished(future, on_cancel=partial(_abandon, context, record))
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
            f"this agent has no function for {StepKind(assignment.execution.kind).name}",
            kind=UNKNOWN_STEP_KIND,
            retryable=False,
        )


def _abandon(context: StepContext, record: AttemptRecord) -> None:
    """Mark a step as cancelled, and end its waits."""
    record.cancelled = True
    calls = calls_of(context)
    if calls is not None:
        calls.abandon()


async def _judge(
    step: Step,
    context: StepContext,
    record: AttemptRecord,
    problem: BaseException | None,
    outcome: worker_pb2.Outcome,
) -> None:
    """End the calls of a step whose function has ended; put an abnormal end into the outcome.

    Raises what the function raised, and NonRetryable if a strict step has not made all recorded
    calls.
    """
    calls = calls_of(context)
    if calls is None and step.strict and problem is None:
        calls = opened_calls(context)
    if calls is not None:
        if record.cancelled:
            calls.abandon()
        try:
            await calls.finish()
        except asyncio.CancelledError:
            _abandon(context, record)
            raise
        if calls.waits.suspension is not None:
            note_swallowed(f"execution {calls.execution_id}: {_name(step)}", problem)
            outcome.suspended.CopyFrom(calls.waits.suspension)
            return
    unknown = find_in(problem, UnknownOutcome)
    if unknown is not None:
        outcome.unknown_call.call = unknown.key
        outcome.unknown_call.reason = clip(unknown.reason, REASON_BYTES_MAX)
        return
    if find_in(problem, Suspended) is not None:
        raise JournalError("Suspended was raised in a step that waits for nothing") from problem
    if problem is not None:
        raise problem
    if calls is not None:
        await _check_asked(step, calls)


async def _check_asked(step: Step, calls: Calls) -> None:
    """Raise if a strict step has not made all recorded calls; for other steps, log it."""
    unasked = await calls.unasked()
    if unasked:
        shown = ", ".join(unasked[:UNASKED_MAX]) + (" …" if len(unasked) > UNASKED_MAX else "")
        text = f"{len(unasked)} recorded calls that this attempt didn't make: {shown}"
        if step.strict:
            raise NonRetryable(text, kind=UNASKED_CALLS)
        _log.warning("execution %s ended with %s", calls.execution_id, text)


def _set_value(outcome: worker_pb2.Outcome, kind: int, value: Any, returns: Any) -> None:
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
    elif isinstance(value, Grow):
        if kind != StepKind.TASK:
            raise TypeError("only a task adds tasks to the plan")
        outcome.completed.more.CopyFrom(plan_draft(value.tasks))
        encode_into(value.result, Any, outcome.completed.result)
    else:
        outcome.completed.SetInParent()
        encode_into(value, returns, outcome.completed.result)


def _fail(outcome: worker_pb2.Outcome, error: BaseException) -> str:
    """Put a function's exception into the outcome.

    Returns the traceback if it should be logged. That of a Failure, which the author raised on
    purpose, is only kept with the attempt.
    """
    if isinstance(error, Release):
        outcome.released.reason = clip(error.reason, REASON_BYTES_MAX)
        outcome.released.SetInParent()
        return ""
    if isinstance(error, NeedsAnswer):
        try:
            outcome.needs_answer.CopyFrom(error.outcome())
        except (TypeError, ValueError) as problem:
            outcome.failed.failure.CopyFrom(
                failure_message(
                    INVALID_RESULT, f"the question can't be asked: {problem}", retryable=False
                )
            )
        return ""
    unknown = isinstance(error, Failure) and error.kind in (UNKNOWN_TASK_TYPE, UNKNOWN_STEP_KIND)
    failure = failure_of(error, with_trace=not unknown)
    if is_final(error):
        failure.retryable = False
    outcome.failed.failure.CopyFrom(failure)
    return "" if isinstance(error, Failure) else failure.details


def _log_failure(outcome: worker_pb2.Outcome, trace: str) -> None:
    """Write an attempt's failure to the worker's own log, with the traceback if there is one."""
    failure = outcome.failed.failure
    what = trace or f"{failure.kind}: {failure.message}"
    _log.warning(
        "execution %s of run %s failed: %s", outcome.lease.execution_id, outcome.lease.run_id, what
    )


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
    if record.thread is not None and outcome.WhichOneof("result") in _COMPLETES:
        outcome.thread.CopyFrom(record.thread)


def _fit(outcome: worker_pb2.Outcome) -> None:
    """Replace an outcome that is too large for the server by a failure that tells its size."""
    size = outcome.ByteSize()
    if size <= PAYLOAD_BYTES_MAX:
        return
    for plan in (outcome.planned.plan, outcome.reflected.plan, outcome.completed.more):
        if plan.ByteSize() > PLAN_BYTES_MAX:
            problem = f"the plan has {plan.ByteSize():,} bytes; {PLAN_BYTES_MAX:,} is the most"
            # Another attempt may return a smaller plan.
            _fail_unfit(outcome, failure_message(PLAN_INVALID, problem))
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
            f"result, prompt, response, messages and what goes to the thread have {size:,} bytes together; "
            f"{OUTCOME_BYTES_MAX:,} is the most"
        )
    if problem:
        _fail_unfit(outcome, failure_message(RESULT_TOO_LARGE, problem, retryable=False))


def _fail_unfit(outcome: worker_pb2.Outcome, failure: types_pb2.Failure) -> None:
    outcome.failed.failure.CopyFrom(failure)
    for field in ("prompt", "response", "messages", "thread"):
        outcome.ClearField(field)


def _name(step: Step) -> str:
    return str(getattr(step.function, "__qualname__", step.function))

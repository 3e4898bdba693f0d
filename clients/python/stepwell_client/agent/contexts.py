"""Contexts: the argument of an agent's function, with the step, the results before it, and its output.

`execution` makes a context for each step. A synchronous function may call its methods from its
thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, cached_property
from typing import Any, TypeVar, overload

from stepwell_client.agent.children import ChildContext
from stepwell_client.agent.journal.context import calls_of
from stepwell_client.agent.scopes import add_usage
from stepwell_client.agent.step_output import AttemptRecord, OutputContext
from stepwell_client.agent.step_services import StepServices
from stepwell_client.agent.step_thread import StepThread
from stepwell_client.agent.threads import Threads
from stepwell_client.errors import LeaseLost
from stepwell_client.link.runtime import Runtime
from stepwell_client.records.clean_text import storable, storable_bytes
from stepwell_client.records.limits import (
    PROGRESS_BYTES_MAX,
    PROMPT_BYTES_MAX,
    RESPONSE_BYTES_MAX,
)
from stepwell_client.records.messages_pb2 import FailureRecord, KeptSignal, Question, Session
from stepwell_client.records.payloads import decode, encode
from stepwell_client.records.plans import Budget, Task
from stepwell_client.records.reading import read, read_definition, read_question
from stepwell_client.records.results import StepResults
from stepwell_client.v1 import types_pb2, worker_pb2

T = TypeVar("T")


class StepContext(OutputContext, ChildContext):
    """The context of any step."""

    def __init__(
        self,
        assignment: worker_pb2.Assignment,
        services: StepServices,
        record: AttemptRecord,
        loop: asyncio.AbstractEventLoop,
        runtime: Runtime,
        threads: Threads,
    ) -> None:
        self._assignment = assignment
        self._services = services
        self._record = record
        self._loop = loop
        self._runtime = runtime
        self._threads = threads

    @property
    def assignment(self) -> worker_pb2.Assignment:
        """The message that assigned the step. Its lease token is a secret."""
        return self._assignment

    @property
    def run_id(self) -> str:
        return self._assignment.run.run_id

    @property
    def execution_id(self) -> str:
        return self._assignment.execution.execution_id

    @property
    def goal(self) -> str:
        """The run's goal."""
        return self._assignment.run.goal

    @property
    def labels(self) -> Mapping[str, str]:
        return self._assignment.run.labels

    @property
    def reason(self) -> str:
        """The reason that the last reflection gave, for example with the Replan that asked for this plan."""
        return self._assignment.run.reason

    @property
    def iteration(self) -> int:
        """The iteration, from 1."""
        return self._assignment.run.iteration

    @property
    def max_iterations(self) -> int:
        return self._assignment.run.max_iterations

    @property
    def attempt(self) -> int:
        """The attempt's number, from 1 within the step; never reused."""
        return self._assignment.execution.attempt

    @property
    def idempotency_key(self) -> str:
        """A key for the systems that the step calls: the same in all its attempts, and unique to the step."""
        return self._assignment.idempotency_key

    @property
    def remaining_budget(self) -> Budget | None:
        """The rest of the run's budget, as of the last recorded call; None: no limits."""
        calls = calls_of(self)
        if calls is not None and calls.journal.remaining_budget is not None:
            return read(calls.journal.remaining_budget, Budget)
        return _present(self._assignment, "remaining_budget", Budget)

    @overload
    def input(self) -> Any: ...
    @overload
    def input(self, kind: type[T]) -> T: ...
    def input(self, kind: Any = Any) -> Any:
        """Return the step's input: the task's own, or the run's."""
        return decode(self._input_payload(), kind)

    @property
    def has_input(self) -> bool:
        """True if the step was given an input; None counts as no input."""
        return self._input_payload() is not None

    @overload
    def run_input(self) -> Any: ...
    @overload
    def run_input(self, kind: type[T]) -> T: ...
    def run_input(self, kind: Any = Any) -> Any:
        """Return the run's input."""
        return decode(_payload(self._assignment, "run_input"), kind)

    def _input_payload(self) -> types_pb2.Payload | None:
        return _payload(self._assignment, "run_input")

    @overload
    def result(self, task_id: str) -> Any: ...
    @overload
    def result(self, task_id: str, kind: type[T]) -> T: ...
    def result(self, task_id: str, kind: Any = Any) -> Any:
        """Return one result, decoded as `kind`. Raises KeyError if the task failed, was skipped or isn't shown."""
        return decode(self.results.payload(task_id), kind)

    @cached_property
    def results(self) -> StepResults:
        """The results before the step: for a task those of its dependencies, for a plan or a
        reflection those of the plan in force, for a synthesis all.
        """
        return StepResults(self._assignment, self._read_results, self._loop)

    async def _read_results(
        self, task_ids: Sequence[str], page_token: str
    ) -> worker_pb2.ReadResultsResponse:
        self._check_suspended()
        try:
            return await self._services.read_results(self._assignment, task_ids, page_token)
        except LeaseLost:
            self._record.cancelled = True
            raise

    async def load(self, *task_ids: str) -> StepResults:
        """Read the results of these tasks into `results`, and return it.

        Without ids: all results that the step is shown. A plan or a reflection may also name tasks
        of earlier iterations. Results that were read before are not read again. Waits for an
        unreachable server as long as the lease lives. Raises KeyError if the step may not use such
        a result.
        """
        await self.results.load(task_ids)
        return self.results

    async def list_results(self) -> StepResults:
        """Return `results` after reading the ids and failures of all tasks that the step is shown.

        Only a step with thousands of results doesn't have them from the start.
        """
        await self.results.list()
        return self.results

    @property
    def failures(self) -> Mapping[str, FailureRecord]:
        """The failures of tasks that this step depends on or reflects on, by task id.

        Long failures are cut; `load` of the task reads the whole.
        """
        found = self.results.failures()
        return {task_id: read(one, FailureRecord) for task_id, one in found.items()}

    @property
    def skipped(self) -> frozenset[str]:
        """Ids of tasks that were skipped."""
        return self.results.skipped()

    @cached_property
    def thread(self) -> StepThread | None:
        """The thread that the run is of, with its messages and its state; None if it is of none, or in a reconcile function."""
        reconciles = self._assignment.execution.kind == types_pb2.STEP_KIND_RECONCILE
        if reconciles or not self._assignment.run.thread_id:
            return None
        return StepThread(self, self._assignment, self._services, self._record)

    # State of the previous attempt.

    @property
    def previous_session(self) -> Session | None:
        """The session of the interrupted attempt before this one."""
        return _present(self._assignment, "previous_session", Session)

    @property
    def previous_failure(self) -> FailureRecord | None:
        """The failure of the attempt before this one."""
        return _present(self._assignment, "previous_failure", FailureRecord)

    def previous_progress(self, kind: Any = Any) -> Any:
        """Return the last progress of the interrupted attempt before this one, or None."""
        payload = _payload(self._assignment, "previous_progress")
        return None if payload is None else decode(payload, kind)

    # State of this attempt.

    @property
    def cancelled(self) -> bool:
        """True once the step is cancelled. An async function also gets a CancelledError."""
        return self._record.cancelled

    def check_cancelled(self) -> None:
        """Raise LeaseLost if the step is cancelled, Suspended if it is suspended; for loops in synchronous functions."""
        self._check_suspended()
        if self._record.cancelled:
            raise LeaseLost(f"execution {self.execution_id} is not wanted any more")

    def heartbeat(self, progress: object = None) -> None:
        """Report the step's progress, in at most 16 KiB; the next attempt receives it if this one dies.

        Leases are renewed also without heartbeats. Never waits.
        """
        self._check_suspended()
        payload = encode(progress)
        if payload is not None:
            _limit("progress", len(payload.data), PROGRESS_BYTES_MAX)
            self._record.progress = payload
        self._services.heartbeat(self._assignment, payload, self._record.session)

    def usage(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cost_micros: int = 0,
        model: str = "",
    ) -> None:
        """Add to the usage of the attempt, or of the enclosing call. `model` names a model; several
        may be given one after another.
        """
        output = self._output
        if output.usage is None:
            output.usage = types_pb2.Usage()
        used = types_pb2.Usage(
            model=model,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost_micros=cost_micros,
        )
        add_usage(output.usage, used)

    def session(self, backend: str, session_id: str) -> None:
        """Report the agent's own conversation: the next attempt gets it if this one is interrupted."""
        self._check_suspended()
        self._record.session = types_pb2.Session(
            backend=storable(backend), session_id=storable(session_id)
        )
        self._services.heartbeat(self._assignment, None, self._record.session)

    def transcript(self, *, prompt: str = "", response: str = "") -> None:
        """Store the model's prompt (256 KiB at most) and its response (1 MiB at most)."""
        self._check_suspended()
        self._record.prompt = _fitting("prompt", prompt, PROMPT_BYTES_MAX) or self._record.prompt
        fitting = _fitting("response", response, RESPONSE_BYTES_MAX)
        self._record.response = fitting or self._record.response

    async def begin(self) -> None:
        """Report that an AT_MOST_ONCE step starts, and wait until that is committed.

        Called automatically before the function, unless it was registered with `manual_begin`.

        Raises:
            LeaseLost: don't start.
            JournalError: another branch of the step sleeps or asks; don't start.
        """
        self._check_suspended()
        task = self._assignment.task
        is_task = self._assignment.execution.kind == types_pb2.STEP_KIND_TASK
        if is_task and task.effect == types_pb2.EFFECT_AT_MOST_ONCE:
            if (calls := calls_of(self)) is not None:
                calls.waits.begin()
            self._record.begun = True
        try:
            await self._services.begin(self._assignment)
        except LeaseLost:
            self._record.cancelled = True
            raise

    def begin_blocking(self) -> None:
        """Report that an AT_MOST_ONCE step starts, from a synchronous function; see `begin`."""
        asyncio.run_coroutine_threadsafe(self.begin(), self._loop).result()


class SteeredContext(StepContext):
    """The context of a function that decides how the run goes on."""

    @cached_property
    def signals(self) -> Sequence[KeptSignal]:
        """The signals that the run keeps as of this attempt, oldest first: `number`, `name`, `value.decode(kind)`, `actor` …

        They are the oldest 100, with 1 MiB of values together; see `more_signals`. Reading takes none. The outcome of a
        reflection takes those of them that the run was started to `reflect_on`.
        """
        return [read(one, KeptSignal) for one in self._assignment.signals]

    @property
    def more_signals(self) -> bool:
        """True if the run keeps more signals than `signals` shows."""
        return self._assignment.more_signals


class PlanContext(SteeredContext):
    """The context of a function that makes a plan."""


class ReflectContext(SteeredContext):
    """The context of a function that judges an iteration."""


class SynthesizeContext(StepContext):
    """The context of a function that makes the run's result from its tasks' results."""


class TaskContext(StepContext):
    """The context of a function that does tasks."""

    @property
    def task(self) -> Task:
        """The task as planned: `id`, `type`, `title`, `prompt`, `role`, `depends_on` …"""
        return read_definition(self._assignment.task)

    @property
    def task_id(self) -> str:
        return self._assignment.task.task_id

    @property
    def answered(self) -> Question | None:
        """The task's last answered question: `kind`, `prompt`, `answered_by` …"""
        if not self._assignment.HasField("answered"):
            return None
        return read_question(self._assignment.answered, self.run_id)

    def answer(self, kind: Any = Any) -> Any:
        """Return the answer to the task's last question; None if it asked nothing (see `answered`)."""
        payload = _payload(self._assignment, "answer")
        return None if payload is None else decode(payload, kind)

    def _input_payload(self) -> types_pb2.Payload | None:
        return _payload(self._assignment.task, "input")


class ReconcileContext(TaskContext):
    """The context of a function that reconciles a task whose worker was lost after it began.

    `task` is that task, `idempotency_key` the key that its attempts used; `previous_session` and
    `previous_progress` are those of the lost attempt. `attempt` counts the attempts to reconcile.
    """

    @property
    def unknown_execution_id(self) -> str:
        """The attempt whose outcome is unknown."""
        return self._assignment.unknown_execution_id


RUNNING: ContextVar[StepContext | None] = ContextVar("stepwell_running", default=None)
"""The context of the step whose function is running here."""
RUNNING_IDS: set[int] = set()
"""The ids of all contexts whose functions are running in this process."""
_log = logging.getLogger("stepwell_client.execution")


def current_step() -> StepContext | None:
    """Return the context of the step that is running here, also in its tasks and threads, or None."""
    return RUNNING.get()


def journaled_step() -> StepContext | None:
    """Return the step that is running here, or None if there is none or it keeps no journal."""
    step = current_step()
    if step is None and RUNNING_IDS:
        warn_outside()
    return None if isinstance(step, ReconcileContext) else step


@cache
def warn_outside() -> None:
    """Warn once that durable code runs where it finds no step, while steps run in this process."""
    _log.warning(
        "a durable agent runs outside of any step, while steps run in this process: its calls are not"
        " kept. If a step started this thread by an executor, give it the step's context:"
        " executor.submit(contextvars.copy_context().run, function), or use asyncio.to_thread"
    )


def _present(message: worker_pb2.Assignment, field: str, kind: Callable[..., T]) -> T | None:
    """Return a field of the assignment as its record, or None if it is absent."""
    return read(getattr(message, field), kind) if message.HasField(field) else None


def _payload(
    message: worker_pb2.Assignment | types_pb2.TaskSpec, field: str
) -> types_pb2.Payload | None:
    return getattr(message, field) if message.HasField(field) else None


def _limit(what: str, size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"the {what} has {size:,} bytes; {most:,} is the most")


def _fitting(what: str, text: str, most: int) -> str:
    data = storable_bytes(text)
    _limit(what, len(data), most)
    return data.decode()

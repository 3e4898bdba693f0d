"""What an agent's function is given: the step, what came before it, and what it may say meanwhile.

Contexts are made by `execution` for each step. Their methods may be called from the thread that a
synchronous function runs in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar, overload

from stepwell_client._errors import LeaseLost
from stepwell_client._limits import (
    PROGRESS_BYTES_MAX,
    PROMPT_BYTES_MAX,
    RESPONSE_BYTES_MAX,
)
from stepwell_client._payloads import decode, encode
from stepwell_client._says import Record, Says, Voice
from stepwell_client.v1 import types_pb2, worker_pb2

T = TypeVar("T")

Begin = Callable[[], Coroutine[Any, Any, None]]
Beat = Callable[[types_pb2.Payload | None, types_pb2.Session | None], None]


class Results(Mapping[str, Any]):
    """Results by task id, decoded when they are looked at. Failed and skipped tasks are not in it."""

    def __init__(self, payloads: Mapping[str, types_pb2.Payload | None]) -> None:
        self._payloads = payloads
        self._decoded: dict[str, Any] = {}

    def __getitem__(self, task_id: str) -> Any:
        if task_id not in self._decoded:
            self._decoded[task_id] = decode(self._payloads[task_id])
        return self._decoded[task_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._payloads)

    def __len__(self) -> int:
        return len(self._payloads)

    def __repr__(self) -> str:
        return f"Results({sorted(self._payloads)})"  # Ids only: results may be large or private.

    def payload(self, task_id: str) -> types_pb2.Payload | None:
        """Return a result as it came."""
        return self._payloads[task_id]


class StepContext(Says):
    """What every step has."""

    def __init__(
        self,
        assignment: worker_pb2.Assignment,
        payloads: Mapping[str, types_pb2.Payload | None],
        *,
        record: Record,
        loop: asyncio.AbstractEventLoop,
        begin: Begin,
        beat: Beat,
        voice: Voice,
    ) -> None:
        self._assignment = assignment
        self._record = record
        self._loop = loop
        self._begin = begin
        self._beat = beat
        self._voice = voice
        self.results = Results(payloads)
        """Of a task: what it depends on; of a reflection or synthesis: what the tasks came to."""

    @property
    def assignment(self) -> worker_pb2.Assignment:
        """The message that the step came with. Its lease token is a secret."""
        return self._assignment

    @property
    def run_id(self) -> str:
        return self._assignment.run.spec.run_id

    @property
    def execution_id(self) -> str:
        return self._assignment.execution.execution_id

    @property
    def goal(self) -> str:
        """What the run is to reach."""
        return self._assignment.run.spec.goal

    @property
    def labels(self) -> Mapping[str, str]:
        return self._assignment.run.spec.labels

    @property
    def reason(self) -> str:
        """The words that came with the last reflection, as with the Replan that asks for a plan."""
        return self._assignment.run.reason

    @property
    def iteration(self) -> int:
        """Counts from 1."""
        return self._assignment.run.iteration

    @property
    def max_iterations(self) -> int:
        return self._assignment.run.spec.max_iterations

    @property
    def attempt(self) -> int:
        """Counts from 1 within the step; never reused."""
        return self._assignment.execution.attempt

    @property
    def idempotency_key(self) -> str:
        """For the systems that the step calls: the same in all its attempts."""
        return self._assignment.idempotency_key

    @property
    def remaining_budget(self) -> types_pb2.Budget | None:
        """What is left to the run; None: no limits."""
        return _present(self._assignment, "remaining_budget", self._assignment.remaining_budget)

    @overload
    def input(self) -> Any: ...
    @overload
    def input(self, kind: type[T]) -> T: ...
    def input(self, kind: Any = Any) -> Any:
        """Return what the step works on: the run's input, or the task's own."""
        return decode(self._input_payload(), kind)

    @overload
    def run_input(self) -> Any: ...
    @overload
    def run_input(self, kind: type[T]) -> T: ...
    def run_input(self, kind: Any = Any) -> Any:
        """Return what the run was started with."""
        return decode(_present(self._assignment, "run_input", self._assignment.run_input), kind)

    def _input_payload(self) -> types_pb2.Payload | None:
        return _present(self._assignment, "run_input", self._assignment.run_input)

    @overload
    def result(self, task_id: str) -> Any: ...
    @overload
    def result(self, task_id: str, kind: type[T]) -> T: ...
    def result(self, task_id: str, kind: Any = Any) -> Any:
        """Return one result as the type wants it. KeyError: it failed, was skipped, isn't there."""
        return decode(self.results.payload(task_id), kind)

    @cached_property
    def failures(self) -> Mapping[str, types_pb2.Failure]:
        """Why tasks failed that this step depends on or reflects on, by task id."""
        found = self._assignment.results
        return {item.task_id: item.failure for item in found if item.HasField("failure")}

    @cached_property
    def skipped(self) -> frozenset[str]:
        """Ids of tasks that were skipped."""
        return frozenset(item.task_id for item in self._assignment.results if item.skipped)

    # What an attempt before this one left.

    @property
    def previous_session(self) -> types_pb2.Session | None:
        """The interrupted attempt's own conversation."""
        return _present(self._assignment, "previous_session", self._assignment.previous_session)

    @property
    def previous_failure(self) -> types_pb2.Failure | None:
        """Why the attempt before this one failed."""
        return _present(self._assignment, "previous_failure", self._assignment.previous_failure)

    def previous_progress(self, kind: Any = Any) -> Any:
        """Return the last that an interrupted attempt reported; None: nothing."""
        came = _present(self._assignment, "previous_progress", self._assignment.previous_progress)
        return None if came is None else decode(came, kind)

    # What this attempt says while it works.

    @property
    def cancelled(self) -> bool:
        """Whether the step is not wanted any more. An async function is cancelled besides."""
        return self._record.cancelled

    def check_cancelled(self) -> None:
        """Raise LeaseLost if the step is not wanted any more: for loops of synchronous functions."""
        if self._record.cancelled:
            raise LeaseLost(f"execution {self.execution_id} is not wanted any more")

    def heartbeat(self, progress: object = None) -> None:
        """Say how far the step is, in at most 16 KiB; the next attempt is told if this one dies.

        Leases are prolonged without it. Never waits.
        """
        payload = encode(progress)
        if payload is not None:
            _limit("progress", len(payload.data), PROGRESS_BYTES_MAX)
            self._record.progress = payload
        self._beat(payload, self._record.session)

    def usage(self, *, input_tokens: int = 0, output_tokens: int = 0, cost_micros: int = 0) -> None:
        """Add to what the attempt has used up."""
        if self._record.usage is None:
            self._record.usage = types_pb2.Usage()
        self._record.usage.input_tokens += input_tokens
        self._record.usage.output_tokens += output_tokens
        self._record.usage.cost_micros += cost_micros

    def session(self, backend: str, session_id: str) -> None:
        """Name the agent's own conversation: an interrupted attempt's successor gets it back."""
        self._record.session = types_pb2.Session(backend=backend, session_id=session_id)
        self._beat(None, self._record.session)

    def record(self, *, prompt: str = "", response: str = "") -> None:
        """Keep what the model was asked (256 KiB at most) and what it said (1 MiB at most)."""
        self._record.prompt = _fitting("prompt", prompt, PROMPT_BYTES_MAX) or self._record.prompt
        fitting = _fitting("response", response, RESPONSE_BYTES_MAX)
        self._record.response = fitting or self._record.response

    async def begin(self) -> None:
        """Say that an AT_MOST_ONCE step starts, and wait until that is committed.

        Called for you before the function, unless it was declared with `manual_begin`. Raises
        LeaseLost: don't start.
        """
        await self._begin()

    def begin_blocking(self) -> None:
        """Do the same from a synchronous function."""
        asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result()


class PlanContext(StepContext):
    """Of the function that makes a plan."""


class ReflectContext(StepContext):
    """Of the function that judges an iteration."""


class SynthesizeContext(StepContext):
    """Of the function that makes the run's result from those of its tasks."""


class TaskContext(StepContext):
    """Of a function that does tasks."""

    @property
    def task(self) -> types_pb2.TaskSpec:
        """The task as planned: `task_id`, `type`, `title`, `prompt`, `role`, `depends_on` …"""
        return self._assignment.task

    @property
    def task_id(self) -> str:
        return self._assignment.task.task_id

    @property
    def answered(self) -> types_pb2.InputRequest | None:
        """What this task asked last and was answered: `kind`, `prompt`, `answered_by` …"""
        return _present(self._assignment, "answered", self._assignment.answered)

    def answer(self, kind: Any = Any) -> Any:
        """Return the answer to what the task asked last; None: it asked nothing, see `answered`."""
        came = _present(self._assignment, "answer", self._assignment.answer)
        return None if came is None else decode(came, kind)

    def _input_payload(self) -> types_pb2.Payload | None:
        return _present(self._assignment.task, "input", self._assignment.task.input)


class ReconcileContext(TaskContext):
    """Of a function that finds out what became of a task whose worker was lost after it began.

    The task is that one; `idempotency_key` is the one that its attempts used, and `previous_session` and
    `previous_progress` are what they left. `attempt` counts how often this was looked into.
    """

    @property
    def unknown_execution_id(self) -> str:
        """The attempt whose outcome is unknown."""
        return self._assignment.unknown_execution_id


def _present(message: worker_pb2.Assignment | types_pb2.TaskSpec, field: str, value: T) -> T | None:
    return value if message.HasField(field) else None


def _limit(what: str, size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"the {what} has {size:,} bytes; {most:,} is the most")


def _fitting(what: str, text: str, most: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    _limit(what, len(data), most)
    return data.decode()

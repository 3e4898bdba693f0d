"""The result of a run as a value, and the errors of a run that failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, overload

from stepwell.core.port import Store, TaskQuery, every_row
from stepwell.core.records import limits, model
from stepwell.embedded.protocols import RESULT
from stepwell.wire.records import to_message
from stepwell_client import Payload, Run, RunStatus, TaskStatus, decode
from stepwell_client import RunFailed as ClientRunFailed
from stepwell_client.internal import read_record
from stepwell_client.records import FailureRecord

T = TypeVar("T")


@dataclass(frozen=True)
class TaskResult:
    """The result of a task."""

    task_id: str
    status: TaskStatus
    attempts: int
    payload: Payload | None = field(default=None, repr=False)
    """The task's result bytes, or None."""
    failure: FailureRecord | None = None
    """The failure of a FAILED task."""

    @property
    def value(self) -> Any:
        """The decoded return value of its function, or None."""
        return _decoded(self.payload)

    @overload
    def decode(self) -> Any: ...
    @overload
    def decode(self, kind: type[T]) -> T: ...
    def decode(self, kind: Any = Any) -> Any:
        """Return the value decoded as a type, such as a dataclass or a pydantic model."""
        return _decoded(self.payload, kind)


@dataclass(frozen=True)
class RunResult:
    """A run's status and its result."""

    run: Run
    """The run, as of the last commit."""
    tasks: Mapping[str, TaskResult] = field(repr=False)
    """Each task's result by its id, in the order of the plan."""
    payload: Payload | None = field(default=None, repr=False)
    """The synthesis' bytes; None if there was no synthesis, or it returned nothing."""

    @property
    def run_id(self) -> str:
        return self.run.id

    @property
    def status(self) -> RunStatus:
        """SUCCEEDED; or WAITING or PAUSED, from which `resume` continues."""
        return self.run.status

    @property
    def value(self) -> Any:
        """The run's answer: the synthesis' return value or, without a synthesis, the tasks' values by id."""
        return _decoded(self.payload) if self.run.result_id else self.task_values()

    def task_values(self) -> dict[str, Any]:
        """Return the values of completed tasks by their ids."""
        done = TaskStatus.COMPLETED
        return {key: task.value for key, task in self.tasks.items() if task.status is done}

    @overload
    def decode(self) -> Any: ...
    @overload
    def decode(self, kind: type[T]) -> T: ...
    def decode(self, kind: Any = Any) -> Any:
        """Return the synthesis' value decoded as the type."""
        return _decoded(self.payload, kind)


class Position(NamedTuple):
    """The position of a run: how far it is, and with which results."""

    goal: str = ""
    iteration: int = 0
    """From 0."""
    context: Mapping[str, Any] = MappingProxyType({})
    """The results of completed tasks by their ids; of a run that is DONE also its answer."""


def position_of(result: RunResult) -> Position:
    """Return what the run has come to, as of its last commit."""
    run, context = result.run, result.task_values()
    if run.status is RunStatus.SUCCEEDED:
        context[RESULT] = result.value
    return Position(run.goal, run.iteration - 1, context)


class RunFailed(ClientRunFailed):
    """The run FAILED. `result` has its record and its tasks' results; `resume` tries again."""

    def __init__(self, result: RunResult) -> None:
        failure = result.run.failure or FailureRecord()
        message = failure.message or result.run.reason
        super().__init__(result.run_id, result.status.name, failure.kind, message)
        self.result = result


class RunCancelled(RunFailed):
    """The run was CANCELLED, which is final."""

    reason = "RUN_CANCELLED"


async def read_result(store: Store, run: model.Run) -> RunResult:
    """Return the result of a run and of its tasks."""
    tenant_id, run_id = run.spec.tenant_id, run.spec.run_id
    query = TaskQuery(tenant_id=tenant_id, run_id=run_id, limit=limits.PAGE_SIZE_MAX)
    tasks = [one async for one in every_row(store, query)]
    keys: dict[str, list[str]] = {run_id: [run.result_id] if run.result_id else []}
    for task in tasks:
        if task.result_id:
            # A result that a fork has kept is stored under the run that made it.
            keys.setdefault(task.result_run_id or run_id, []).append(task.result_id)
    payloads: dict[str, Payload] = {}
    for of_run, names in keys.items():
        for start in range(0, len(names), limits.PAYLOAD_KEYS_MAX):
            wanted = names[start : start + limits.PAYLOAD_KEYS_MAX]
            stored = await store.read_payloads(tenant_id, of_run, wanted)
            payloads |= {
                one.key: read_record(to_message(one.payload), Payload)
                for one in stored
                if one.payload is not None
            }
    results = {
        task.task_id: TaskResult(
            task_id=task.task_id,
            status=TaskStatus[task.status],
            attempts=task.attempts,
            payload=payloads.get(task.result_id),
            failure=(
                read_record(to_message(task.failure), FailureRecord)
                if task.failure != model.Failure()
                else None
            ),
        )
        for task in tasks
    }
    made = read_record(to_message(run), Run)
    return RunResult(run=made, tasks=results, payload=payloads.get(run.result_id))


def _decoded(payload: Payload | None, kind: Any = Any) -> Any:
    return decode(None if payload is None else payload.message(), kind)

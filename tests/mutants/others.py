"""Bugs at the other ports: what goes into `advance`, a replica's clock and tokens, the streams to workers and watchers."""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from stepwell.core.loop.advance import advance
from stepwell.core.loop.occurrences import (
    Cancel,
    ChildEnds,
    Delivery,
    LeaseExpired,
    Pause,
    RaiseBudget,
    Resume,
    RetryTask,
    SendSignal,
    Stop,
)
from stepwell.core.loop.state import RunState
from stepwell.core.port import Assignment, Store
from stepwell.core.records.model import Run, Usage
from stepwell.core.records.states import ExecutionStatus, PauseReason, RunStatus, TaskStatus
from stepwell.watch.runs import Batch

Change = Callable[[RunState, Any], tuple[RunState, Any]]
"""Takes the state and an input; returns what `advance` is given in their place."""


# --- what goes into `advance` --------------------------------------------------------------------------


@contextmanager
def advancing(change: Change) -> Generator[None]:
    """Give `advance` other states and inputs, whoever calls it, until the end of the block."""

    def changed(state: RunState, inputs: Sequence[Any], *rest: Any, **more: Any) -> Any:
        altered: list[Any] = []
        for one in inputs:
            state, one = change(state, one)
            altered.append(one)
        return advance(state, altered, *rest, **more)

    users = [
        (module, name)
        for module in tuple(sys.modules.values())
        if module.__name__.startswith("stepwell.")
        for name, value in vars(module).items()
        if value is advance
    ]
    for module, name in users:
        setattr(module, name, changed)
    try:
        yield
    finally:
        for module, name in users:
            setattr(module, name, advance)


def believing_any_report(state: RunState, one: Any) -> tuple[RunState, Any]:
    """Take an outcome for that of whoever has the step's lease now."""
    if isinstance(one, Delivery) and one.execution_id not in state.open:
        step = one.execution_id.rpartition("#")[0]
        for name, row in state.open.items():
            if row.execution.status is ExecutionStatus.LEASED and name.startswith(f"{step}#"):
                return state, replace(one, execution_id=name, token=row.token)
    return state, one


def releasing_lost_leases(state: RunState, one: Any) -> tuple[RunState, Any]:
    """Take an expired lease for one that never reached its worker, so that poison never ends."""
    if isinstance(one, LeaseExpired) and not one.timed_out:
        row = state.open.get(one.execution_id)
        if row is not None and not row.execution.begun:
            return state, replace(one, undelivered=True)
    return state, one


def taking_letters_again(state: RunState, one: Any) -> tuple[RunState, Any]:
    """Take a signal of a letter whether or not that letter was taken before."""
    if isinstance(one, SendSignal) and one.sender:
        signals = replace(state.run.signals, taken={})
        return _with_run(state, replace(state.run, signals=signals)), one
    return state, one


def reflecting_on_nothing(state: RunState, one: Any) -> tuple[RunState, Any]:
    """Decide as though the run kept no signal for which it is to reflect."""
    signals = replace(state.run.signals, steering=0)
    return (
        _with_run(state, replace(state.run, signals=signals))
        if state.run.signals.steering
        else state
    ), one


def adding_no_usage(state: RunState, one: Any) -> tuple[RunState, Any]:
    """Take the end of a child, and not what it has used."""
    return state, replace(one, usage=Usage()) if isinstance(one, ChildEnds) else one


def commanding_the_ended(state: RunState, one: Any) -> tuple[RunState, Any]:
    """Decide a command as though the run had not ended."""
    if isinstance(one, Stop | Pause | Cancel | RaiseBudget) and state.run.ended:
        return _with_run(state, replace(state.run, status=RunStatus.RUNNING)), one
    return state, one


def retrying_what_is_done(state: RunState, one: Any) -> tuple[RunState, Any]:
    """Decide the retry of a completed task as though it had failed."""
    task = state.tasks.get(one.task_id) if isinstance(one, RetryTask) else None
    if task is not None and task.status is TaskStatus.COMPLETED:
        altered = copy.copy(state)
        failed = replace(task, status=TaskStatus.FAILED, result_id="")
        altered.tasks = {**state.tasks, task.task_id: failed}
        return altered, one
    return state, one


def resuming_what_goes_on(state: RunState, one: Any) -> tuple[RunState, Any]:
    """Decide a resume as though the run were paused."""
    if isinstance(one, Resume) and state.run.status is RunStatus.RUNNING:
        reason = PauseReason.REQUESTED
        paused = replace(state.run, status=RunStatus.PAUSED, pause_reason=reason)
        return _with_run(state, paused), one
    return state, one


def _with_run(state: RunState, run: Run) -> RunState:
    altered = copy.copy(state)
    altered.run = run
    return altered


# --- a replica's clock and tokens, and the stream to a worker -------------------------------------------


class _Wrapper:
    """The base of the parts with a bug: it is right."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class CountedTokens(_Wrapper):
    """Makes lease tokens of a counter that starts over with the process."""

    count = 0

    def new_token(self) -> str:
        self.count += 1
        return f"{self.count:032x}"


class StoppedClock(_Wrapper):
    """Never notices that time has passed, so a busy run keeps its worker without end."""

    def monotonic(self) -> float:
        return 0.0


class ResultsMisplaced(_Wrapper):
    """Sends each result in the place of the next one."""

    def assign(self, assignment: Assignment) -> None:
        results = assignment.results
        moved = tuple(
            replace(one, payload=other.payload)
            for one, other in zip(results, results[1:] + results[:1], strict=True)
        )
        self._inner.assign(replace(assignment, results=moved))


# --- the stream to a watcher ---------------------------------------------------------------------------


async def overtaking_progress(
    batches: AsyncGenerator[Batch, None], store: Store, tenant_id: str, run_id: str
) -> AsyncGenerator[Batch, None]:
    """Send progress of the run's last event, sent or not."""
    async for batch in batches:
        run = await store.get_run(tenant_id, run_id)
        if run is not None and batch.events:
            yield Batch(after=run.last_event)
        yield batch


async def read_ahead(
    batches: AsyncGenerator[Batch, None], _store: Store, _tenant_id: str, _run_id: str
) -> AsyncGenerator[Batch, None]:
    """Read all there is before the first batch is asked for again."""
    kept = deque[Batch]()
    async for batch in batches:
        kept.append(batch)
        if batch.ended or not batch.events:
            break
    while kept:
        yield kept.popleft()

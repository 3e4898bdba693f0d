"""The history of a run, for assertions: events, attempts, and their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepwell.core.port import Store
from stepwell.core.records import limits
from stepwell.core.records.events import Event
from stepwell.core.records.fold import Rows, fold
from stepwell.core.records.model import Execution, Plan, Run
from stepwell.core.records.states import EventType, ExecutionStatus, StepKind


class History:
    """A run's events and executions as of now, after a check that the events give the rows."""

    def __init__(self, run: Run, events: Sequence[Event], rows: Rows) -> None:
        self.run = run
        """As of the last commit."""
        self.events = tuple(events)
        self.executions = tuple(rows.executions.values())
        """In the order of their offers."""
        self.tasks = rows.tasks

    def __iter__(self) -> Iterator[EventType]:
        return (event.type for event in self.events)

    def __repr__(self) -> str:
        return f"History({', '.join(self)})"

    def attempts(self, step: str) -> tuple[ExecutionStatus, ...]:
        """Return how each attempt at a task, or at a kind of step (`plan`, `reflect` …), ended."""
        return tuple(one.status for one in self.executions if step in _names(one))

    def count(self, kind: EventType) -> int:
        """Return the number of events of this type."""
        return sum(event.type is kind for event in self.events)

    def done(self) -> tuple[str, ...]:
        """Return the completed tasks, in the order of completion."""
        return tuple(
            event.task_id
            for event in self.events
            if event.type in (EventType.TASK_COMPLETED, EventType.TASK_DEDUPLICATED)
        )

    def is_before(self, first: str, second: str) -> bool:
        """Return whether task `first` was completed before `second` was first leased."""
        leased = next(
            (
                event.number
                for event in self.events
                if event.type is EventType.EXECUTION_LEASED and event.task_id == second
            ),
            None,
        )
        completed = next(
            (
                event.number
                for event in self.events
                if event.type is EventType.TASK_COMPLETED and event.task_id == first
            ),
            None,
        )
        if leased is None or completed is None:
            missing = second if leased is None else first
            raise AssertionError(f"task {missing!r} never came so far; done: {self.done()}")
        return completed < leased


async def read_history(store: Store, run: Run) -> History:
    """Read a run's log.

    Raises:
        AssertionError: its events don't give its rows, or their numbers have gaps.
    """
    tenant_id, run_id = run.spec.tenant_id, run.spec.run_id
    events: list[Event] = []
    while len(events) < run.last_event:
        page = await store.read_events(
            tenant_id, run_id, after=len(events), limit=limits.EVENTS_PER_COMMIT_MAX
        )
        assert page is not None, f"run {run_id} is gone"
        assert page.events, f"the log of run {run_id} ends at {len(events)}, before its run does"
        events.extend(page.events)
    events = events[: run.last_event]
    assert [event.number for event in events] == list(range(1, run.last_event + 1))
    plans: dict[int, Plan] = {}
    for revision in range(1, run.plan_revision + 1):
        plan = await store.read_plan(tenant_id, run_id, revision)
        assert plan is not None, f"revision {revision} of run {run_id} is gone"
        plans[revision] = plan
    rows = fold(run.spec, plans, events)
    assert rows.run == run, f"the events of run {run_id} don't give its row: {rows.run} != {run}"
    return History(run, events, rows)


def _names(execution: Execution) -> tuple[str, ...]:
    if execution.kind is StepKind.TASK:
        return (execution.task_id,)
    return (execution.kind.value, execution.kind.value.lower())

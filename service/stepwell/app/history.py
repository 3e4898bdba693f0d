"""Earlier versions of a run: its events since the last base, folded over its plans.

Recently folded states are remembered, so that the next page of a list, or the next version,
continues from there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence

from stepwell.core.port import ExecutionQuery, Runtime, Store, every_row
from stepwell.core.records.checkpoints import rows_of
from stepwell.core.records.errors import CursorOutOfRange, InvalidArgument, RunNotFound, Violation
from stepwell.core.records.events import Event
from stepwell.core.records.fold import Rows, copy_of, empty_rows, fold_on
from stepwell.core.records.model import Execution, Plan, Run, Task
from stepwell.core.records.states import Effect, StepKind, TaskStatus

PAGE_EVENTS = 512
EVENTS_AT_ONCE = 64
"""The number of events that are folded before others get a turn."""
ROWS_KEPT_MAX = 100_000
"""Tasks, executions and inputs in all remembered states together."""

_Key = tuple[str, str, int]
"""Tenant, run, and its creation time, because the id of a deleted run may be used again."""


class History:
    """Folds events, and remembers a bounded number of states."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._rows: OrderedDict[tuple[_Key, int], Rows] = OrderedDict()
        self.rows_kept = 0
        """The number of remembered rows."""

    async def rows_at(self, run: Run, version: int) -> Rows:
        """Return the rows of a run as of a version. They are shared and must not be changed.

        Executions and questions that had ended by the base where the fold begins are missing;
        `with_ended` adds the relevant ones.

        Raises:
            InvalidArgument: VERSION_IN_FUTURE.
            CursorOutOfRange: its events since that base are no longer kept.
            RunNotFound: it was deleted meanwhile.
        """
        check_version(run, version)
        key = _key_of(run)
        start = self._nearest(key, version)
        if start is None or start.run.version < version:
            start = await self._later_base(run, version, start)
        if start is not None and start.run.version == version:
            self._remember((key, version), start)
            return start
        rows = copy_of(start) if start is not None else empty_rows(run.spec)
        plans: dict[int, Plan] = {}
        async for events in self._events(run, rows.run.last_event):
            wanted = [event for event in events if event.version <= version]
            await self._read_plans(run, wanted, plans)
            for start in range(0, len(wanted), EVENTS_AT_ONCE):
                rows = fold_on(rows, plans, wanted[start : start + EVENTS_AT_ONCE])
                await self._runtime.sleep(0)
            if len(wanted) < len(events) or rows.run.version == version:
                break
        if rows.run.version != version:
            raise RunNotFound(run.spec.run_id)
        self._remember((key, version), rows)
        return rows

    async def _later_base(self, run: Run, version: int, start: Rows | None) -> Rows | None:
        """Return the rows of the run's last base up to a version, if they are later than these."""
        base = await self._store.read_base(run.spec.tenant_id, run.spec.run_id, version=version)
        if base is None or (start is not None and base.version <= start.run.version):
            return start
        return rows_of(run.spec, base) or start

    async def with_ended(self, run: Run, rows: Rows, plans: Mapping[int, Plan]) -> Rows:
        """Return a run's rows with those that a fork needs and a base leaves to the store.

        These are the questions that tasks refer to, and the attempts at tasks whose effect must not
        be repeated. They had ended by the base, so their stored rows are unchanged since.
        """
        names = [task.question_id for task in rows.tasks.values()]
        names = [name for name in names if name and name not in rows.questions]
        where = (run.spec.tenant_id, run.spec.run_id)
        ended = await self._store.read_questions(*where, names) if names else ()
        questions = {request.question_id: request for request in ended}
        executions: dict[str, Execution] = {}
        careful = {
            (revision, spec.task_id)
            for revision, plan in plans.items()
            for spec in plan.tasks
            if spec.effect is not Effect.IDEMPOTENT
        }
        for task in rows.tasks.values():
            is_unsure = task.attempts and task.status is not TaskStatus.COMPLETED
            if is_unsure and (task.revision, task.task_id) in careful:
                attempts = await self._attempts(run, task)
                executions.update((one.execution_id, one) for one in attempts)
        return rows._replace(
            questions={**questions, **rows.questions}, executions={**executions, **rows.executions}
        )

    async def _attempts(self, run: Run, task: Task) -> list[Execution]:
        """Return the stored attempts at a task as of its state then."""
        query = ExecutionQuery(
            tenant_id=run.spec.tenant_id, run_id=run.spec.run_id, task_id=task.task_id
        )
        found = [one async for one in every_row(self._store, query)]
        # Attempt numbers only grow.
        return [one for one in found if one.kind is StepKind.TASK and one.attempt <= task.attempts]

    async def plans_at(self, run: Run, revision: int) -> dict[int, Plan]:
        """Return the run's plans up to this revision, by number."""
        plans: dict[int, Plan] = {}
        for number in range(1, revision + 1):
            plans[number] = await self._plan(run, number)
        return plans

    async def tasks_at(self, run: Run, version: int) -> tuple[Sequence[Task], Mapping[int, Plan]]:
        """Return the tasks as of a version, ordered by revision and then by place in the plan."""
        rows = await self.rows_at(run, version)
        revisions = {task.revision for task in rows.tasks.values()}
        plans = {revision: await self._plan(run, revision) for revision in sorted(revisions)}
        order = {
            (revision, spec.task_id): place
            for revision, plan in plans.items()
            for place, spec in enumerate(plan.tasks)
        }
        tasks = sorted(
            rows.tasks.values(),
            key=lambda task: (task.revision, order[task.revision, task.task_id]),
        )
        return tasks, plans

    async def _events(self, run: Run, after: int) -> AsyncIterator[Sequence[Event]]:
        """Yield the run's events after a number up to its version, in whole commits.

        Raises:
            CursorOutOfRange: the next events are no longer kept.
            RunNotFound: the run was deleted meanwhile.
        """
        spec = run.spec
        while after < run.last_event:
            page = await self._store.read_events(
                spec.tenant_id, spec.run_id, after=after, limit=PAGE_EVENTS
            )
            if page is None or (not page.events and page.oldest <= after + 1):
                raise RunNotFound(spec.run_id)
            if page.oldest > after + 1:
                raise CursorOutOfRange(
                    f"the events that this version rests on are not kept any more; the oldest is {page.oldest}",
                    oldest=page.oldest,
                    latest=page.latest,
                    reason="CURSOR_OUT_OF_RANGE",
                )
            yield [event for event in page.events if event.version <= run.version]
            after = page.events[-1].number
            await self._runtime.sleep(0)

    async def _read_plans(self, run: Run, events: Sequence[Event], plans: dict[int, Plan]) -> None:
        for event in events:
            if event.plan_revision and event.plan_revision not in plans:
                plans[event.plan_revision] = await self._plan(run, event.plan_revision)

    async def _plan(self, run: Run, revision: int) -> Plan:
        plan = await self._store.read_plan(run.spec.tenant_id, run.spec.run_id, revision)
        if plan is None:
            raise RunNotFound(run.spec.run_id)
        return plan

    def _nearest(self, key: _Key, version: int) -> Rows | None:
        """Return the remembered rows of the highest version up to this one."""
        versions = [at for known, at in self._rows if known == key and at <= version]
        if not versions:
            return None
        nearest = (key, max(versions))
        self._rows.move_to_end(nearest)
        return self._rows[nearest]

    def _remember(self, key: tuple[_Key, int], rows: Rows) -> None:
        if key in self._rows:
            return
        self._rows[key] = rows
        self.rows_kept += _size_of(rows)
        while self.rows_kept > ROWS_KEPT_MAX:
            _, dropped = self._rows.popitem(last=False)
            self.rows_kept -= _size_of(dropped)


def check_version(run: Run, version: int) -> None:
    """Refuse a version that the run has not reached.

    Raises:
        InvalidArgument: VERSION_IN_FUTURE.
    """
    if version > run.version:
        what = f"the run has come to version {run.version} and not to {version}"
        raise InvalidArgument(
            f"version: {what}", (Violation("version", what),), reason="VERSION_IN_FUTURE"
        )


def _key_of(run: Run) -> _Key:
    return run.spec.tenant_id, run.spec.run_id, run.created_us


def _size_of(rows: Rows) -> int:
    return 16 + len(rows.tasks) + len(rows.executions) + len(rows.questions)

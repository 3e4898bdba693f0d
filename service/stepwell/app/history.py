"""Earlier versions of a run: its events from the first on, folded over its plans.

The store keeps the events and no earlier state. States that were folded a moment ago are remembered here,
so that the pages of a list, and the next checkpoint, begin where the last one ended.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence

from stepwell.core.port import Runtime, Store
from stepwell.core.records.errors import CursorOutOfRange, InvalidArgument, RunNotFound, Violation
from stepwell.core.records.events import Event
from stepwell.core.records.fold import Rows, copy_of, empty_rows, fold_on, run_after
from stepwell.core.records.model import Plan, Run, Task

PAGE_EVENTS = 512
EVENTS_AT_ONCE = 64
"""Folded at a stretch; then others have their turn."""
ROWS_KEPT_MAX = 100_000
"""Tasks, executions and inputs in all remembered states together."""
RUNS_KEPT_MAX = 4_096

_Key = tuple[str, str, int]
"""Tenant, run, and when it was created: an id may be another run's once its first one is deleted."""


class History:
    """Folds events, and remembers a bounded number of states."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._rows: OrderedDict[tuple[_Key, int], Rows] = OrderedDict()
        self._runs: OrderedDict[tuple[_Key, int], Run] = OrderedDict()
        self.rows_kept = 0
        """Rows that are remembered."""

    async def rows_at(self, run: Run, version: int) -> Rows:
        """Return all rows of a run as of a version of it. They are shared: not to be written to.

        Raises:
            InvalidArgument: VERSION_IN_FUTURE.
            CursorOutOfRange: its events are not kept from the first on any more.
            RunNotFound: it was deleted meanwhile.
        """
        check_version(run, version)
        key = _key_of(run)
        start = self._nearest(key, version)
        if start is not None and start.run.version == version:
            return start
        rows = copy_of(start) if start is not None else empty_rows(run.spec)
        plans: dict[int, Plan] = {}
        async for events in self.events(run, rows.run.last_event):
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

    async def plans_at(self, run: Run, revision: int) -> dict[int, Plan]:
        """Return the run's plans up to this revision, by number."""
        plans: dict[int, Plan] = {}
        for number in range(1, revision + 1):
            plans[number] = await self._plan(run, number)
        return plans

    async def tasks_at(self, run: Run, version: int) -> tuple[Sequence[Task], Mapping[int, Plan]]:
        """Return the tasks as of a version, in the order of revision, then of their plan."""
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

    async def run_at(self, run: Run, number: int) -> Run:
        """Return the run's own row after its event of this number; 0: before the first."""
        if number == 0:
            return empty_rows(run.spec).run
        key = (_key_of(run), number)
        known = self._runs.get(key)
        if known is not None:
            self._runs.move_to_end(key)
            return known
        row = empty_rows(run.spec).run
        async for events in self.events(run, 0):
            for event in events:
                row = run_after(row, event)
                if event.number == number:
                    return row
        raise RunNotFound(run.spec.run_id)

    def remember_run(self, run: Run, row: Run) -> None:
        """Remember the run's row after the event `row.last_event`."""
        self._runs[_key_of(run), row.last_event] = row
        while len(self._runs) > RUNS_KEPT_MAX:
            self._runs.popitem(last=False)

    async def events(self, run: Run, after: int) -> AsyncIterator[Sequence[Event]]:
        """Yield the run's events after that number up to its version, by whole commits.

        Raises:
            CursorOutOfRange: those right after it are not kept any more.
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
                    "the run's events are not kept from the first on any more; the oldest is "
                    f"{page.oldest}, so that only its last version can be read",
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
        """Return the remembered rows of the greatest version up to this one."""
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
    """Refuse a version that the run has not come to.

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
    return 16 + len(rows.tasks) + len(rows.executions) + len(rows.inputs)

"""Stores with one change to what goes in or comes out, the same for each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from stepwell.core.loop import letters, signals
from stepwell.core.port import (
    Claim,
    Claimed,
    Commit,
    CommitResult,
    EventPage,
    Loaded,
    Runtime,
    Store,
)
from stepwell.core.records.checkpoints import base_of, rows_of
from stepwell.core.records.model import Losses
from stepwell.core.records.states import DueKind, ExecutionStatus, QuestionKind
from stepwell_testkit.proxy import StoreProxy

StorePort = Callable[[Store, Runtime], Store]
RunKey = tuple[str, str]


class MutantStore(StoreProxy):
    """The base of the stores with a bug: it is right."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner)
        self.runtime = runtime


def _named(port: type[MutantStore], change: Callable[..., object]) -> StorePort:
    """Return the store, described as the change is."""
    port.__doc__ = change.__doc__
    return port


def commits(change: Callable[[Commit], Commit]) -> StorePort:
    """Return a store that writes each commit with this change."""

    class Changed(MutantStore):
        async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
            return await self.inner.commit([change(one) for one in commits])

    return _named(Changed, change)


def loads(change: Callable[[Loaded], Loaded]) -> StorePort:
    """Return a store that loads each run with this change."""

    class Changed(MutantStore):
        async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
            rows = await self.inner.load(tenant_id, run_id, since=since)
            return rows if rows is None else change(rows)

    return _named(Changed, change)


def events(change: Callable[[EventPage, int, Runtime], EventPage]) -> StorePort:
    """Return a store that changes each page of events, read after a number."""

    class Changed(MutantStore):
        async def read_events(
            self, tenant_id: str, run_id: str, *, after: int, limit: int
        ) -> EventPage | None:
            page = await self.inner.read_events(tenant_id, run_id, after=after, limit=limit)
            return page if page is None else change(page, after, self.runtime)

    return _named(Changed, change)


def claims(change: Callable[[Claimed], Claimed]) -> StorePort:
    """Return a store that changes what each claim returns."""

    class Changed(MutantStore):
        async def claim(self, claim: Claim) -> Claimed:
            return change(await self.inner.claim(claim))

    return _named(Changed, change)


def without_request(one: Commit) -> Commit:
    """Forget with a run which requests were carried out: only the replica knows them."""
    return replace(one, request=None)


def without_callers(one: Commit) -> Commit:
    """Write the events of commands without the names of their callers."""
    nameless = (replace(event, actor="", on_behalf_of="") for event in one.events)
    return replace(one, events=tuple(nameless))


def without_receipts(one: Commit) -> Commit:
    """Write outcomes without their receipts: one that is sent again is taken for a lost one."""
    return replace(one, outcomes=tuple(replace(left, receipt="") for left in one.outcomes))


def without_an_offer(one: Commit) -> Commit:
    """Leave out the last step that a commit offers."""
    ready = [e for e in one.executions if e.status is ExecutionStatus.READY]
    kept = tuple(e for e in one.executions if e not in ready[-1:])
    return replace(one, executions=kept)


def without_a_field(one: Commit) -> Commit:
    """Write a field of the run to its row, and leave it out of the event."""
    *rest, last = one.events
    change = last.run if last.run is UNSET else replace(last.run, attempts=UNSET)
    return replace(one, events=(*rest, replace(last, run=change)))


def with_smaller_bases(one: Commit) -> Commit:
    """Leave a task out of each base."""
    rows = rows_of(one.run.spec, one.checkpoint) if one.checkpoint is not None else None
    if one.checkpoint is None or rows is None or not rows.tasks:
        return one
    rows.tasks.popitem()
    return replace(one, checkpoint=replace(one.checkpoint, base=base_of(rows)))


def without_letters(one: Commit) -> Commit:
    """Write no letters: only the replica whose commit sends them has them."""
    return replace(one, entries=tuple(e for e in one.entries if e.journal != letters.JOURNAL))


def without_signals(one: Commit) -> Commit:
    """Write no signals: the run's row counts them, and no call finds them."""
    return replace(one, entries=tuple(e for e in one.entries if e.journal != signals.JOURNAL))


def with_taken_signals(one: Commit) -> Commit:
    """Keep the signals that a call has taken, for the next call."""
    return replace(one, forgotten=tuple(e for e in one.forgotten if e.journal != signals.JOURNAL))


def without_new_ends(rows: Loaded) -> Loaded:
    """Load tasks without the calls that have ended while their steps run."""
    tasks = (replace(one, journal=replace(one.journal, answered=())) for one in rows.tasks)
    return replace(rows, tasks=tuple(tasks))


def with_children_of_no_call(rows: Loaded) -> Loaded:
    """Load the waits for children without their calls, which start others."""
    changed = (
        replace(one, call="") if one.kind is QuestionKind.CHILD else one for one in rows.questions
    )
    return replace(rows, questions=tuple(changed))


def with_children_left(rows: Loaded) -> Loaded:
    """Load the waits for children as if these were to outlive their steps."""
    changed = (
        replace(one, leave=True) if one.kind is QuestionKind.CHILD else one
        for one in rows.questions
    )
    return replace(rows, questions=tuple(changed))


def with_children_that_go_on(rows: Loaded) -> Loaded:
    """Load the waits for children as if these didn't follow the pauses of their parents."""
    changed = (replace(one, follow_pauses=False) for one in rows.questions)
    return replace(rows, questions=tuple(changed))


def with_looser_plans(rows: Loaded) -> Loaded:
    """Load plans in which each task lacks the first task that it depends on."""
    return replace(
        rows,
        plans=tuple(
            replace(
                plan,
                tasks=tuple(replace(spec, depends_on=spec.depends_on[1:]) for spec in plan.tasks),
            )
            for plan in rows.plans
        ),
    )


def with_none_spent(rows: Loaded) -> Loaded:
    """Load tasks and stages as though no attempt had been spent."""
    return replace(
        rows,
        run=replace(rows.run, step_spent=0, step_losses=Losses()),
        tasks=tuple(replace(task, spent=0, losses=Losses()) for task in rows.tasks),
    )


def without_stages(rows: Loaded) -> Loaded:
    """Load a run without the stages that its first worker brought."""
    return replace(rows, run=replace(rows.run, stages=()))


def without_questions(rows: Loaded) -> Loaded:
    """Leave out of a load since a version which questions were answered."""
    return rows if rows.complete else replace(rows, questions=())


def stamped_when_read(page: EventPage, _after: int, runtime: Runtime) -> EventPage:
    """Give an event the time at which a replica reads it, so that two watchers see two events."""
    now_us = runtime.now_us()
    return replace(page, events=tuple(replace(event, time_us=now_us) for event in page.events))


def at_any_cursor(page: EventPage, after: int, _runtime: Runtime) -> EventPage:
    """Accept a cursor that no event has reached: its owner misses what comes until then."""
    return replace(page, latest=max(page.latest, after))


def one_event_a_page(page: EventPage, _after: int, _runtime: Runtime) -> EventPage:
    """End a page after one event, wherever in its commit that is."""
    return replace(page, events=page.events[:1], ended=page.ended and len(page.events) <= 1)


def as_if_kept(page: EventPage, _after: int, _runtime: Runtime) -> EventPage:
    """Say that all events are kept: a watcher skips unknowing those that were removed."""
    return replace(page, oldest=1)


def without_expired(claimed: Claimed) -> Claimed:
    """Claim timers and forget the leases that have run out."""
    return replace(claimed, due=tuple(one for one in claimed.due if one.kind is DueKind.TIMER))

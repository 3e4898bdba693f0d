"""Forks: runs made from a version of another run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec import field
from msgspec.structs import replace

from stepwell.app.commands import CommandResult, carry_out
from stepwell.app.history import History, check_version
from stepwell.app.runs import read_run
from stepwell.app.start import check_labels, check_reflects
from stepwell.app.threads import in_thread, start_in_thread
from stepwell.core.fork.compat import Misfit
from stepwell.core.fork.fork import Base, base_of, sources_of, with_calls
from stepwell.core.fork.inherit import Changes
from stepwell.core.loop.children import own_labels
from stepwell.core.port import (
    INPUT_KEY,
    EntryWrite,
    JournalQuery,
    Presence,
    PresenceQuery,
    Store,
    every_row,
)
from stepwell.core.records import errors
from stepwell.core.records.errors import AlreadyExists
from stepwell.core.records.family import ChildOf
from stepwell.core.records.fold import Rows
from stepwell.core.records.journal import StoredEntry
from stepwell.core.records.model import (
    Budget,
    Payload,
    Record,
    Run,
    RunSpec,
    TaskSpec,
)
from stepwell.core.records.routing import ANY, WorkerVersion
from stepwell.core.records.states import ForkMode, OnBusy, QuestionKind, QuestionStatus, StepKind
from stepwell.core.records.step_journal import Source
from stepwell.engine.executor import Executor
from stepwell.engine.step_journal import signals_of

T = TypeVar("T")

_LISTED_MAX = 3
"""The number of misfits in an error's message; its details have the others."""


class ForkOrder(Record, frozen=True, kw_only=True):
    """A fork as its caller requests it: None and empty values mean the parent's."""

    tenant_id: str
    parent_run_id: str
    run_id: str
    """The fork's own id."""
    actor: str = ""
    """The caller, by its credential."""
    executor_id: str = ""
    """The name on whose behalf the caller acts; empty: the caller."""
    request_fingerprint: str = ""
    version: int = 0
    """The parent's version to fork from; 0: its last one."""
    mode: ForkMode = ForkMode.STRICT
    plan: tuple[TaskSpec, ...] | None = None
    replan: bool = False
    input: Payload | None = None
    goal: str | None = None
    queue: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    """Added to the parent's."""
    max_iterations: int | None = None
    max_parallel: int | None = None
    priority: int | None = None
    budget: Budget | None = None
    worker_version: WorkerVersion | None = None
    thread_id: str = ""
    """The thread that it is to be a run of, whatever its parent's is."""
    reflect_on: tuple[str, ...] = ()


class PreparedFork(NamedTuple):
    """A fork that may be started."""

    base: Base
    warnings: tuple[str, ...]
    """Effects that its caller may not expect."""


async def find_fork(store: Store, order: ForkOrder) -> Run | None:
    """Return the fork that this same request made, whatever its parent has come to since."""
    run = await store.get_run(order.tenant_id, order.run_id)
    if run is not None and run.spec.request_fingerprint == order.request_fingerprint:
        return run
    return None


async def prepare_fork(store: Store, history: History, order: ForkOrder) -> PreparedFork:
    """Return the fork's first state, and the requested changes that don't fit.

    Raises:
        RunNotFound: there is no such parent.
        InvalidArgument: the parent has not reached this version (VERSION_IN_FUTURE), or a label is one of the service's.
        InvalidArgument: the fork has no reflection, and is to reflect for signals.
        CursorOutOfRange: the parent's events before the version are no longer kept.
    """
    check_labels(order.labels)
    parent = await read_run(store, order.tenant_id, order.parent_run_id)
    check_version(parent, order.version)
    rows = await history.rows_at(parent, order.version or parent.version)
    plans = await history.plans_at(parent, rows.run.plan_revision)
    rows = await history.with_ended(parent, rows, plans)
    spec = _spec(rows.run, order)
    stored = await store.read_payloads(order.tenant_id, order.parent_run_id, [INPUT_KEY])
    before = stored[0].payload if stored else None
    given = before if order.input is None else order.input
    changes = Changes(
        mode=order.mode,
        plan=order.plan,
        replan=order.replan,
        roles=_roles(
            (await store.page(PresenceQuery(tenant_id=order.tenant_id))).items, spec.queue
        ),
        same_input=given == before,
    )
    base = base_of(spec, rows, plans, changes)
    made = base.fork.run
    if order.reflect_on and made.stages_fixed:
        check_reflects(order.reflect_on, made.stages)
    base = with_calls(
        base,
        {one: await _at_most_once(store, order.tenant_id, one) for one in sources_of(base)},
    )
    changed = [
        *(["with another input"] if given != before else []),
        *(["for another goal"] if spec.goal != rows.run.spec.goal else []),
    ]
    key = (order.tenant_id, order.parent_run_id)
    signals = await signals_of(store, key, spec.parent_version) if rows.run.signals.kept else ()
    fork = replace(
        base.fork,
        input=given,
        actor=order.actor,
        on_behalf_of=order.executor_id,
        signals=tuple(
            [
                EntryWrite(journal=one.journal, generation=one.generation, entry=one.entry)
                for one in signals
            ]
        ),
    )
    base = base._replace(fork=fork)
    warnings = [_warning(len(base.kept), changed)] if base.kept and changed else []
    return PreparedFork(base, (*warnings, *_left_or_taken(rows, spec.thread_id, len(signals))))


async def _at_most_once(store: Store, tenant_id: str, source: Source) -> Sequence[StoredEntry]:
    """Return the entries of AT_MOST_ONCE calls in a journal."""
    query = JournalQuery(
        tenant_id=tenant_id,
        run_id=source.run_id,
        journal=source.journal,
        # For a generation that doesn't exist yet, only such calls of earlier ones are returned.
        generation=source.generation + 1,
        version=source.version,
        names_only=True,
    )
    return [one async for one in every_row(store, query)]


def _warning(kept: int, changed: Sequence[str]) -> str:
    how = " and ".join(changed)
    return f"{_count(kept, 'result')} {'is' if kept == 1 else 'are'} kept though made {how}; to make them anew, fork a version before them"


def _left_or_taken(rows: Rows, thread: str, signals: int) -> Iterator[str]:
    """Yield warnings about what of the run's dealings with others stays the run's, and what the fork has too."""
    if signals:
        yield f"{_count(signals, 'signal')} that the run kept will be kept by the fork, too"
    open_children = {
        one.prompt
        for one in rows.questions.values()
        if one.kind is QuestionKind.CHILD and one.status is QuestionStatus.OPEN
    }
    if open_children:
        what = _count(len(open_children), "child run")
        yield f"{what} had not ended; the fork starts its own instead"
    before = rows.run.spec.thread_id
    if before != thread:
        of = f"thread {before!r}" if before else "no thread"
        yield f"the run is of {of}, and the fork is of {f'thread {thread!r}' if thread else 'none'}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


async def make_fork(
    executor: Executor, order: ForkOrder, base: Base, on_busy: OnBusy
) -> CommandResult:
    """Start a fork, and return it after its first commit; `changed` is False if an earlier call has made it.

    Raises:
        ForkIncompatible: the changes don't fit the parent.
        StepwellError: its thread refuses it, see `start_in_thread`.
        RunNotFound: the parent was deleted meanwhile.
    """
    if base.misfits:
        raise _incompatible(base.misfits)
    try:
        if order.thread_id:
            run, changed, _ = await start_in_thread(executor, in_thread(base.fork, on_busy))
            return CommandResult(run, changed)
        return await carry_out(executor, order.tenant_id, order.run_id, base.fork)
    except AlreadyExists:
        # A run that is gone can't be forked.
        await read_run(executor.store, order.tenant_id, order.parent_run_id)
        raise


def _spec(parent: Run, order: ForkOrder) -> RunSpec:
    before = parent.spec
    return replace(
        before,
        run_id=order.run_id,
        parent_run_id=before.run_id,
        parent_version=parent.version,
        family_id=before.family_id or before.run_id,
        goal=_or(order.goal, before.goal),
        queue=order.queue or before.queue,
        labels={**own_labels(before.labels), **order.labels},
        executor_id=order.executor_id or order.actor,
        max_iterations=_or(order.max_iterations, before.max_iterations),
        max_parallel=_or(order.max_parallel, before.max_parallel),
        priority=_or(order.priority, before.priority),
        budget=_or(order.budget, before.budget),
        worker_version=_or(order.worker_version, before.worker_version),
        start_delay_ms=0,
        child_of=ChildOf(),
        thread_id=order.thread_id,
        reflect_on=order.reflect_on or before.reflect_on,
        request_fingerprint=order.request_fingerprint,
    )


def _or(given: T | None, inherited: T) -> T:
    return inherited if given is None else given


def _roles(workers: Sequence[Presence], queue: str) -> frozenset[str] | None:
    """Return the roles of the queue's connected workers, or None if none is connected."""
    serving = [one for one in workers if queue in one.queues]
    if not serving:
        return None
    return frozenset(
        role
        for one in serving
        if StepKind.TASK in one.kinds
        for role in ([pattern.role for pattern in one.tasks] if one.tasks else [ANY])
    )


def _incompatible(misfits: Sequence[Misfit]) -> errors.ForkIncompatible:
    listed = [f"{one.kind} {one.task_id}: {one.description}" for one in misfits[:_LISTED_MAX]]
    if len(misfits) > _LISTED_MAX:
        listed.append(f"and {len(misfits) - _LISTED_MAX} more")
    return errors.ForkIncompatible(
        "the fork doesn't fit: " + "; ".join(listed),
        tuple(
            errors.Misfit(one.kind, one.field or one.task_id, one.description) for one in misfits
        ),
    )

"""The final audit: a full dump of the store against all that was witnessed on the way there."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from stepwell.core.port import ExecutionQuery, FeedQuery, Store, TaskQuery
from stepwell.core.records.checkpoints import rows_of
from stepwell.core.records.events import Event
from stepwell.core.records.fold import empty_rows, fold_on
from stepwell.core.records.states import (
    EventType,
    ExecutionStatus,
    QuestionStatus,
    StepKind,
    TaskStatus,
)
from stepwell_testkit.conformance.ask import outcomes
from tests.simulation.simulator.conversation import audit_conversations, count_said
from tests.simulation.simulator.ledger import Ledger
from tests.simulation.simulator.reading import every
from tests.simulation.simulator.run_model import RunModel
from tests.simulation.simulator.violation import holds


async def audit(store: Store, ledger: Ledger) -> None:
    """Check every run of the store, and the feed over all of them.

    Raises:
        InvariantViolation: something doesn't hold.
    """
    for model in ledger.models.values():
        for check in _CHECKS:
            await check(store, model)
        _accepted_results(model, ledger)
    ledger.letters.audit()
    await ledger.signals.audit(store)
    await _feed(store, ledger)


async def _rows_are_kept(store: Store, model: RunModel) -> None:
    """Every applied commit is in the store, and nothing else is (S3, S5)."""
    run = await store.get_run(*model.key)
    holds(run == model.run, "S3", f"{model.key}: the run's row isn't that of its last commit")
    tenant_id, run_id = model.key
    tasks = await every(store, TaskQuery(tenant_id=tenant_id, run_id=run_id))
    holds({one.task_id: one for one in tasks} == model.tasks, "S3", f"{model.key}: tasks")
    executions = await every(store, ExecutionQuery(tenant_id=tenant_id, run_id=run_id))
    kept = {one.execution_id: one for one in executions}
    holds(kept == model.executions, "S3", f"{model.key}: executions")


async def _events_are_kept(store: Store, model: RunModel) -> None:
    """The log is 1..n, each once, whatever the page (E1, E8)."""
    events: list[Event] = []
    while True:
        page = await store.read_events(*model.key, after=len(events), limit=5)
        if page is None or not page.events:
            break
        events.extend(page.events)
        whole = len(events) == len(model.events) or (
            model.events[len(events)].version != events[-1].version
        )
        holds(whole, "E8", f"{model.key}: a page splits v{events[-1].version}")
    holds(events == model.events, "E1", f"{model.key}: {len(events)} of {len(model.events)} events")


async def _folds(_store: Store, model: RunModel) -> None:
    """Check that the events up to v, folded, are the rows at v (S20)."""
    if model.run is None:
        return
    last = model.version
    at, rows, folded = RunModel(*model.key), empty_rows(model.run.spec), 0
    for version in sorted({last, max(1, last // 2), max(1, last - 1)}):
        for applied in model.applied[at.version : version]:
            at.apply(applied)
        rows = fold_on(rows, model.plans, at.events[folded:])
        folded = len(at.events)
        name = f"{model.key} at v{version}"
        holds(rows.run == at.run, "S20", name, "the run's row")
        holds(rows.tasks == at.tasks, "S20", name, "tasks")
        holds(rows.executions == at.executions, "S20", name, "executions")
        holds(rows.questions == at.questions, "S20", name, "questions")


async def _bases_are_folds(store: Store, model: RunModel) -> None:
    """Check that a fold from each base gives what a fold from the first event does (S20)."""
    version = model.version
    while model.run is not None:
        base = await store.read_base(*model.key, version=version)
        if base is None:
            break
        at = RunModel(*model.key)
        for applied in model.applied[: base.version]:
            at.apply(applied)
        rows = rows_of(model.run.spec, base)
        name = f"{model.key} at its base of v{base.version}"
        assert rows is not None
        open_ones = {one.execution_id: one for one in at.open()}
        holds(rows.run == at.run, "S20", name, "the run's row")
        holds(rows.tasks == at.tasks, "S20", name, "tasks")
        holds(rows.executions == open_ones, "S20", name, "executions")
        asked = {k: one for k, one in at.questions.items() if one.status is QuestionStatus.OPEN}
        holds(rows.questions == asked, "S20", name, "questions")
        # What has ended by a base is stored as it was then, so base, events and store are all.
        after = fold_on(rows, model.plans, model.events[base.state.last_event :])
        holds(after.run == model.run, "S20", name, "the run's row after it")
        holds(after.tasks == model.tasks, "S20", name, "tasks after it")
        executions = {**at.executions, **after.executions}
        holds(executions == model.executions, "S20", name, "executions after it")
        questions = {**at.questions, **after.questions}
        holds(questions == model.questions, "S20", name, "questions after it")
        version = base.version - 1


async def _results_are_kept(store: Store, model: RunModel) -> None:
    """Each accepted result has the bytes that were accepted (S7)."""
    keys = sorted(model.outcomes)
    tenant_id, run_id = model.key
    left = await outcomes(store, keys, run_id, tenant=tenant_id)
    holds(left == [model.outcomes[key] for key in keys], "S7", f"{model.key}: outcomes")
    payloads = {one.key: one.payload for one in await store.read_payloads(*model.key, keys)}
    for key, outcome in model.outcomes.items():
        holds(payloads.get(key) == outcome.result, "S7", f"{model.key}: bytes of {key}")


def _accepted_results(model: RunModel, ledger: Ledger) -> None:
    """A completed step has one accepted attempt, and what it left is what its worker sent."""
    completed: dict[tuple[str, int], str] = {}
    for execution in model.executions.values():
        if execution.status is not ExecutionStatus.COMPLETED:
            continue
        name = execution.execution_id
        lease, outcome = model.leases.get(name), model.outcomes.get(name)
        if lease is None or (outcome is not None and not outcome.response):
            # Created with another's result, or reconciled: its own worker sent nothing.
            settled = lease is None or execution.begun
            holds(settled, "S7", f"{model.key}: {name} was completed by nobody")
        elif outcome is not None:
            sent = ledger.deliveries.get(lease.token)
            right = sent is not None and outcome.response == lease.token == sent.response
            holds(right, "S7", f"{model.key}: {name} holds what another attempt sent")
            assert sent is not None
            # The result of a RECONCILE step is kept under the execution that it checked.
            reconciled = execution.kind is StepKind.RECONCILE
            data = None if reconciled else getattr(sent.result, "result", None)
            holds(data == outcome.result, "S7", f"{model.key}: {name} holds other bytes")
            whole = not sent.messages or execution.messages == count_said(sent)
            holds(whole, "ONCE", f"{model.key}: {name} is kept with {execution.messages} messages")
        if execution.kind is StepKind.TASK:
            revision = _revision_at(model, name)
            other = completed.setdefault((execution.task_id, revision), name)
            holds(other == name, "S18", f"{model.key}: both {other} and {name} were accepted")
            if ledger.clocks_lie:
                holds(other == name, "C1", f"{model.key}: both {other} and {name} were accepted")
    for task in model.tasks.values():
        if task.result_run_id:
            done = ledger.model((model.key[0], task.result_run_id)).executions[task.result_id]
            kept = done.status is ExecutionStatus.COMPLETED
            holds(kept, "S7", f"{model.key}: {task.task_id} is kept from {done}")
        elif task.status is TaskStatus.COMPLETED:
            accepted = completed.get((task.task_id, task.revision))
            if task.deduplicated_from and accepted is not None:
                # It was created next to the one whose result it has, or with a copy of another run's.
                done = model.executions[task.result_id].status is ExecutionStatus.COMPLETED
                accepted = task.result_id if done else accepted
            holds(accepted == task.result_id, "S7", f"{model.key}: {task.task_id} isn't {accepted}")


def _revision_at(model: RunModel, execution_id: str) -> int:
    """Return the plan revision that defined the task when this attempt was accepted."""
    closing = model.closed[execution_id]
    task_id = model.executions[execution_id].task_id
    commit = model.applied[closing.version - 1].commit
    # In one batch a task may be done first and then be redefined by another plan.
    number = next(e.number for e in commit.events if _completes(e, execution_id))
    after = (e for e in commit.events if e.number > number)
    planned_later = any(e.type is EventType.PLAN_ACCEPTED for e in after)
    revision = 0
    for applied in model.applied[: closing.version - planned_later]:
        for task in applied.commit.tasks:
            if task.task_id == task_id:
                revision = task.revision
    return revision


def _completes(event: Event, execution_id: str) -> bool:
    return any(
        change.execution_id == execution_id and change.status is ExecutionStatus.COMPLETED
        for change in event.executions
    )


async def _feed(store: Store, ledger: Ledger) -> None:
    """The feed names every commit once, a run's versions in order, in the order of the store (S2)."""
    rows = await every(store, FeedQuery(limit=50))
    entries = [((one.tenant_id, one.run_id), one.version) for one in rows]
    holds(entries == ledger.order, "S2", "the feed isn't the order in which commits were applied")


_CHECKS: tuple[Callable[[Store, RunModel], Coroutine[Any, Any, None]], ...] = (
    _rows_are_kept,
    _events_are_kept,
    _folds,
    _bases_are_folds,
    _results_are_kept,
    audit_conversations,
)

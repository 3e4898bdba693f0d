"""Carryover between the attempts at a step: session, last progress and failure.

The task's row holds it (the run's for PLAN, REFLECT and SYNTHESIZE), so that the next attempt has it
wherever it is leased, and no other step does.
"""

from __future__ import annotations

from stepwell.core.loop.draft import Draft
from stepwell.core.records.model import Execution, Failure, Payload, Previous, Session
from stepwell.core.records.states import StepKind

_NOTHING = Previous()


def keep(
    draft: Draft,
    execution: Execution,
    *,
    session: Session,
    progress: Payload | None,
    failure: Failure,
) -> None:
    """Keep what an attempt that did not complete its step leaves to the next one.

    Without a session or progress, those of an earlier attempt stay. An attempt that was released without
    a report may never have reached its worker: it changes nothing. A RECONCILE step is no attempt at its
    task and leaves nothing. The change belongs to the current event.
    """
    reported_nothing = session == Session() and progress is None and failure == Failure()
    if execution.kind is StepKind.RECONCILE or reported_nothing:
        return
    before = _before(draft, execution)
    after = Previous(
        execution_id=execution.execution_id,
        session=session if session != Session() else before.session,
        progress=progress if progress is not None else before.progress,
        failure=failure,
    )
    _put(draft, execution, after)


def drop(draft: Draft, execution: Execution) -> None:
    """Drop what earlier attempts left: the step is completed."""
    if execution.kind is not StepKind.RECONCILE and _before(draft, execution) != _NOTHING:
        _put(draft, execution, _NOTHING)


def _before(draft: Draft, execution: Execution) -> Previous:
    """Return what the earlier attempts left."""
    if execution.task_id:
        return draft.task(execution.task_id).previous
    return draft.run.previous


def _put(draft: Draft, execution: Execution, previous: Previous) -> None:
    if execution.task_id:
        draft.change_task(execution.task_id, previous=previous)
    else:
        draft.change_run(previous=previous)

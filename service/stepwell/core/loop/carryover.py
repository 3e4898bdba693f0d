"""What the attempts at a step leave to its next one: session, last progress, failure.

It stands in the task's row, or in the run's for PLAN, REFLECT and SYNTHESIZE, so that the next attempt
finds it wherever it is leased, and no other step does.
"""

from __future__ import annotations

from stepwell.core.loop.draft import Draft
from stepwell.core.records.model import Execution, Failure, Payload, Previous, Session
from stepwell.core.records.states import StepKind

NOTHING = Previous()


def leave(
    draft: Draft,
    execution: Execution,
    *,
    session: Session,
    progress: Payload | None,
    failure: Failure,
) -> None:
    """Keep what an attempt that did not complete its step leaves behind, within the current event.

    What it didn't say (no session, no progress) stays as an earlier attempt said it. One that was handed
    back and said nothing may never have reached its worker: it leaves all as it was. A RECONCILE step
    is no attempt at its task and leaves nothing.
    """
    said_nothing = session == Session() and progress is None and failure == Failure()
    if execution.kind is StepKind.RECONCILE or said_nothing:
        return
    before = before_of(draft, execution)
    after = Previous(
        execution_id=execution.execution_id,
        session=session if session != Session() else before.session,
        progress=progress if progress is not None else before.progress,
        failure=failure,
    )
    _put(draft, execution, after)


def forget(draft: Draft, execution: Execution) -> None:
    """Take back what earlier attempts left: the step is completed."""
    if execution.kind is not StepKind.RECONCILE and before_of(draft, execution) != NOTHING:
        _put(draft, execution, NOTHING)


def before_of(draft: Draft, execution: Execution) -> Previous:
    """Return what the attempts before left."""
    if execution.task_id:
        return draft.task(execution.task_id).previous
    return draft.run.previous


def _put(draft: Draft, execution: Execution, previous: Previous) -> None:
    if execution.task_id:
        draft.change_task(execution.task_id, previous=previous)
    else:
        draft.change_run(previous=previous)

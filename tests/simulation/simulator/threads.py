"""Threads (H1, H2), by the commits of a thread's runs and by its own alone."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.core.loop.occurrences import Completed, Planned, Reflected, Result
from stepwell.core.port import Assignment
from stepwell.core.records.model import Payload
from stepwell.core.records.states import EventType, StepKind
from stepwell.core.records.threads import ThreadMessageDraft, ThreadWrite, key_of
from tests.simulation.simulator.run_model import Applied, RunModel
from tests.simulation.simulator.violation import holds

RunKey = tuple[str, str]


def check(models: Mapping[RunKey, RunModel], applied: Applied) -> None:
    """Check, after a commit of a run of a thread, that no other one works and that it is this one's turn.

    Raises:
        InvariantViolation: two work at a time, or one before its turn.
    """
    spec = applied.commit.run.spec
    if spec.is_thread or not spec.thread_id:
        return
    runs = [
        model.run
        for key, model in models.items()
        if key[0] == spec.tenant_id
        and model.run is not None
        and model.run.spec.thread_id == spec.thread_id
    ]
    working = [one.spec.run_id for one in runs if not one.ended and not one.waits_for_thread]
    holds(len(working) <= 1, "H1", applied, "of one thread work:", working)
    begins = [EventType.RUN_STARTED, EventType.RUN_LET_GO]
    if spec.run_id in working and any(one.type in begins for one in applied.commit.events):
        thread = models[key_of(spec.tenant_id, spec.thread_id)]
        turn = thread.run.thread.working if thread.run is not None else ""
        holds(turn == spec.run_id, "H2", applied, "works, and the turn is that of", turn)
        _in_order(thread, spec.run_id, applied)


def _in_order(thread: RunModel, run_id: str, applied: Applied) -> None:
    """Check that all runs which joined before have left, unless some run replaced another (H2)."""
    if any(one.question_id.startswith("first:") for one in thread.questions.values()):
        return
    joined = [one.message for one in thread.events if one.type is EventType.RUN_JOINED]
    left = [one.message for one in thread.events if one.type is EventType.RUN_LEFT]
    before = [one for one in joined[: joined.index(run_id)] if one not in left]
    holds(not before, "H2", applied, "works before", before)


def written_by(assignment: Assignment, result: Result, token: str) -> ThreadWrite | None:
    """Return what a step writes to the run's thread: a message that names the attempt."""
    if not assignment.run.thread_id or not isinstance(result, Completed | Planned | Reflected):
        return None
    if assignment.execution.kind is StepKind.RECONCILE:
        return None
    message = ThreadMessageDraft(role="assistant", content=Payload(data=token.encode()))
    return ThreadWrite(messages=(message,))

"""Threads (H1, H2) and steers (H3), by the commits of a thread's runs and by its own alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from stepwell.core.loop.letters import Letter, SignalRun
from stepwell.core.loop.occurrences import Completed, Planned, Reflected, Result
from stepwell.core.port import Assignment
from stepwell.core.records.aggregates import runs_of
from stepwell.core.records.model import Payload, Question
from stepwell.core.records.states import EventType, OnBusy, QuestionStatus, StepKind
from stepwell.core.records.threads import ThreadMessageDraft, ThreadWrite, key_of
from tests.simulation.simulator.run_model import Applied, RunModel
from tests.simulation.simulator.violation import holds

RunKey = tuple[str, str]
ON_BUSY = (OnBusy.ENQUEUE, OnBusy.INTERRUPT, OnBusy.STEER, OnBusy.STEER)
"""A start in a thread draws one of these; a steer is drawn twice as often."""
TAKEN = "steer taken by the run that works"
BECAME_RUN = "steer that became a run"


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
    """Check that all that was started before has left, unless some run replaced another (H2)."""
    places = thread.questions.values()
    if any(one.question_id.startswith("first:") for one in places):
        return
    mine = [_number(one) for one in places if one.prompt == run_id]
    before = [
        one.question_id
        for one in places
        if one.status is QuestionStatus.OPEN and _number(one) < min(mine)
    ]
    holds(not before, "H2", applied, "works before", before)


def _number(place: Question) -> int:
    """Return the number of a start in its thread."""
    return int(place.question_id.split(":")[1])


def steer_of(thread: RunModel | None, run_id: str) -> Question | None:
    """Return the question of a start that steers or has steered, None if it is a run or isn't there."""
    questions = thread.questions.values() if thread is not None else ()
    places = [one for one in questions if one.prompt == run_id]
    is_run = len(places) != 1 or not places[0].question_id.startswith("steer:")
    return None if is_run else places[0]


def check_steers(
    applied: Applied,
    letter: Callable[[RunKey, int], Letter],
    is_taken: Callable[[RunKey, bytes], bool],
    seen: Counter[str],
) -> None:
    """Check that a steer ends because a call has taken its signal, or as a run in its place, and never both (H3).

    Raises:
        InvariantViolation: a start is lost, is there twice, or has another place.
    """
    commit = applied.commit
    for steer in commit.questions:
        if not steer.question_id.startswith("steer:") or steer.status is QuestionStatus.OPEN:
            continue
        signal = letter((commit.tenant_id, commit.run_id), int(steer.question_id.split(":")[2]))
        assert isinstance(signal, SignalRun)
        assert signal.value is not None
        taken = is_taken((runs_of(commit.tenant_id), signal.run_id), signal.value.data)
        runs = [one for one in commit.questions if one.prompt == steer.prompt and one != steer]
        places = [_number(one) for one in runs]
        right = [] if taken else [_number(steer)]
        holds(places == right, "H3", applied, steer, "taken" if taken else "not taken", runs)
        seen[TAKEN if taken else BECAME_RUN] += 1


def written_by(assignment: Assignment, result: Result, token: str) -> ThreadWrite | None:
    """Return what a step writes to the run's thread: a message that names the attempt."""
    if not assignment.run.thread_id or not isinstance(result, Completed | Planned | Reflected):
        return None
    if assignment.execution.kind is StepKind.RECONCILE:
        return None
    message = ThreadMessageDraft(role="assistant", content=Payload(data=token.encode()))
    return ThreadWrite(messages=(message,))

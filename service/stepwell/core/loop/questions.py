"""Questions: a task asks, a person answers, or the question expires.

A question is a separate row, named after the asking attempt, so that a run's ids are unique however
many tasks ask at once. An answer lets its own task continue and no other; all further attempts at
that task receive it.

An answer may ask for another plan. Then only the PLAN step is dispatched until that plan is in
force: READY steps are withdrawn, and leased steps may end with results that count.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop.attempts import end_attempt
from stepwell.core.loop.child_outcomes import task_child_late
from stepwell.core.loop.closing import close, pause_run, withdraw_ready
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_task
from stepwell.core.loop.occurrences import Answer, Delivery, NeedsAnswer
from stepwell.core.loop.opening import ask_person, question_of, wait_expired
from stepwell.core.loop.phases import enter_phase
from stepwell.core.loop.renewals import renew
from stepwell.core.loop.suspending import fail_asking_step
from stepwell.core.loop.table import Trigger
from stepwell.core.loop.transition import Reply, refused
from stepwell.core.loop.waits import QUESTION_TIMER, drop_timer, end_call, withdraw_questions
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, Failure
from stepwell.core.records.states import (
    NO_PERSON,
    EventType,
    ExecutionStatus,
    ExpiryAction,
    PauseReason,
    Phase,
    QuestionKind,
    QuestionStatus,
    RunStatus,
    StepKind,
    TaskStatus,
)

NOT_OPEN = "QUESTION_NOT_OPEN"
"""The reason for refusing an answer. The loop knows open questions only; callers read others from the store."""


def ask(draft: Draft, execution: Execution, delivery: Delivery, result: NeedsAnswer) -> Reply:
    """Create a question; its task waits for the answer."""
    question = question_of(execution, result, draft.context.now_us)
    assert question is not None, "a person is asked"
    ask_person(draft, question)
    end_attempt(draft, execution, ExecutionStatus.NEEDS_ANSWER, delivery)
    draft.change_task(
        execution.task_id, status=TaskStatus.BLOCKED, question_id=question.question_id
    )
    return Reply()


def answer(draft: Draft, command: Answer) -> Reply:
    """Answer an open question; the task that asked continues with the answer."""
    question = draft.open_question(command.question_id)
    if question is None or question.kind in NO_PERSON:
        return refused(NOT_OPEN, f"no question {command.question_id!r} of this run is open")
    if command.replan and _is_last_iteration(draft):
        return refused(
            "LAST_ITERATION",
            "no iteration is left for another plan; answer without asking for one",
        )
    draft.event(
        EventType.QUESTION_ANSWERED, task_id=question.task_id, question_id=question.question_id
    )
    draft.put_question(
        replace(
            question,
            status=QuestionStatus.ANSWERED,
            answer=command.payload,
            answered_by=command.answered_by,
            ended_us=draft.context.now_us,
        )
    )
    drop_timer(draft, QUESTION_TIMER + question.question_id)
    if question.call:
        end_call(draft, question, command.payload)
    else:
        draft.change_task(question.task_id, status=TaskStatus.PENDING)
    if command.replan:
        _replan(draft, command.reason)
    return Reply()


def _is_last_iteration(draft: Draft) -> bool:
    """Return whether another plan would begin an iteration beyond the run's last one."""
    run = draft.run
    if run.phase is Phase.PLANNING:
        return False
    if run.phase is Phase.SYNTHESIZING:
        return True
    return run.stopping or run.iteration >= run.spec.max_iterations


def _replan(draft: Draft, reason: str) -> None:
    """Return to PLANNING before anything else is dispatched.

    The iteration in progress is not completed: it gets no checkpoint, and leased steps count for
    the next iteration. If the run is already planning, its PLAN step starts again with a new
    journal, because its assignment and its recorded calls lack this answer. A REFLECT step ends.
    """
    draft.event(EventType.REPLAN_REQUESTED, message=reason)
    _end_step(draft)
    if draft.run.phase is Phase.PLANNING:
        draft.change_run(reason=_joined(draft.run.reason, reason))
        withdraw_questions(draft, "")
        renew(draft, "", "a person has asked for another plan")
        return
    withdraw_ready(draft)
    enter_phase(draft, Trigger.REPLAN, iteration=draft.run.iteration + 1, reason=reason)


def _end_step(draft: Draft) -> None:
    """End the open attempt at the run's PLAN or REFLECT step."""
    for execution in tuple(draft.open_executions()):
        if execution.kind not in (StepKind.PLAN, StepKind.REFLECT):
            continue
        ready = execution.status is ExecutionStatus.READY
        status = ExecutionStatus.RELEASED if ready else ExecutionStatus.CANCELLED
        close(draft, execution, status, reason="a person has asked for another plan meanwhile")


def _joined(before: str, reason: str) -> str:
    """Return both reasons for the planner, the newer one last, or only the newer one if both are too long."""
    both = "\n".join(part for part in (before, reason) if part)
    if len(both.encode()) <= limits.REASON_BYTES_MAX:
        return both
    return reason


def question_expired(draft: Draft, question_id: str) -> None:
    """Apply the `on_expiry` of a question that was not answered in time.

    With WAIT and PAUSE the question stays open and can be answered; a paused run needs a resume.
    """
    question = draft.open_question(question_id)
    if question is None:
        return
    if question.kind in NO_PERSON:
        if question.kind is QuestionKind.CHILD:
            task_child_late(draft, question)
        else:
            wait_expired(draft, question)
        drop_timer(draft, QUESTION_TIMER + question_id)
        return
    draft.event(EventType.QUESTION_EXPIRED, task_id=question.task_id, question_id=question_id)
    drop_timer(draft, QUESTION_TIMER + question_id)
    if question.on_expiry is ExpiryAction.WAIT:
        return
    if question.on_expiry is ExpiryAction.PAUSE:
        if draft.run.status is not RunStatus.PAUSED:
            pause_run(
                draft, PauseReason.QUESTION_EXPIRED, f"{question_id} was not answered in time"
            )
        return
    now_us = draft.context.now_us
    draft.put_question(replace(question, status=QuestionStatus.EXPIRED, ended_us=now_us))
    denied = question.on_expiry is ExpiryAction.DENY
    failure = Failure(
        kind="DENIED" if denied else "QUESTION_EXPIRED",
        message=f"{question_id} was not answered in time",
        retryable=False,
    )
    if question.call:
        fail_asking_step(draft, question, failure)
        return
    draft.change_task(question.task_id, question_id="")
    fail_task(draft, question.task_id, failure)

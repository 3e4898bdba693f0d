"""Ends of tasks that are child runs: the child's end completes the task, or fails this attempt at it."""

from __future__ import annotations

import base64

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.core.loop import children
from stepwell.core.loop.children import ChildEnd
from stepwell.core.loop.closing import complete_task
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_child
from stepwell.core.loop.waits import put_waits
from stepwell.core.records.model import Execution, Failure, Outcome, Payload, Question, Usage
from stepwell.core.records.states import (
    EventType,
    ExecutionStatus,
    QuestionStatus,
    RunStatus,
    StepKind,
)

_NO_FAILURE = Failure()
_decode = msgspec.json.Decoder(ChildEnd).decode


def task_child_ended(draft: Draft, question: Question, value: Payload, usage: Usage) -> None:
    """Complete a task by the end of its child, whose question has ended, or fail this attempt at it."""
    end = _decode(value.data)
    task_id, execution_id = question.task_id, question.execution_id
    put_waits(draft, task_id, ())
    failure = _failure_of(end)
    if failure is not None:
        _fail(draft, question, ExecutionStatus.FAILED, failure, usage)
        return
    result = end.result if end.result is not None else _by_task(end.tasks)
    draft.event(EventType.TASK_COMPLETED, task_id=task_id, execution_id=execution_id)
    _add(draft, question, ExecutionStatus.COMPLETED, usage)
    draft.put_outcome(Outcome(execution_id=execution_id, result=result))
    complete_task(draft, task_id, execution_id)


def task_child_late(draft: Draft, question: Question) -> None:
    """Cancel the child of a task whose attempt takes longer than its time-out; its timer has come due."""
    now_us = draft.context.now_us
    draft.event(
        EventType.WAIT_EXPIRED,
        task_id=question.task_id,
        question_id=question.question_id,
        message=question.prompt,
    )
    draft.put_question(replace(question, status=QuestionStatus.EXPIRED, ended_us=now_us))
    message = "the attempt took longer than its time-out"
    children.withdraw(draft, question, message)
    put_waits(draft, question.task_id, ())
    failure = Failure(kind="TIMED_OUT", message=message)
    _fail(draft, question, ExecutionStatus.TIMED_OUT, failure, Usage())


def _fail(
    draft: Draft, question: Question, status: ExecutionStatus, failure: Failure, usage: Usage
) -> None:
    kinds = {
        ExecutionStatus.FAILED: EventType.EXECUTION_FAILED,
        ExecutionStatus.TIMED_OUT: EventType.EXECUTION_TIMED_OUT,
    }
    draft.event(
        kinds[status],
        task_id=question.task_id,
        execution_id=question.execution_id,
        message=failure.message,
    )
    execution = _add(draft, question, status, usage, failure)
    fail_child(draft, execution, failure)


def _add(
    draft: Draft,
    question: Question,
    status: ExecutionStatus,
    usage: Usage,
    failure: Failure = _NO_FAILURE,
) -> Execution:
    """Write the attempt that has ended into the run's history."""
    spec = draft.run.spec
    return draft.add_execution(
        question.execution_id,
        StepKind.TASK,
        task_id=question.task_id,
        iteration=draft.run.iteration,
        attempt=draft.task(question.task_id).attempts,
        queue=spec.queue,
        priority=spec.priority,
        offered_us=question.created_us,
        ended_us=draft.context.now_us,
        status=status,
        usage=usage,
        has_result=status is ExecutionStatus.COMPLETED,
        failure=failure,
    )


def _failure_of(end: ChildEnd) -> Failure | None:
    what = f"child run {end.run_id} {end.status}"
    if end.status == RunStatus.SUCCEEDED:
        if not end.too_large:
            return None
        why = "its results are too large for its parent"
        return Failure(kind="CHILD_RESULT_TOO_LARGE", message=f"{what}: {why}", retryable=False)
    why = end.failure.message or end.reason or "no reason was given"
    retryable = end.status == RunStatus.FAILED and end.failure.retryable
    kind = end.failure.kind or f"CHILD_{end.status}"
    return Failure(kind=kind, message=f"{what}: {why}", retryable=retryable)


def _by_task(tasks: dict[str, Payload]) -> Payload:
    """Return the results of a child's tasks as one JSON object."""
    return Payload(data=msgspec.json.encode({name: raw_of(one) for name, one in tasks.items()}))


def raw_of(payload: Payload | None) -> Raw:
    """Return a payload as a part of JSON: what isn't JSON, in base64."""
    if payload is None or not payload.data:
        return Raw(b"null")
    if payload.media_type == Payload().media_type:
        return Raw(payload.data)
    return Raw(msgspec.json.encode(base64.b64encode(payload.data).decode()))

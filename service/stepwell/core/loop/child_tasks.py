"""Tasks that are child runs: no worker gets them. Their start is a letter, and the child's end is theirs.

Such a task waits, BLOCKED, by a question of its own of the kind CHILD. An attempt at it is one child.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop import budgets, children
from stepwell.core.loop.closing import fail_task
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.letters import TaskResult
from stepwell.core.loop.occurrences import AwaitChild
from stepwell.core.loop.waits import QUESTION_TIMER, put_waits
from stepwell.core.port import Timer
from stepwell.core.records.model import Question
from stepwell.core.records.states import (
    EventType,
    QuestionKind,
    QuestionStatus,
    RunStatus,
    TaskStatus,
    WaitKind,
)
from stepwell.core.records.step_journal import Wait
from stepwell.core.records.task_spec import ChildRun


def start(
    draft: Draft, task_id: str, given: ChildRun, execution_id: str, *, delay_ms: int = 0
) -> None:
    """Start the child of a task's next attempt after `delay_ms`, or fail the task by the limit that the child breaks."""
    spec = draft.spec(task_id)
    asked = AwaitChild(
        pipeline_id=given.pipeline_id,
        queue=given.queue,
        goal=given.goal or spec.prompt or draft.run.spec.goal,
        input=spec.input,
        labels=given.labels,
        max_iterations=given.max_iterations,
        budget=given.budget,
        follow_pauses=given.follow_pauses,
        reflect_on=given.reflect_on,
        tasks=given.tasks,
    )
    if (failure := children.refusal(draft, [asked])) is not None:
        fail_task(draft, task_id, failure)
        return
    question_id, now_us = f"question:{execution_id}", draft.context.now_us
    draft.event(
        EventType.WAIT_OPENED,
        task_id=task_id,
        execution_id=execution_id,
        question_id=question_id,
        message="child run",
    )
    limit_ms = spec.attempt_timeout_ms and spec.attempt_timeout_ms + delay_ms
    question = Question(
        question_id=question_id,
        task_id=task_id,
        execution_id=execution_id,
        kind=QuestionKind.CHILD,
        status=QuestionStatus.OPEN,
        created_us=now_us,
        expires_ms=limit_ms,
    )
    results = _results_for(draft, task_id)
    question = children.start(draft, question, asked, delay_ms=delay_ms, results=results)
    draft.put_question(question)
    if limit_ms:
        name = QUESTION_TIMER + question_id
        draft.timers[name] = Timer(name=name, delay_ms=limit_ms)
    started_us = draft.task(task_id).started_us or now_us
    draft.change_task(task_id, question_id=question_id, started_us=started_us)
    wait = Wait(key=question.prompt, kind=WaitKind.CHILD, question_id=question_id)
    put_waits(draft, task_id, (wait,))
    if not draft.run.started_us:
        draft.change_run(started_us=now_us, status=RunStatus.RUNNING)
        budgets.arm_wall(draft)


def _results_for(draft: Draft, task_id: str) -> tuple[TaskResult, ...]:
    """Return the results and failures of the tasks that this one depends on; a skipped one has neither."""
    found: list[TaskResult] = []
    for name in draft.spec(task_id).depends_on:
        task = draft.task(name)
        if task.status is TaskStatus.COMPLETED:
            found.append(
                TaskResult(task_id=name, run_id=task.result_run_id, result_id=task.result_id)
            )
        elif task.status is TaskStatus.FAILED:
            failure = replace(task.failure, details="", violations=())
            found.append(TaskResult(task_id=name, failure=failure))
    return tuple(found)

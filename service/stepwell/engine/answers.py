"""Answered questions, for later attempts at the asking task.

A question is read when it is needed and not cached, because most tasks never ask, and a person's
answer takes much longer than a read.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import Assignment, Store
from stepwell.core.records.model import Question, Task
from stepwell.core.records.states import QuestionStatus

ANSWERED_BYTES_MAX = 128 * 1024
"""Limit of a question that is sent with its answer; a longer one is sent without prompt and schema."""


def asked_by(task: Task | None) -> Question | None:
    """Return a reference to the task's last question, to be read later, or None."""
    if task is None or not task.question_id:
        return None
    return Question(question_id=task.question_id, task_id=task.task_id)


async def with_answer(store: Store, assignment: Assignment) -> Assignment:
    """Return the assignment with the answer to its task's last question, if it was answered."""
    asked = assignment.answered
    if asked is None:
        return assignment
    run = assignment.run
    requests = await store.read_questions(run.tenant_id, run.run_id, [asked.question_id])
    if not requests or requests[0].status is not QuestionStatus.ANSWERED:
        return replace(assignment, answered=None)
    answered = requests[0]
    shown = replace(answered, answer=None)
    if len(shown.prompt.encode()) + len(shown.schema.encode()) > ANSWERED_BYTES_MAX:
        shown = replace(shown, prompt="", schema="")
    return replace(assignment, answer=answered.answer, answered=shown)

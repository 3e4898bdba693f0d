"""The answer of a person, for the attempts at the task that asked.

It is read when it is needed, and not kept: most tasks never ask, and a person takes longer than a read.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import Assignment, Store
from stepwell.core.records.model import InputRequest, Task
from stepwell.core.records.states import InputStatus

ANSWERED_BYTES_MAX = 128 * 1024
"""Of a question that goes along with its answer; a longer one is sent without its words."""


def asked_by(task: Task | None) -> InputRequest | None:
    """Return what stands for the request until it is read; None: the task has asked nothing."""
    if task is None or not task.input_id:
        return None
    return InputRequest(input_id=task.input_id, task_id=task.task_id)


async def with_answer(store: Store, assignment: Assignment) -> Assignment:
    """Return the assignment with the answer to what its task asked last, if there was one."""
    asked = assignment.answered
    if asked is None:
        return assignment
    spec = assignment.run.spec
    found = await store.read_inputs(spec.tenant_id, spec.run_id, [asked.input_id])
    if not found or found[0].status is not InputStatus.ANSWERED:
        return replace(assignment, answered=None)
    answered = found[0]
    shown = replace(answered, answer=None)
    if len(shown.prompt.encode()) + len(shown.schema.encode()) > ANSWERED_BYTES_MAX:
        shown = replace(shown, prompt="", schema="")
    return replace(assignment, answer=answered.answer, answered=shown)

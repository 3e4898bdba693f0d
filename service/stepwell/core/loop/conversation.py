"""A task's conversation: numbered messages, appended once, referred to by range.

An execution knows how many messages the conversation had before its own (`messages_after`) and how many
it appended (`messages`); the task knows how many there are. Steps without a task have no conversation:
what they append is kept, without a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.core.loop.draft import Draft
from stepwell.core.records.model import Execution, Message, Session
from stepwell.core.records.states import StepKind


def unsaid(execution: Execution, messages: Sequence[Message], after: int) -> Sequence[Message]:
    """Return those that are new, where `after` were appended before the first of them."""
    return messages[max(0, execution.messages - after) :]


def append(
    draft: Draft, execution: Execution, messages: Sequence[Message], session: Session
) -> dict[str, Any]:
    """Append them, within the current event; return the fields of the execution that this changes.

    `session` is that of messages that name none.
    """
    if not messages:
        return {}
    fields: dict[str, Any] = {"messages": execution.messages + len(messages)}
    task_id, before = "", 0
    if has_conversation(execution):
        task_id = execution.task_id
        before = draft.task(task_id).messages
        if before and not execution.messages:
            fields["messages_after"] = before
        draft.change_task(task_id, messages=before + len(messages))
    draft.messages.extend(
        replace(
            message,
            task_id=task_id,
            execution_id=execution.execution_id,
            number=before + place if task_id else 0,
            session=message.session if message.session != Session() else session,
        )
        for place, message in enumerate(messages, 1)
    )
    return fields


def has_conversation(execution: Execution) -> bool:
    """Tell whether it is an attempt at a task; finding out what became of one is none."""
    return execution.kind is StepKind.TASK

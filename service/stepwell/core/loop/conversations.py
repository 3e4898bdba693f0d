"""Messages of a step: numbered within their task's conversation, appended once, referred to by range.

An execution knows how many messages the conversation had before its own (`messages_after`) and how many it
appended (`messages`); the task knows how many there are. Messages of steps without a task have no numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core.loop.changes import ReportFields
from stepwell.core.loop.draft import Draft
from stepwell.core.records.model import Execution, Message, Session
from stepwell.core.records.states import StepKind

_NO_SESSION = Session()


def new_of(messages: Sequence[Message], after: int, appended: int) -> Sequence[Message]:
    """Return the messages that come after the `appended` ones; `after` precede the first of them."""
    return messages[max(0, appended - after) :]


def append(
    draft: Draft,
    execution: Execution,
    messages: Sequence[Message],
    session: Session,
    fields: ReportFields,
) -> None:
    """Append messages within the current event; add to the execution's changed fields.

    `session` is for messages that name no session.
    """
    if not messages:
        return
    appended = fields.get("messages", execution.messages)
    fields["messages"] = appended + len(messages)
    task_id, before = "", 0
    if execution.kind is StepKind.TASK:
        task_id = execution.task_id
        before = draft.task(task_id).messages
        if before and not appended:
            fields["messages_after"] = before
        draft.change_task(task_id, messages=before + len(messages))
    draft.messages.extend(
        replace(
            message,
            task_id=task_id,
            execution_id=execution.execution_id,
            number=before + place if task_id else 0,
            session=message.session if message.session != _NO_SESSION else session,
        )
        for place, message in enumerate(messages, 1)
    )

"""Conversations in assignments: the newest messages of a task that fit."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from stepwell.core.port import Assignment, MessageQuery, Store, every_row
from stepwell.core.records import limits
from stepwell.core.records.cuts import text_bytes
from stepwell.core.records.model import Message

_PAGE = 64
"""Messages per read; each may have a mebibyte."""
_MESSAGE_BYTES = 64
"""The size of a message without its texts."""


async def read_for(
    store: Store, tenant_id: str, run_id: str, assignment: Assignment
) -> Sequence[Message]:
    """Return the conversation of an assignment's task; most tasks have none."""
    if not assignment.conversation:
        return ()
    task_id = assignment.execution.task_id
    return await read_newest(store, tenant_id, run_id, task_id, assignment.conversation)


async def read_newest(
    store: Store, tenant_id: str, run_id: str, task_id: str, count: int
) -> tuple[Message, ...]:
    """Return the newest messages of a conversation that has `count`, oldest of them first.

    A task that a plan redefined begins a new conversation; messages of the earlier one are left
    out.
    """
    kept: deque[Message] = deque()
    size = 0
    query = MessageQuery(tenant_id=tenant_id, run_id=run_id, task_id=task_id, limit=_PAGE)
    async for message in every_row(store, query):
        kept.append(message)
        size += size_of(message)
        while size > limits.INLINE_MESSAGES_BYTES_MAX:
            size -= size_of(kept.popleft())
    return _tail(tuple(kept), count)


def fitting(messages: Sequence[Message], room: int) -> tuple[Message, ...]:
    """Return the newest of these messages that fit."""
    first = len(messages)
    while first and (room := room - size_of(messages[first - 1])) >= 0:
        first -= 1
    return tuple(messages[first:])


def size_of(message: Message) -> int:
    """Return the bytes that a message takes in an assignment, or slightly more."""
    session = message.session
    texts = (message.role, message.content, session.backend, session.session_id)
    ids = len(message.task_id) + len(message.execution_id)
    return _MESSAGE_BYTES + ids + sum(text_bytes(text) for text in texts)


def _tail(messages: Sequence[Message], count: int) -> tuple[Message, ...]:
    """Return the last messages whose numbers reach `count` without a gap."""
    first, number = len(messages), count
    while first and messages[first - 1].number == number:
        first, number = first - 1, number - 1
    return tuple(messages[first:])

"""Messages of a step that has a conversation, and checks of what an attempt receives of those before it.

Its session, progress and messages name the run, the task and the attempt. So a receiver
knows at once whether they are its own, and the final audit whether each message was kept once.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from stepwell.core.loop.occurrences import AppendMessages, Completed, Delivery
from stepwell.core.port import Assignment, LogQuery, MessageQuery, Store
from stepwell.core.records.model import LogEntry, Message, Payload, Session
from stepwell.engine.appender import AppendBatch
from tests.simulation.simulator.reading import every
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.run_model import RunModel
from tests.simulation.simulator.violation import holds

BEHAVIOUR = "talk"


def has_conversation(assignment: Assignment) -> bool:
    """Return whether its step has a conversation."""
    return assignment.task is not None and assignment.task.type.startswith(BEHAVIOUR)


def whose(assignment: Assignment) -> str:
    """Return the name of the task that the step is of, over all its attempts."""
    return f"{assignment.run.run_id}/{assignment.execution.task_id}"


def session_of(assignment: Assignment) -> Session:
    """Return the conversation that this attempt names."""
    name = f"{whose(assignment)}@{assignment.execution.attempt}"
    return Session(backend="talker", session_id=name)


def progress_of(assignment: Assignment) -> Payload:
    """Return what it reports of how far it is."""
    return Payload(data=session_of(assignment).session_id.encode())


def check_carryover(assignment: Assignment) -> None:
    """Check that an attempt receives what its own task has left, and a conversation without a gap.

    Raises:
        InvariantViolation: it wasn't.
    """
    name = f"{assignment.execution.execution_id} of {assignment.run.run_id}"
    own = whose(assignment) + "@"
    session, progress = assignment.previous_session, assignment.previous_progress
    fine = not session.session_id or session.session_id.startswith(own)
    holds(fine, "OWN", f"{name} was shown session {session.session_id}")
    fine = progress is None or progress.data.startswith(own.encode())
    holds(fine, "OWN", f"{name} was shown the progress of another")
    messages, count = assignment.previous_messages, assignment.conversation
    numbers = [message.number for message in messages]
    expected = list(range(count - len(messages) + 1, count + 1))
    holds(numbers == expected, "OWN", f"{name} was shown messages {numbers} of {count}")
    fine = all(message.content.startswith(own) for message in messages)
    holds(fine, "OWN", f"{name} was shown messages of another task")


def speech(assignment: Assignment, rng: Rng) -> Iterator[AppendMessages]:
    """Yield its messages before the outcome, now and then some of them again."""
    sent = 0
    for _ in range(rng.between(0, 3)):
        again = rng.between(0, sent) if rng.happens(0.3) else sent
        until = sent + rng.between(1, 2)
        yield AppendMessages(
            execution_id=assignment.execution.execution_id,
            token=assignment.token,
            messages=messages_of(assignment, again, until),
            after=again,
        )
        sent = until


def final_delivery(assignment: Assignment, delivery: Delivery, sent: int) -> Delivery:
    """Return the outcome with the rest, and with the last message once more."""
    done = isinstance(delivery.result, Completed)
    after = max(0, sent - 1)
    return replace(
        delivery,
        session=session_of(assignment),
        progress=None if done else progress_of(assignment),
        messages=messages_of(assignment, after, sent + 1),
        messages_after=after,
    )


def messages_of(assignment: Assignment, first: int, until: int) -> tuple[Message, ...]:
    """Return the messages of an attempt that have these numbers."""
    name = session_of(assignment).session_id
    return tuple(Message(role="user", content=f"{name} {n}") for n in range(first, until))


def count_said(delivery: Delivery) -> int:
    """Return how many messages an attempt has had in all, by the last one, which its outcome has."""
    return int(delivery.messages[-1].content.rpartition(" ")[2]) + 1


def written(assignment: Assignment) -> AppendBatch:
    """Return a line for the log."""
    name = session_of(assignment).session_id
    return AppendBatch(
        run_id=assignment.run.run_id,
        execution_id=assignment.execution.execution_id,
        token=assignment.token,
        entries=(LogEntry(execution_id="", text=name),),
    )


async def audit_conversations(store: Store, model: RunModel) -> None:
    """Each message is kept once, in its place; each log line is its own execution's."""
    place: dict[str, int] = {}
    contents_of: dict[str, list[str]] = {}
    for message in await every(store, MessageQuery(tenant_id=model.key[0], run_id=model.key[1])):
        before = place.get(message.task_id, 0)
        follows = message.number in (before + 1, 1)
        holds(follows, "ONCE", f"{model.key}: {message.number} after {before}")
        place[message.task_id] = message.number
        contents_of.setdefault(message.execution_id, []).append(message.content)
    for execution in model.executions.values():
        contents = contents_of.get(execution.execution_id, [])
        numbers = [content.rpartition(" ")[2] for content in contents]
        right = numbers == [str(n) for n in range(execution.messages)]
        holds(right, "ONCE", f"{model.key}: {execution.execution_id} is kept with {numbers}")
    for task in model.tasks.values():
        if task.messages:
            details = f"{model.key}: {task.task_id} has {place.get(task.task_id)} messages"
            holds(place.get(task.task_id) == task.messages, "ONCE", details)
    log = await store.page(LogQuery(tenant_id=model.key[0], run_id=model.key[1], limit=10_000))
    for entry in log.items:
        execution = model.executions[entry.execution_id]
        own = f"{model.key[1]}/{execution.task_id}@{execution.attempt}"
        holds(entry.text == own, "OWN", f"{model.key}: {entry.execution_id} wrote {entry.text}")

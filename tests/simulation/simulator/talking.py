"""What a talking step says while it works, and what it is shown of the attempts before it.

Its session, progress and messages name the run, the task and the attempt. So whoever is shown them can tell
at once whether they are its own, and the last look whether each message was kept once.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from stepwell.core.loop.signals import AppendMessages, Completed, Delivery
from stepwell.core.port import Assignment, Store
from stepwell.core.records.model import LogEntry, Message, Payload, Session
from stepwell.engine.appender import AppendBatch
from tests.simulation.simulator.book import Book
from tests.simulation.simulator.chance import Chance
from tests.simulation.simulator.violation import holds

TEMPER = "talk"


def talks(assignment: Assignment) -> bool:
    """Tell whether its worker talks."""
    return assignment.task is not None and assignment.task.type.startswith(TEMPER)


def whose(assignment: Assignment) -> str:
    """Return the name of the task that the step is of, over all its attempts."""
    return f"{assignment.run.spec.run_id}/{assignment.execution.task_id}"


def session_of(assignment: Assignment) -> Session:
    """Return the conversation that this attempt names."""
    name = f"{whose(assignment)}@{assignment.execution.attempt}"
    return Session(backend="talker", session_id=name)


def progress_of(assignment: Assignment) -> Payload:
    """Return what it reports of how far it is."""
    return Payload(data=session_of(assignment).session_id.encode())


def check_shown(assignment: Assignment) -> None:
    """What an attempt is shown was left by its own task, and its conversation has no gap.

    Raises:
        InvariantViolation: it wasn't.
    """
    name = f"{assignment.execution.execution_id} of {assignment.run.spec.run_id}"
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


def speech(assignment: Assignment, chance: Chance) -> Iterator[AppendMessages]:
    """Yield what it says before it has an outcome, now and then some of it again."""
    said = 0
    for _ in range(chance.between(0, 3)):
        again = chance.between(0, said) if chance.happens(0.3) else said
        until = said + chance.between(1, 2)
        yield AppendMessages(
            execution_id=assignment.execution.execution_id,
            token=assignment.token,
            messages=_messages(assignment, again, until),
            after=again,
        )
        said = until


def last_words(assignment: Assignment, delivery: Delivery, said: int) -> Delivery:
    """Return the outcome with the rest, as though the last that was said were not known to be kept."""
    done = isinstance(delivery.result, Completed)
    after = max(0, said - 1)
    return replace(
        delivery,
        session=session_of(assignment),
        progress=None if done else progress_of(assignment),
        messages=_messages(assignment, after, said + 1),
        messages_after=after,
    )


def _messages(assignment: Assignment, first: int, until: int) -> tuple[Message, ...]:
    name = session_of(assignment).session_id
    return tuple(Message(role="user", content=f"{name} {n}") for n in range(first, until))


def written(assignment: Assignment) -> AppendBatch:
    """Return a line for the log."""
    name = session_of(assignment).session_id
    return AppendBatch(
        run_id=assignment.run.spec.run_id,
        execution_id=assignment.execution.execution_id,
        token=assignment.token,
        entries=(LogEntry(execution_id="", text=name),),
    )


async def audit_talk(store: Store, book: Book) -> None:
    """Each message is kept once, in its place; each log line is its own execution's."""
    place: dict[str, int] = {}
    said: dict[str, list[str]] = {}
    cursor = ""
    while True:
        page = await store.read_messages(*book.key, cursor=cursor)
        for message in page.messages:
            before = place.get(message.task_id, 0)
            follows = message.number in (before + 1, 1)
            holds(follows, "ONCE", f"{book.key}: {message.number} after {before}")
            place[message.task_id] = message.number
            said.setdefault(message.execution_id, []).append(message.content)
        cursor = page.cursor
        if not cursor:
            break
    for execution in book.executions.values():
        contents = said.get(execution.execution_id, [])
        numbers = [content.rpartition(" ")[2] for content in contents]
        right = numbers == [str(n) for n in range(execution.messages)]
        holds(right, "ONCE", f"{book.key}: {execution.execution_id} is kept with {numbers}")
    for task in book.tasks.values():
        if task.messages:
            told = f"{book.key}: {task.task_id} has {place.get(task.task_id)} messages"
            holds(place.get(task.task_id) == task.messages, "ONCE", told)
    log = await store.read_logs(*book.key, limit=10_000)
    for entry in log.entries:
        execution = book.executions[entry.execution_id]
        own = f"{book.key[1]}/{execution.task_id}@{execution.attempt}"
        holds(entry.text == own, "OWN", f"{book.key}: {entry.execution_id} wrote {entry.text}")

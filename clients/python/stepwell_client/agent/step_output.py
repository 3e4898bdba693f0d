"""The output of a running step: log lines, streamed chunks, messages of its conversation.

Log entries and messages are stored separately from the outcome, so they survive the worker's death.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cached_property

from stepwell_client.agent.scopes import Output, frame_of
from stepwell_client.agent.step_services import StepServices
from stepwell_client.errors import Suspended
from stepwell_client.records.clean_text import storable, storable_bytes
from stepwell_client.records.limits import (
    BATCH_BYTES_MAX,
    ENTRY_MESSAGES_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGES_PER_OUTCOME_MAX,
    ROLE_CHARS_MAX,
)
from stepwell_client.records.messages_pb2 import Message
from stepwell_client.records.reading import read
from stepwell_client.v1 import types_pb2, worker_pb2


class AttemptRecord(Output):
    """An attempt's usage, session, progress and unsaved messages, and whether it was cancelled or suspended."""

    __slots__ = (
        "begun",
        "cancelled",
        "progress",
        "prompt",
        "response",
        "saved",
        "session",
        "suspended",
        "thread",
        "wrote",
    )

    def __init__(self) -> None:
        super().__init__()  # Its messages are the unsaved ones, which go with the outcome.
        self.cancelled = False
        self.begun = False
        """True if its task is AT_MOST_ONCE and has begun, or is about to, so that it can't be handed back."""
        self.suspended = False
        """True if only waits are left, so that the step is handed back whatever its function does."""
        self.session: types_pb2.Session | None = None
        self.progress: types_pb2.Payload | None = None
        """The last reported progress."""
        self.saved = 0
        """The number of messages that `save_messages` stored."""
        self.thread: worker_pb2.ThreadWrite | None = None
        """The messages and the state for its run's thread, which go with an outcome that completes the step."""
        self.wrote = False
        self.prompt = ""
        self.response = ""


class OutputContext:
    """The part of a step's context that writes. All methods may be called from any thread."""

    _assignment: worker_pb2.Assignment
    _record: AttemptRecord
    _loop: asyncio.AbstractEventLoop
    _services: StepServices

    # Log.

    def log(self, text: object, level: str = "INFO") -> None:
        """Write a line to the run's log. It is sent at once; the call never waits.

        Lines longer than 16 KiB are cut, and an attempt's entries beyond 4 MiB are left out. The
        log shows both.
        """
        self._record.wrote = True
        self._services.write(self._assignment, str(text), level, chunk=False)

    def stream(self, chunk: str) -> None:
        """Show a chunk of the step's result, such as a few tokens, to clients that follow the run.

        Chunks are kept as long as the run's log, also after the step has completed.
        """
        self._check_suspended()
        self._record.wrote = True
        self._services.write(self._assignment, chunk, "INFO", chunk=True)

    @cached_property
    def logger(self) -> logging.Logger:
        """A logger of the standard library whose records become lines of the run's log."""
        # Not registered by its name, so that it lives only as long as the step.
        name = f"stepwell.{self._assignment.execution.execution_id}"
        logger = logging.Logger(name)  # noqa: LOG001 - see above
        logger.addHandler(_Handler(self.log))
        return logger

    # Conversation.

    @property
    def previous_messages(self) -> Sequence[Message]:
        """The newest messages of the task's earlier attempts, up to 1 MiB."""
        return [read(one, Message) for one in self._assignment.previous_messages]

    def append(self, role: str, content: str) -> None:
        """Append a message of at most 1 MiB to the task's conversation; at most 256 may be unsaved.

        The message is stored with the step's outcome, or at once by `save_messages`. Within a call
        it is stored with the call's entry, 256 KiB at most.
        """
        self._check_suspended()
        if not 1 <= len(role) <= ROLE_CHARS_MAX:
            raise ValueError(f"a role has 1 to {ROLE_CHARS_MAX} characters, not {len(role)}")
        output = self._output
        if len(output.messages) >= MESSAGES_PER_OUTCOME_MAX:
            raise ValueError(
                f"at most {MESSAGES_PER_OUTCOME_MAX} messages wait to be saved: call save_messages()"
            )
        data = storable_bytes(content)
        if len(data) > MESSAGE_BYTES_MAX:
            raise ValueError(
                f"the message has {len(data):,} bytes; {MESSAGE_BYTES_MAX:,} is the most"
            )
        message = types_pb2.Message(
            role=storable(role), content=data.decode(), session=self._record.session
        )
        if output is not self._record:
            size = sum(one.ByteSize() for one in (*output.messages, message))
            if size > ENTRY_MESSAGES_BYTES_MAX:
                raise ValueError(
                    f"the messages of the call have {size:,} bytes; {ENTRY_MESSAGES_BYTES_MAX:,} is the most: "
                    "append large ones outside of calls"
                )
        output.messages.append(message)

    def _check_suspended(self) -> None:
        """Raise Suspended if the step is suspended; reading, logging and usage are still allowed then."""
        if self._record.suspended:
            raise Suspended

    @property
    def _output(self) -> Output:
        """The output of the enclosing call, or of the attempt."""
        frame = frame_of(self._record)
        return self._record if frame is None or frame.output is None else frame.output

    async def save_messages(self) -> None:
        """Store the appended messages at once, so that the next attempt has them if this one dies.

        Raises LeaseLost if the step is cancelled. Raises Unavailable if no server answers; the
        messages then stay with the step. Messages are never stored twice. Those of a call are
        stored with the call.
        """
        self._check_suspended()
        async with self._saving:
            while batch := self._next_messages():
                await self._services.save_messages(self._assignment, batch, self._record.saved)
                del self._record.messages[: len(batch)]
                self._record.saved += len(batch)

    def save_messages_blocking(self) -> None:
        """Store the appended messages at once, from a synchronous function."""
        asyncio.run_coroutine_threadsafe(self.save_messages(), self._loop).result()

    @cached_property
    def _saving(self) -> asyncio.Lock:
        return asyncio.Lock()

    def _next_messages(self) -> list[types_pb2.Message]:
        batch: list[types_pb2.Message] = []
        size = 0
        for message in self._record.messages[:MESSAGES_PER_OUTCOME_MAX]:
            size += message.ByteSize()
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(message)
        return batch

    async def conversation(self) -> AsyncIterator[Message]:
        """Yield all messages of the task's earlier attempts, oldest first."""
        for message in await self._whole_conversation():
            yield message

    def conversation_blocking(self) -> Sequence[Message]:
        """Return all messages of the task's earlier attempts, for a synchronous function."""
        return asyncio.run_coroutine_threadsafe(self._whole_conversation(), self._loop).result()

    async def _whole_conversation(self) -> Sequence[Message]:
        inline, count = self._assignment.previous_messages, self._assignment.conversation
        if len(inline) >= count:
            return [read(one, Message) for one in inline]
        messages: list[types_pb2.Message] = []
        for message in await self._services.fetch_messages(self._assignment):
            if message.number == 1:
                messages.clear()  # A task that a later plan redefines starts a new conversation.
            if message.number <= count:
                messages.append(message)
        return [read(one, Message) for one in messages]


class _Handler(logging.Handler):
    def __init__(self, write: Callable[[object, str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(self.format(record), record.levelname)
        except Exception:  # noqa: BLE001 - as the handlers of the standard library do
            self.handleError(record)

"""The thread of a step's run: the messages that are in it, those that the step appends, and the thread's state.

What a step writes is sent with its outcome, once its function has returned; if the attempt fails, it is lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from stepwell_client.agent.journal.context import (
    JournalContext,
    in_thread,
    on_loop,
    opened_calls,
)
from stepwell_client.agent.scopes import frame_of
from stepwell_client.agent.step_output import AttemptRecord
from stepwell_client.agent.step_services import StepServices
from stepwell_client.errors import JournalError, LeaseLost, Suspended
from stepwell_client.records.clean_text import storable
from stepwell_client.records.limits import (
    ROLE_CHARS_MAX,
    THREAD_MESSAGES_MAX,
    THREAD_STATE_BYTES_MAX,
    THREAD_WRITE_BYTES_MAX,
)
from stepwell_client.records.messages_pb2 import ThreadMessage
from stepwell_client.records.payloads import decode, encode
from stepwell_client.records.reading import read_thread_message
from stepwell_client.v1 import types_pb2, worker_pb2

_LAST_MAX = 1_000
_MESSAGES = "thread:messages"
_STATE = "thread:state"


class StepThread:
    """The thread that a step's run is of. All methods may be called from the step's threads."""

    def __init__(
        self,
        context: JournalContext,
        assignment: worker_pb2.Assignment,
        services: StepServices,
        record: AttemptRecord,
    ) -> None:
        self._context = context
        self._assignment = assignment
        self._services = services
        self._record = record

    @property
    def id(self) -> str:
        return self._assignment.run.thread_id

    async def messages(self, last: int = 50) -> Sequence[ThreadMessage]:
        """Return the newest messages of the thread, 1 to 1,000 of them, oldest first.

        Among them are those of earlier steps of this run, and none that this step appends. The call is recorded: every
        attempt at the step gets the same messages. Raises what `ctx.call` raises.
        """
        first, rest = self._reads(last)
        return await on_loop(self._context)(rest(await self._context.call(_MESSAGES, first, last)))

    def messages_sync(self, last: int = 50) -> Sequence[ThreadMessage]:
        """Return the newest messages of the thread, from a thread of the step; see `messages`."""
        first, rest = self._reads(last)
        to = self._context.call_sync(_MESSAGES, first, last)
        return in_thread(self._context)(lambda: rest(to))

    def _reads(
        self, last: int
    ) -> tuple[
        Callable[[int], Awaitable[int]],
        Callable[[int], Any],
    ]:
        """Return a call's function, which returns the newest message's number, and what returns the messages up to it."""
        if not 1 <= last <= _LAST_MAX:
            raise ValueError(f"`last` is 1 to {_LAST_MAX:,}, not {last}")
        found: list[worker_pb2.ReadThreadResponse] = []

        async def first(last: int) -> int:
            found.append(await self._read(last=last))
            return found[0].to

        async def rest(to: int) -> Sequence[ThreadMessage]:
            if not found:
                calls = opened_calls(self._context)
                found.append(await calls.during(lambda: self._read(last=last, to=to)))
            return [read_thread_message(one) for one in found[0].messages]

        return first, rest

    def append(self, role: str, content: object) -> None:
        """Append a message; its content is what JSON can hold.

        It is sent with the step's outcome and is in the thread before the run's next step reads it. A step appends at most
        100 messages, with 1 MiB of contents together. Raises ValueError over these limits, and JournalError within a
        `ctx.call`, whose function doesn't run again where its value is recorded.
        """
        self._check("append")
        if not 1 <= len(role) <= ROLE_CHARS_MAX:
            raise ValueError(f"a role has 1 to {ROLE_CHARS_MAX} characters, not {len(role)}")
        payload = encode(content)
        messages = self._write.messages
        if len(messages) >= THREAD_MESSAGES_MAX:
            raise ValueError(f"a step appends at most {THREAD_MESSAGES_MAX} messages to its thread")
        size = sum(len(one.content.data) for one in messages)
        size += len(payload.data) if payload is not None else 0
        if size > THREAD_WRITE_BYTES_MAX:
            raise ValueError(
                f"the step's messages to its thread have {size:,} bytes together; {THREAD_WRITE_BYTES_MAX:,} is the most"
            )
        messages.add(role=storable(role), content=payload)

    def appended(self) -> Sequence[types_pb2.ThreadMessageDraft]:
        """Return the messages that the step has appended so far, in order, as it will send them."""
        return () if self._record.thread is None else self._record.thread.messages

    def take_back(self, index: int) -> None:
        """Remove a message that the step has appended, given by its index in `appended`.

        Raises IndexError if there is none, and JournalError within a `ctx.call`.
        """
        self._check("take_back")
        write = self._write
        del write.messages[index]
        if not write.messages and not write.HasField("state"):
            self._record.thread = None

    async def state(self, *, as_: Any = Any) -> Any:
        """Return the thread's state, decoded as `as_`; None if it was never set.

        It is the state as of the first attempt that asked, without what this step sets. Raises what `ctx.call` raises.
        """
        found = await self._context.call(_STATE, self._read_state, as_=types_pb2.Payload)
        return _state_of(found, as_)

    def state_sync(self, *, as_: Any = Any) -> Any:
        """Return the thread's state, from a thread of the step; see `state`."""
        found = self._context.call_sync(_STATE, self._read_state, as_=types_pb2.Payload)
        return _state_of(found, as_)

    def set_state(self, value: object) -> None:
        """Set the thread's state, up to 64 KiB of JSON, by the step's outcome; it replaces what is there then.

        Raises ValueError over the limit, and JournalError within a `ctx.call`.
        """
        self._check("set_state")
        payload = encode(value) or types_pb2.Payload(data=b"null")
        if len(payload.data) > THREAD_STATE_BYTES_MAX:
            raise ValueError(
                f"the state has {len(payload.data):,} bytes; {THREAD_STATE_BYTES_MAX:,} is the most"
            )
        self._write.state.CopyFrom(payload)

    @property
    def _write(self) -> worker_pb2.ThreadWrite:
        if self._record.thread is None:
            self._record.thread = worker_pb2.ThreadWrite()
        return self._record.thread

    def _check(self, what: str) -> None:
        if self._record.suspended:
            raise Suspended
        frame = frame_of(self._record)
        if frame is not None and frame.key:
            raise JournalError(
                f"ctx.thread.{what} within a call: its function doesn't run again where its value is recorded, so the next "
                "attempt would lose it. Write to the thread after the call"
            )

    async def _read_state(self) -> types_pb2.Payload | None:
        found = await self._read(state=True)
        return found.state if found.HasField("state") else None

    async def _read(
        self, *, last: int = 0, to: int | None = None, state: bool = False
    ) -> worker_pb2.ReadThreadResponse:
        try:
            return await self._services.read_thread(self._assignment, last=last, to=to, state=state)
        except LeaseLost:
            self._record.cancelled = True
            raise


def _state_of(found: types_pb2.Payload | None, as_: Any) -> Any:
    return None if found is None else decode(found, as_)

"""Makes the calls and waits of one attempt at a step, from the journal or new.

A call's function runs only after earlier entries are stored, and its value is returned only after
it is stored itself.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from stepwell_client.agent.activities import Activities, Activity
from stepwell_client.agent.journal.call_run import CallRequest, CallRun, value_of
from stepwell_client.agent.journal.journal import END, WAIT, Journal
from stepwell_client.agent.journal.keys import (
    arguments_digest,
    counted_key,
    digest_of,
    inner_prefix,
    newest_key,
    own_key,
    scope_prefix,
)
from stepwell_client.agent.journal.waits import SHORT_SECONDS, Wait, Waits
from stepwell_client.agent.scopes import CURRENT, CodeRun, Frame, frame_of
from stepwell_client.agent.step_output import AttemptRecord
from stepwell_client.agent.step_services import StepServices
from stepwell_client.agent.threads import InThread
from stepwell_client.answer_tokens import SECRET_MEDIA_TYPE, new_answer_token, sha256_of
from stepwell_client.enums import Effect
from stepwell_client.errors import JournalError, LeaseLost, NoSignal, Suspended
from stepwell_client.link.runtime import Runtime
from stepwell_client.records.decisions import NeedsAnswer, NonRetryable
from stepwell_client.records.plans import Span, duration
from stepwell_client.v1 import types_pb2, worker_pb2

END_SECONDS = 10.0
"""The time that running calls have to end after the step's function has ended; then they are cancelled."""
CANCEL_SECONDS = 1.0
_TOKEN = "token"  # noqa: S105 - a name, not a token
SLEEP_SECONDS_MAX = 366 * 24 * 3600.0

log = logging.getLogger("stepwell_client.execution")
T = TypeVar("T")


class Calls:
    """The calls and waits of one attempt at a step."""

    def __init__(
        self,
        assignment: worker_pb2.Assignment,
        services: StepServices,
        record: AttemptRecord,
        runtime: Runtime,
    ) -> None:
        self.journal = Journal(assignment, services, record, runtime)
        self.record = record
        self.runtime = runtime
        self.activities = Activities()
        self.waits = Waits(record, self.activities, runtime)
        self.journal.on_budget = self.waits.budget_raised
        self.journal.on_end = self.waits.call_ended
        self.execution_id = assignment.execution.execution_id
        self._run = assignment.run
        self._outermost = Frame(record, "", CodeRun())

    async def call(self, request: CallRequest, in_thread: InThread) -> Any:
        """Return the call's value, from the journal or from its function; `in_thread` runs a
        function that isn't async.
        """
        frame = self.frame()
        digest = arguments_digest(request.arguments, request.named)
        if not digest and request.key is None:
            raise JournalError(
                f"the arguments of the call {request.name!r} have no JSON form: give it a key="
            )
        key = self._key(frame, request.name, digest, request.key)
        inner = inner_prefix(key, own_key=request.key is not None)
        await self._read(frame)
        held = self.journal.find(key)
        held.check(key, digest)
        if held.end is not None:
            self.journal.replay(inner)
            return value_of(held.end, request.returns)
        while self.journal.budget_spent and self._within(frame) is None:
            await self.waits.wait(Wait(key), frame.activity)
        activity = Activity(frame.activity)
        at_most_once = frame.at_most_once or request.effect == Effect.AT_MOST_ONCE
        within = Frame(
            self.record, inner, frame.run, key=key, activity=activity, at_most_once=at_most_once
        )
        token = CURRENT.set(within)
        self.activities.begin(activity)
        try:
            run = CallRun(
                request,
                within,
                frame.output or self.record,
                held,
                digest,
                self.journal,
                self.runtime,
                self.waits,
                in_thread,
            )
            return await run.value()
        finally:
            CURRENT.reset(token)
            self.waits.over(activity)

    async def sleep(self, span: Span, key: str | None) -> None:
        """Return when the time is over, counted from the first attempt that slept."""
        sleep = duration(span)
        seconds = 0.0 if sleep is None else sleep.ToMilliseconds() / 1_000
        if not 0 <= seconds <= SLEEP_SECONDS_MAX:
            raise ValueError(f"a sleep is 0 to {SLEEP_SECONDS_MAX:.0f} s long, not {seconds}")
        frame = self.frame()
        if seconds > SHORT_SECONDS:
            self._check_wait(frame, "sleep")
        digest = digest_of("sleep", seconds) if key is None else digest_of("sleep")
        key = self._key(frame, "sleep", digest, key)
        await self._read(frame)
        held = self.journal.find(key)
        held.check(key, digest)
        if held.wait is None:
            with self._working(frame):
                left = await self.journal.write(
                    types_pb2.JournalEntry(
                        key=key, mark=WAIT, name="sleep", arguments=digest, sleep=sleep
                    )
                )
        else:
            left = held.until - self.runtime.monotonic()
        if left > SHORT_SECONDS:
            self._check_wait(frame, "sleep")  # The task may have begun meanwhile.
            until = self.runtime.monotonic() + left
            await self.waits.wait(Wait(key, until=until), frame.activity)
        elif left > 0:
            await self.waits.rest(left, frame.activity)

    async def ask(self, question: NeedsAnswer, key: str | None, returns: Any) -> Any:
        """Return a person's answer. Raises Suspended if there is none yet."""
        message = question.outcome()
        choices = list(message.choices)
        frame = self.frame()
        digest = digest_of("ask", message.kind, message.prompt, message.schema, choices)
        key = self._key(frame, "ask", digest, key)
        await self._read(frame)
        held = self.journal.find(key)
        held.check(key, digest)
        end = held.end
        if end is None:
            self._check_wait(frame, "ask")
            call = worker_pb2.Outcome.SuspendedCall(call=key, ask=message, arguments=digest)
            end = await self._end_of(Wait(key, opens=call), frame)
        return value_of(end, returns)

    async def receive(self, name: str, within: Span | None, key: str | None, returns: Any) -> Any:
        """Return the value of the next signal of this name. Raises TimeoutError if none came in time."""
        wait = worker_pb2.Outcome.SuspendedCall()
        wait.signal.name = name
        if (expires := duration(within)) is not None:
            if expires.ToMilliseconds() <= 0:
                raise ValueError("a timeout is more than 0 s")
            wait.signal.expires.CopyFrom(expires)
        end = await self.await_end("receive", digest_of("receive", name), key, wait)
        if end.failure.kind:
            raise TimeoutError(end.failure.message)
        return value_of(end, returns)

    async def receive_nowait(self, name: str, key: str | None, returns: Any) -> Any:
        """Return the value of the first kept signal of this name. Raises NoSignal if none is kept."""
        wait = worker_pb2.Outcome.SuspendedCall()
        wait.signal.name, wait.signal.at_once = name, True
        digest = digest_of("receive_nowait", name)
        end = await self.await_end("receive_nowait", digest, key, wait)
        if end.failure.kind:
            raise NoSignal(end.failure.message)
        return value_of(end, returns)

    async def await_end(
        self, name: str, digest: str, key: str | None, wait: worker_pb2.Outcome.SuspendedCall
    ) -> types_pb2.JournalEntry:
        """Return the END of a call that waits for a signal or a child run, or for a person; it is opened at once.

        `name` and `digest` identify the call as they do others; `wait` says what it waits for. Raises Suspended if the
        step is handed back meanwhile; the END then comes with a later attempt.
        """
        await self.open(name, digest, key, wait)
        return await self.end_of(wait)

    async def open(
        self, name: str, digest: str, key: str | None, wait: worker_pb2.Outcome.SuspendedCall
    ) -> worker_pb2.JournalAck | None:
        """Open a call that waits for something from outside, unless it has ended; `end_of` waits for its end."""
        frame = self.frame()
        return await self._open(frame, self._key(frame, name, digest, key), name, digest, wait)

    async def _open(
        self,
        frame: Frame,
        key: str,
        name: str,
        digest: str,
        wait: worker_pb2.Outcome.SuspendedCall,
    ) -> worker_pb2.JournalAck | None:
        wait.call, wait.arguments = key, digest
        await self._read(frame)
        held = self.journal.find(wait.call)
        held.check(wait.call, digest)
        if held.end is not None:
            return None
        self._check_wait(frame, name)
        self.journal.follow()
        with self._working(frame):
            return await self.journal.open(wait)

    async def end_of(self, wait: worker_pb2.Outcome.SuspendedCall) -> types_pb2.JournalEntry:
        """Return the END of a call that was opened. Raises as `await_end` does."""
        frame = self.frame()
        self._check_wait(frame, "wait")
        opened = Wait(wait.call, opens=wait)
        opened.was_opened = True
        return await self._end_of(opened, frame)

    async def start_child(
        self, digest: str, key: str | None, wait: worker_pb2.Outcome.SuspendedCall
    ) -> str:
        """Start the child run of a call, unless it has one; return the child's id."""
        opened = await self.open("child", digest, key, wait)
        # Signals to a child of the call that a fork's parent started are not made again.
        self.journal.replay(self._within_child(wait))
        if opened is not None and wait.call in opened.children:
            return opened.children[wait.call]
        return json.loads((await self.end_of(wait)).value.data)["run_id"]

    async def signal_child(
        self,
        child: worker_pb2.Outcome.SuspendedCall,
        run_id: str,
        name: str,
        value: types_pb2.Payload | None,
        key: str | None,
    ) -> None:
        """Send the child run of a call a signal once, and return when it has it.

        Raises NonRetryable if it can't have it, because it has ended.
        """
        frame = self.frame()
        data = "" if value is None else base64.b64encode(value.data).decode()
        digest = digest_of("signal", name, data)
        within = f"{self._within_child(child)}{run_id[:8]}/"
        signal = worker_pb2.Outcome.SignalChild(child=child.call, name=name, value=value)
        wait = worker_pb2.Outcome.SuspendedCall(child_signal=signal)
        key = self._key(frame, "signal", digest, key, within)
        await self._open(frame, key, "signal", digest, wait)
        failure = (await self.end_of(wait)).failure
        if failure.kind:
            raise NonRetryable(failure.message, kind=failure.kind)

    def _within_child(self, child: worker_pb2.Outcome.SuspendedCall) -> str:
        return inner_prefix(child.call, own_key=True)

    async def cancel_child(self, wait: worker_pb2.Outcome.SuspendedCall) -> None:
        """Cancel the child run of a call that was opened, unless it has ended."""
        frame = self.frame()
        if self.journal.find(wait.call).end is None:
            cancel = worker_pb2.Outcome.AwaitChild(cancel=True)
            with self._working(frame):
                await self.journal.open(
                    worker_pb2.Outcome.SuspendedCall(call=wait.call, child=cancel)
                )

    async def _end_of(self, wait: Wait, frame: Frame) -> types_pb2.JournalEntry:
        """Return the END of a call that waits for something from outside.

        Raises Suspended if the step is handed back meanwhile; the END then comes with a later attempt.
        """
        self.journal.follow()
        if (end := self.journal.find(wait.key).end) is None:
            await self.waits.wait(wait, frame.activity)
            end = self.journal.find(wait.key).end
        if end is None:
            raise Suspended
        return end

    async def open_question(
        self, question: NeedsAnswer, key: str | None, returns: Any
    ) -> tuple[str, Callable[[], Coroutine[Any, Any, Any]]]:
        """Open a question; return its token, and what waits for its answer as `ask` does."""
        message = question.outcome()
        frame, is_own = self.frame(), key is not None
        digest = digest_of(
            "open_question", message.kind, message.prompt, message.schema, list(message.choices)
        )
        key = self._key(frame, "open_question", digest, key)
        token_key = inner_prefix(key, own_key=is_own) + _TOKEN
        self.journal.ask(token_key, frame.run)
        await self._read(frame)
        held = self.journal.find(key)
        held.check(key, digest)
        if held.end is None:
            self._check_wait(frame, "open_question")
        token = await self._token(token_key, frame)
        message.token_sha256 = sha256_of(token)
        opens = worker_pb2.Outcome.SuspendedCall(call=key, ask=message, arguments=digest)
        if held.end is None:
            with self._working(frame):
                await self.journal.open(opens)
        once = asyncio.Lock()

        async def answer() -> Any:
            within = self.frame()
            async with once:
                if self.journal.find(key).end is None:
                    self._check_wait(within, "open_question")
                wait = Wait(key, opens=opens)
                wait.was_opened = True
                return value_of(await self._end_of(wait, within), returns)

        return token, answer

    async def _token(self, key: str, frame: Frame) -> str:
        """Return the token that is kept under this key of the journal; a new one the first time."""
        held = self.journal.find(key).end
        if held is not None:
            return held.value.data.decode()
        run = self._run
        token = new_answer_token(run.tenant_id, run.run_id, self.runtime.new_id)
        value = types_pb2.Payload(data=token.encode(), media_type=SECRET_MEDIA_TYPE)
        with self._working(frame):
            await self.journal.write(
                types_pb2.JournalEntry(key=key, mark=END, name=_TOKEN, value=value)
            )
        return token

    async def forget(self, key: str) -> None:
        """Drop a call from the journal, and with a question its token."""
        frame = self.frame()
        await self._read(frame)
        with self._working(frame):
            await self.journal.forget(key)
            for is_own in (False, True):
                token_key = inner_prefix(key, own_key=is_own) + _TOKEN
                if self.journal.find(token_key).end is not None:
                    await self.journal.forget(token_key)

    # Entries without a function.

    async def kept(self, prefix: str) -> list[types_pb2.JournalEntry]:
        """Return the values that `keep` stored under keys with this prefix."""
        await self._read(self.frame())
        return self.journal.ended(prefix, self._outermost.run)

    async def keep(self, key: str, name: str, value: types_pb2.Payload) -> None:
        """Store a value under a key that is used nowhere else. Fails only for its size, or with the lease."""
        frame = self.frame()
        self.journal.ask(key, self._outermost.run)
        with self._working(frame):
            await self.journal.write(
                types_pb2.JournalEntry(key=key, mark=END, name=name, value=value)
            )

    async def during(self, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what a read of the step's returns; the step isn't suspended meanwhile."""
        with self._working(self.frame()):
            return await read()

    def excuse(self, scope: str) -> None:
        """Don't count calls within a scope as unasked, because its code leaves out calls that had ended.

        Raises if the step goes no further.
        """
        self.journal.replay(scope_prefix(self.frame().prefix, scope))

    def frame(self) -> Frame:
        """Return the place of the code that is running here. Raises if the step goes no further."""
        self.waits.check()
        return frame_of(self.record) or self._outermost

    async def again(self, key: str, name: str, *arguments: object) -> None:
        """Let a failed call be made again in this attempt, under the same key. Raises nothing.

        An empty `key` means that the call failed before its function ran, so the caller knows no
        key. The key of the newest equal call is then used. If equal calls are made concurrently,
        that may be another call's, and both may get one value.
        """
        frame = frame_of(self.record) or self._outermost
        if not key:
            digest = arguments_digest(arguments, {})
            key = newest_key(frame.prefix, name, digest, frame.run.counts)
        if key:
            frame.run.free.append(key)
            self.journal.ask(key, CodeRun())

    # The end of the attempt.

    async def finish(self) -> None:
        """Let running activities end, and let nothing more begin. Cancels those that don't end in time."""
        self.waits.end(lambda: JournalError("the step's function has ended: it makes no calls"))
        if not await self.activities.idle(END_SECONDS):
            log.warning(
                "execution %s: calls are still under way, and are cancelled", self.execution_id
            )
            self.activities.cancel()
            await self.activities.idle(CANCEL_SECONDS)
        await self.journal.settled()

    def abandon(self) -> None:
        """End all waits and calls of a step that is no longer wanted."""
        self.record.cancelled = True
        lost = f"execution {self.execution_id} is not wanted any more"
        self.waits.end(lambda: LeaseLost(lost))
        self.activities.cancel()

    async def unasked(self) -> list[str]:
        """Return the keys of recorded calls that this attempt didn't make."""
        await self.journal.read()
        return self.journal.unasked()

    # Helpers.

    def _key(
        self, frame: Frame, name: str, digest: str, given: str | None, prefix: str | None = None
    ) -> str:
        """Return the key of the next call. Runs before anything is awaited, so that keys follow the order of the code.

        `prefix`: that of the key; None: the frame's.
        """
        prefix = frame.prefix if prefix is None else prefix
        if given is not None:
            key = own_key(prefix, given)
        else:
            key = counted_key(prefix, name, digest, frame.run.counts, frame.run.free)
        self.journal.ask(key, frame.run)
        return key

    async def _read(self, frame: Frame) -> None:
        if not self.journal.is_read:
            with self._working(frame):
                await self.journal.read()
            self.waits.check()

    def _within(self, frame: Frame) -> str | None:
        """Return why the step must not be handed back here (an AT_MOST_ONCE call or task), or None."""
        if frame.at_most_once:
            return "call"
        return "task that has begun" if self.record.begun else None

    def _check_wait(self, frame: Frame, what: str) -> None:
        """Raise JournalError if the step must not be handed back."""
        if (within := self._within(frame)) is not None:
            raise JournalError(
                f"ctx.{what} within an AT_MOST_ONCE {within}: the step would be handed back while "
                "nobody knows what became of it. Wait before it, or after it"
            )

    @contextmanager
    def _working(self, frame: Frame) -> Generator[None]:
        activity = Activity(frame.activity)
        self.activities.begin(activity)
        try:
            yield
        finally:
            self.waits.over(activity)

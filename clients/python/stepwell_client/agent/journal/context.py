"""The part of a step's context for calls whose results are recorded, and for waits."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, TypeVar, overload

from stepwell_client.agent.journal.call_run import CallRequest, Reconcile
from stepwell_client.agent.journal.journal_calls import Calls
from stepwell_client.agent.journal.keys import scope_prefix
from stepwell_client.agent.journal.open_question import OpenQuestion
from stepwell_client.agent.scopes import CURRENT, frame_of
from stepwell_client.agent.step_output import AttemptRecord
from stepwell_client.agent.step_services import StepServices
from stepwell_client.agent.threads import Threads, WaitingThread
from stepwell_client.enums import Effect, ExpiryAction, QuestionKind, StepKind
from stepwell_client.errors import JournalError, LeaseLost
from stepwell_client.link.runtime import Runtime
from stepwell_client.records.decisions import NeedsAnswer
from stepwell_client.records.plans import Retry, Span
from stepwell_client.v1 import worker_pb2

T = TypeVar("T")

_OPENED = "_opened_calls"


class JournalContext:
    """The part of a step's context that makes calls, and waits. All methods may be used from the step's threads.

    JournalAck results outlive the attempt: the next attempt finds them, and continues from there.
    """

    _assignment: worker_pb2.Assignment
    _record: AttemptRecord
    _loop: asyncio.AbstractEventLoop
    _services: StepServices
    _runtime: Runtime
    _threads: Threads

    @overload
    async def call(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        /,
        *arguments: Any,
        key: str | None = None,
        as_: None = None,
        effect: Effect = Effect.IDEMPOTENT,
        reconcile: Reconcile | None = None,
        retry: Retry | None = None,
        **named: Any,
    ) -> T: ...
    @overload
    async def call(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *arguments: Any,
        key: str | None = None,
        as_: None = None,
        effect: Effect = Effect.IDEMPOTENT,
        reconcile: Reconcile | None = None,
        retry: Retry | None = None,
        **named: Any,
    ) -> T: ...
    @overload
    async def call(
        self,
        name: str,
        function: Callable[..., object],
        /,
        *arguments: Any,
        key: str | None = None,
        as_: type[T],
        effect: Effect = Effect.IDEMPOTENT,
        reconcile: Reconcile | None = None,
        retry: Retry | None = None,
        **named: Any,
    ) -> T: ...
    async def call(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *arguments: Any,
        key: str | None = None,
        as_: Any = None,
        effect: Effect = Effect.IDEMPOTENT,
        reconcile: Reconcile | None = None,
        retry: Retry | None = None,
        **named: Any,
    ) -> Any:
        """Run a function once for all attempts at the step; return its value, recorded now or by an earlier attempt.

        The value is always the recorded one, decoded as `as_` or else as the function's return
        annotation. A function that isn't async runs in a thread. The function may make calls
        itself.

        A call is identified by `name`, its arguments, and how often this attempt has made the same
        call in its scope; or by `key`, which an attempt uses once. `retry`: the call's own tries,
        counted over lost, released and suspended attempts; without it the function is tried once in
        each attempt. `effect`: with AT_MOST_ONCE the function's begin is recorded, and a function
        that began without an end isn't run again: `reconcile` is called with its BEGIN entry and
        returns Done, NotDone or Undecided.

        Raises:
            NonRetryable: the value has no JSON form, doesn't fit the type, or is larger than 1 MiB.
            JournalError: the arguments have no JSON form and there is no `key`, the key was used
                before, or the recorded value doesn't fit the type.
            JournalMismatch: the key was recorded with other arguments.
            UnknownOutcome: an AT_MOST_ONCE call began, and its outcome is unknown. No Exception.
            Suspended: the step is handed back to wait. No Exception; let it through.
            LeaseLost: the step is no longer wanted.
            Exception: what the function raised, once that is recorded; a Failure if earlier
                attempts left no try.
        """
        request = CallRequest(name, function, arguments, named, key, as_, effect, reconcile, retry)
        return await self._on_loop(self._calls.call(request, self._threads.call))

    @overload
    def call_sync(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        /,
        *arguments: Any,
        key: str | None = None,
        as_: None = None,
        effect: Effect = Effect.IDEMPOTENT,
        reconcile: Reconcile | None = None,
        retry: Retry | None = None,
        **named: Any,
    ) -> T: ...
    @overload
    def call_sync(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *arguments: Any,
        key: str | None = None,
        as_: None = None,
        effect: Effect = Effect.IDEMPOTENT,
        reconcile: Reconcile | None = None,
        retry: Retry | None = None,
        **named: Any,
    ) -> T: ...
    @overload
    def call_sync(
        self,
        name: str,
        function: Callable[..., object],
        /,
        *arguments: Any,
        key: str | None = None,
        as_: type[T],
        effect: Effect = Effect.IDEMPOTENT,
        reconcile: Reconcile | None = None,
        retry: Retry | None = None,
        **named: Any,
    ) -> T: ...
    def call_sync(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *arguments: Any,
        key: str | None = None,
        as_: Any = None,
        effect: Effect = Effect.IDEMPOTENT,
        reconcile: Reconcile | None = None,
        retry: Retry | None = None,
        **named: Any,
    ) -> Any:
        """Run a function once for all attempts at the step, from a thread; see `call`.

        A function that isn't async runs in the calling thread.
        """
        request = CallRequest(name, function, arguments, named, key, as_, effect, reconcile, retry)
        thread = WaitingThread()
        return self._wait(lambda: self._calls.call(request, thread.call), thread)

    @contextmanager
    def scope(self, name: str) -> Generator[None]:
        """Give calls within the scope separate keys: for a branch, a node of a graph, an agent within the agent.

        Calls are counted in each scope separately, so calls of two scopes may come in any order.
        """
        outer = self._calls.frame()
        token = CURRENT.set(outer.scope(scope_prefix(outer.prefix, name)))
        try:
            yield
        finally:
            CURRENT.reset(token)

    @property
    def call_key(self) -> str:
        """A key of the enclosing call, for the system that it calls: the same in all its tries and attempts.

        The key is unique over all calls of all runs. Raises JournalError outside of calls.
        """
        frame = frame_of(self._record)
        if frame is None or not frame.key:
            raise JournalError("there is no call around: ctx.call_key is for a call's function")
        return f"{self._assignment.idempotency_key}/{frame.key}"

    async def sleep(self, seconds: Span, *, key: str | None = None) -> None:
        """Sleep for seconds or a timedelta, 366 days at most. The end is fixed when the sleep first begins.

        A short sleep is waited for in place. Otherwise the step is suspended once only waits are
        left of it, which spends no attempt. Raises what `call` raises, and JournalError in an
        AT_MOST_ONCE call, or in an AT_MOST_ONCE task that has begun.
        """
        await self._on_loop(self._calls.sleep(seconds, key))

    def sleep_sync(self, seconds: Span, *, key: str | None = None) -> None:
        """Sleep, from a thread; see `sleep`."""
        self._wait(lambda: self._calls.sleep(seconds, key))

    async def ask(
        self,
        prompt: str,
        *,
        kind: QuestionKind = QuestionKind.VALUE,
        schema: str | Mapping[str, Any] = "",
        choices: Sequence[str] = (),
        expires: Span | None = None,
        on_expiry: ExpiryAction = ExpiryAction.WAIT,
        key: str | None = None,
        as_: Any = Any,
    ) -> Any:
        """Ask a person, and return the answer decoded as `as_`. The fields are those of NeedsAnswer.

        The step is suspended once only waits are left of it, which spends no attempt. The attempt
        after the answer continues from here. Raises what `call` raises, and JournalError in an
        AT_MOST_ONCE call, or in an AT_MOST_ONCE task that has begun.
        """
        question = _question(prompt, kind, schema, choices, expires, on_expiry)
        return await self._on_loop(self._calls.ask(question, key, as_))

    def ask_sync(
        self,
        prompt: str,
        *,
        kind: QuestionKind = QuestionKind.VALUE,
        schema: str | Mapping[str, Any] = "",
        choices: Sequence[str] = (),
        expires: Span | None = None,
        on_expiry: ExpiryAction = ExpiryAction.WAIT,
        key: str | None = None,
        as_: Any = Any,
    ) -> Any:
        """Ask a person, from a thread; see `ask`."""
        question = _question(prompt, kind, schema, choices, expires, on_expiry)
        return self._wait(lambda: self._calls.ask(question, key, as_))

    async def receive(
        self,
        name: str,
        *,
        as_: Any = Any,
        timeout: Span | None = None,  # noqa: ASYNC109 - the server keeps it, over attempts
        key: str | None = None,
    ) -> Any:
        """Return the value, decoded as `as_`, of the run's next signal of this name: one that it keeps, or the next to come.

        Each signal is taken once. A step that runs meanwhile goes on at once when the signal comes; one that only
        waits is suspended, which spends no attempt. A call that is cancelled, as by `asyncio.timeout`, goes on waiting
        until its step ends, and takes a signal that nothing then sees: limit the time by `timeout`. Raises TimeoutError
        if none came within `timeout` (seconds or a timedelta), counted from the first attempt that waited; and what
        `call` raises, and JournalError in an AT_MOST_ONCE call, or in an AT_MOST_ONCE task that has begun.
        """
        return await self._on_loop(self._calls.receive(name, timeout, key, as_))

    def receive_sync(
        self, name: str, *, as_: Any = Any, timeout: Span | None = None, key: str | None = None
    ) -> Any:
        """Return the value of the next signal of this name, from a thread; see `receive`."""
        return self._wait(lambda: self._calls.receive(name, timeout, key, as_))

    async def receive_nowait(self, name: str, *, as_: Any = Any, key: str | None = None) -> Any:
        """Return the value, decoded as `as_`, of the first signal of this name that the run keeps; takes it once.

        The answer is recorded, so that a later attempt gets the same. Raises NoSignal if none is kept, and what
        `receive` raises.
        """
        return await self._on_loop(self._calls.receive_nowait(name, key, as_))

    def receive_nowait_sync(self, name: str, *, as_: Any = Any, key: str | None = None) -> Any:
        """Return the value of the first kept signal of this name, from a thread; see `receive_nowait`."""
        return self._wait(lambda: self._calls.receive_nowait(name, key, as_))

    async def receive_each(
        self,
        name: str,
        *,
        as_: Any = Any,
        timeout: Span | None = None,  # noqa: ASYNC109 - as in `receive`
    ) -> AsyncIterator[Any]:
        """Yield the values of signals of this name, each received as by `receive`, in an `async for`.

        It ends once none came within `timeout`, which counts from the signal before; without one only by `break`. A signal
        that isn't asked for stays kept. Raises what `receive` raises, without TimeoutError.
        """
        while True:
            try:
                value = await self.receive(name, as_=as_, timeout=timeout)
            except TimeoutError:
                return
            yield value

    async def open_question(
        self,
        prompt: str,
        *,
        kind: QuestionKind = QuestionKind.VALUE,
        schema: str | Mapping[str, Any] = "",
        choices: Sequence[str] = (),
        expires: Span | None = None,
        on_expiry: ExpiryAction = ExpiryAction.WAIT,
        key: str | None = None,
        as_: Any = Any,
    ) -> OpenQuestion:
        """Ask as `ask` does, and go on: return the question once it is open, with a token that answers it.

        Whoever has the token may answer, once and without a credential: a payment's callback, a
        colleague's link. People may answer as they answer other questions. `await question.answer()`
        returns the answer. The question ends with the step. Raises what `ask` raises.
        """
        question = _question(prompt, kind, schema, choices, expires, on_expiry)
        return await self._on_loop(self._open_question(question, key, as_))

    def open_question_sync(
        self,
        prompt: str,
        *,
        kind: QuestionKind = QuestionKind.VALUE,
        schema: str | Mapping[str, Any] = "",
        choices: Sequence[str] = (),
        expires: Span | None = None,
        on_expiry: ExpiryAction = ExpiryAction.WAIT,
        key: str | None = None,
        as_: Any = Any,
    ) -> OpenQuestion:
        """Ask and go on, from a thread; see `open_question`."""
        question = _question(prompt, kind, schema, choices, expires, on_expiry)
        return self._wait(lambda: self._open_question(question, key, as_))

    async def _open_question(
        self, question: NeedsAnswer, key: str | None, returns: Any
    ) -> OpenQuestion:
        token, answer = await self._calls.open_question(question, key, returns)
        return OpenQuestion(token, lambda: self._on_loop(answer()), lambda: self._wait(answer))

    async def forget(self, key: str) -> None:
        """Drop a call from the step's journal, by the key that the journal shows.

        Another call with that key runs its function again. Messages that this attempt kept with the
        call are dropped, too; its usage stays. Raises JournalError if the call is AT_MOST_ONCE and
        has begun.
        """
        await self._on_loop(self._calls.forget(key))

    def forget_sync(self, key: str) -> None:
        """Drop a call from the step's journal, from a thread; see `forget`."""
        self._wait(lambda: self._calls.forget(key))

    @property
    def _calls(self) -> Calls:
        # Threads may get here at the same time; all use the object that the first one stored.
        return calls_of(self) or vars(self).setdefault(_OPENED, self._new_calls())

    def _new_calls(self) -> Calls:
        if self._assignment.execution.kind == StepKind.RECONCILE:
            raise JournalError(
                "a reconcile function makes no calls: nothing of it is kept, and it finds out only once"
            )
        return Calls(self._assignment, self._services, self._record, self._runtime)

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the worker's event loop, from any event loop."""
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _wait(
        self, begin: Callable[[], Coroutine[Any, Any, T]], thread: WaitingThread | None = None
    ) -> T:
        """Wait for a coroutine of the worker's event loop, in a thread that may block."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise JournalError("an event loop runs in this thread: await the form without _sync")
        try:
            return (thread or WaitingThread()).wait(begin(), self._loop)
        except concurrent.futures.CancelledError:
            raise LeaseLost("the step is not wanted any more") from None


def calls_of(context: JournalContext) -> Calls | None:
    """Return the calls of a step's context, or None if it has made none."""
    return vars(context).get(_OPENED)


opened_calls: Callable[[JournalContext], Calls] = attrgetter("_calls")
"""Returns the calls of a step's context, created if it has made none."""
on_loop: Callable[[JournalContext], Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]] = (
    attrgetter("_on_loop")
)
"""Returns a function that runs a coroutine on the worker's event loop and can be awaited on any loop."""
in_thread: Callable[[JournalContext], Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]] = (
    attrgetter("_wait")
)
"""Returns a function that runs a coroutine there while a thread of the step waits."""


def _question(
    prompt: str,
    kind: QuestionKind,
    schema: str | Mapping[str, Any],
    choices: Sequence[str],
    expires: Span | None,
    on_expiry: ExpiryAction,
) -> NeedsAnswer:
    return NeedsAnswer(
        prompt, kind=kind, schema=schema, choices=choices, expires=expires, on_expiry=on_expiry
    )

"""The synchronous client: for scripts and programs without asyncio.

    with SyncClient() as client:
        run = client.start("count words", input={"text": "a b a"})
        print(run.result())

It has the methods of `Client`, without `await`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

import grpc
from google.protobuf.message import Message as ProtoMessage

from stepwell_client.calls.base import RECONNECT_SECONDS
from stepwell_client.calls.blocking import (
    BlockingCaller,
    HasCalls,
    blocking,
    finish,
    iterating,
    watching,
)
from stepwell_client.calls.client import ServiceCalls
from stepwell_client.calls.run_handle import RunHandle
from stepwell_client.calls.thread_handle import ThreadHandle
from stepwell_client.enums import RunStatus
from stepwell_client.link.connect import Connection, Security
from stepwell_client.link.runtime import Runtime
from stepwell_client.options import takes
from stepwell_client.records.messages_pb2 import Run

P = ParamSpec("P")
CallsT = TypeVar("CallsT")


def _starting(
    method: Callable[Concatenate[CallsT, P], Coroutine[Any, Any, RunHandle]],
) -> Callable[Concatenate[HasCalls[CallsT], P], SyncRunHandle]:
    """Return a call that starts a run as a synchronous method."""

    @wraps(method)
    def call(self: HasCalls[CallsT], *args: P.args, **kwargs: P.kwargs) -> SyncRunHandle:
        return SyncRunHandle(finish(method(self.calls, *args, **kwargs)))

    return call


class SyncRunHandle:
    """A run, with the calls that concern it."""

    def __init__(self, handle: RunHandle) -> None:
        self.calls = handle
        """The asynchronous handle behind the methods."""

    def __repr__(self) -> str:
        return f"SyncRunHandle({self.id!r})"

    @property
    def id(self) -> str:
        """The run's id."""
        return self.calls.id

    @property
    def snapshot(self) -> Run | None:
        """The run as last read, or None."""
        return self.calls.snapshot

    @property
    def response(self) -> ProtoMessage | None:
        """The protocol's answer to this handle's start, fork or last command, or None."""
        return self.calls.response

    @property
    def status(self) -> RunStatus:
        """The run's status as last read."""
        return self.calls.status

    @property
    def created(self) -> bool:
        """True if this start or fork created the run; False if an earlier request did, or it was only validated."""
        return self.calls.created

    @property
    def steered(self) -> bool:
        """True if this start started no run: it sent this run, which works in the thread, the signal `steer`."""
        return self.calls.steered

    @property
    def changed(self) -> bool:
        """True if the last command changed the run; False if the run was in that state already."""
        return self.calls.changed

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about a fork that this call made."""
        return self.calls.warnings

    get = blocking(RunHandle.get)
    wait = blocking(RunHandle.wait)
    next_question = blocking(RunHandle.next_question)
    result = blocking(RunHandle.result)

    tasks = iterating(RunHandle.tasks)
    executions = iterating(RunHandle.executions)
    plans = iterating(RunHandle.plans)
    checkpoints = iterating(RunHandle.checkpoints)
    messages = iterating(RunHandle.messages)
    journal = iterating(RunHandle.journal)
    transcript = blocking(RunHandle.transcript)
    questions = iterating(RunHandle.questions)
    signals = iterating(RunHandle.signals)
    results = blocking(RunHandle.results)
    payloads = blocking(RunHandle.payloads)
    watch = watching(RunHandle.watch)
    logs = watching(RunHandle.logs)
    fork = _starting(RunHandle.fork)
    check_fork = blocking(RunHandle.check_fork)
    delete = blocking(RunHandle.delete)

    resume = blocking(RunHandle.resume)
    pause = blocking(RunHandle.pause)
    cancel = blocking(RunHandle.cancel)
    stop = blocking(RunHandle.stop)
    signal = blocking(RunHandle.signal)
    answer = blocking(RunHandle.answer)
    resolve = blocking(RunHandle.resolve)
    retry_task = blocking(RunHandle.retry_task)
    skip_task = blocking(RunHandle.skip_task)
    raise_budget = blocking(RunHandle.raise_budget)


class SyncThreadHandle:
    """A thread, with the calls that concern it."""

    def __init__(self, handle: ThreadHandle) -> None:
        self.calls = handle
        """The asynchronous handle behind the methods."""

    def __repr__(self) -> str:
        return f"SyncThreadHandle({self.id!r})"

    @property
    def id(self) -> str:
        """The thread's id."""
        return self.calls.id

    get = blocking(ThreadHandle.get)
    messages = iterating(ThreadHandle.messages)
    append = blocking(ThreadHandle.append)
    set_state = blocking(ThreadHandle.set_state)
    set_labels = blocking(ThreadHandle.set_labels)
    fork = blocking(ThreadHandle.fork)
    delete = blocking(ThreadHandle.delete)


class SyncClient:
    """A connection to the Orchestrator service, without asyncio. Close it when done."""

    @takes(Security)
    def __init__(
        self,
        target: str | None = None,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        reconnect_seconds: float | None = RECONNECT_SECONDS,
        channel: grpc.Channel | None = None,
        runtime: Runtime | None = None,
        **security: Unpack[Security],
    ) -> None:
        """Take the arguments of Client, and for tests a channel."""
        self.connection = Connection(
            target, token=token, token_file=token_file, credentials=credentials, **security
        )
        self._caller = BlockingCaller(
            self.connection, runtime, channel, reconnect_seconds=reconnect_seconds
        )
        self.calls = ServiceCalls(self._caller)
        """The calls behind the methods."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._caller.close()

    def run(self, run_id: str) -> SyncRunHandle:
        """Return a handle of a run, without a call to the server."""
        return SyncRunHandle(self.calls.run(run_id))

    def thread(self, thread_id: str) -> SyncThreadHandle:
        """Return a handle of a thread, without a call to the server."""
        return SyncThreadHandle(self.calls.thread(thread_id))

    start = _starting(ServiceCalls.start)
    threads = iterating(ServiceCalls.threads)
    runs = iterating(ServiceCalls.runs)
    questions = iterating(ServiceCalls.questions)
    answer_by_token = blocking(ServiceCalls.answer_by_token)
    watch = watching(ServiceCalls.watch)
    purge = blocking(ServiceCalls.purge)
    workers = iterating(ServiceCalls.workers)
    queues = blocking(ServiceCalls.queues)
    info = blocking(ServiceCalls.info)

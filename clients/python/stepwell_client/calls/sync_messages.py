"""The synchronous client that takes and returns the protocol's messages, for programs that build on them."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

import grpc

from stepwell_client.calls.base import RECONNECT_SECONDS
from stepwell_client.calls.blocking import BlockingCalls, blocking, iterating, watching
from stepwell_client.link.connect import Connection, Security
from stepwell_client.link.runtime import Runtime


class SyncMessageClient:
    """A connection to the Orchestrator service, without asyncio. Close it when done."""

    def __init__(
        self,
        target: str | None = None,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        reconnect_seconds: float | None = RECONNECT_SECONDS,
        runtime: Runtime | None = None,
        **security: Unpack[Security],
    ) -> None:
        """Take the same as Client."""
        self.connection = Connection(
            target, token=token, token_file=token_file, credentials=credentials, **security
        )
        self.calls = BlockingCalls(
            self.connection, runtime, None, reconnect_seconds=reconnect_seconds
        )
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
        self.calls.close()

    get = blocking(BlockingCalls.get)
    results = blocking(BlockingCalls.results)
    wait = blocking(BlockingCalls.wait)
    server_info = blocking(BlockingCalls.server_info)
    list = iterating(BlockingCalls.list)
    tasks = iterating(BlockingCalls.tasks)
    executions = iterating(BlockingCalls.executions)
    plans = iterating(BlockingCalls.plans)
    checkpoints = iterating(BlockingCalls.checkpoints)
    record = blocking(BlockingCalls.record)
    messages = iterating(BlockingCalls.messages)
    questions = iterating(BlockingCalls.questions)
    workers = iterating(BlockingCalls.workers)
    queues = blocking(BlockingCalls.queues)
    journal = iterating(BlockingCalls.journal)

    start = blocking(BlockingCalls.start)
    fork = blocking(BlockingCalls.fork)
    check_fork = blocking(BlockingCalls.check_fork)
    resume = blocking(BlockingCalls.resume)
    pause = blocking(BlockingCalls.pause)
    cancel = blocking(BlockingCalls.cancel)
    stop = blocking(BlockingCalls.stop)
    retry_task = blocking(BlockingCalls.retry_task)
    skip_task = blocking(BlockingCalls.skip_task)
    raise_budget = blocking(BlockingCalls.raise_budget)
    resolve = blocking(BlockingCalls.resolve)
    answer = blocking(BlockingCalls.answer)
    delete = blocking(BlockingCalls.delete)
    purge = blocking(BlockingCalls.purge)

    watch = watching(BlockingCalls.watch)
    logs = watching(BlockingCalls.logs)

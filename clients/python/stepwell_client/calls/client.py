"""The asynchronous client: start, read, steer and watch runs.

    async with Client() as client:
        run = await client.start("count words", input={"text": "a b a"})
        print(await run.result())

A plural noun lists (`client.runs()`), a singular noun gives a handle (`client.run(run_id)`), a verb
does something.

Methods about one run are on its handle only, so that the client has few methods and none takes a
run's id. Calls are repeated while the server is UNAVAILABLE, if that is safe. Commands have a
request id, which makes it safe. All errors are `StepwellClientError`.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

import grpc
import grpc.aio

from stepwell_client.calls.async_caller import AsyncCaller
from stepwell_client.calls.base import RECONNECT_SECONDS, Caller
from stepwell_client.calls.cursors import RunsCursor, WatchRunsOptions
from stepwell_client.calls.requests import (
    ListOptions,
    PurgeOptions,
    StartOptions,
    list_request,
    purge_request,
    start_request,
)
from stepwell_client.calls.run_handle import RunHandle, view_of
from stepwell_client.calls.streams import Watch
from stepwell_client.calls.thread_handle import ThreadHandle, list_threads
from stepwell_client.link.connect import Connection, Security
from stepwell_client.link.runtime import Runtime
from stepwell_client.options import takes
from stepwell_client.records.answers import QueueList
from stepwell_client.records.messages_pb2 import (
    ConnectedWorker,
    Purged,
    Question,
    Queue,
    Run,
    RunUpdate,
    ServerInfo,
    Thread,
)
from stepwell_client.records.payloads import answer_payload
from stepwell_client.records.reading import read, reader
from stepwell_client.v1 import orchestrator_pb2 as pb


class ServiceCalls:
    """The calls of the Orchestrator service that don't concern a single run."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        """The object that makes the calls."""

    @takes(StartOptions)
    async def start(self, goal: str = "", **options: Unpack[StartOptions]) -> RunHandle:
        """Start a run; return when its first commit is durable. Waits for a server that is starting.

        `goal` is text that every step is shown. The server chooses options that are left out, empty
        or None.
        """
        request = start_request(goal, options, self.caller.runtime.new_id())
        wanted = options.get("server_seconds")
        patience = self.caller.retries.reconnect_seconds if wanted is None else wanted
        response = await self.caller.call(
            "StartRun", request, patience_seconds=None if patience == math.inf else patience
        )
        run = read(response.run, Run)
        return RunHandle(self.caller, run.id, run, response)

    def run(self, run_id: str) -> RunHandle:
        """Return a handle of a run, without a call to the server."""
        return RunHandle(self.caller, run_id)

    @takes(ListOptions)
    def runs(self, **options: Unpack[ListOptions]) -> AsyncIterator[Run]:
        """Yield runs, newest first, page by page."""
        return self.caller.pages("ListRuns", list_request(options), "runs", reader(Run))

    def thread(self, thread_id: str) -> ThreadHandle:
        """Return a handle of a thread, without a call to the server."""
        return ThreadHandle(self.caller, thread_id)

    def threads(
        self, *, labels: Mapping[str, str] | None = None, page_size: int = 0
    ) -> AsyncIterator[Thread]:
        """Yield threads, the newest first, without their states.

        `labels`: only those with all of these; `page_size` of them are read at once (0: 100).
        """
        return list_threads(self.caller, labels, page_size)

    def questions(self) -> AsyncIterator[Question]:
        """Yield the open questions of all runs."""
        request = pb.ListQuestionsRequest()
        return self.caller.pages("ListQuestions", request, "questions", reader(Question))

    async def answer_by_token(self, token: str, value: object) -> bool:
        """Answer the question of a token, once. Needs no credential; returns False if this answer was given before.

        Raises:
            NotFound: no question has this token.
            InvalidRequest: the answer doesn't fit; `violations` says where.
            FailedPrecondition: the question has another answer, or is no longer open.
        """
        request = pb.AnswerByTokenRequest(token=token, answer=answer_payload(value))
        patience = self.caller.retries.reconnect_seconds
        response = await self.caller.call("AnswerByToken", request, patience_seconds=patience)
        return bool(response.changed)

    @takes(WatchRunsOptions)
    def watch(self, cursor: str = "", **options: Unpack[WatchRunsOptions]) -> Watch[RunUpdate, str]:
        """Return the changes of all runs since a cursor.

        An update with `deleted` has a `run_id` and no run. Deletions pass all filters, so ignore
        unknown ids. With `thread` there are updates with an empty `run_id`, too: they have messages of the
        thread, or say by `deleted` that it is gone. `cursor` is the `position` of an earlier watch, or `now` for the next commit
        on, or empty for the oldest kept commit on.
        """
        found = RunsCursor(self.caller.retries, cursor, options)
        return Watch(self.caller, found, reader(RunUpdate))

    @takes(PurgeOptions)
    async def purge(self, **options: Unpack[PurgeOptions]) -> Purged:
        """Remove ended runs; `complete` is false if there may be more of them."""
        return read(await self.caller.call("PurgeRuns", purge_request(options)), Purged)

    def workers(
        self, queue: str = "", *, run_id: str = "", with_input_schema: bool = False
    ) -> AsyncIterator[ConnectedWorker]:
        """Yield the workers that are connected to any replica, in the order of their ids.

        Args:
            queue: Only those that serve it.
            run_id: Only those that hold steps of this run, with these steps and their progress.
            with_input_schema: With the JSON schema of inputs, for workers that are connected to the
                answering server.
        """
        request = pb.ListWorkersRequest(queue=queue, run_id=run_id, view=view_of(with_input_schema))
        return self.caller.pages("ListWorkers", request, "workers", reader(ConnectedWorker))

    async def queues(self) -> QueueList:
        """Return the queues that have a limit, a worker or a waiting run, by name."""
        queues: list[Queue] = []
        request, complete = pb.ListQueuesRequest(), True
        while True:
            page: pb.ListQueuesResponse = await self.caller.call("ListQueues", request)
            queues += [read(one, Queue) for one in page.queues]
            complete = complete and page.complete
            request.page_token = page.next_page_token
            if not request.page_token:
                return QueueList(queues=tuple(queues), complete=complete)

    async def info(self) -> ServerInfo:
        """Return the server's version, durability and limits, and who the caller is to it."""
        return read(await self.caller.call("GetServerInfo", pb.GetServerInfoRequest()), ServerInfo)


class Client(ServiceCalls):
    """A connection to the Orchestrator service, opened at the first call. Close it when done."""

    @takes(Security)
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
        """Prepare a connection; nothing is sent yet.

        TLS files are read again when they have changed.

        Args:
            target: `host:port`, `grpcs://host:port` or `unix:/path`; else $STEPWELL_TARGET, else
                127.0.0.1:7878.
            token: The token; else the content of `token_file`, else $STEPWELL_TOKEN,
                $STEPWELL_TOKEN_FILE, else, on this machine, the file that a server of the same user
                mints.
            token_file: The file that holds the token.
            credentials: gRPC's own credentials, instead of files.
            reconnect_seconds: The time after which a watch, a wait, a start or a command gives up
                on a server that doesn't answer; None: never. Reads give up after a few attempts.
                The logger `stepwell_client` reports such a wait at once.
            runtime: Clock and random numbers, for tests.
            security: TLS, and exceptions from it: see `Security`.
        """
        connection = Connection(
            target, token=token, token_file=token_file, credentials=credentials, **security
        )
        caller = AsyncCaller(connection, runtime, reconnect_seconds=reconnect_seconds)
        super().__init__(caller)
        self.caller: AsyncCaller = caller

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Running calls end; a later call opens a new connection."""
        await self.caller.close()

    @property
    def connection(self) -> Connection:
        """The target with its TLS and token."""
        return self.caller.connection

    @property
    def runtime(self) -> Runtime:
        """The client's clock and random numbers."""
        return self.caller.runtime

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel of the running event loop."""
        return self.caller.channel

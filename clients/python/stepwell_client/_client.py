"""The asynchronous client: start, read, steer and watch runs.

    async with Client() as client:
        run = await client.start("count words", input={"text": "a b a"})
        print(await run.result())

Calls that may be repeated are, while the server is UNAVAILABLE; commands carry a request id, so they
may be. All errors are `StepwellClientError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack

import grpc
import grpc.aio
from google.protobuf.message import Message

from stepwell_client._calls import RECONNECT_SECONDS
from stepwell_client._commands import CommandCalls
from stepwell_client._connect import Connection, CurrentChannel, Security
from stepwell_client._cursors import (
    Cursor,
    LogCursor,
    LogOptions,
    RunCursor,
    RunsCursor,
    WatchOptions,
    WatchRunsOptions,
)
from stepwell_client._enums import ENDED, RunStatus
from stepwell_client._errors import RunFailed, StepwellClientError
from stepwell_client._reads import ReadCalls, RunResults
from stepwell_client._requests import ForkOptions, StartOptions
from stepwell_client._runtime import Runtime
from stepwell_client._status import from_rpc_error
from stepwell_client.v1 import orchestrator_pb2, orchestrator_pb2_grpc, types_pb2

P = ParamSpec("P")
Item = TypeVar("Item")
CursorT = TypeVar("CursorT", bound="Cursor[Any, Any, Any]")


class Client(ReadCalls, CommandCalls):
    """A connection to the Orchestrator service, opened at the first call. Close it when done."""

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

        `target` is `host:port`, `grpcs://host:port` or `unix:/path`, else $STEPWELL_TARGET, else
        127.0.0.1:7878. The token is `token`, else the content of `token_file`, else $STEPWELL_TOKEN,
        $STEPWELL_TOKEN_FILE, else, for this machine, the file that a server of the same user mints.
        `security` are TLS by files (`tls_ca`, `tls_cert`, `tls_key`, `tls_name`), which are read again when they
        have changed, and `insecure_allow_remote`; `credentials` are gRPC's own, instead of files. A
        watch, a wait, a start or a command whose server doesn't answer gives up after `reconnect_seconds`; None:
        never. Reads give up after a few attempts. A line in the log, of `stepwell_client`, says at once that it waits for one.
        """
        super().__init__(
            Connection(
                target, token=token, token_file=token_file, credentials=credentials, **security
            ),
            runtime or Runtime(),
            reconnect_seconds=reconnect_seconds,
        )
        self._channels = CurrentChannel(self.connection, self.connection.aio_channel)
        self._methods: dict[str, Callable[..., Any]] = {}
        self._methods_of: grpc.aio.Channel | None = None

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
        """Close the connection. Calls in flight end; a later call opens another one."""
        for channel in self._channels.take():
            await channel.close()

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel of the running event loop."""
        return self._channels.get()

    def method(self, name: str) -> Callable[..., Any]:
        """Return a method of the Orchestrator's stub."""
        channel = self.channel
        if channel is not self._methods_of:
            self._methods_of = channel
            self._methods.clear()
        if name not in self._methods:
            stub = orchestrator_pb2_grpc.OrchestratorStub(channel)
            self._methods[name] = getattr(stub, name)
        return self._methods[name]

    async def _send(self, method: str, request: Message, timeout_seconds: float) -> Any:
        try:
            return await self.method(method)(
                request, timeout=timeout_seconds, metadata=self.connection.access.metadata
            )
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error

    async def _sleep(self, seconds: float) -> None:
        await self.runtime.sleep(seconds)

    # Runs.

    async def start(self, goal: str = "", **options: Unpack[StartOptions]) -> RunHandle:
        """Start a run; return when its first commit is durable. Waits for a server that is coming up."""
        response = await self._start(goal, options)
        return RunHandle(self, response.run.spec.run_id, response.run, created=response.created)

    async def fork(self, run_id: str, **options: Unpack[ForkOptions]) -> RunHandle:
        """Start a run from a version of another one; completed tasks are kept."""
        response = await self._fork(run_id, options)
        return RunHandle(
            self,
            response.run.spec.run_id,
            response.run,
            created=response.created,
            warnings=response.warnings,
        )

    def run(self, run_id: str) -> RunHandle:
        """Return a handle of a run, without a call."""
        return RunHandle(self, run_id)

    # Streams.

    def watch(
        self, run_id: str, after: int = 0, **options: Unpack[WatchOptions]
    ) -> Watch[types_pb2.Event, RunCursor]:
        """Return the events of a run from the one after `after`, each once, until it has ended."""
        return Watch(self, RunCursor(self._retries, run_id, after, options))

    def watch_runs(
        self, cursor: str = "", **options: Unpack[WatchRunsOptions]
    ) -> Watch[orchestrator_pb2.RunUpdate, RunsCursor]:
        """Return the changes of all runs since a cursor; `now`: from the next commit on.

        An update with `deleted` has a `run_id` and no run. Deletions come whatever the filters: ignore ids that
        you don't know.
        """
        return Watch(self, RunsCursor(self._retries, cursor, options))

    def logs(
        self, run_id: str, cursor: str = "", *, follow: bool = False, **options: Unpack[LogOptions]
    ) -> Watch[types_pb2.LogEntry, LogCursor]:
        """Return the log entries of a run's steps, in order; with `follow` also later ones, until it ends.

        `cursor` is that of an earlier call: `watch.cursor.cursor`.
        """
        return Watch(self, LogCursor(self._retries, run_id, cursor, options, follow=follow))


class Watch(Generic[Item, CursorT]):
    """Events or entries, one by one, over as many streams as needed. Iterate it once.

    Leaving the loop ends the stream; as a context manager it ends for certain, and at once.
    """

    def __init__(self, client: Client, cursor: CursorT) -> None:
        self._client = client
        self._call: grpc.aio.UnaryStreamCall[Any, Any] | None = None
        self._closed = False
        self.cursor = cursor
        """The position: `after` and, at the end, `run` for a run's events; else `cursor`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the stream: one that is merely dropped would stay on the server."""
        self._closed = True
        if self._call is not None:
            self._call.cancel()

    async def __aiter__(self) -> AsyncIterator[Item]:
        # A generator: when a loop is left, the interpreter closes it, and with it the stream.
        cursor, client = self.cursor, self._client
        while not cursor.over and not self._closed:
            cursor.opened()
            loss: StepwellClientError | None = None
            call = client.method(cursor.method)(
                cursor.request(), metadata=client.connection.access.metadata
            )
            self._call = call
            try:
                while not (cursor.over or cursor.broken):
                    message = await call.read()
                    if message is grpc.aio.EOF:
                        break
                    for item in cursor.accept(message):
                        yield item
            except grpc.RpcError as error:
                loss = from_rpc_error(error)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not self._closed or task is None or task.cancelling():
                    raise
            finally:
                self._call = None
                call.cancel()
            if not (cursor.over or self._closed):
                await client.runtime.sleep(cursor.lost(loss))


class _Commanded(Protocol):
    """The response of a command."""

    @property
    def run(self) -> types_pb2.Run: ...


def _command(
    method: Callable[Concatenate[Client, str, P], Coroutine[Any, Any, _Commanded]],
) -> Callable[Concatenate[RunHandle, P], Coroutine[Any, Any, types_pb2.Run]]:
    """Return a command of the client as a method of RunHandle, with the same arguments; it returns the run."""

    @wraps(method)
    async def call(self: RunHandle, *args: P.args, **kwargs: P.kwargs) -> types_pb2.Run:
        run = (await method(self.client, self.id, *args, **kwargs)).run
        if not kwargs.get("validate_only"):
            self.message = run
        return run

    parameters = [one for name, one in signature(method).parameters.items() if name != "run_id"]
    vars(call)["__signature__"] = Signature(parameters)
    return call


class RunHandle:
    """A run and its client. `message` is the run as it was last read; None: not yet."""

    def __init__(
        self,
        client: Client,
        run_id: str,
        message: types_pb2.Run | None = None,
        *,
        created: bool = False,
        warnings: Sequence[str] = (),
    ) -> None:
        self.client = client
        self.id = run_id
        self.message = message
        self.created = created
        """True: this call started it; False: the request came before, or was only validated."""
        self.warnings = tuple(warnings)
        """Notes on what the caller of a fork may not expect of it; empty but for a fork that this call made."""

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def refresh(self) -> types_pb2.Run:
        self.message = await self.client.get(self.id)
        return self.message

    @property
    def status(self) -> RunStatus:
        """The run's status as it was last read."""
        return RunStatus(self.message.status if self.message is not None else 0)

    async def wait(
        self, timeout_seconds: float | None = None, *, until: Collection[RunStatus] = ()
    ) -> types_pb2.Run:
        """Wait until the run has ended, has one of these statuses, or the time is over; return it."""
        if not until:
            self.message = await self.client.wait(self.id, timeout_seconds)
            return self.message
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._follow(lambda event: event.run.status in until, until)
        except TimeoutError:
            pass
        return await self.refresh()

    async def next_input(self) -> orchestrator_pb2.RunInput | None:
        """Wait until the run asks something, and return its oldest open question; None: it has ended."""
        while True:
            run = await self.refresh()
            async for one in self.inputs():
                if one.request.status == types_pb2.INPUT_STATUS_OPEN:
                    return one
            if run.status in ENDED:
                return None
            await self._follow(lambda event: bool(event.inputs))

    async def _follow(
        self,
        reached: Callable[[types_pb2.Event], bool],
        statuses: Collection[RunStatus] = (),
    ) -> None:
        """Read the run's events from where it stands, until one is reached or it has ended."""
        run = self.message if self.message is not None and not statuses else await self.refresh()
        if run.status in statuses:
            return
        async with self.watch(run.last_event) as events:
            async for event in events:
                if reached(event):
                    return

    async def result(self, kind: Any = Any) -> Any:
        """Wait for the end and return the run's result, decoded as the type wants it.

        That is its synthesis; without one, a dict of its tasks' results. Raises RunFailed where it
        ended FAILED or CANCELLED.
        """
        run = await self.wait()
        if run.status in (RunStatus.FAILED, RunStatus.CANCELLED):
            message = run.failure.message or run.reason
            raise RunFailed(self.id, RunStatus(run.status).name, run.failure.kind, message)
        return (await self.client.results(self.id)).answer(kind)

    def watch(
        self, after: int = 0, **options: Unpack[WatchOptions]
    ) -> Watch[types_pb2.Event, RunCursor]:
        return self.client.watch(self.id, after, **options)

    async def fork(self, **options: Unpack[ForkOptions]) -> RunHandle:
        """Start a run from a version of this one; completed tasks are kept."""
        return await self.client.fork(self.id, **options)

    def logs(
        self, cursor: str = "", *, follow: bool = False, **options: Unpack[LogOptions]
    ) -> Watch[types_pb2.LogEntry, LogCursor]:
        return self.client.logs(self.id, cursor, follow=follow, **options)

    def messages(self, *, task_id: str = "") -> AsyncIterator[types_pb2.Message]:
        return self.client.messages(self.id, task_id=task_id)

    def journal(
        self,
        *,
        task_id: str = "",
        execution_id: str = "",
        values: bool = False,
        follow: bool = False,
    ) -> AsyncIterator[types_pb2.StoredEntry]:
        """Yield what the calls within the run's steps, of one task or of one attempt, recorded."""
        return self.client.journal(
            self.id, task_id=task_id, execution_id=execution_id, values=values, follow=follow
        )

    def inputs(self) -> AsyncIterator[orchestrator_pb2.RunInput]:
        """Yield the run's questions, answered or not."""
        return self.client.inputs(self.id)

    async def results(self) -> RunResults:
        return await self.client.results(self.id)

    resume = _command(Client.resume)
    pause = _command(Client.pause)
    cancel = _command(Client.cancel)
    stop = _command(Client.stop)
    answer = _command(Client.answer)
    resolve = _command(Client.resolve)
    retry_task = _command(Client.retry_task)
    skip_task = _command(Client.skip_task)
    raise_budget = _command(Client.raise_budget)

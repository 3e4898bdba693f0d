"""The asynchronous client: start, read, steer and watch runs.

    async with Client() as client:
        run = await client.start("count words", input={"text": "a b a"})
        print(await run.result())

Calls that may be repeated are, while the server is UNAVAILABLE; commands carry a request id, so they
may be. Errors are those of `stepwell_client._errors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

import grpc
import grpc.aio

from stepwell_client._connect import Connection
from stepwell_client._control import AsyncControl
from stepwell_client._effects import AsyncEffects, Settled
from stepwell_client._errors import StepwellClientError
from stepwell_client._forks import AsyncForks, ForkOptions, fork_procedure
from stepwell_client._logs import AsyncLogs, LogCursor, LogOptions
from stepwell_client._people import AsyncPeople
from stepwell_client._plans import Budget
from stepwell_client._procedures import (
    RECONNECT_SECONDS,
    Call,
    ListOptions,
    Pause,
    Procedure,
    Procedures,
    RunResults,
    StartOptions,
    ensure_succeeded,
)
from stepwell_client._retention import AsyncRetention
from stepwell_client._runtime import Runtime
from stepwell_client._status import from_rpc_error
from stepwell_client._watching import (
    Cursor,
    RunCursor,
    RunsCursor,
    WatchOptions,
    WatchRunsOptions,
)
from stepwell_client.v1 import orchestrator_pb2, orchestrator_pb2_grpc, types_pb2

T = TypeVar("T")
Item = TypeVar("Item")


class Client(AsyncControl, AsyncEffects, AsyncForks, AsyncLogs, AsyncPeople, AsyncRetention):
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
    ) -> None:
        """Take where the server is and how to prove oneself to it.

        `target` is `host:port` or `unix:/path`, else $STEPWELL_TARGET, else 127.0.0.1:7878. The
        token is `token`, else what is in `token_file`, else $STEPWELL_TOKEN, $STEPWELL_TOKEN_FILE,
        else the file that a server of the same user mints. `credentials` make the channel TLS. A
        watch or a wait that lost its server gives up after `reconnect_seconds`; None: never.
        """
        self.connection = Connection(
            target, token=token, token_file=token_file, credentials=credentials
        )
        self.runtime = runtime or Runtime()
        self._procedures = Procedures(
            self.runtime, self.connection.access, reconnect_seconds=reconnect_seconds
        )
        self._channel: grpc.aio.Channel | None = None
        self._methods: dict[str, Callable[..., Any]] = {}

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
        channel, self._channel = self._channel, None
        self._methods.clear()
        if channel is not None:
            await channel.close()

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel of the running event loop."""
        if self._channel is None:
            self._channel = self.connection.aio_channel()
        return self._channel

    def method(self, name: str) -> Callable[..., Any]:
        """Return a method of the Orchestrator's stub."""
        if name not in self._methods:
            stub = orchestrator_pb2_grpc.OrchestratorStub(self.channel)
            self._methods[name] = getattr(stub, name)
        return self._methods[name]

    # Runs.

    async def start(self, goal: str = "", **options: Unpack[StartOptions]) -> RunHandle:
        """Start a run; return when its first commit is durable."""
        response = await self._do(self._procedures.start(goal, options))
        return RunHandle(self, response.run.spec.run_id, response.run, created=response.created)

    def run(self, run_id: str) -> RunHandle:
        """Return a handle of a run, without a call."""
        return RunHandle(self, run_id)

    async def fork(self, run_id: str, **options: Unpack[ForkOptions]) -> RunHandle:
        """Start a run from a version of another one; what was completed there is kept."""
        response = await self._do(fork_procedure(self._procedures, run_id, options))
        return RunHandle(self, response.run.spec.run_id, response.run, created=response.created)

    async def get(self, run_id: str, *, version: int = 0) -> types_pb2.Run:
        """Return a run as of its last commit, or as of that version."""
        return await self._do(self._procedures.get(run_id, version))

    async def list(self, **options: Unpack[ListOptions]) -> AsyncIterator[types_pb2.Run]:
        """Yield runs, newest first, page by page."""
        token = ""
        while True:
            page = await self._do(self._procedures.runs(options, token))
            for run in page.runs:
                yield run
            token = page.next_page_token
            if not token:
                return

    async def tasks(
        self, run_id: str, *, full_specs: bool = False, version: int = 0
    ) -> AsyncIterator[orchestrator_pb2.TaskEntry]:
        """Yield a run's tasks, how each stands, or stood, and what it is, page by page."""
        token = ""
        while True:
            page = await self._do(self._procedures.tasks(run_id, full_specs, token, version))
            for task in page.tasks:
                yield task
            token = page.next_page_token
            if not token:
                return

    async def executions(
        self, run_id: str, *, task_id: str = ""
    ) -> AsyncIterator[types_pb2.Execution]:
        """Yield every attempt at every step, in the order in which they were offered."""
        token = ""
        while True:
            page = await self._do(self._procedures.executions(run_id, task_id, token))
            for execution in page.executions:
                yield execution
            token = page.next_page_token
            if not token:
                return

    async def results(
        self, run_id: str, *, task_ids: Sequence[str] = (), execution_ids: Sequence[str] = ()
    ) -> RunResults:
        """Return the run's own result and those of its tasks, or of those asked for."""
        return await self._do(self._procedures.results(run_id, task_ids, execution_ids))

    async def payloads(
        self, run_id: str, execution_ids: Sequence[str]
    ) -> dict[str, types_pb2.Payload]:
        """Return the bytes of results by execution id, however large they are together."""
        return await self._do(self._procedures.payloads(run_id, execution_ids))

    async def wait(self, run_id: str, timeout_seconds: float | None = None) -> types_pb2.Run:
        """Wait until a run has ended, or the time is over, and return it: see its status."""
        return await self._do(self._procedures.wait(run_id, timeout_seconds))

    def watch(
        self, run_id: str, after: int = 0, **options: Unpack[WatchOptions]
    ) -> Watch[types_pb2.Event, RunCursor]:
        """Return the events of a run from the one after `after`, each once, until it has ended."""
        return Watch(self, RunCursor(self._procedures, run_id, after, options))

    def watch_runs(
        self, cursor: str = "", **options: Unpack[WatchRunsOptions]
    ) -> Watch[orchestrator_pb2.RunUpdate, RunsCursor]:
        """Return what becomes of all runs since a cursor; `now`: from the next commit on."""
        return Watch(self, RunsCursor(self._procedures, cursor, options))

    def logs(
        self, run_id: str, cursor: str = "", *, follow: bool = False, **options: Unpack[LogOptions]
    ) -> Watch[types_pb2.LogEntry, LogCursor]:
        """Return what a run's steps wrote, in order; with `follow` also what they write until it ends.

        `cursor` is that of an earlier call: `watch.cursor.cursor`.
        """
        return Watch(self, LogCursor(self._procedures, run_id, cursor, options, follow=follow))

    async def resume(
        self,
        run_id: str,
        *,
        retry_failed: bool = True,
        reason: str = "",
        request_id: str = "",
        validate_only: bool = False,
    ) -> orchestrator_pb2.ResumeRunResponse:
        """Make a PAUSED or FAILED run go on from its last checkpoint."""
        procedure = self._procedures.resume(
            run_id,
            retry_failed=retry_failed,
            reason=reason,
            request_id=request_id,
            validate_only=validate_only,
        )
        return await self._do(procedure)

    async def pause(
        self, run_id: str, *, reason: str = "", request_id: str = ""
    ) -> orchestrator_pb2.PauseRunResponse:
        """Pause a run: it accepts outcomes of work in flight and dispatches nothing."""
        return await self._do(self._procedures.pause(run_id, reason, request_id))

    async def cancel(
        self, run_id: str, *, reason: str = "", request_id: str = ""
    ) -> orchestrator_pb2.CancelRunResponse:
        """Cancel a run for good."""
        return await self._do(self._procedures.cancel(run_id, reason, request_id))

    async def delete(self, run_id: str) -> None:
        """Remove a run that has ended, with all that belongs to it."""
        await self._do(self._procedures.delete(run_id))

    async def server_info(self) -> orchestrator_pb2.GetServerInfoResponse:
        """Return what the server is, what it promises, what its limits are and who calls."""
        return await self._do(self._procedures.server_info())

    async def _do(self, procedure: Procedure[T]) -> T:
        """Drive a procedure to its end."""
        resume: Callable[[], Call | Pause] = partial(procedure.send, None)
        while True:
            try:
                step = resume()
            except StopIteration as stop:
                return stop.value
            try:
                resume = partial(procedure.send, await self._perform(step))
            except StepwellClientError as error:
                resume = partial(procedure.throw, error)

    async def _perform(self, step: Call | Pause) -> Any:
        if isinstance(step, Pause):
            return await self.runtime.sleep(step.seconds)
        try:
            return await self.method(step.method)(
                step.request,
                timeout=step.timeout_seconds,
                metadata=self.connection.access.metadata,
            )
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error


CursorT = TypeVar("CursorT", bound="Cursor[Any, Any, Any]")


class Watch(Generic[Item, CursorT]):
    """Events, one by one, over as many streams as it takes. Iterate it once.

    Leaving the loop ends the stream; as a context manager it ends for certain, and at once.
    """

    def __init__(self, client: Client, cursor: CursorT) -> None:
        self._client = client
        self._call: grpc.aio.UnaryStreamCall[Any, Any] | None = None
        self._closed = False
        self.cursor = cursor
        """Where it stands: `after` and, at the end, `run` of a run's watch; `cursor` of the other."""

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
                    for item in cursor.take(message):
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


class RunHandle:
    """A run and its client. `message` is the run as it was last seen; None: not yet."""

    def __init__(
        self,
        client: Client,
        run_id: str,
        message: types_pb2.Run | None = None,
        *,
        created: bool = False,
    ) -> None:
        self._client = client
        self.id = run_id
        self.message = message
        self.created = created
        """Whether this call started it; False: the request came before, or was only validated."""

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def refresh(self) -> types_pb2.Run:
        self.message = await self._client.get(self.id)
        return self.message

    async def wait(self, timeout_seconds: float | None = None) -> types_pb2.Run:
        self.message = await self._client.wait(self.id, timeout_seconds)
        return self.message

    async def result(self, kind: Any = Any) -> Any:
        """Wait for the end and return what the run came to, decoded as the type wants it.

        That is its synthesis; without one, a dict of its tasks' results. Raises RunFailed where it
        ended FAILED or CANCELLED.
        """
        ensure_succeeded(await self.wait())
        return (await self._client.results(self.id)).answer(kind)

    def watch(
        self, after: int = 0, **options: Unpack[WatchOptions]
    ) -> Watch[types_pb2.Event, RunCursor]:
        return self._client.watch(self.id, after, **options)

    async def fork(self, **options: Unpack[ForkOptions]) -> RunHandle:
        """Start a run from a version of this one; what was completed there is kept."""
        return await self._client.fork(self.id, **options)

    def logs(
        self, cursor: str = "", *, follow: bool = False, **options: Unpack[LogOptions]
    ) -> Watch[types_pb2.LogEntry, LogCursor]:
        return self._client.logs(self.id, cursor, follow=follow, **options)

    def messages(self, *, task_id: str = "") -> AsyncIterator[types_pb2.Message]:
        return self._client.messages(self.id, task_id=task_id)

    def inputs(self) -> AsyncIterator[orchestrator_pb2.RunInput]:
        """Yield what the run has asked of people, answered or not."""
        return self._client.inputs(self.id)

    async def answer(
        self, input_id: str, value: object, *, replan: bool = False, reason: str = ""
    ) -> types_pb2.Run:
        """Answer what the run has asked, once; its task goes on with the answer."""
        done = await self._client.answer(self.id, input_id, value, replan=replan, reason=reason)
        self.message = done.run
        return self.message

    async def results(self) -> RunResults:
        return await self._client.results(self.id)

    async def resume(self, *, reason: str = "") -> types_pb2.Run:
        self.message = (await self._client.resume(self.id, reason=reason)).run
        return self.message

    async def pause(self, *, reason: str = "") -> types_pb2.Run:
        self.message = (await self._client.pause(self.id, reason=reason)).run
        return self.message

    async def cancel(self, *, reason: str = "") -> types_pb2.Run:
        self.message = (await self._client.cancel(self.id, reason=reason)).run
        return self.message

    async def resolve(
        self, execution_id: str, found: Settled, *, reason: str = ""
    ) -> types_pb2.Run:
        """Say what became of an execution whose outcome is unknown."""
        done = await self._client.resolve(self.id, execution_id, found, reason=reason)
        self.message = done.run
        return self.message

    async def stop(self, *, reason: str = "") -> types_pb2.Run:
        self.message = (await self._client.stop(self.id, reason=reason)).run
        return self.message

    async def retry_task(self, task_id: str, *, reason: str = "") -> types_pb2.Run:
        self.message = (await self._client.retry_task(self.id, task_id, reason=reason)).run
        return self.message

    async def skip_task(
        self, task_id: str, *, skip_dependents: bool = False, reason: str = ""
    ) -> types_pb2.Run:
        answer = await self._client.skip_task(
            self.id, task_id, skip_dependents=skip_dependents, reason=reason
        )
        self.message = answer.run
        return self.message

    async def raise_budget(
        self, budget: Budget, *, resume: bool = True, reason: str = ""
    ) -> types_pb2.Run:
        answer = await self._client.raise_budget(self.id, budget, resume=resume, reason=reason)
        self.message = answer.run
        return self.message

"""The asynchronous client: start, read, steer and watch runs.

    async with Client() as client:
        run = await client.start("count words", input={"text": "a b a"})
        print(await run.result())

Calls that may be repeated are, while the server is UNAVAILABLE; commands carry a request id, so they
may be. All errors are `StepwellClientError`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import grpc
import grpc.aio

from stepwell_client.calls.base import RECONNECT_SECONDS
from stepwell_client.calls.cursors import WatchOptions
from stepwell_client.calls.message_client import MessageClient
from stepwell_client.calls.record_calls import RecordCalls
from stepwell_client.calls.requests import ForkOptions, StartOptions
from stepwell_client.calls.streams import Watch
from stepwell_client.enums import ForkMode, QuestionStatus, RunStatus, StepKind
from stepwell_client.errors import RunFailed
from stepwell_client.link.connect import Connection
from stepwell_client.link.runtime import Runtime
from stepwell_client.records.history import Event, Question
from stepwell_client.records.plans import Budget, PlanLike, Retry, Span
from stepwell_client.records.reading import read, read_event
from stepwell_client.records.run import ForkCheck, Run

P = ParamSpec("P")
T = TypeVar("T")


class RunCalls(RecordCalls):
    """All calls of the Orchestrator service with records, and handles of the runs that they start."""

    async def start(
        self,
        goal: str = "",
        *,
        input: object = None,  # noqa: A002 - the word of agents, tasks and the protocol
        pipeline: str = "",
        queue: str = "",
        plan: PlanLike | None = None,
        stages: Sequence[StepKind] = (),
        labels: Mapping[str, str] | None = None,
        on_behalf_of: str = "",
        max_iterations: int | None = None,
        max_parallel: int | None = None,
        priority: int = 0,
        no_progress_limit: int | None = None,
        worker_version: str = "",
        budget: Budget | None = None,
        step_retry: Retry | None = None,
        step_timeout: Span | None = None,
        start_delay: Span | None = None,
        request_id: str = "",
        validate_only: bool = False,
        server_seconds: float | None = None,
    ) -> RunHandle:
        """Start a run; return when its first commit is durable. Waits for a server that is coming up.

        Args:
            goal: The goal, in words: every step is shown it.
            input: The run's input: every step is shown it.
            pipeline: The kind of run that this is an instance of.
            queue: The queue where its steps wait for workers; else the pipeline's name, else `default`.
            plan: A plan of the caller's: no PLAN step is run.
            stages: With a plan: which of REFLECT and SYNTHESIZE the run has.
            labels: Words by which it is found again.
            on_behalf_of: The name, for people, of whom it is started for.
            max_iterations: The most iterations; after these it ends, whatever the reflection says.
            max_parallel: The most tasks that are offered or leased at once.
            priority: Steps of a run with a higher one go first within a queue.
            no_progress_limit: It pauses after so many iterations with the same plan and the same results; 0: never.
            worker_version: Only workers of this version do its steps: `1.4` exactly, `>=1.4` that or a later one;
                `any`: all.
            budget: The limits at which it pauses.
            step_retry: The retry policy of PLAN, REFLECT and SYNTHESIZE; tasks have their own.
            step_timeout: The time limit of one attempt at these.
            start_delay: The time from its start to the offer of its first step.
            request_id: Identifies the request: sent again, it returns the same run. Empty: one is made.
            validate_only: Check everything and start nothing.
            server_seconds: The time to wait for a server that doesn't answer; None: the client's
                `reconnect_seconds`; `math.inf`: without end.

        What is left out, empty or None, the server chooses.
        """
        options = StartOptions(
            input=input,
            pipeline=pipeline,
            queue=queue,
            plan=plan,
            stages=stages,
            labels=labels,
            on_behalf_of=on_behalf_of,
            max_iterations=max_iterations,
            max_parallel=max_parallel,
            priority=priority,
            no_progress_limit=no_progress_limit,
            worker_version=worker_version,
            budget=budget,
            step_retry=step_retry,
            step_timeout=step_timeout,
            start_delay=start_delay,
            request_id=request_id,
            validate_only=validate_only,
            server_seconds=server_seconds,
        )
        response = await self.calls.start(goal, **options)
        run = read(response.run, Run)
        return RunHandle(self, run.id, run, created=response.created)

    async def fork(
        self,
        run_id: str,
        *,
        version: int = 0,
        mode: ForkMode = ForkMode.UNSPECIFIED,
        plan: PlanLike | None = None,
        replan: bool = False,
        goal: str | None = None,
        input: object = None,  # noqa: A002 - the word of agents, tasks and the protocol
        labels: Mapping[str, str] | None = None,
        queue: str = "",
        on_behalf_of: str = "",
        max_iterations: int | None = None,
        max_parallel: int | None = None,
        priority: int | None = None,
        budget: Budget | None = None,
        worker_version: str = "",
        request_id: str = "",
    ) -> RunHandle:
        """Start a run from a version of another one; completed tasks are kept.

        Args:
            run_id: The run to fork.
            version: The version of it; 0: its last one.
            mode: STRICT, the default: the plan is the one in force. PATCH: it may be another.
            plan: A plan instead of the one in force.
            replan: Make another plan before anything else is done.
            goal: Another goal.
            input: Another input; None: the run's.
            labels: Added to the run's labels, or replacing them by key.
            queue: Another queue.
            on_behalf_of: The name, for people, of whom it is forked for.
            max_iterations: Another limit of iterations.
            max_parallel: Another limit of tasks that are offered or leased at once.
            priority: Another priority.
            budget: The fork's own budget.
            worker_version: As in `start`.
            request_id: Identifies the request: sent again, it returns the same fork. Empty: one is made.

        What is left out, empty or None, is inherited from the run.
        """
        options = ForkOptions(
            version=version,
            mode=mode,
            plan=plan,
            replan=replan,
            goal=goal,
            input=input,
            labels=labels,
            queue=queue,
            on_behalf_of=on_behalf_of,
            max_iterations=max_iterations,
            max_parallel=max_parallel,
            priority=priority,
            budget=budget,
            worker_version=worker_version,
            request_id=request_id,
        )
        response = await self.calls.fork(run_id, **options)
        run = read(response.run, Run)
        return RunHandle(self, run.id, run, created=response.created, warnings=response.warnings)

    async def check_fork(
        self,
        run_id: str,
        *,
        version: int = 0,
        mode: ForkMode = ForkMode.UNSPECIFIED,
        plan: PlanLike | None = None,
        replan: bool = False,
        goal: str | None = None,
        input: object = None,  # noqa: A002 - the word of agents, tasks and the protocol
        labels: Mapping[str, str] | None = None,
        queue: str = "",
        on_behalf_of: str = "",
        max_iterations: int | None = None,
        max_parallel: int | None = None,
        priority: int | None = None,
        budget: Budget | None = None,
        worker_version: str = "",
        request_id: str = "",
    ) -> ForkCheck:
        """Return what a fork would keep and run again, or why it doesn't fit; start nothing. Takes the same as `fork`."""
        options = ForkOptions(
            version=version,
            mode=mode,
            plan=plan,
            replan=replan,
            goal=goal,
            input=input,
            labels=labels,
            queue=queue,
            on_behalf_of=on_behalf_of,
            max_iterations=max_iterations,
            max_parallel=max_parallel,
            priority=priority,
            budget=budget,
            worker_version=worker_version,
            request_id=request_id,
        )
        return read(await self.calls.check_fork(run_id, **options), ForkCheck)

    def run(self, run_id: str) -> RunHandle:
        """Return a handle of a run, without a call."""
        return RunHandle(self, run_id)


def _of_run(
    method: Callable[Concatenate[RunCalls, str, P], T],
) -> Callable[Concatenate[RunHandle, P], T]:
    """Return a call of the client as a method of RunHandle, with the same arguments."""

    @wraps(method)
    def call(self: RunHandle, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.calls, self.id, *args, **kwargs)

    return _signed(call, method)


def _command(
    method: Callable[Concatenate[RunCalls, str, P], Coroutine[Any, Any, Run]],
) -> Callable[Concatenate[RunHandle, P], Coroutine[Any, Any, Run]]:
    """Return a command of the client as a method of RunHandle, which then holds the run as it returned it."""

    @wraps(method)
    async def call(self: RunHandle, *args: P.args, **kwargs: P.kwargs) -> Run:
        run = await method(self.calls, self.id, *args, **kwargs)
        if not kwargs.get("validate_only"):
            self.run = run
        return run

    return _signed(call, method)


def _signed(call: Callable[P, T], method: Callable[..., Any]) -> Callable[P, T]:
    """Return a handle's method with the signature of the client's, less the run's id."""
    signed = signature(method)
    parameters = [one for name, one in signed.parameters.items() if name != "run_id"]
    vars(call)["__signature__"] = Signature(parameters, return_annotation=signed.return_annotation)
    return call


class RunHandle:
    """A run and its client. `run` is the run as it was last read; None: not yet."""

    def __init__(
        self,
        calls: RunCalls,
        run_id: str,
        run: Run | None = None,
        *,
        created: bool = False,
        warnings: Sequence[str] = (),
    ) -> None:
        self.calls = calls
        """The client's calls, which those of the handle are."""
        self.id = run_id
        self.run = run
        self.created = created
        """True: this call started it; False: the request came before, or was only validated."""
        self.warnings = tuple(warnings)
        """Notes on what the caller of a fork may not expect of it; empty but for a fork that this call made."""

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    @property
    def status(self) -> RunStatus:
        """The run's status as it was last read."""
        return RunStatus.UNSPECIFIED if self.run is None else self.run.status

    async def refresh(self) -> Run:
        """Read the run, and return it."""
        self.run = await self.calls.get(self.id)
        return self.run

    async def wait(
        self, timeout_seconds: float | None = None, *, until: Collection[RunStatus] = ()
    ) -> Run:
        """Wait until the run has ended, has one of these statuses, or the time is over; return it."""
        if not until:
            self.run = await self.calls.wait(self.id, timeout_seconds)
            return self.run
        run = await self.refresh()
        if run.status not in until:
            await self._follow(run, lambda event: event.run.get("status") in until, timeout_seconds)
        return await self.refresh()

    async def next_question(self) -> Question | None:
        """Wait until the run asks something, and return its oldest open question; None: it has ended."""
        while True:
            run = await self.refresh()
            async for one in self.questions():
                if one.status == QuestionStatus.OPEN:
                    return one
            if run.has_ended:
                return None
            await self._follow(run, lambda event: bool(event.questions))

    async def _follow(
        self, run: Run, reached: Callable[[Event], bool], timeout_seconds: float | None = None
    ) -> None:
        """Read the run's events from where it stands, until one is reached, it has ended or the time is over."""
        calls = self.calls.calls
        cursor = calls.run_cursor(self.id, run.last_event, WatchOptions())
        watch: Watch[Event, int] = Watch(
            calls, cursor, lambda event: read_event(event, self.id), timeout_seconds
        )
        async with watch as events:
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
            failed = run.failure
            why = failed.message if failed is not None and failed.message else run.reason
            raise RunFailed(self.id, run.status.name, failed.kind if failed else "", why)
        return (await self.calls.results(self.id)).answer(kind)

    tasks = _of_run(RunCalls.tasks)
    executions = _of_run(RunCalls.executions)
    plans = _of_run(RunCalls.plans)
    checkpoints = _of_run(RunCalls.checkpoints)
    messages = _of_run(RunCalls.messages)
    journal = _of_run(RunCalls.journal)
    record = _of_run(RunCalls.record)
    questions = _of_run(RunCalls.questions)
    results = _of_run(RunCalls.results)
    watch = _of_run(RunCalls.watch)
    logs = _of_run(RunCalls.logs)
    fork = _of_run(RunCalls.fork)
    check_fork = _of_run(RunCalls.check_fork)
    delete = _of_run(RunCalls.delete)

    resume = _command(RunCalls.resume)
    pause = _command(RunCalls.pause)
    cancel = _command(RunCalls.cancel)
    stop = _command(RunCalls.stop)
    answer = _command(RunCalls.answer)
    resolve = _command(RunCalls.resolve)
    retry_task = _command(RunCalls.retry_task)
    skip_task = _command(RunCalls.skip_task)
    raise_budget = _command(RunCalls.raise_budget)


class Client(RunCalls):
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
        tls_ca: str | Path | None = None,
        tls_cert: str | Path | None = None,
        tls_key: str | Path | None = None,
        tls_name: str | None = None,
        insecure_allow_remote: bool | None = None,
    ) -> None:
        """Prepare a connection; nothing is sent yet.

        Files of TLS are read again when they have changed. What is left out of TLS comes from the environment:
        `STEPWELL_TLS_CA` and so on.

        Args:
            target: `host:port`, `grpcs://host:port` or `unix:/path`; else $STEPWELL_TARGET, else 127.0.0.1:7878.
            token: The token; else the content of `token_file`, else $STEPWELL_TOKEN, $STEPWELL_TOKEN_FILE,
                else, for this machine, the file that a server of the same user mints.
            token_file: The file that holds the token.
            credentials: gRPC's own credentials, instead of files.
            reconnect_seconds: The time after which a watch, a wait, a start or a command gives up whose server
                doesn't answer; None: never. Reads give up after a few attempts. A line in the log, of
                `stepwell_client`, says at once that it waits for one.
            runtime: Time and chance, for tests.
            tls_ca: The file of the authority that signed the server's certificate. Any file here means TLS; without
                this one, as in `grpcs://HOST:PORT` alone, the public authorities are trusted that grpcio brings.
            tls_cert: The file of a certificate of one's own, for servers that ask for one.
            tls_key: The file of its key.
            tls_name: The name in the server's certificate, where it isn't the address's; needed for several addresses.
            insecure_allow_remote: Call other machines also without TLS or without a token. Whoever is on the way
                can read all.
        """
        messages = MessageClient(
            target,
            token=token,
            token_file=token_file,
            credentials=credentials,
            reconnect_seconds=reconnect_seconds,
            runtime=runtime,
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_name=tls_name,
            insecure_allow_remote=insecure_allow_remote,
        )
        super().__init__(messages)
        self.calls: MessageClient = messages
        """The same calls with the protocol's messages."""

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
        await self.calls.close()

    @property
    def connection(self) -> Connection:
        """The target and what secures the connection to it."""
        return self.calls.connection

    @property
    def runtime(self) -> Runtime:
        """The client's time and chance."""
        return self.calls.runtime

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel of the running event loop."""
        return self.calls.channel

"""The worker of an embedded run: a `WorkerPort` that does its steps itself.

Calls stand for the messages of a worker's stream: assignments go to the agent's runner, outcomes to the
executor, heartbeats to the store. Records become messages here, so that an agent runs as it does in a
worker of a server.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from stepwell.core.loop.retry import backoff_ms
from stepwell.core.loop.signals import (
    AppendMessages,
    Begin,
    Delivery,
    Failed,
    NeedsAnswer,
    Released,
    Suspended,
)
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import Assignment, MessageQuery, Presence, Runtime
from stepwell.core.records.errors import INVALID_OUTCOME, NotFound, StepwellError, StoreError
from stepwell.core.records.model import Failure, Payload, RetryPolicy, Session, Violation
from stepwell.core.records.states import StepKind
from stepwell.embedded.recording import lost, read_page, write_entries
from stepwell.embedded.writing import Scribe
from stepwell.engine.executor import Executor, Heartbeat
from stepwell.engine.results import ResultsQuery
from stepwell.engine.workers import WorkerConnection
from stepwell.logger import get_logger
from stepwell.schemas import question_violations
from stepwell.wire import to_message, to_record
from stepwell.wire.leases import put_assignment
from stepwell.wire.plans import read_item
from stepwell.wire.validate import Faults
from stepwell_client import LeaseLost
from stepwell_client.internal import AgentRunner
from stepwell_client.v1 import types_pb2, worker_pb2

log = get_logger(__name__)

T = TypeVar("T")

STOP_MS = 2_000
"""The time that closing waits for cancelled functions; threads can't be made to stop."""
BEAT_MS_MIN = 200
"""Progress is written no more often than this."""
_MESSAGES_AT_ONCE = 64
_AGAIN = RetryPolicy(initial_backoff_ms=50, max_backoff_ms=2_000)


class _Step:
    """A step under way."""

    def __init__(self, assignment: Assignment, now: float, beat_ms: int) -> None:
        self.assignment = assignment
        self.message = worker_pb2.Assignment()
        put_assignment(assignment, self.message)
        self.task: asyncio.Task[None] | None = None
        self.begun = False
        self.delivering = False
        self.replaced = False
        """Another step was asked for in its place."""
        self.progress: Payload | None = None
        """Progress that isn't stored yet."""
        self.last_progress: Payload | None = None
        self.session = Session()
        self._sent_session = Session()
        self._beat_s = min(beat_ms, assignment.lease_ms // 4) / 1_000
        task = assignment.task
        self._idle_s = task.idle_timeout_ms / 1_000 if task is not None else 0.0
        self.active_at = now
        """When its function last did anything."""
        self.due_at = self._due_after(now)

    @property
    def key(self) -> tuple[str, str]:
        return self.assignment.run.run_id, self.assignment.execution.execution_id

    def is_due(self, now: float) -> bool:
        """Return whether its lease is to be renewed, or something new is to be sent."""
        news = self.progress is not None or self.session != self._sent_session
        return news or now >= self.due_at

    def _due_after(self, now: float) -> float:
        idle_at = self.active_at + self._idle_s
        due_at = now + self._beat_s
        return min(idle_at, due_at) if self._idle_s and idle_at > now else due_at

    def beat(self, now: float) -> Heartbeat:
        return Heartbeat(
            run_id=self.key[0],
            execution_id=self.key[1],
            token=self.assignment.token,
            progress=self.progress,
            session=self.session,
            idle_ms=math.ceil((now - self.active_at) * 1_000) if self._idle_s else 0,
        )

    def sent(self, beat: Heartbeat, now: float) -> None:
        """Note what was stored; what was set meanwhile is still to be sent."""
        self._sent_session = beat.session
        self.due_at = self._due_after(now)
        if self.progress is beat.progress:
            self.progress = None


class InProcessWorker:
    """Does the steps that the executor assigns, and keeps their leases alive."""

    def __init__(
        self,
        executor: Executor,
        runtime: Runtime,
        runner: AgentRunner,
        *,
        presence: Presence,
        stages: tuple[StepKind, ...],
        on_idle: Callable[[], None],
    ) -> None:
        self._executor = executor
        self._runtime = runtime
        self._runner = runner
        self._presence = presence
        self._beats_fail = False
        self._stages = stages
        self._on_idle = on_idle
        self._steps: dict[tuple[str, str], _Step] = {}
        self._session: WorkerConnection | None = None
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._beat_now = asyncio.Event()
        self._beats: asyncio.Task[None] | None = None
        self._scribe = Scribe(executor, runtime, presence.tenant_id)

    async def open(self, credit: int) -> None:
        """Connect, and ask for this many steps at once."""
        self._beats = self._runtime.spawn(self._keep_alive(), name="heartbeats")
        self._session, _ = await self._executor.attach(self, ())
        self._executor.credit(self._session, credit)

    @property
    def busy(self) -> bool:
        """True while steps are under way."""
        return bool(self._steps)

    async def close(self) -> None:
        """Lease no more steps, stop those under way, and release those that have stopped."""
        self._closing = True
        if self._session is not None:
            await self._executor.detach(self._session)
        steps = list(self._steps.values())
        tasks = [step.task for step in steps if step.task is not None]
        for step in steps:
            self._stop(step)
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_MS / 1_000)
        stopped = [step for step in steps if step.task is not None and step.task.cancelled()]
        stuck = [task for task in tasks if not task.done()]
        for task in stuck:
            task.cancel()  # A thread goes on by itself: its step is left to be lost, not released.
        if stuck:
            await asyncio.wait(stuck, timeout=STOP_MS / 1_000)
        for step in stopped:
            if not step.begun:
                await self._release(step)
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.wait([self._beats])
        await self._scribe.close()

    def abandon(self) -> None:
        """Stop at once and release nothing, as a process that is killed."""
        self._closing = True
        if self._beats is not None:
            self._beats.cancel()
        self._scribe.stop()
        for step in self._steps.values():
            step.delivering = True
            if step.task is not None:
                step.task.cancel()

    async def _release(self, step: _Step) -> None:
        """Release the lease, so that the next process need not count an attempt as lost."""
        released = Released(reason="the process that ran it stopped")
        delivery = self._delivery(step, released)
        delivery = replace(delivery, session=step.session, progress=step.last_progress)
        try:
            await self._send(step, delivery)
        except StepwellError as error:
            log.warning("a step could not be released", error=error.message)

    # --- the WorkerPort -----------------------------------------------------------------------------

    @property
    def presence(self) -> Presence:
        return self._presence

    @property
    def stages(self) -> tuple[StepKind, ...]:
        return self._stages

    def assign(self, assignment: Assignment) -> None:
        config = self._executor.config
        step = _Step(assignment, self._runtime.monotonic(), config.heartbeat_ms)
        self._steps[step.key] = step
        step.task = self._runtime.spawn(self._do(step), name=f"step {step.key[1]}")
        self._beat_now.set()  # Its lease may be shorter than the others'.

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None:
        step = self._steps.get((run_id, execution_id))
        if step is not None:
            log.debug("a step is not wanted any more", execution_id=execution_id, reason=reason)
            self._stop(step)

    def replaced(self) -> None:
        for step in self._steps.values():
            self._stop(step)

    def _stop(self, step: _Step) -> None:
        if step.task is not None and not step.delivering:
            step.task.cancel()

    # --- a step -------------------------------------------------------------------------------------

    async def _do(self, step: _Step) -> None:
        try:
            delivery = self._decode(step, await self._runner.run(step.message, self))
            if isinstance(delivery.result, NeedsAnswer):
                delivery = await _checked(delivery, [delivery.result])
            elif isinstance(delivery.result, Suspended):
                waits = [one.wait for one in delivery.result.waits]
                questions = [wait for wait in waits if isinstance(wait, NeedsAnswer)]
                delivery = await _checked(delivery, questions)
            step.delivering = True
            # Now rather than when it is stored: the commit of this outcome can lease the next step.
            self._ask_for_another(step)
            await self._deliver(step, delivery)
        except LeaseLost:
            pass  # Another has it by now: nobody waits for an outcome.
        finally:
            self._scribe.forget(step.key)
            del self._steps[step.key]
            self._ask_for_another(step)
            if not self._steps:
                self._on_idle()

    def _ask_for_another(self, step: _Step) -> None:
        """Ask for a step in the place of this one, once."""
        if self._session is not None and not step.replaced:
            step.replaced = True
            self._executor.credit(self._session, 1)

    def _decode(self, step: _Step, outcome: worker_pb2.Outcome) -> Delivery:
        outcome.delivery_id = "1"  # Only a stream numbers them.
        faults = Faults()
        delivery = read_item(outcome, faults)
        if isinstance(delivery, Delivery):
            return delivery
        failure = Failure(
            kind=faults.reason or INVALID_OUTCOME,
            message=f"{faults[0].field}: {faults[0].description}",
            retryable=bool(faults.reason),
            violations=tuple(Violation(field=f, description=d) for f, d in faults),
        )
        return self._delivery(step, Failed(failure=failure))

    def _delivery(self, step: _Step, result: Failed | Released) -> Delivery:
        execution_id = step.assignment.execution.execution_id
        return Delivery(execution_id=execution_id, token=step.assignment.token, result=result)

    async def _deliver(self, step: _Step, delivery: Delivery) -> None:
        """Deliver until it is committed or refused; a store that is away for a while costs time."""
        failures = 0
        while True:
            try:
                await self._send(step, delivery)
                return
            except NotFound:
                return  # The run was deleted.
            except StoreError as error:
                if self._closing:
                    log.warning(
                        "an outcome was not kept; its step will run again", error=str(error)
                    )
                    return
                failures += 1
            except StepwellError as error:
                log.exception("an outcome was refused", error=error.message)
                return
            await self._runtime.sleep(self._pause_s(failures))

    def _pause_s(self, failures: int) -> float:
        """Return how long to wait for a store that is away."""
        return backoff_ms(_AGAIN, failures, self._runtime.random()) / 1_000

    async def _send(self, step: _Step, delivery: Delivery | Begin | AppendMessages) -> Reply:
        tenant_id = self._presence.tenant_id
        return await asyncio.shield(self._executor.deliver(tenant_id, step.key[0], delivery))

    # --- the StepServices -----------------------------------------------------------------------------

    async def begin(self, assignment: worker_pb2.Assignment) -> None:
        step = self._step_of(assignment)
        if step is None:
            raise LeaseLost(f"execution {assignment.execution.execution_id} is not wanted any more")
        if step.begun:
            return
        step.begun = True
        token = step.assignment.token
        reply = await self._send(step, Begin(execution_id=step.key[1], token=token))
        if reply.status not in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED):
            raise LeaseLost(reply.message)

    def heartbeat(
        self,
        assignment: worker_pb2.Assignment,
        progress: types_pb2.Payload | None,
        session: types_pb2.Session | None,
    ) -> None:
        step = self._step_of(assignment)
        if step is None:
            return
        step.active_at = self._runtime.monotonic()
        if progress is not None:
            step.progress = step.last_progress = to_record(progress)
        if session is not None:
            step.session = to_record(session)
        self._loop.call_soon_threadsafe(self._beat_now.set)

    def write(
        self, assignment: worker_pb2.Assignment, text: str, level: str, *, chunk: bool
    ) -> None:
        step = self._step_of(assignment)
        if step is not None:
            step.active_at = self._runtime.monotonic()
            self._scribe.write(step.key, step.assignment.token, text, level, chunk=chunk)

    async def flush(self, assignment: worker_pb2.Assignment) -> None:
        step = self._step_of(assignment)
        if step is not None:
            await self._scribe.flush(step.key)

    async def save_messages(
        self,
        assignment: worker_pb2.Assignment,
        messages: Sequence[types_pb2.Message],
        after: int,
    ) -> None:
        step = self._step_of(assignment)
        if step is None:
            raise LeaseLost(f"execution {assignment.execution.execution_id} is not wanted any more")
        appended = AppendMessages(
            execution_id=step.key[1],
            token=step.assignment.token,
            messages=tuple(to_record(message) for message in messages),
            after=after,
        )
        reply = await self._send(step, appended)
        if reply.status not in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED):
            raise LeaseLost(reply.message)

    async def fetch_messages(
        self, assignment: worker_pb2.Assignment
    ) -> Sequence[types_pb2.Message]:
        run, cursor = assignment.run, ""
        messages: list[types_pb2.Message] = []
        while True:
            page = await self._executor.store.page(
                MessageQuery(
                    tenant_id=run.tenant_id,
                    run_id=run.run_id,
                    task_id=assignment.execution.task_id,
                    cursor=cursor,
                    limit=_MESSAGES_AT_ONCE,
                )
            )
            messages += [to_message(message) for message in page.items]
            cursor = page.cursor
            if not cursor:
                return messages

    async def read_results(
        self, assignment: worker_pb2.Assignment, task_ids: Sequence[str], page_token: str
    ) -> worker_pb2.ReadResultsResponse:
        query = ResultsQuery(
            run_id=assignment.run.run_id,
            execution_id=assignment.execution.execution_id,
            token=assignment.lease.token,
            task_ids=tuple(task_ids),
            first=int(page_token or 0),
        )
        tenant_id = self._presence.tenant_id
        page = await self._until_answered(lambda: self._executor.read_results(tenant_id, query))
        if page is None:
            raise LeaseLost(f"execution {query.execution_id} is not wanted any more")
        results = [to_message(result) for result in page.results]
        token = str(page.next) if page.next else ""
        return worker_pb2.ReadResultsResponse(results=results, next_page_token=token)

    def record(
        self,
        assignment: worker_pb2.Assignment,
        recording: worker_pb2.Recording,
    ) -> asyncio.Future[worker_pb2.Recorded]:
        return self._runtime.spawn(self._record(assignment, recording), name="record")

    async def _record(
        self,
        assignment: worker_pb2.Assignment,
        recording: worker_pb2.Recording,
    ) -> worker_pb2.Recorded:
        step = self._step_of(assignment)
        if step is None:
            return lost()
        step.active_at = self._runtime.monotonic()
        tenant_id = self._presence.tenant_id
        try:
            return await self._until_answered(
                lambda: write_entries(self._executor, tenant_id, assignment, recording)
            )
        except LeaseLost:
            return lost()

    async def read_journal(
        self, assignment: worker_pb2.Assignment, page_token: str
    ) -> worker_pb2.JournalPage:
        tenant_id = self._presence.tenant_id
        return await self._until_answered(
            lambda: read_page(self._executor, tenant_id, assignment, page_token)
        )

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the store answers. Raises LeaseLost where the process that runs the step stops meanwhile."""
        failures = 0
        while True:
            try:
                return await ask()
            except StoreError:
                if self._closing:
                    raise LeaseLost("the process that runs it stops") from None
                failures += 1
            await self._runtime.sleep(self._pause_s(failures))

    def _step_of(self, assignment: worker_pb2.Assignment) -> _Step | None:
        return self._steps.get((assignment.run.run_id, assignment.execution.execution_id))

    # --- heartbeats -----------------------------------------------------------------------------------

    async def _keep_alive(self) -> None:
        """Renew each lease well before it ends, and soon when there is progress to be kept."""
        while True:
            self._beat_now.clear()
            now = self._runtime.monotonic()
            due = [step for step in self._steps.values() if step.is_due(now)]
            if due:
                await self._beat(due, now)
                await self._runtime.sleep(BEAT_MS_MIN / 1_000)
                continue
            ends = [step.due_at for step in self._steps.values()]
            try:
                async with asyncio.timeout(max(0.0, min(ends) - now) if ends else None):
                    await self._beat_now.wait()
            except TimeoutError:
                pass

    async def _beat(self, steps: Sequence[_Step], now: float) -> None:
        beats = [step.beat(now) for step in steps]
        try:
            answers = await self._executor.heartbeat(self._presence.tenant_id, beats)
        except StoreError as error:
            if not self._beats_fail:
                log.warning("heartbeats were not taken; they are sent again", error=error.message)
            self._beats_fail = True
            return
        self._beats_fail = False
        for step, beat, live in zip(steps, beats, answers, strict=True):
            step.sent(beat, now)
            if not live:
                self._stop(step)


async def _checked(delivery: Delivery, questions: Sequence[NeedsAnswer]) -> Delivery:
    """Return the delivery, or the failure of an attempt of which a question is no sound one."""
    for question in questions:
        faults = await question_violations(question)
        if faults:
            message = f"{faults[0].field}: {faults[0].description}"
            failure = Failure(
                kind=INVALID_OUTCOME, message=message, retryable=False, violations=faults
            )
            return replace(delivery, result=Failed(failure=failure))
    return delivery

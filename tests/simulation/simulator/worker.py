"""A worker that speaks the protocol: credits, heartbeats, outcomes kept until they are acknowledged.

It may die, be stopped and go on, be restarted while the old instance still runs, ignore a lost
lease and report nevertheless. None of that may break a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    AppendMessages,
    Begin,
    Completed,
    Delivery,
    Released,
    Result,
)
from stepwell.core.loop.transition import ReplyStatus
from stepwell.core.port import Assignment, Presence
from stepwell.core.records.errors import NotFound, StepwellError, StoreError
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Message, Usage
from stepwell.core.records.states import Effect, StepKind
from stepwell.engine.executor import Heartbeat, HeldLease
from tests.simulation.simulator.calls import Calls, LeaseGone
from tests.simulation.simulator.conversation import (
    check_carryover,
    final_delivery,
    has_conversation,
    progress_of,
    session_of,
    speech,
    written,
)
from tests.simulation.simulator.network import Stream, Unreachable
from tests.simulation.simulator.replica import CONFIG, Replica, Service, StreamPort
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.simulator.threads import written_by
from tests.simulation.simulator.violation import InvariantViolation, holds
from tests.simulation.simulator.waiting import Waiting
from tests.simulation.simulator.workloads import Workload, answer_to

T = TypeVar("T")
KINDS = tuple(StepKind)
LEASE_S = CONFIG.lease_ms / 1_000


class Job(NamedTuple):
    """A step under way, until its outcome is acknowledged."""

    assignment: Assignment
    task: asyncio.Task[None]


MEETING_S_MAX = 6.0
"""So long a task that is to be done with its run's planner waits for that."""


class WorkerPool(NamedTuple):
    """The parts that all workers share."""

    service: Service
    workloads: dict[tuple[str, str], Workload]
    tenants: tuple[str, ...]
    died: Callable[[Worker], None]
    """Called when a step has killed its worker."""
    meetings: dict[tuple[str, str], asyncio.Event]
    """Maps a run to the event that is set when its planner is done."""


class Character(NamedTuple):
    """The properties of a worker, the same over its restarts."""

    tenant_id: str
    worker_id: str
    slots: int
    work_ms_max: int = 600
    stubborn: float = 0.0
    """The probability that it reports an outcome although its lease is lost."""
    skew_ms: int = 0
    """The error of its wall clock."""
    pace: float = 1.0
    """The pace of its time: over 1, its heartbeats come too late."""


class Worker:
    """One instance of a worker: one process. It starts in `run`."""

    def __init__(self, character: Character, instance: int, pool: WorkerPool, rng: Rng) -> None:
        self.character = character
        self.instance = instance
        self.instance_id = f"{character.worker_id}-{instance}"
        self.pool = pool
        self.service = pool.service
        self.ledger = pool.service.ledger
        self.rng = rng
        skew_us = character.skew_ms * 1_000
        loop = pool.service.network.runtime.loop
        self.runtime = SimRuntime(loop, rng.stream("runtime"), skew_us=skew_us)
        self.jobs: dict[str, Job] = {}
        """The steps under way, by lease token."""
        self._waiting: dict[str, Waiting] = {}
        """The calls of steps that wait, by lease token."""
        self._seen: set[str] = set()
        self.stream: Stream | None = None
        self.port: StreamPort | None = None
        self.replica: Replica | None = None
        self._lost = asyncio.Event()
        self._awake = asyncio.Event()
        self._awake.set()
        self._busy = asyncio.Event()
        """It has jobs, and so something to send heartbeats for."""
        self.replaced = False

    def __repr__(self) -> str:
        """Return its state, for the report."""
        place = self.replica.name if self.replica is not None and self.port is not None else "none"
        state = "dead" if self.runtime.dead else "replaced" if self.replaced else "alive"
        torn = " (torn)" if self.stream is not None and self.stream.torn else ""
        return f"{self.instance_id} {state} at {place}{torn}, jobs {len(self.jobs)}"

    # --- life ---

    def start(self) -> None:
        """Start the process."""
        self.runtime.spawn(self._stay_connected(), name=self.instance_id)
        self.runtime.spawn(self._beat(), name=f"{self.instance_id} heartbeats")

    def kill(self) -> None:
        """Be gone at once."""
        self.ledger.history.note(f"{self.instance_id} dies with {len(self.jobs)}")
        self.runtime.kill()
        if self.stream is not None:
            self.stream.tear()

    def stop(self) -> None:
        """Stand still, as under SIGSTOP."""
        self._awake.clear()

    def cont(self) -> None:
        """Go on where it stood."""
        self._awake.set()

    # --- the stream ---

    async def _stay_connected(self) -> None:
        while not self.replaced:
            await self._awake.wait()
            up = self.service.up()
            if not up or not await self._connect(self.rng.pick(up)):
                await self.runtime.sleep(0.05 + self.rng.random() * 0.4)
                continue
            await self._lost.wait()
            await self.runtime.sleep(self.rng.random() * 0.2)

    async def _connect(self, replica: Replica) -> bool:
        who = self.character
        presence = Presence(
            tenant_id=who.tenant_id,
            worker_id=who.worker_id,
            instance_id=self.instance_id,
            queues=("default",),
            kinds=KINDS,
        )
        stages = (StepKind.REFLECT, StepKind.SYNTHESIZE)
        port = StreamPort(presence, stages, self)
        lost = asyncio.Event()
        stream = Stream(
            self.service.network,
            worker_lost_it=lost.set,
            replica_lost_it=lambda: replica.hang_up(port),
        )
        port.stream = stream
        # Credits that come free before Welcome are counted with the first grant.
        self._lost, self.stream, self.port = lost, stream, None
        held = [
            HeldLease(
                run_id=j.assignment.run.run_id,
                execution_id=j.assignment.execution.execution_id,
                token=t,
            )
            for t, j in self.jobs.items()
        ]
        try:
            # The first message of a stream: it may be lost, and comes never twice.
            live = await self.service.network.call(
                replica, "attach", lambda: replica.attach(port, held), may_repeat=False
            )
        except (Unreachable, StepwellError):
            stream.tear()
            return False
        for one, is_live in zip(held, live, strict=True):
            if not is_live:
                self._drop(one.token)
        if stream.torn:
            return False
        self.port, self.replica = port, replica
        self._grant(who.slots - len(self.jobs))
        return True

    def _grant(self, count: int) -> None:
        port, replica, stream = self.port, self.replica, self.stream
        if count <= 0 or port is None or replica is None or stream is None:
            return

        def credit() -> None:
            if port.session is not None and replica.up:
                replica.executor.credit(port.session, count)
                replica.executor.claim_for_free()

        stream.to_replica.send(credit)

    def accept(self, stream: Stream, assignment: Assignment) -> None:
        """Accept a step, unless it came by a stream that is gone, or came before."""
        token = assignment.token
        if self.runtime.dead or stream is not self.stream or token in self._seen:
            return
        self._seen.add(token)
        who, ledger = self.character, self.ledger
        foreign = assignment.run.tenant_id != who.tenant_id
        ledger.guard(holds, not foreign, "T3", who.worker_id, "got", assignment.run)
        over = len(self.jobs) >= who.slots
        ledger.guard(holds, not over, "CREDITS", who.worker_id, "got more than its credits")
        task = self.runtime.spawn(self._work(assignment), name=f"work {token}")
        self.jobs[token] = Job(assignment, task)
        self._busy.set()

    def cancelled(self, execution_id: str, run_id: str) -> None:
        """Stop working at what is not wanted any more."""
        for token, job in tuple(self.jobs.items()):
            known = job.assignment
            if known.execution.execution_id == execution_id and known.run.run_id == run_id:
                self._drop(token)

    def ended(self, execution_id: str, run_id: str, entry: Entry) -> None:
        """Give the end of a call to the step that waits for it."""
        for token, calls in tuple(self._waiting.items()):
            job = self.jobs.get(token)
            if job is None or self.runtime.dead:
                continue
            run, execution = job.assignment.run, job.assignment.execution
            if (run.run_id, execution.execution_id) == (run_id, execution_id):
                self.ledger.guard(calls.ended, entry)

    def is_replaced(self, stream: Stream) -> None:
        """Never connect again; what is under way may still be reported."""
        if stream is self.stream:
            self.replaced = True
            stream.tear()

    def _drop(self, token: str) -> None:
        """A lease is lost. A stubborn worker goes on all the same, for a while."""
        job = self.jobs.get(token)
        if job is not None and not self.rng.happens(self.character.stubborn):
            job.task.cancel()
            self._done(token)

    def _done(self, token: str) -> None:
        self._waiting.pop(token, None)
        if self.jobs.pop(token, None) is not None:
            self._grant(1)
        if not self.jobs:
            self._busy.clear()

    # --- the work ---

    async def _work(self, assignment: Assignment) -> None:
        run, execution, token = assignment.run, assignment.execution, assignment.token
        self._check_inputs(assignment)
        workload = self.pool.workloads[run.tenant_id, run.run_id]
        behaviour = assignment.task.type.partition(":")[0] if assignment.task else ""
        at_most_once = (
            assignment.task is not None
            and assignment.task.effect is Effect.AT_MOST_ONCE
            and execution.kind is StepKind.TASK
        )
        if at_most_once:
            begin = Begin(execution_id=execution.execution_id, token=token)
            if not await self._send(assignment, begin):
                self._done(token)
                return
        sent = await self._converse(assignment) if has_conversation(assignment) else 0
        await self.runtime.sleep(self.rng.random() * self._longest_s(behaviour))
        await self._awake.wait()
        if behaviour == "poison":
            self.pool.died(self)
            return
        result = workload.perform(assignment)
        said: tuple[Message, ...] = ()
        if behaviour in ("calls", "waits") and execution.kind is StepKind.TASK:
            try:
                end, said = await self._call(assignment, late=at_most_once)
                result = end or result
            except LeaseGone:
                self._done(token)
                return
            except InvariantViolation as violation:
                self.ledger.fail(violation)
                return
        delivery = Delivery(
            execution_id=execution.execution_id,
            token=token,
            result=result,
            usage=Usage(input_tokens=1),
            response=token,
            messages=said,
            thread=written_by(assignment, result, token),
        )
        if self.rng.happens(0.03) and not at_most_once:
            delivery = Delivery(execution_id=execution.execution_id, token=token, result=Released())
        if has_conversation(assignment) and not isinstance(delivery.result, Released):
            delivery = final_delivery(assignment, delivery, sent)
        self.ledger.deliveries[token] = delivery
        await self._trespass(assignment)
        meets = behaviour == "meet" or execution.kind is StepKind.PLAN
        if meets:
            await self._meet(assignment)
        await self._send(assignment, delivery, to_the_first=meets)
        self._done(token)
        if self.rng.happens(0.1):
            await self.runtime.sleep(self.rng.random() * 2 * LEASE_S)
            await self._send(assignment, delivery, times=1)

    async def _call(
        self, assignment: Assignment, *, late: bool
    ) -> tuple[Result | None, tuple[Message, ...]]:
        """Make the calls of a step; return what ends it before it is done, and a message that goes with its end.

        `late`: it has taken effect, and is done though its lease is gone.
        """

        async def ask(name: str, work: Callable[[Replica], Coroutine[Any, Any, T]]) -> T | None:
            for _ in range(1_000):
                await self._awake.wait()
                with suppress(Unreachable, StoreError):
                    return await self.service.call(self.rng, name, work)
                await self.runtime.sleep(self.rng.random() * 0.5)
            return None

        async def work() -> None:
            await self.runtime.sleep(self.rng.random() * self._longest_s("") / 4)
            await self._awake.wait()

        task = assignment.task
        assert task is not None
        kind = Waiting if task.type.startswith("waits") else Calls
        calls = kind(assignment, self.ledger, self.rng, ask, work)
        if isinstance(calls, Waiting):
            self._waiting[assignment.token] = calls
        end = None
        try:
            end = await calls.make(int(task.type.partition(":")[2]))
        except LeaseGone:
            if not late:
                raise
        return end, calls.last_message()

    async def _meet(self, assignment: Assignment) -> None:
        """Be done when the run's planner is; a planner lets them all go on."""
        key = (assignment.run.tenant_id, assignment.run.run_id)
        meeting = self.pool.meetings.setdefault(key, asyncio.Event())
        if assignment.execution.kind is StepKind.PLAN:
            meeting.set()
            del self.pool.meetings[key]
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(MEETING_S_MAX):
                    await meeting.wait()

    async def _converse(self, assignment: Assignment) -> int:
        """Send messages before there is an outcome; returns how many."""
        self.ledger.guard(check_carryover, assignment)
        sent = 0
        for one in speech(assignment, self.rng):
            await self.runtime.sleep(self.rng.random() * self._longest_s("") / 4)
            await self._write(assignment)
            if not await self._send(assignment, one):
                break
            sent = one.after + len(one.messages)
        return sent

    async def _write(self, assignment: Assignment) -> None:
        """Write a line to the log of any replica, once: it may be lost."""
        tenant_id = self.character.tenant_id
        with suppress(Unreachable, StepwellError):
            await self.service.call(
                self.rng, "append", lambda to: to.executor.append(tenant_id, [written(assignment)])
            )

    def _longest_s(self, behaviour: str) -> float:
        return 2 * LEASE_S if behaviour == "slow" else self.character.work_ms_max / 1_000

    def _check_inputs(self, assignment: Assignment) -> None:
        """The results that a step builds on are those that were accepted, byte for byte."""
        run = assignment.run
        for one in assignment.results:
            # What a fork has kept is another run's.
            model = self.ledger.model((run.tenant_id, one.run_id or run.run_id))
            kept = model.outcomes.get(one.execution_id)
            right = kept is not None and kept.result == one.payload
            details = f"{assignment.execution.execution_id} got other bytes of {one.task_id}"
            fine = right if one.payload is not None else one.failure is not None or one.skipped
            self.ledger.guard(holds, fine, "S7", details)
        answered = assignment.answered
        if answered is None:
            return
        own = assignment.task is not None and answered.task_id == assignment.task.task_id
        fits = own and assignment.answer == answer_to(answered)
        details = f"{assignment.execution.execution_id} got another's answer"
        self.ledger.guard(holds, fits, "S7", details)

    async def _send(
        self,
        assignment: Assignment,
        delivery: Delivery | Begin | AppendMessages,
        *,
        times: int = 1_000,
        to_the_first: bool = False,
    ) -> bool:
        """Send it to any replica until one has answered; True: it was accepted."""
        run = assignment.run
        for _ in range(times):
            await self._awake.wait()
            try:
                reply = await self.service.call(
                    None if to_the_first else self.rng,
                    "deliver",
                    lambda to: to.deliver(run.tenant_id, run.run_id, delivery),
                )
            except NotFound:
                self.ledger.guard(holds, False, "S3", f"{run.run_id} is gone")
                return False
            except (Unreachable, StepwellError):
                pass
            else:
                return reply.status in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED)
            await self.runtime.sleep(self.rng.random() * 0.5)
        return False

    async def _beat(self) -> None:
        while True:
            await self.runtime.sleep(self.character.pace * CONFIG.heartbeat_ms / 1_000)
            await self._busy.wait()
            await self._awake.wait()
            if self.jobs:
                await self._beat_once()

    async def _beat_once(self) -> None:
        beats = [
            Heartbeat(
                run_id=job.assignment.run.run_id,
                execution_id=job.assignment.execution.execution_id,
                token=token,
            )
            for token, job in self.jobs.items()
        ]
        for at, job in enumerate(self.jobs.values()):
            if has_conversation(one := job.assignment):
                beats[at] = replace(beats[at], progress=progress_of(one), session=session_of(one))
        try:
            live = await self.service.call(
                self.rng,
                "heartbeat",
                lambda to: to.executor.heartbeat(self.character.tenant_id, beats),
            )
        except (Unreachable, StepwellError):
            return
        for beat, is_live in zip(beats, live, strict=True):
            if not is_live:
                self._drop(beat.token)

    async def _trespass(self, assignment: Assignment) -> None:
        """Report the step under another tenant's name, with its exact ids and token."""
        run, execution_id = assignment.run, assignment.execution.execution_id
        others = [one for one in self.pool.tenants if one != run.tenant_id]
        if not others or not self.service.up() or not self.rng.happens(0.05):
            return
        delivery = Delivery(execution_id=execution_id, token=assignment.token, result=Completed())
        other = self.rng.pick(others)
        try:
            reply = await self.service.call(
                self.rng, "trespass", lambda to: to.deliver(other, run.run_id, delivery)
            )
        except (Unreachable, StepwellError):
            return
        refused = reply.status is ReplyStatus.LEASE_LOST
        self.ledger.history.seen["foreign delivery refused"] += refused
        details = f"{execution_id} of {run.tenant_id} was reported by {other}: {reply.status}"
        self.ledger.guard(holds, refused, "T3", details)

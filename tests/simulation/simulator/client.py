"""A caller of one run: starts it, commands it, and sends everything again until it is answered.

Every command carries a request id, so that repetitions are distinguished from new commands (S16).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    Answer,
    AnyCommand,
    Cancel,
    Fork,
    Pause,
    RaiseBudget,
    Resolve,
    Resume,
    RetryTask,
    SendSignal,
    SkipTask,
    Start,
    StartInThread,
    Stop,
)
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import EntryWrite
from stepwell.core.records.errors import RunNotFound, StepwellError
from stepwell.core.records.model import Budget, Execution, Payload, Run
from stepwell.core.records.states import (
    NO_PERSON,
    SETTLED,
    ExecutionStatus,
    Finding,
    PauseReason,
    Phase,
    QuestionStatus,
    RunStatus,
)
from tests.simulation.simulator import forks
from tests.simulation.simulator.network import Unreachable
from tests.simulation.simulator.replica import Service
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.rules import FINAL
from tests.simulation.simulator.run_model import RunModel
from tests.simulation.simulator.signals import has_signals
from tests.simulation.simulator.violation import holds
from tests.simulation.simulator.workloads import SIGNALS, Workload, answer_to


def _more(run: Run) -> Budget:
    """Return a budget with more of everything that it limits."""
    now = run.budget
    return Budget(
        input_tokens=now.input_tokens * 4,
        tasks=now.tasks * 4,
        wall_ms=now.wall_ms * 60,
        iterations=now.iterations * 4,
    )


class _Forgotten(Exception):
    """The caller has crashed: it knows nothing any more of what it was about to do."""


def _is_the_moment(name: str, model: RunModel) -> bool:
    """Return whether a run is in the state in which the caller waits to cancel it."""
    run = model.run
    if run is None or run.ended:
        return False
    if name == "lease":
        return bool(model.leased())
    if name == "reflection":
        return run.phase is Phase.REFLECTING
    return bool(model.tasks) and all(task.status in SETTLED for task in model.tasks.values())


class Client:
    """The caller that starts a run, commands it, and does what it waits for."""

    def __init__(
        self,
        key: tuple[str, str],
        workload: Workload,
        service: Service,
        rng: Rng,
        *,
        adopt: Callable[[Client, Fork], None],
        origin: Fork | None = None,
    ) -> None:
        self.key = key
        self.workload = workload
        self._service = service
        self._ledger = service.ledger
        self._runtime = service.network.runtime
        self._rng = rng
        self._fresh = rng.stream("fresh")
        self._requests = 0
        self.leaves_paused = rng.happens(0.1)
        """It never resumes its run: then PAUSED is what the run waits in."""
        moments = ("reflection", "last task") if workload.stages else ("lease",)
        self._cancels_at = rng.pick(moments) if rng.happens(0.12) else ""
        """It waits for one certain moment, and does nothing else."""
        self.awake = asyncio.Event()
        self.awake.set()
        self._crashed = False
        self._adopt = adopt
        self._origin = origin
        """The command that creates the run if it is a fork."""
        self._forks = 0
        self._sent = 0
        self.started = False
        self.acting = 1
        """The number of things that it does on its own."""

    @property
    def idle(self) -> bool:
        """None of its commands is under way."""
        return not self.acting

    @property
    def model(self) -> RunModel:
        """The run as its commits describe it."""
        return self._ledger.model(self.key)

    async def act(self, seconds: float) -> None:
        """Start the run and, for so long, send a command now and then."""
        sleep, rng = self._runtime.sleep, self._rng
        until = self._runtime.monotonic() + seconds
        await sleep(rng.random() * 2)
        while not self.started:
            try:
                await self.start()
            except _Forgotten:
                # The next one to care for the run starts it again, under the same name.
                await sleep(rng.random())
        patience_s = rng.pick([3.0, 12.0]) if not self.workload.replans else 1.5
        while self._runtime.monotonic() < until and not self._is_final():
            await sleep(0.05 if self._cancels_at else 0.3 + rng.random() * patience_s)
            try:
                await self._one_thing()
            except _Forgotten:
                await sleep(rng.random())
        self.acting -= 1

    async def send_signals(self, seconds: float) -> None:
        """Send the run signals for so long, whether a call waits for them or not."""
        until = self._runtime.monotonic() + seconds
        while self._runtime.monotonic() < until and not self._has_ended():
            await self._runtime.sleep(self._rng.random() * 3)
            if self.started and self.model.run is not None:
                with suppress(_Forgotten):
                    await self._signal(self._rng.pick(SIGNALS))
        self.acting -= 1

    async def _signal(self, name: str) -> None:
        self._sent += 1
        value = f"{name}/{self._sent}".encode()
        if await self._command(SendSignal(name=name, value=Payload(data=value))):
            self._ledger.guard(self._ledger.signals.acknowledged, self.key, value)

    def crash(self) -> None:
        """Forget what is under way; it may be carried out all the same."""
        self._crashed = not self.idle

    def stop_faults(self) -> None:
        """Neither crash nor stand still any more."""
        self._crashed = False
        self.awake.set()

    def _is_final(self) -> bool:
        return self.model.run is not None and self.model.run.status in FINAL

    def _has_ended(self) -> bool:
        return self.model.run is not None and self.model.run.ended

    async def start(self) -> None:
        """Start the run, again and again until an answer comes."""
        command = self._origin or self.workload.start(*self.key)
        reply = await self._send(command)
        self.started = True
        known = (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED)
        self._check(reply.status in known, "S16", f"start: {reply.status} {reply.reason}")
        if self._rng.happens(0.2):
            again = await self._send(command)
            self._check(again.status is ReplyStatus.UNCHANGED, "S16", f"start: {again.status}")

    async def _one_thing(self) -> None:
        if self.model.run is None:
            return  # It steers another run.
        if self._cancels_at:
            if _is_the_moment(self._cancels_at, self.model):
                await self._command(Cancel(reason=self._cancels_at))
                self._cancels_at = ""
            return
        draw, run = self._rng.random(), self.model.run
        await self._answer_questions()
        if self._rng.happens(0.3):
            await self._settle_unknown()
        if draw < 0.15:
            await self._command(Pause(reason="wait"))
        elif draw < 0.6 and run is not None:
            if run.status is RunStatus.PAUSED or draw < 0.3:
                await self._command(Resume(retry_failed=self._rng.happens(0.8)))
        elif draw > 0.96:
            await self._command(Cancel(reason="no more"))
        elif 0.68 < draw < 0.82 and run is not None and self._may_fork():
            self._fork()
        elif draw > 0.82 and run is not None:
            await self._command(self._change_of(run))

    def _may_fork(self) -> bool:
        return self._origin is None and not self._forks and not self.workload.waits

    def _fork(self) -> None:
        """Make another run of this one, as it stood at some version."""
        fork = forks.draw(self.model, self._ledger.journals, f"fork-{self.key[1]}", self._rng)
        if fork is not None:
            self._forks += 1
            self._adopt(self, fork)

    def _change_of(self, run: Run) -> AnyCommand:
        """Return something that a person could change on the way."""
        names = sorted(self.model.tasks)
        draw = self._rng.random()
        if draw < 0.2 or not names:
            return Stop(reason="enough")
        if draw < 0.5:
            return RaiseBudget(budget=_more(run), resume=self._rng.happens(0.8))
        if draw < 0.8:
            return RetryTask(task_id=self._rng.pick(names), fresh=self._fresh.happens(0.3))
        dependents = self._rng.happens(0.5)
        return SkipTask(task_id=self._rng.pick(names), skip_dependents=dependents)

    async def attend(self) -> None:
        """Do what the run waits for, so that it ends."""
        if not self.started:
            await self.start()
        await self._answer_questions()
        await self._settle_unknown()
        for name in has_signals(self.model):
            await self._signal(name)
        run = self.model.run
        if run is None or run.status is not RunStatus.PAUSED or self.leaves_paused:
            return
        if run.pause_reason is PauseReason.BUDGET_EXHAUSTED:
            await self._command(RaiseBudget(budget=_more(run)))
        # A failed run that is resumed may find its budget used up: then it wants both.
        await self._command(Resume())

    async def _settle_unknown(self) -> None:
        """Resolve unknown outcomes: nothing took place."""
        for execution in self.model.open():
            if execution.status is ExecutionStatus.UNKNOWN_OUTCOME:
                await self._command(await self._finding(execution))

    async def _finding(self, execution: Execution) -> Resolve:
        """Return that nothing took place, or of a call that it did."""
        name, call = execution.execution_id, execution.unknown_call
        if not call:
            return Resolve(execution_id=name, finding=Finding.NOT_DONE)
        if self._rng.happens(0.3):
            value = Payload(data=b"found")
            return Resolve(execution_id=name, finding=Finding.DONE, call=call, result=value)
        begun: tuple[EntryWrite, ...] | None = None
        while begun is None:
            with suppress(Unreachable, StepwellError):
                begun = await self._service.call(
                    self._rng, "begun", lambda to: to.begun(self.key, execution)
                )
            await self._runtime.sleep(0.1)
        return Resolve(execution_id=name, finding=Finding.NOT_DONE, call=call, begun=begun)

    async def _answer_questions(self) -> None:
        for question in tuple(self.model.questions.values()):
            by_person = question.kind not in NO_PERSON
            if by_person and question.status is QuestionStatus.OPEN and self._rng.happens(0.6):
                command = Answer(
                    question_id=question.question_id,
                    payload=answer_to(question),
                    replan=self._rng.happens(self.workload.replans),
                    reason="another way",
                )
                await self._command(command)

    async def _command(self, command: AnyCommand) -> bool:
        """Send a command under a new request id, sometimes twice; return whether it was carried out."""
        self._requests += 1
        request_id = f"{self.key[1]}-{self._requests}"
        command = replace(command, request_id=request_id, fingerprint=request_id)
        reply = await self._send(command)
        if reply.status is ReplyStatus.ACCEPTED:
            self._check_carried_out(command)
        if reply.status is not ReplyStatus.REFUSED and self._rng.happens(0.2):
            await self._send_again(command, carried_out=reply.status is ReplyStatus.ACCEPTED)
        return reply.status is not ReplyStatus.REFUSED

    async def _send_again(self, command: AnyCommand, *, carried_out: bool) -> None:
        again = await self._send(command)
        if carried_out:
            details = f"{type(command).__name__} again: {again.status} {again.reason}"
            self._check(again.status is ReplyStatus.UNCHANGED, "S16", details)
            refused = await self._send(replace(command, fingerprint="another"))
            self._check(refused.reason == "REQUEST_ID_REUSED", "S16", f"reused: {refused.status}")

    def _check_carried_out(self, command: AnyCommand) -> None:
        """Check that an acknowledged command is committed (S3)."""
        requests = [one.commit.request for one in self.model.applied]
        made = any(one is not None and one.request_id == command.request_id for one in requests)
        name = type(command).__name__
        self._check(made, "S3", f"{name} was acknowledged and isn't committed")

    def _check(self, condition: bool, name: str, details: str) -> None:
        self._ledger.guard(holds, condition, name, f"{self.key}: {details}")

    async def _send(self, command: Start | StartInThread | Fork | AnyCommand) -> Reply:
        """Send a command to any replica until one has answered."""
        command = replace(command, actor="caller")
        tenant_id, run_id = self.key
        while True:
            if not self.awake.is_set():
                await self.awake.wait()
            if self._crashed:
                self._crashed = False
                self._ledger.history.seen["caller crashed"] += 1
                raise _Forgotten
            try:
                reply = await self._service.call(
                    self._rng, "send", lambda to: to.send(tenant_id, run_id, command)
                )
            except RunNotFound:
                self._check(not self.started, "S3", "the run is gone")
            except (Unreachable, StepwellError):
                pass
            else:
                name = type(command).__name__
                self._ledger.history.note(f"{run_id} {name} {reply.status} {reply.reason}")
                return reply
            await self._runtime.sleep(0.1 + self._rng.random() * 0.5)

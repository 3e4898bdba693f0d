"""A caller of one run: starts it, meddles with it, and says everything again until it is answered.

Every command carries a request id, so that what was carried out is told from what was repeated (S16).
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.errors import RunNotFound, StepwellError
from stepwell.core.inputs import (
    Answer,
    AnyCommand,
    Cancel,
    Pause,
    Reply,
    ReplyStatus,
    Resume,
    Start,
)
from stepwell.core.model import Payload
from stepwell.core.states import InputStatus, RunStatus
from stepwell.testing.simulator.book import Book
from stepwell.testing.simulator.chance import Chance
from stepwell.testing.simulator.ledger import Ledger
from stepwell.testing.simulator.network import Network, Unreachable
from stepwell.testing.simulator.replica import Replica
from stepwell.testing.simulator.rules import FINAL
from stepwell.testing.simulator.violation import holds
from stepwell.testing.simulator.workloads import Workload


class Client:
    """Whoever started a run and cares for it."""

    def __init__(
        self,
        key: tuple[str, str],
        workload: Workload,
        network: Network,
        replicas: list[Replica],
        ledger: Ledger,
        chance: Chance,
    ) -> None:
        self.key = key
        self.workload = workload
        self._network = network
        self._replicas = replicas
        self._ledger = ledger
        self._chance = chance
        self._requests = 0
        self.leaves_paused = chance.happens(0.1)
        """It never resumes its run: then PAUSED is what the run waits in."""
        self.started = False
        self.idle = False
        """Nothing that it said is under way."""

    @property
    def book(self) -> Book:
        """What is known of the run."""
        return self._ledger.book(self.key)

    async def meddle(self, seconds: float) -> None:
        """Start the run and, for so long, do now and then what people do."""
        sleep, chance = self._network.runtime.sleep, self._chance
        until = self._network.runtime.monotonic() + seconds
        await sleep(chance.random() * 2)
        await self.start()
        eager = chance.happens(0.5)
        while self._network.runtime.monotonic() < until and not self._is_final():
            await sleep(0.3 + chance.random() * (3 if eager else 12))
            await self._one_thing()
        self.idle = True

    def _is_final(self) -> bool:
        return self.book.run is not None and self.book.run.status in FINAL

    async def start(self) -> None:
        """Start the run, again and again until an answer comes."""
        command = self.workload.start(*self.key)
        reply = await self._say(command)
        self.started = True
        known = (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED)
        self._check(reply.status in known, "S16", f"start: {reply.status} {reply.reason}")
        if self._chance.happens(0.2):
            again = await self._say(command)
            self._check(again.status is ReplyStatus.UNCHANGED, "S16", f"start: {again.status}")

    async def _one_thing(self) -> None:
        draw, run = self._chance.random(), self.book.run
        await self._answer_inputs()
        if draw < 0.15:
            await self._command(Pause(reason="wait"))
        elif draw < 0.6 and run is not None:
            if run.status is RunStatus.PAUSED or draw < 0.3:
                await self._command(Resume(retry_failed=self._chance.happens(0.8)))
        elif draw > 0.96:
            await self._command(Cancel(reason="no more"))

    async def care(self) -> None:
        """Do what the run waits for, as somebody who wants it to end."""
        if not self.started:
            await self.start()
        await self._answer_inputs()
        run = self.book.run
        if run is not None and run.status is RunStatus.PAUSED and not self.leaves_paused:
            await self._command(Resume())

    async def _answer_inputs(self) -> None:
        for request in tuple(self.book.inputs.values()):
            if request.status is InputStatus.OPEN and self._chance.happens(0.6):
                payload = Payload(data=b'"yes"')
                await self._command(Answer(input_id=request.input_id, payload=payload))

    async def _command(self, command: AnyCommand) -> None:
        """Carry out a command under a new request id; sometimes say it twice."""
        self._requests += 1
        request_id = f"{self.key[1]}-{self._requests}"
        command = replace(command, request_id=request_id, fingerprint=request_id)
        reply = await self._say(command)
        if reply.status is ReplyStatus.ACCEPTED:
            self._check_carried_out(command)
        if reply.status is not ReplyStatus.REFUSED and self._chance.happens(0.2):
            await self._say_again(command, carried_out=reply.status is ReplyStatus.ACCEPTED)

    async def _say_again(self, command: AnyCommand, *, carried_out: bool) -> None:
        again = await self._say(command)
        if carried_out:
            told = f"{type(command).__name__} again: {again.status} {again.reason}"
            self._check(again.status is ReplyStatus.UNCHANGED, "S16", told)
            refused = await self._say(replace(command, fingerprint="another"))
            self._check(refused.reason == "REQUEST_ID_REUSED", "S16", f"reused: {refused.status}")

    def _check_carried_out(self, command: AnyCommand) -> None:
        """What was acknowledged is committed (S3)."""
        requests = [one.commit.request for one in self.book.applied]
        made = any(one is not None and one.request_id == command.request_id for one in requests)
        name = type(command).__name__
        self._check(made, "S3", f"{name} was acknowledged and isn't committed")

    def _check(self, condition: bool, name: str, told: str) -> None:
        self._ledger.guard(lambda: holds(condition, name, f"{self.key}: {told}"))

    async def _say(self, command: Start | AnyCommand) -> Reply:
        """Say it to any replica until one has answered."""
        tenant_id, run_id = self.key
        while True:
            up = [replica for replica in self._replicas if replica.up]
            if up:
                replica = self._chance.pick(up)
                try:
                    reply = await self._network.call(
                        replica,
                        "send",
                        lambda to=replica: to.send(tenant_id, run_id, command),
                    )
                except RunNotFound:
                    self._check(not self.started, "S3", "the run is gone")
                except (Unreachable, StepwellError):
                    pass
                else:
                    name = type(command).__name__
                    self._ledger.history.note(f"{run_id} {name} {reply.status} {reply.reason}")
                    return reply
            await self._network.runtime.sleep(0.1 + self._chance.random() * 0.5)

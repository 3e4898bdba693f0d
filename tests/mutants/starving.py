"""L4 as a check: beside a run that always has a next step, another one gets its turn.

One worker with one place, in virtual time. A run with many steps in a row is under way when others are
started; each of those must have its step within the time that eager leases may overtake, and a look.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from stepwell.core.loop.signals import Completed, Delivery, Start
from stepwell.core.port import ANY_ROLE, Assignment, Presence
from stepwell.core.records.model import RunSpec
from stepwell.core.records.states import StepKind
from stepwell.engine.executor import Executor, ExecutorConfig
from stepwell.store.opener import open_store
from stepwell_testkit.faults import Faults, FaultyStore
from tests.mutants.bug import Caught, Unnoticed
from tests.simulation.simulator import Chance, InvariantViolation, VirtualLoop
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.simulator.violation import holds
from tests.simulation.simulator.workloads import chain

TENANT = "tenant"
CONFIG = ExecutorConfig(lease_ms=3_000, poll_ms=1_000, stickiness_ms=100)
STEP_S = 0.02
OTHERS = 5
WITHIN_S = 6.0
"""Two holds and a poll: a step that was claimed while the worker had no room comes back after its hold."""


class Starving(NamedTuple):
    """The check: one world of a busy run and of others that want their turn."""

    proof: str = "one busy worker"
    unit: str = "runs"

    def play(self, invariants: tuple[str, ...]) -> Caught:
        """Play it once."""
        try:
            nobody_starves()
        except InvariantViolation as found:
            return Caught((found.name,), found.message, OTHERS, nobody_starves)
        raise Unnoticed(f"{OTHERS} runs had their turn")


def nobody_starves() -> None:
    """Play it.

    Raises:
        InvariantViolation: a run waited too long (L4).
    """
    loop = VirtualLoop()
    try:
        loop.run_until_complete(_play(SimRuntime(loop, Chance("starving"))))
    finally:
        loop.close()


class _Hand:
    """The one worker: a step at a time, each of some length."""

    stages = ()

    def __init__(self) -> None:
        self.todo: asyncio.Queue[Assignment] = asyncio.Queue()
        self.done: set[str] = set()
        self.presence = Presence(
            tenant_id=TENANT,
            worker_id="w",
            instance_id="w-1",
            queues=("default",),
            roles=(ANY_ROLE,),
            kinds=(StepKind.TASK,),
        )

    def assign(self, assignment: Assignment) -> None:
        self.todo.put_nowait(assignment)

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None:
        """Nothing of these runs is cancelled."""

    def replaced(self) -> None:
        """No other instance comes."""

    async def work(self, executor: Executor, runtime: SimRuntime) -> None:
        session, _ = await executor.attach(self, [])
        executor.credit(session, 1)
        while True:
            one = await self.todo.get()
            await runtime.sleep(STEP_S)
            run_id = one.run.spec.run_id
            name = one.execution.execution_id
            # As a worker of one place does: it has room again before its outcome is committed.
            executor.credit(session, 1)
            said = Delivery(execution_id=name, token=one.token, result=Completed())
            await executor.deliver(TENANT, run_id, said)
            self.done.add(run_id)


async def _play(runtime: SimRuntime) -> None:
    store = await open_store("memory://", runtime=runtime)
    # A claim takes longer than a commit, as it does on a busy database.
    slow = Faults(delay=1.0, delay_ms_max=20, methods=frozenset({"claim"}))
    executor, hand = Executor(FaultyStore(store, runtime, slow), runtime, CONFIG), _Hand()
    executor.start()
    runtime.spawn(hand.work(executor, runtime), name="hand")
    try:
        await _start(executor, "busy", 600)
        while "busy" not in hand.done:
            await runtime.sleep(STEP_S)
        names = [f"other-{n}" for n in range(OTHERS)]
        for name in names:
            await _start(executor, name, 1)
        await runtime.sleep(WITHIN_S)
        run = await store.get_run(TENANT, "busy")
        assert run is not None
        assert not run.ended, "the busy run is too short for this"
        waiting = [name for name in names if name not in hand.done]
        holds(not waiting, "L4", f"{waiting} had no turn within {WITHIN_S:g} s")
    finally:
        await executor.close()
        runtime.kill()
        await store.close()


async def _start(executor: Executor, run_id: str, steps: int) -> None:
    spec = RunSpec(tenant_id=TENANT, run_id=run_id, queue="default")
    await executor.send(TENANT, run_id, Start(spec=spec, plan=chain(f"{run_id}-", steps)))

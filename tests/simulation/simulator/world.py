"""One simulation: everyone in it, the faults, and the two phases.

In the safety phase everything goes wrong that may, and only invariants count. Then the faults stop,
the dead are started again, callers do what runs wait for, and the liveness phase wants every run to
end or to wait for something that it names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from stepwell.core.loop.idempotency import LOOK_AGAIN_MS
from stepwell.core.loop.loss_allowance import losses_in
from stepwell.core.loop.occurrences import Fork
from stepwell.core.port import Store
from stepwell.core.records.model import Run
from stepwell.core.records.states import (
    BlockedKind,
    ExecutionStatus,
    QuestionStatus,
    RunStatus,
    TaskStatus,
)
from stepwell.core.records.threads import key_of
from stepwell.engine.presence import INTERVALS
from stepwell_testkit.faults import Faults
from tests.simulation.simulator import results, threads
from tests.simulation.simulator.audit import audit
from tests.simulation.simulator.client import Client
from tests.simulation.simulator.clock import ServerClock, set_clock
from tests.simulation.simulator.history import History
from tests.simulation.simulator.ledger import Ledger
from tests.simulation.simulator.loop import VirtualLoop
from tests.simulation.simulator.network import Network, NetworkFaults
from tests.simulation.simulator.ports import Ports
from tests.simulation.simulator.replica import CONFIG, Place, Replica, Service
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.rules import FINAL
from tests.simulation.simulator.run_model import RunModel
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.simulator.setting import Setting
from tests.simulation.simulator.signalled import draw as draw_workload
from tests.simulation.simulator.signalled import waiting
from tests.simulation.simulator.violation import InvariantViolation, holds
from tests.simulation.simulator.watcher import LAG_S_MAX, Watcher
from tests.simulation.simulator.worker import Character, Worker, WorkerPool
from tests.simulation.simulator.workloads import CHILD, Workload, keyed

STILL_S = 20.0
"""So long nothing may happen to a run that could move, once faults have stopped: a lease and a poll,
with the longest work and back-off of the workloads on top."""
LIVENESS_S = 400.0
FORGOTTEN_S = 5.0
"""So long a timer may be there after it ran out: a poll, and another one when the claim's hold is over."""
TALKS = 0.06
"""The probability that all runs of a tenant are in one thread."""
TALKS_RUNS = 3
"""The least number of runs of a thread."""
STARVES_S = 100.0
"""So long no step that is ready may wait for a worker, whatever else there is to do."""


class World:
    """Everyone in one simulation."""

    def __init__(
        self,
        setting: Setting,
        loop: VirtualLoop,
        runtime: SimRuntime,
        store: Store,
        rng: Rng,
        ports: Ports,
        inject_faults: Callable[[World], Coroutine[Any, Any, None]],
    ) -> None:
        self.setting = setting
        self.inject_faults = inject_faults
        self.loop = loop
        self.runtime = runtime
        self.clock = ServerClock(runtime)
        set_clock(store, self.clock)
        self.store = ports.driver(store, runtime)
        self.rng = rng
        self.history = History(loop.time)
        self.ledger = Ledger(self.history, self.clock.now_us, self.fail)
        self.ledger.clocks_lie = setting.clock_steps or setting.skew_ms_max > 0
        self.ledger.rare.is_alive = self._is_alive
        self.ledger.is_gone = self._is_gone
        self.ledger.child_started = self._adopt_child
        self.network = Network(self.runtime, rng.stream("network"))
        place = Place(
            self.store,
            self.network,
            self.ledger,
            rng.stream("replicas"),
            setting.skew_ms_max,
            ports,
        )
        self.replicas = [Replica(f"r{n}", place) for n in range(setting.replicas)]
        self.service = Service(self.network, self.ledger, self.replicas)
        self.clients = self._clients()
        workloads = {client.key: client.workload for client in self.clients}
        self.pool = WorkerPool(self.service, workloads, setting.tenants, self._died, {})
        self.workers: dict[str, Worker] = {}
        """The newest instance of each."""
        self.old_workers: list[Worker] = []
        self._instances: dict[tuple[str, str], Worker] = {}
        """All there ever were, by tenant and name."""
        self._ready_since: dict[tuple[tuple[str, str], str], float] = {}
        self._returning: list[Worker] = []
        self.watchers = [
            Watcher(name, client.key, self.service, rng.stream(name))
            for client in self.clients
            for n in range(setting.watchers)
            for name in [f"watcher {client.key} {n}"]
        ]
        self.errors: list[Exception] = []
        self._over = asyncio.Event()
        self.faults_over = False
        self.last_seen: list[str] = []
        """The state of the workers at the end."""

    def _clients(self) -> list[Client]:
        clients: list[Client] = []
        for tenant_id in self.setting.tenants:
            # A stream of its own: what else a seed plays stays as it is.
            talk = self.rng.stream(f"thread of {tenant_id}")
            talks = talk.happens(TALKS)
            for number in range(max(TALKS_RUNS * talks, self.setting.runs)):
                key = (tenant_id, f"run-{number}")
                rng = self.rng.stream(f"client {key}")
                rival = clients and clients[-1].workload.name == "keys" and rng.happens(0.7)
                workload = keyed(rng) if rival else draw_workload(rng)
                if talks:
                    on_busy = talk.pick(threads.ON_BUSY)
                    # What a run is steered by, only a call that waits takes.
                    workload = waiting(rng) if talk.happens(0.3) else workload
                    workload = replace(workload, thread="talk", on_busy=on_busy)
                clients.append(self._client(key, workload, rng))
        return clients

    def _client(
        self, key: tuple[str, str], workload: Workload, rng: Rng, origin: Fork | None = None
    ) -> Client:
        return Client(key, workload, self.service, rng, adopt=self._adopt, origin=origin)

    def _adopt(self, parent: Client, fork: Fork) -> None:
        """Let a fork have a caller of its own, and workers that know what it is."""
        key = (parent.key[0], fork.spec.run_id)
        client = self._client(key, parent.workload, self.rng.stream(f"client {key}"), fork)
        self.pool.workloads[key] = parent.workload
        self.clients.append(client)
        self.history.seen["run forked"] += 1
        left_s = max(0.0, self.setting.safety_s - self.loop.time())
        self.spawn(client.act(left_s), f"client {key}")

    def _adopt_child(self, key: tuple[str, str]) -> None:
        """Let a child run have a caller of its own, which does what it waits for."""
        self.pool.workloads[key] = CHILD
        client = self._client(key, CHILD, self.rng.stream(f"client {key}"))
        client.started, client.acting = True, 0
        self.clients.append(client)
        left_s = self.setting.safety_s - self.loop.time()
        if self.setting.callers_act and left_s > 0 and not self.faults_over:
            self._let_act(client, left_s)

    def _let_act(self, client: Client, seconds: float) -> None:
        client.acting = 1 + client.workload.waits
        self.spawn(client.act(seconds if self._is_busy(client) else 0.0), f"client {client.key}")
        if client.workload.waits:
            self.spawn(client.send_signals(seconds), f"signals {client.key}")

    def fail(self, error: Exception) -> None:
        """Record an error; the first one ends the simulation."""
        self.errors.append(error)
        self._over.set()

    # --- the whole ---

    async def play(self) -> None:
        """Play both phases and check everything.

        Raises:
            InvariantViolation: an invariant did not hold, or something broke that never should.
        """
        self.loop.set_exception_handler(self._unhandled)
        try:
            phases = self.runtime.spawn(self._phases(), name="phases")
            over = self.runtime.spawn(self._over.wait(), name="over")
            await asyncio.wait((phases, over), return_when=asyncio.FIRST_COMPLETED)
            if phases.done() and not phases.cancelled() and (error := phases.exception()):
                self.errors.append(error if isinstance(error, Exception) else Exception(str(error)))
        finally:
            await self._tear_down()
        for error in self.errors:
            if isinstance(error, InvariantViolation):
                raise error
            raise InvariantViolation("DEFECT", f"{type(error).__name__}: {error}") from error

    async def _phases(self) -> None:
        setting = self.setting
        self.network.faults = setting.network_faults
        for replica in self.replicas:
            replica.set_faults(setting.faults)
            replica.start()
        for number in range(setting.workers):
            self._hire(self.rng.pick(setting.tenants), number)
        for watcher in self.watchers:
            self.spawn(watcher.follow(), watcher.name)
        for client in self.clients:
            self._let_act(client, setting.safety_s)
        if setting.fault_interval_s:
            self.spawn(self.inject_faults(self), "faults")
        while self.loop.time() < setting.safety_s and not self._all_is_over():
            await self.runtime.sleep(0.5)
        self._stop_faults()
        await self._settle()
        await self._watchers_saw_it_all()
        await self._no_timer_is_forgotten()
        await audit(self.store, self.ledger)
        for client in self.clients:
            results.check(client.model, client.workload, acted_on=self._is_busy(client))
        starts = [
            run_id for (_, run_id), model in self.ledger.models.items() if model.run is not None
        ]
        self.history.seen["two tenants with equal ids"] += len(starts) > len(set(starts))

    def _is_busy(self, client: Client) -> bool:
        """Return whether a caller commands its run."""
        return self.setting.callers_act or client.workload.replans > 0

    def _all_is_over(self) -> bool:
        """Return whether no run will move again."""
        runs = [client.model.run for client in self.clients]
        if self.setting.callers_act:
            return all(run is not None and run.status in FINAL for run in runs)
        return all(run is not None and run.ended for run in runs)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run it for as long as the simulation lasts; an error of it ends the simulation."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.fail(error if isinstance(error, Exception) else Exception(str(error)))

        self.runtime.spawn(work, name=name).add_done_callback(ended)

    async def _tear_down(self) -> None:
        workers = (*self.workers.values(), *self.old_workers)
        self.last_seen = [repr(worker) for worker in workers]
        for worker in workers:
            worker.runtime.kill()
        for replica in self.replicas:
            if replica.up:
                replica.crash()
        await self.store.close()
        current = asyncio.current_task()
        left = [task for task in asyncio.all_tasks() if task is not current]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        await self.loop.shutdown_asyncgens()

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        message = f"{context.get('message')}: {error!r}"
        self.fail(error if isinstance(error, Exception) else RuntimeError(message))

    # --- workers ---

    def _hire(self, tenant_id: str, number: int) -> None:
        name = f"w{number}"
        rng = self.rng.stream(f"{name} of {tenant_id}")
        character = Character(
            tenant_id=tenant_id,
            worker_id=name,
            slots=rng.between(1, 3),
            work_ms_max=self.setting.work_ms_max,
            stubborn=rng.pick([0.0, 0.3]) if not self.faults_over else 0.0,
            skew_ms=rng.between(-self.setting.skew_ms_max, self.setting.skew_ms_max),
            pace=0.8 + rng.random() * 0.5 if self.setting.skew_ms_max else 1.0,
        )
        self._begin(character, 1)

    def _begin(self, character: Character, instance: int) -> None:
        name = f"{character.worker_id} of {character.tenant_id}"
        worker = Worker(character, instance, self.pool, self.rng.stream(f"{name} {instance}"))
        self.workers[name] = worker
        self._instances[character.tenant_id, worker.instance_id] = worker
        worker.start()

    def _is_alive(self, tenant_id: str, instance_id: str) -> bool:
        worker = self._instances.get((tenant_id, instance_id))
        return worker is not None and not worker.runtime.dead

    def _is_gone(self, tenant_id: str, instance_id: str) -> bool:
        worker = self._instances[tenant_id, instance_id]
        return worker.runtime.dead or worker not in self.workers.values()

    def _died(self, worker: Worker) -> None:
        """A step has killed its worker: it is started again a little later."""
        self.spawn(self.restart(worker, 0.2), f"restart {worker.instance_id}")

    async def restart(self, worker: Worker, after_s: float, *, lingers: bool = False) -> None:
        """Start the next instance; the old one is dead, or `lingers` and goes on."""
        name = f"{worker.character.worker_id} of {worker.character.tenant_id}"
        if lingers:
            self.old_workers.append(worker)
        else:
            worker.kill()
        await self.runtime.sleep(after_s)
        if self.workers.get(name) is worker:
            self._begin(worker.character, worker.instance + 1)

    # --- liveness ---

    def _stop_faults(self) -> None:
        self.history.note("faults stop")
        self.faults_over = True
        self.network.faults = NetworkFaults(delay_ms_max=2)
        for replica in self.replicas:
            # Hints are no more than hints: they go on to be lost.
            replica.set_faults(Faults(lost_hints=self.setting.faults.lost_hints))
            replica.store.thaw()
            replica.awake.set()
            if not replica.up:
                replica.start()
        for worker in self.old_workers:
            worker.kill()
        for worker in tuple(self.workers.values()):
            worker.cont()
        for actor in (*self.clients, *self.watchers):
            actor.stop_faults()
        self._hire_again()
        served = {worker.character.tenant_id for worker in self.workers.values()}
        for tenant_id in self.setting.tenants:
            if tenant_id not in served:
                self._hire(tenant_id, len(self.workers))

    def _hire_again(self) -> None:
        """Restart the workers that were replaced by a newer instance, which by now is gone."""
        for worker in tuple(self.workers.values()):
            if worker.replaced and worker not in self._returning:
                self._returning.append(worker)
                self.spawn(self.restart(worker, 0.1), f"restart {worker.instance_id}")

    async def _settle(self) -> None:
        """Wait until every run has ended or waits; a run that could move and doesn't is a violation."""
        # A deadline that was set while the store's clock was ahead is not reached until then.
        since = self.loop.time() + self.clock.behind_s
        while True:
            for client in self.clients:
                await client.attend()
            if all(client.idle and self._rests(client.model) for client in self.clients):
                return
            self._hire_again()
            now = self.loop.time()
            for client in self.clients:
                self._check_moves(client, now, since)
            await self.runtime.sleep(1.0)

    def _waits_s(self, model: RunModel) -> float:
        """Return how long a run may wait besides: for a key, or for the worker of a suspect step."""
        run = model.run
        if run is None:
            return 0.0
        if _waits_for_key(run):
            return LOOK_AGAIN_MS / 1_000
        suspect = any(
            losses_in(run, model.tasks.get(one.task_id), one.kind).suspect for one in model.leased()
        )
        # Each replica that claims its lease waits by its own time.
        return suspect * len(self.replicas) * INTERVALS * CONFIG.presence_ms / 1_000

    def _check_moves(self, client: Client, now: float, since: float) -> None:
        model = client.model
        if self._rests(model):
            return
        self._check_starving(model, max(now, since))
        still_s = now - max(since, self._last_move(model))
        name = "L2" if model.leased() else "L3"
        name = "M1" if self.ledger.letters.pending(model.key) else name
        status = model.run.status if model.run else "unborn"
        moves = still_s < STILL_S + self._waits_s(model)
        holds(moves, name, model.key, status, "and nothing for", still_s, "s:", _open(model))
        late = now - since > LIVENESS_S
        poisoned = "S13" if client.workload.poison else "L1"
        holds(not late, poisoned, model.key, "has no end after", LIVENESS_S, "s:", _open(model))

    def _rests(self, model: RunModel) -> bool:
        """Return whether a run has ended or waits for something that it names, and has no letter left."""
        run = model.run
        if self.ledger.letters.pending(model.key):
            return False
        if run is None:
            return self._steer_rests(model)
        if run.spec.thread_id:
            key = key_of(model.key[0], run.spec.thread_id)
            if self.ledger.letters.pending(key):
                return False
            if run.waits_for_thread and not run.ended:
                works = self.ledger.model(key).run
                return works is not None and self._rests_in_thread(model.key[0], works)
        if not _waits_for_key(run):
            return _rests(model)
        holder = self.ledger.model((model.key[0], run.blocked_run_id))
        holds_one = any(
            task.held_key and task.status is not TaskStatus.COMPLETED
            for task in holder.tasks.values()
        )
        return holds_one and _rests(holder)

    def _steer_rests(self, model: RunModel) -> bool:
        """Return whether a start steers a run that rests, or has done so."""
        key = key_of(model.key[0], "talk")
        steer = threads.steer_of(self.ledger.models.get(key), model.key[1])
        if steer is None or self.ledger.letters.pending(key):
            return False
        thread = self.ledger.model(key).run
        over = steer.status is not QuestionStatus.OPEN
        return over or (thread is not None and self._rests_in_thread(model.key[0], thread))

    def _rests_in_thread(self, tenant_id: str, thread: Run) -> bool:
        """Return whether the run of a thread that works rests, and so those that wait for it."""
        working = self.ledger.model((tenant_id, thread.thread.working))
        return not self.ledger.letters.pending(working.key) and _rests(working)

    def _check_starving(self, model: RunModel, now: float) -> None:
        """A step that is ready gets its worker, however much else there is to do (L4)."""
        for execution in model.open():
            if execution.status is ExecutionStatus.READY and not execution.delay_ms:
                name = execution.execution_id
                since = self._ready_since.setdefault((model.key, name), now)
                holds(now - since < STARVES_S, "L4", model.key, name, "is ready and not leased")

    def _last_move(self, model: RunModel) -> float:
        """Return when anything of its tenant moved: workers that are busy do one thing after the other."""
        same = [one for key, one in self.ledger.models.items() if key[0] == model.key[0]]
        return max((one.applied[-1].at for one in same if one.applied), default=0.0)

    async def _watchers_saw_it_all(self) -> None:
        """With nothing lost any more every watcher comes to the end, wherever it left off (E3, E10)."""
        await self._wait_while(lambda: any(map(self._lag, self.watchers)), 2 * LAG_S_MAX)
        for watcher in self.watchers:
            left = self._lag(watcher)
            holds(not left, "E10", watcher.name, "is at", watcher.after, "and misses", left)

    async def _wait_while(self, holds_up: Callable[[], bool], seconds: float) -> None:
        until = self.loop.time() + seconds
        while self.loop.time() < until and holds_up():
            await self.runtime.sleep(0.25)

    def _lag(self, watcher: Watcher) -> int:
        return len(self.ledger.model(watcher.key).events) - watcher.after

    async def _no_timer_is_forgotten(self) -> None:
        """Check that every timer that runs out is handled, also where the run waits for other things (L3)."""
        await self._wait_while(lambda: bool(self._ran_out()), FORGOTTEN_S)
        left = self._ran_out()
        holds(not left, "L3", left, "ran out, and nothing followed")

    def _ran_out(self) -> list[tuple[tuple[str, str], str]]:
        now_us = self.clock.now_us()
        models = [
            model for model in self.ledger.models.values() if model.run and not model.run.ended
        ]
        return [
            (model.key, name)
            for model in models
            for name, until_us in model.timers.items()
            # 0: the clock was set since, so that its end is not known.
            if 0 < until_us <= now_us
        ]


def _waits_for_key(run: Run) -> bool:
    return run.blocked_on is BlockedKind.KEY


def _rests(model: RunModel) -> bool:
    """Return whether a run has ended or waits for something that it names."""
    run = model.run
    if run is None or run.ended:
        return run is not None
    if run.status is RunStatus.PAUSED:
        return not model.leased()
    if run.blocked_on is BlockedKind.TIMER:
        return False
    blocked = any(task.status is TaskStatus.BLOCKED for task in model.tasks.values())
    return run.status is RunStatus.WAITING and blocked


def _open(model: RunModel) -> list[str]:
    return [f"{one.execution_id} {one.status}" for one in model.open()]

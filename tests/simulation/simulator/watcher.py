"""A watcher of one run that goes from replica to replica, and checks that its one story has no seam."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from stepwell.core.records.errors import InvalidArgument, RunNotFound, StoreError
from stepwell.watch.notifier import POLL_MS
from stepwell.watch.rings import EncodedEvent
from stepwell.watch.runs import Batch, watch_run
from stepwell.wire.event_bytes import event_bytes
from tests.simulation.simulator.replica import Replica, Service
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.violation import InvariantViolation, holds

LAG_S_MAX = POLL_MS / 1_000 + 1.0
"""The largest lag of a watcher where every hint is lost and nothing else is."""


class Watcher:
    """Follows a run over any number of disconnects."""

    def __init__(
        self,
        name: str,
        key: tuple[str, str],
        service: Service,
        rng: Rng,
    ) -> None:
        self.name = name
        self.key = key
        self._service = service
        self._ledger = service.ledger
        self._runtime = service.network.runtime
        self._rng = rng
        self.after = 0
        self.steady_since: float | None = None
        """When faults stopped."""
        self.awake = asyncio.Event()
        self.awake.set()
        self._written_down = 0
        """The cursor that outlives it."""
        self._left_in_mid_batch = ""
        """The replica whose last batch it took only a part of."""
        self._since = 0.0
        """When its stream began."""
        self._task: asyncio.Task[None] | None = None

    def crash(self) -> None:
        """Be gone, and begin again where it was written down last."""
        if self._task is not None and not self._task.done():
            self._ledger.history.note(f"{self.name} crashes at {self.after}")
            self._ledger.history.seen["watcher crashed"] += 1
            self._task.cancel()
            self.after = self._written_down

    def stop_faults(self) -> None:
        """Neither crash nor stand still nor leave any more."""
        self.steady_since = self._runtime.monotonic()
        self.awake.set()

    async def follow(self) -> None:
        """Watch without end."""
        while True:
            up = [replica for replica in self._service.up() if not replica.draining]
            if up:
                replica = self._rng.pick(up)
                self._task = replica.runtime.spawn(self._watch(replica), name=self.name)
                await asyncio.wait((self._task,))
                if not self._task.cancelled() and (error := self._task.exception()) is not None:
                    raise error
            run = self._ledger.model(self.key).run
            patience_s = 2.0 if run is None or run.ended else 0.5
            await self._runtime.sleep(0.05 + self._rng.random() * patience_s)

    async def _watch(self, replica: Replica) -> None:
        """Watch on one replica, until the watcher leaves, the replica dies or the run has ended."""
        self._since = self._runtime.monotonic()
        if self._left_in_mid_batch not in ("", replica.name):
            seen = self._ledger.history.seen
            seen["watcher reconnected on another replica in mid-batch"] += 1
        self._left_in_mid_batch = ""
        try:
            if self._rng.happens(0.1):
                await self._ask_for_the_future(replica)
            stream = self._stream(replica, self.after)
            async with aclosing(stream) as batches:
                async for batch in batches:
                    if not self.awake.is_set():
                        await self.awake.wait()
                    await self._check(batch, replica)
                    if self._rng.happens(0.3):
                        self._written_down = self.after
                    if self._left_in_mid_batch or self._leaves():
                        return
        except InvariantViolation as violation:
            error = violation

            def again() -> None:
                raise error

            self._ledger.guard(again)
        except (RunNotFound, StoreError):
            pass

    def _stream(self, replica: Replica, after: int) -> AsyncGenerator[Batch, None]:
        tenant_id, run_id = self.key
        batches = watch_run(
            replica.service_store,
            replica.notifier,
            replica.runtime,
            tenant_id=tenant_id,
            run_id=run_id,
            after=after,
            progress_ms=2_500,
        )
        return replica.place.ports.watch(batches, replica.service_store, tenant_id, run_id)

    def _leaves(self) -> bool:
        leaves = self.steady_since is None and self._rng.happens(0.15)
        self._ledger.history.seen["watcher left in mid-run"] += leaves
        return leaves

    async def _check(self, batch: Batch, replica: Replica) -> None:
        model = self._ledger.model(self.key)
        last, now = self.after, self._runtime.monotonic()
        events = batch.events
        if self.steady_since is None and len(events) > 1 and self._rng.happens(0.1):
            # It is gone while the batch is on its way: the rest of it must come from elsewhere.
            events = events[: self._rng.between(1, len(events) - 1)]
            self._left_in_mid_batch = replica.name
        for event in events:
            holds(event.number == last + 1, "E3", self.name, event.number, "after", last)
            known = event.number <= len(model.events)
            holds(known, "E4", self.name, event.number, "is not committed")
            committed = model.events[event.number - 1]
            holds(event_bytes(committed) == event.data, "E2", self.name, event.number)
            last = event.number
            if self.steady_since is not None:
                self._in_time(event, now)
        if batch.events:
            self._whole_commit(batch.events[-1])
            kinds = ",".join([event.type for event in events])
            self._ledger.history.note(f"{self.name} sees {last} {kinds}")
        if self._left_in_mid_batch:
            self.after = last
            return
        holds(batch.after == last, "E7", self.name, "progress", batch.after, "at", last)
        self.after = last
        if batch.ended:
            holds(batch.after == last, "E1", self.name, "the end at", last)
        if batch.events and self._rng.happens(0.1):
            await self._check_elsewhere(batch.events[-1].version)

    def _in_time(self, event: EncodedEvent, now: float) -> None:
        """Hints may be lost, but nothing else goes wrong any more: it may lag by a poll (E10)."""
        assert self.steady_since is not None
        made = self._ledger.model(self.key).applied[event.version - 1].at
        lag_s = now - max(made, self._since, self.steady_since)
        holds(lag_s <= LAG_S_MAX, "E10", self.name, event.number, "came so late:", lag_s)

    def _whole_commit(self, event: EncodedEvent) -> None:
        """The events of one commit come together."""
        events = self._ledger.model(self.key).events
        split = event.number < len(events) and events[event.number].version == event.version
        holds(not split, "E8", self.name, "the commit", event.version, "is split")

    async def _check_elsewhere(self, version: int) -> None:
        """Check that what is seen here is there on every replica, and that its rows are of one version."""
        up = self._service.up()
        if not up:
            return
        store = self._rng.pick(up).store
        try:
            async with asyncio.timeout(1.0):
                run = await store.get_run(*self.key)
            loaded = await store.inner.load(*self.key)
        except (StoreError, TimeoutError):
            return
        holds(run is not None and run.version >= version, "E4", self.name, "is ahead of", version)
        model = self._ledger.model(self.key)
        # The store answered in this very instant, so the model is at the same version.
        if loaded is not None and loaded.run.version == model.version:
            rows = {task.task_id: task for task in loaded.tasks}
            opened = {row.execution.execution_id: row.execution for row in loaded.executions}
            whole = loaded.run == model.run and rows == model.tasks
            whole = whole and opened == {e.execution_id: e for e in model.open()}
            holds(whole, "S1", self.name, "rows of several versions at", model.version)

    async def _ask_for_the_future(self, replica: Replica) -> None:
        """A cursor that no event has reached is refused (E5)."""
        stream = self._stream(replica, self.after + 100_000)
        async with aclosing(stream) as batches:
            try:
                async for _ in batches:
                    holds(False, "E5", self.name, "a cursor from the future was taken")
            except InvalidArgument:
                holds(True, "E5")
                return

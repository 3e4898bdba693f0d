"""A watcher of one run that goes from replica to replica, and checks that its one story has no seam."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from stepwell.core.errors import InvalidArgument, RunNotFound, StoreError
from stepwell.core.events import Event
from stepwell.testing.simulator.chance import Chance
from stepwell.testing.simulator.ledger import Ledger
from stepwell.testing.simulator.network import Network
from stepwell.testing.simulator.replica import Replica
from stepwell.testing.simulator.violation import InvariantViolation, holds
from stepwell.watch import Batch, watch_run


class Watcher:
    """Follows a run over any number of disconnects."""

    def __init__(
        self,
        name: str,
        key: tuple[str, str],
        network: Network,
        replicas: list[Replica],
        ledger: Ledger,
        chance: Chance,
    ) -> None:
        self.name = name
        self.key = key
        self._network = network
        self._replicas = replicas
        self._ledger = ledger
        self._chance = chance
        self.after = 0
        self.steady = False
        """It leaves no replica by itself any more."""

    async def follow(self) -> None:
        """Watch for ever."""
        while True:
            up = [replica for replica in self._replicas if replica.up]
            if up:
                replica = self._chance.pick(up)
                task = replica.runtime.spawn(self._watch(replica), name=self.name)
                await asyncio.wait((task,))
                if not task.cancelled() and (error := task.exception()) is not None:
                    raise error
            run = self._ledger.book(self.key).run
            patience_s = 2.0 if run is None or run.ended else 0.5
            await self._network.runtime.sleep(0.05 + self._chance.random() * patience_s)

    async def _watch(self, replica: Replica) -> None:
        """Watch on one replica, until the watcher leaves, the replica dies or the run has ended."""
        try:
            if self._chance.happens(0.1):
                await self._ask_for_the_future(replica)
            stream = watch_run(
                replica.store,
                replica.bells,
                replica.runtime,
                tenant_id=self.key[0],
                run_id=self.key[1],
                after=self.after,
                progress_ms=2_500,
            )
            async with aclosing(stream) as batches:
                async for batch in batches:
                    await self._take(batch)
                    if not self.steady and self._chance.happens(0.15):
                        self._ledger.history.seen["watcher left in mid-run"] += 1
                        return
        except InvariantViolation as violation:
            found = violation

            def again() -> None:
                raise found

            self._ledger.guard(again)
        except (RunNotFound, StoreError):
            pass

    async def _take(self, batch: Batch) -> None:
        book = self._ledger.book(self.key)
        last = self.after
        for event in batch.events:
            holds(event.number == last + 1, "E3", f"{self.name}: {event.number} after {last}")
            known = event.number <= len(book.events)
            holds(known, "E4", f"{self.name}: {event.number} is not committed")
            holds(book.events[event.number - 1] == event, "E2", f"{self.name}: {event.number}")
            last = event.number
        if batch.events:
            self._whole_commit(batch.events[-1])
            kinds = ",".join(event.type for event in batch.events)
            self._ledger.history.note(f"{self.name} sees {last} {kinds}")
        holds(batch.after == last, "E7", f"{self.name}: progress {batch.after} at {last}")
        self.after = last
        if batch.ended:
            holds(batch.after == last, "E1", f"{self.name}: the end at {last}")
        if batch.events and self._chance.happens(0.1):
            await self._look_elsewhere(batch.events[-1].version)

    def _whole_commit(self, event: Event) -> None:
        """The events of one commit come together."""
        events = self._ledger.book(self.key).events
        split = event.number < len(events) and events[event.number].version == event.version
        holds(not split, "E8", f"{self.name}: the commit {event.version} is split")

    async def _look_elsewhere(self, version: int) -> None:
        """What is seen here is there on every replica, and its rows are of one version."""
        up = [replica for replica in self._replicas if replica.up]
        if not up:
            return
        store = self._chance.pick(up).store
        try:
            async with asyncio.timeout(1.0):
                run = await store.get_run(*self.key)
            loaded = await store.inner.load(*self.key)
        except (StoreError, TimeoutError):
            return
        holds(run is not None and run.version >= version, "E4", f"{self.name}: v{version}")
        book = self._ledger.book(self.key)
        # The store answered in this very instant, so the book is at the same version.
        if loaded is not None and loaded.run.version == book.version:
            rows = {task.task_id: task for task in loaded.tasks}
            opened = {row.execution.execution_id: row.execution for row in loaded.executions}
            whole = loaded.run == book.run and rows == book.tasks
            whole = whole and opened == {e.execution_id: e for e in book.open()}
            holds(whole, "S1", f"{self.name}: rows of several versions at v{book.version}")

    async def _ask_for_the_future(self, replica: Replica) -> None:
        """A cursor that no event has reached is refused (E5)."""
        stream = watch_run(
            replica.store,
            replica.bells,
            replica.runtime,
            tenant_id=self.key[0],
            run_id=self.key[1],
            after=self.after + 100_000,
            progress_ms=2_500,
        )
        async with aclosing(stream) as batches:
            try:
                async for _ in batches:
                    holds(False, "E5", f"{self.name}: a cursor from the future was taken")
            except InvalidArgument:
                return

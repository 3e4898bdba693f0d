"""Ready steps and deadlines, in heaps whose removed entries stay until they surface.

Whatever waits for a moment (a delay, a deadline, the end of a hold) sleeps in one heap, ordered by
that moment. A claim wakes the items whose moment has passed and pops from small heaps: one for each
(tenant, queue, kind, type, role, pin), and one for due items. A claim thus costs what it returns,
however many runs are parked.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Protocol

from stepwell.core.port import Claim, Claimed, Due, ReadyStep, Want
from stepwell.core.records.states import DueKind, StepKind

_COMPACT_AT = 64
"""A heap with fewer removed entries than this is not worth rebuilding."""


Lane = tuple[StepKind, str, str, str]
"""Kind, type, role and pin of a ready step: they decide which worker may take it."""


class Owner(Protocol):
    """The run that an item belongs to."""

    tenant_id: str
    run_id: str
    version: int


class Item:
    """An item that is ready or due from `when_us` on, unless it is held."""

    __slots__ = ("heap", "held_until_us", "name", "order", "owner", "ticket", "when_us")

    def __init__(self, owner: Owner, name: str, when_us: int) -> None:
        self.owner = owner
        self.name = name
        self.when_us = when_us
        self.held_until_us = 0
        self.order = 0
        self.ticket = 0
        self.heap: LazyHeap | None = None

    @property
    def wake_us(self) -> int:
        """Return the first moment at which the item may be returned."""
        return max(self.when_us, self.held_until_us)

    def rank(self) -> tuple[int, ...]:
        """Return the item's rank among returnable items; the smallest is returned first."""
        return (self.when_us, self.order)


class Ready(Item):
    """A READY execution."""

    __slots__ = ("lane", "priority", "queue")

    def __init__(
        self,
        owner: Owner,
        name: str,
        when_us: int,
        queue: str,
        lane: Lane,
        priority: int,
    ) -> None:
        super().__init__(owner, name, when_us)
        self.queue = queue
        self.lane = lane
        self.priority = priority

    def rank(self) -> tuple[int, ...]:
        """Order by priority, then by how long it has been available."""
        return (-self.priority, self.when_us, self.order)


class Deadline(Item):
    """A timer, or a lease with its token and the limit of its renewals (0: no limit)."""

    __slots__ = ("limit_us", "token")

    def __init__(
        self, owner: Owner, name: str, when_us: int, *, token: str = "", limit_us: int = 0
    ) -> None:
        super().__init__(owner, name, when_us)
        self.token = token
        self.limit_us = limit_us

    @property
    def kind(self) -> DueKind:
        """Return the kind of due item that this becomes when it expires."""
        if not self.token:
            return DueKind.TIMER
        at_limit = 0 < self.limit_us <= self.when_us
        return DueKind.ATTEMPT_TIMED_OUT if at_limit else DueKind.LEASE_EXPIRED


class LazyHeap:
    """A heap of items. A removed item's entry stays until it surfaces, or until half are dead."""

    __slots__ = ("_dead", "_entries", "_tickets")

    def __init__(self, tickets: Iterator[int]) -> None:
        self._tickets = tickets
        self._entries: list[tuple[tuple[int, ...], int, Item]] = []
        self._dead = 0

    def push(self, key: tuple[int, ...], item: Item) -> None:
        """Add an item that is in no heap."""
        item.ticket = next(self._tickets)
        item.heap = self
        heapq.heappush(self._entries, (key, item.ticket, item))

    def first(self) -> tuple[tuple[int, ...], Item] | None:
        """Return the smallest key with its item."""
        entries = self._entries
        while entries:
            key, ticket, item = entries[0]
            if item.ticket == ticket:
                return key, item
            heapq.heappop(entries)
            self._dead -= 1
        return None

    def remove(self, item: Item) -> None:
        """Remove an item that is in this heap."""
        item.ticket = 0
        item.heap = None
        self._dead += 1
        if self._dead > _COMPACT_AT and self._dead * 2 > len(self._entries):
            self._entries = [entry for entry in self._entries if entry[2].ticket == entry[1]]
            heapq.heapify(self._entries)
            self._dead = 0


class Agenda:
    """The ready, due and sleeping items of all runs."""

    def __init__(self) -> None:
        self._tickets = count(1)
        self._orders = count(1)
        self._asleep = LazyHeap(self._tickets)
        self._due = LazyHeap(self._tickets)
        self._ready: dict[tuple[str, str], dict[Lane, LazyHeap]] = {}

    def add(self, item: Item, now_us: int) -> None:
        """Add a new item."""
        item.order = next(self._orders)
        self._place(item, now_us)

    def drop(self, item: Item) -> None:
        """Remove an item."""
        if item.heap is not None:
            item.heap.remove(item)

    def move(self, item: Item, when_us: int, now_us: int) -> None:
        """Move an item to another moment, and end its hold."""
        before_us = item.wake_us
        item.when_us = when_us
        item.held_until_us = 0
        # A renewal only moves a sleeper later, so its place is corrected when it surfaces.
        if item.heap is not self._asleep or when_us < before_us:
            self.drop(item)
            self._place(item, now_us)

    def claim(self, claim: Claim, now_us: int) -> Claimed:
        """Return ready steps and due items, and hold them."""
        self._wake(now_us)
        taken: list[Item] = []
        ready = tuple(self._pop_ready(want, now_us, taken) for want in claim.wants)
        due = self._pop_due(claim.due_limit, taken)
        for item in taken:
            item.held_until_us = now_us + claim.hold_ms * 1_000
            self._place(item, now_us)
        next_us = self._next_wake_us()
        next_due_ms = -1 if next_us is None else -((now_us - next_us) // 1_000)
        return Claimed(ready=ready, due=due, next_due_ms=next_due_ms, now_us=now_us)

    def _place(self, item: Item, now_us: int) -> None:
        wake_us = item.wake_us
        if wake_us > now_us:
            self._asleep.push((wake_us, item.order), item)
        elif isinstance(item, Ready):
            lanes = self._ready.setdefault((item.owner.tenant_id, item.queue), {})
            if item.lane not in lanes:
                lanes[item.lane] = LazyHeap(self._tickets)
            lanes[item.lane].push(item.rank(), item)
        else:
            self._due.push(item.rank(), item)

    def _wake(self, now_us: int) -> None:
        while (found := self._asleep.first()) is not None and found[0][0] <= now_us:
            self.drop(found[1])
            self._place(found[1], now_us)

    def _next_wake_us(self) -> int | None:
        while (found := self._asleep.first()) is not None:
            (key_us, _), item = found
            if item.wake_us == key_us:
                return key_us
            self._asleep.remove(item)
            self._asleep.push((item.wake_us, item.order), item)
        return None

    def _pop_ready(self, want: Want, now_us: int, taken: list[Item]) -> tuple[ReadyStep, ...]:
        heaps = list(self._wanted(want))
        steps: list[ReadyStep] = []
        while len(steps) < want.limit:
            tops = [top for heap in heaps if (top := heap.first()) is not None]
            if not tops:
                break
            item = min(tops, key=lambda top: top[0])[1]
            self.drop(item)
            taken.append(item)
            steps.append(
                ReadyStep(
                    tenant_id=item.owner.tenant_id,
                    run_id=item.owner.run_id,
                    execution_id=item.name,
                    version=item.owner.version,
                    waited_ms=(now_us - item.when_us) // 1_000,
                )
            )
        return tuple(steps)

    def _wanted(self, want: Want) -> Iterator[LazyHeap]:
        for queue in dict.fromkeys(want.queues):
            lanes = self._ready.get((want.tenant_id, queue), {})
            for lane in [lane for lane, heap in lanes.items() if heap.first() is None]:
                del lanes[lane]
            yield from (heap for lane, heap in lanes.items() if want.takes(*lane))

    def _pop_due(self, limit: int, taken: list[Item]) -> tuple[Due, ...]:
        due: list[Due] = []
        while len(due) < limit and (found := self._due.first()) is not None:
            item = found[1]
            assert isinstance(item, Deadline)
            self.drop(item)
            taken.append(item)
            due.append(
                Due(
                    tenant_id=item.owner.tenant_id,
                    run_id=item.owner.run_id,
                    kind=item.kind,
                    name=item.name,
                    token=item.token,
                    version=item.owner.version,
                )
            )
        return tuple(due)

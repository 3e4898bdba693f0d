"""Slots of limited queues: at most as many leases at once as a queue's limit, over all replicas.

A slot is a key in the store, for a tenant, a queue and a number below the limit. Before a claimed step is leased, its
run takes a slot by compare-and-swap, in the name of the commit on which the lease is decided. The lease's token names
the slot, and the run's next steps may take it over in the commit that ends the lease.

A slot is free if its run has no lease with it, and the run has moved on from the commit that it was taken on: the
lease that it was taken for can't be committed any more. Any replica may find that out, so no crash loses a slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.occurrences import GrantLease, Occurrence
from stepwell.core.loop.slots import slot_of, used_slots, with_slot
from stepwell.core.loop.state import RunState
from stepwell.core.port import NOBODY, KeySwap, LeaseQuery, Reservation, Runtime, Store, Want
from stepwell.core.records.errors import StoreError
from stepwell.engine.key_types import QueueKey, RunKey
from stepwell.logger import get_logger

log = get_logger(__name__)

SCAN_SECONDS = 1.0
"""The pause between two looks at a full queue's slots, unless a run that has one of them changes."""
SCANNED_MAX = 256
"""The number of slots that are looked at in one call."""
CHECKED_MAX = 16
"""The number of runs that are read after one look."""
TURN_SECONDS = 10.0
"""The time for which a replica keeps slots of a queue that other replicas serve, too. Then it leaves one to them."""
LEFT_SECONDS = 0.5
"""The time for which it doesn't take the slot that it left."""
UNDECIDED_SECONDS = 1.0
"""The time for which a run may have a slot without a lease while it doesn't move on."""


class Asked(NamedTuple):
    """The part of a want that is claimed now, and the want's index in its list."""

    want: Want
    position: int


class _Picked:
    """A slot that is meant for a lease whose commit is not decided yet."""

    __slots__ = ("queue", "slot", "stands")

    def __init__(self, queue: QueueKey, slot: int) -> None:
        self.queue = queue
        self.slot = slot
        self.stands = NOBODY
        """The reservation that was written under it for the lease."""


class _Queue:
    """The slots of one limited queue of a tenant, as this replica last saw them."""

    def __init__(self, now: float) -> None:
        self.turn_ends = now + TURN_SECONDS
        """The monotonic time from which the next slot is left to other replicas."""
        self.taken: dict[int, Reservation] = {}
        """Slots that are not free, with the reservations under them as far as they are known."""
        self.left: dict[int, Reservation] = {}
        """Slots that are free, with the reservations that still stand under them."""
        self.own: dict[int, Reservation] = {}
        """The reservations that this replica wrote for leases that it committed."""
        self.scan_at = 0.0
        """The monotonic time before which a full queue isn't looked at again."""
        self.is_wanted = False
        """True if a step was not claimed because all slots were taken."""
        self.checked = 0
        """The slot that was checked last."""


class QueueSlots:
    """The slots of all limited queues, and those that this replica's grants take."""

    def __init__(
        self, store: Store, runtime: Runtime, limits: Mapping[str, int], wake: Callable[[], None]
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._limits = dict(limits)
        self._wake = wake
        self._queues: dict[QueueKey, _Queue] = {}
        self._picked: dict[str, _Picked] = {}
        self._undecided: dict[Reservation, float] = {}
        """The monotonic time at which each was first seen without a lease."""
        self._stuck: list[RunKey] = []
        """Runs that the present scan found with a slot for which they decide nothing."""
        self._turn = 0
        self.shared: Set[QueueKey] = frozenset()
        """The queues that other replicas serve, too."""

    @property
    def any(self) -> bool:
        """True if any queue has a limit."""
        return bool(self._limits)

    def limit(self, queue: str) -> int:
        """Return a queue's limit; 0: it has none."""
        return self._limits.get(queue, 0)

    def room(self, key: QueueKey) -> int:
        """Return the number of slots that seem free; only for a limited queue."""
        return max(0, self._limits[key[1]] - len(self._of(key).taken))

    def _of(self, key: QueueKey) -> _Queue:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(self._runtime.monotonic())
        return queue

    def may_keep(self, key: QueueKey) -> bool:
        """Return whether slots that become free may be used by this replica again at once."""
        return key not in self.shared or self._runtime.monotonic() < self._of(key).turn_ends

    # --- grants -------------------------------------------------------------------------------------

    def pick(self, key: QueueKey, token: str) -> str | None:
        """Choose a slot that seems free for a grant; return the grant's token with it, or None if there is none."""
        if not self.room(key):
            self._of(key).is_wanted = True
            return None
        queue, limit = self._of(key), self._limits[key[1]]
        start = int(self._runtime.random() * limit)
        numbers = (*queue.left, *((start + n) % limit for n in range(limit)))
        slot = next(one for one in numbers if one not in queue.taken)
        token = with_slot(token, slot)
        queue.taken[slot] = NOBODY
        self._picked[token] = _Picked(key, slot)
        return token

    async def take(
        self, key: RunKey, state: RunState, occurrences: Sequence[Occurrence]
    ) -> Sequence[Occurrence]:
        """Take the slots of grants for a run at its present commit.

        Return the occurrences; those whose slots were not free have lost their tokens.
        """
        refused, swaps = set[str](), dict[str, KeySwap]()
        used = used_slots(state)
        for one in occurrences:
            if not isinstance(one, GrantLease) or slot_of(one.token) < 0:
                continue
            picked = self._picked.get(one.token)
            if picked is None or not state.commit_id or picked.slot in used:
                # The slot stays among those taken until it is looked at.
                self._picked.pop(one.token, None)
                refused.add(one.token)
            elif not picked.stands.commit_id.startswith(state.commit_id + " "):
                after = Reservation(
                    run_id=key[1], commit_id=f"{state.commit_id} {self._runtime.new_id()}"
                )
                left = self._of(picked.queue).left.pop(picked.slot, NOBODY)
                before = picked.stands if picked.stands != NOBODY else left
                swaps[one.token] = KeySwap(
                    key=_name(picked.queue[1], picked.slot), before=before, after=after
                )
        if swaps:
            refused |= await self._swap(key[0], swaps)
        return [
            replace(one, token="") if isinstance(one, GrantLease) and one.token in refused else one
            for one in occurrences
        ]

    async def _swap(self, tenant_id: str, swaps: Mapping[str, KeySwap]) -> set[str]:
        """Swap for grants; return the tokens of those that were too late."""
        late = set[str]()
        try:
            stand = await self._store.swap_keys(tenant_id, "", list(swaps.values()))
        except StoreError as error:
            log.warning("slots could not be taken", tenant_id=tenant_id, error=error.message)
            stand = [one.after for one in swaps.values()]
            late = set(swaps)
        for (token, swap), now in zip(swaps.items(), stand, strict=True):
            picked = self._picked[token]
            self._of(picked.queue).taken[picked.slot] = now
            picked.stands = now
            if token in late or now != swap.after:
                late.add(token)
                del self._picked[token]
                if now == NOBODY:
                    del self._of(picked.queue).taken[picked.slot]
        return late

    def committed(self, token: str) -> None:
        """Note that a grant is final."""
        picked = self._picked.pop(token, None)
        if picked is not None:
            self._of(picked.queue).own[picked.slot] = picked.stands

    def give_back(self, token: str, *, uncertain: bool = False) -> None:
        """Return the slot of a grant that was not committed; `uncertain`: it may have been, or may still be."""
        picked = self._picked.pop(token, None)
        if picked is not None and not (uncertain and picked.stands != NOBODY):
            self._free(picked.queue, picked.slot, picked.stands)

    def ended(self, key: QueueKey, slots: Iterable[int]) -> None:
        """Note that this replica has committed the end of the leases with these slots."""
        queue = self._of(key)
        for slot in slots:
            stands = queue.own.pop(slot, NOBODY)
            if stands == NOBODY or queue.taken.get(slot) != stands:
                # Another replica took it; what it wrote may stand for the next lease by now.
                queue.scan_at = 0.0
                self._wake()
            elif self.may_keep(key):
                self._free(key, slot, stands)
            else:
                # It stays among those taken until it is scanned.
                now = self._runtime.monotonic()
                queue.scan_at, queue.turn_ends = now + LEFT_SECONDS, now + TURN_SECONDS

    def _free(self, key: QueueKey, slot: int, stands: Reservation) -> None:
        queue = self._of(key)
        queue.taken.pop(slot, None)
        if stands != NOBODY:
            queue.left[slot] = stands
        self._wake()

    # --- claims -------------------------------------------------------------------------------------

    def ask(self, wants: Sequence[Want]) -> list[Asked]:
        """Return wants that together stay within the room of every limited queue.

        A limited queue is claimed separately, in turns with the others, so that its reserved
        credits don't hide steps that wait elsewhere.
        """
        if not self._limits:
            return [Asked(want, position) for position, want in enumerate(wants)]
        asked: list[Asked] = []
        left: dict[QueueKey, int] = {}
        for position, want in enumerate(wants):
            parts = self._parts(want)
            self._turn += 1
            free = want.limit
            for step in range(len(parts)):
                part = parts[(self._turn + step) % len(parts)]
                limit = min(free, -(-want.limit // len(parts)))
                if self.limit(part[0]):
                    key = (want.tenant_id, part[0])
                    limit = min(limit, left.setdefault(key, self.room(key)))
                    left[key] -= limit
                if limit:
                    free -= limit
                    asked.append(Asked(replace(want, queues=part, limit=limit), position))
        return asked

    def _parts(self, want: Want) -> list[tuple[str, ...]]:
        free = tuple(queue for queue in want.queues if not self.limit(queue))
        parts = [(queue,) for queue in want.queues if self.limit(queue)]
        return [free, *parts] if free else parts

    def claimed(self, key: QueueKey, *, full: bool) -> None:
        """Note a claim in a limited queue; without further steps, free slots are left to other replicas."""
        queue = self._of(key)
        if not full and queue.left:
            left, queue.left = queue.left, {}
            queue.taken |= left
            self._runtime.spawn(self._leave(key, left), name="leave slots")

    async def _leave(self, key: QueueKey, left: Mapping[int, Reservation]) -> None:
        queue = self._of(key)
        swaps = [KeySwap(key=_name(key[1], slot), before=left[slot]) for slot in left]
        stand: Sequence[Reservation] = [NOBODY] * len(left)
        try:
            stand = await self._store.swap_keys(key[0], "", swaps)
        except StoreError as error:
            # Whoever wants them finds that they are free.
            log.info("slots were left", queue=key[1], error=error.message)
        self._saw(queue, left, stand)
        if queue.is_wanted:
            self._wake()

    def hint(self, key: RunKey) -> None:
        """Look at full queues soon in which a run has a slot, because the run has changed."""
        for (tenant_id, _), queue in self._queues.items():
            if queue.is_wanted and tenant_id == key[0]:
                runs = {one.run_id for one in queue.taken.values()}
                queue.scan_at = 0.0 if key[1] in runs else queue.scan_at

    async def scan(self, keys: Iterable[QueueKey]) -> list[RunKey]:
        """Look for free slots in limited queues in which all seem to be taken.

        Returns the runs that a dead, or very slow, replica took a slot for, without a lease. After their next commit
        that lease can't be committed any more, and the slot is free.
        """
        self._stuck = []
        now = self._runtime.monotonic()
        for key in keys:
            queue = self._of(key)
            queue.is_wanted = not self.room(key)
            if queue.is_wanted and queue.scan_at <= now:
                queue.scan_at = now + SCAN_SECONDS
                try:
                    await self._scan(key, queue)
                except StoreError as error:
                    log.info("slots could not be looked at", queue=key[1], error=error.message)
        return self._stuck

    async def _scan(self, key: QueueKey, queue: _Queue) -> None:
        own = {one.slot for one in self._picked.values() if one.queue == key}
        slots = sorted(slot for slot in queue.taken if slot not in own)
        for first in range(0, len(slots), SCANNED_MAX):
            part = slots[first : first + SCANNED_MAX]
            looks = [KeySwap(key=_name(key[1], slot)) for slot in part]
            self._saw(queue, part, await self._store.swap_keys(key[0], "", looks))
        slots = [slot for slot in slots if slot in queue.taken]
        after = [slot for slot in slots if slot > queue.checked]
        for n, slot in enumerate([*after, *slots][: min(CHECKED_MAX, len(slots))]):
            queue.checked = slot
            stands = queue.taken[slot]
            is_free = await self._is_free(key[0], slot, stands, thorough=not n)
            if is_free and queue.taken.get(slot) == stands:
                queue.taken.pop(slot)
                queue.left[slot] = stands

    def _saw(self, queue: _Queue, slots: Iterable[int], stand: Sequence[Reservation]) -> None:
        for slot, now in zip(slots, stand, strict=True):
            if now == NOBODY:
                queue.taken.pop(slot, None)
            else:
                queue.taken[slot] = now

    async def _is_free(
        self, tenant_id: str, slot: int, stands: Reservation, *, thorough: bool
    ) -> bool:
        """Return whether a run's slot is free. The run is read after what stands under the slot.

        `thorough`: a lease that is kept for a step of unknown outcome is known to take no slot.
        """
        run_id, commit_id = stands.run_id, stands.commit_id.partition(" ")[0]
        if not thorough:
            leases = await self._store.page(LeaseQuery(tenant_id=tenant_id, run_id=run_id))
            if any(slot_of(one.token) == slot for one in leases.items):
                return False
        loaded = await self._store.load(tenant_id, run_id)
        now = self._runtime.monotonic()
        since = self._undecided.pop(stands, now)
        if loaded is None or loaded.run.ended:
            return True
        state = RunState.of(loaded)
        if slot in used_slots(state):
            return False
        if state.commit_id != commit_id:
            return True
        self._undecided[stands] = since
        if now - since >= UNDECIDED_SECONDS:
            self._stuck.append((tenant_id, run_id))
        return False


def _name(queue: str, slot: int) -> str:
    # No key of a task has this character.
    return f"{queue}\x1f{slot}"

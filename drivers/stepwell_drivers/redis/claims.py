"""Claims over all partitions: search each, choose the first items in order, hold them.

A claim searches every partition at once, so that no partition is preferred, and orders the items
here. The chosen items are then held in their partitions. Items that another replica held first are
left out. A search costs what it returns, however many runs are parked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stepwell.core.port import Claim, Claimed, Due, ReadyStep, Want
from stepwell.core.records.routing import ANY, TYPED, version_key
from stepwell.core.records.states import DueKind
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.keys import SEPARATOR, Partition, escape, unescape
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.packing import micros, queue_lanes
from stepwell_drivers.redis.rows import packed
from stepwell_drivers.redis.scripts import Call
from stepwell_drivers.redis.wire import Reply

SPARE = 8
"""Added to each partition's share (twice its fair part of the limit) in a first search."""
_RANK = slice(0, 20)
_MOMENT = slice(20, 36)
_ITEM = 57
"""The length of a ready step's place (rank, moment, stamp, number), which the item follows."""


class _Candidate(NamedTuple):
    """An item that may be returned, with its sort key."""

    order: tuple[str, int]
    partition: int
    item: bytes
    """The letter of its kind, and its name; for a lease also its limit and token."""
    held: tuple[bytes, bytes]
    """Its arguments for `hold`: a ready step's place, or an item and its moment."""
    moment_us: int
    version: int


class _Page(NamedTuple):
    """The candidates of one partition."""

    now_us: int
    next_us: int | None
    steps: list[list[_Candidate]]
    due: list[_Candidate]


class Claims:
    """Claim operations."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._keys = [(one.book, one.wake, one.ready, one.due) for one in base.keys.partitions]

    async def claim(self, claim: Claim) -> Claimed:
        """Return ready steps and due timers, and hold them."""
        limits = _limits(claim.wants)
        due_limit = max(claim.due_limit, 0)
        asked = [_share(limit, len(self._keys)) for limit in limits]
        asked_due = _share(due_limit, len(self._keys))
        looks = await self._search(claim.wants, asked, asked_due)
        if _cut_short(looks, asked, limits) or _due_cut_short(looks, asked_due, due_limit):
            # A partition may have more than its share: search again without shares.
            looks = await self._search(claim.wants, limits, due_limit)
        steps = _choose(claim.wants, looks)
        due = sorted(one for look in looks for one in look.due)[:due_limit]
        held: set[tuple[int, bytes]] | None = None
        if claim.hold_ms > 0:
            held = await self._hold([*(one for few in steps for one in few), *due], claim.hold_ms)
        now_us = self._base.observe(max(look.now_us for look in looks))
        moments = [look.next_us - look.now_us for look in looks if look.next_us is not None]
        if held:
            moments.append(micros(claim.hold_ms))
        return Claimed(
            ready=tuple(
                tuple(_step(one, now_us) for one in few if _is_held(one, held)) for few in steps
            ),
            due=tuple(_due(one) for one in due if _is_held(one, held)),
            # Rounded up, so that a caller that comes back then is not too early.
            next_due_ms=max(0, -(-min(moments) // 1_000)) if moments else -1,
            now_us=now_us,
        )

    async def _search(
        self, wants: Sequence[Want], limits: Sequence[int], due_limit: int
    ) -> list[_Page]:
        wanted = packed([_wanted(want, limit) for want, limit in zip(wants, limits, strict=True)])
        arguments = (number(due_limit), wanted)
        script = self._base.scripts.peek
        partitions = self._base.keys.partitions
        replies = await self._base.network.ask_all(
            [
                Ask(one.slot, Call(script, keys, arguments))
                for one, keys in zip(partitions, self._keys, strict=True)
            ]
        )
        return [_page_of(one, reply) for one, reply in zip(partitions, replies, strict=True)]

    async def _hold(self, found: list[_Candidate], hold_ms: int) -> set[tuple[int, bytes]]:
        groups: dict[int, list[_Candidate]] = {}
        for one in found:
            groups.setdefault(one.partition, []).append(one)
        hold = number(micros(hold_ms))
        asks = [
            Ask(
                self._base.keys.partitions[at].slot,
                Call(
                    self._base.scripts.hold,
                    self._keys[at],
                    (hold, *[part for one in group for part in one.held]),
                ),
            )
            for at, group in groups.items()
        ]
        replies = await self._base.network.ask_all(asks)
        return {
            (at, one.item)
            for (at, group), reply in zip(groups.items(), replies, strict=True)
            for one, answer in zip(group, reply, strict=True)
            if answer == 1
        }


def _is_held(one: _Candidate, held: set[tuple[int, bytes]] | None) -> bool:
    return held is None or (one.partition, one.item) in held


def _limits(wants: Sequence[Want]) -> list[int]:
    """Return how many items to search for each want: earlier wants may take some of its items."""
    before: dict[str, int] = {}
    limits: list[int] = []
    for want in wants:
        before[want.tenant_id] = before.get(want.tenant_id, 0) + max(want.limit, 0)
        limits.append(before[want.tenant_id] if want.limit > 0 else 0)
    return limits


def _share(limit: int, partitions: int) -> int:
    return min(limit, 2 * -(-limit // partitions) + SPARE)


def _cut_short(looks: list[_Page], asked: Sequence[int], limits: Sequence[int]) -> bool:
    """Return whether a partition may hold more items that belong among the first."""
    for at, limit in enumerate(limits):
        if asked[at] >= limit:
            continue
        # A lane that filled its page may have more.
        if any(_fullest_lane(look.steps[at]) >= asked[at] for look in looks):
            return True
    return False


def _fullest_lane(found: list[_Candidate]) -> int:
    counts: dict[bytes, int] = {}
    for one in found:
        name = one.held[0].rpartition(b"\x01")[0]
        counts[name] = counts.get(name, 0) + 1
    return max(counts.values(), default=0)


def _due_cut_short(looks: list[_Page], asked: int, limit: int) -> bool:
    return asked < limit and any(len(look.due) >= asked for look in looks)


def _wanted(want: Want, limit: int) -> tuple[Any, ...]:
    """Return a want as `peek` takes it: queues, and a filter of their lanes.

    Patterns are flattened to (kind, type, role), each escaped as in a lane.
    """
    if limit <= 0:
        return (0, [], {}, [], "", "")
    queues = [queue_lanes(want.tenant_id, queue) for queue in dict.fromkeys(want.queues)]
    kinds = {kind.value: kind in TYPED and bool(want.tasks) for kind in want.kinds}
    patterns = [
        [one.kind.value, *(ANY if part == ANY else escape(part) for part in (one.type, one.role))]
        for one in want.tasks
    ]
    key = version_key(want.version)
    return (
        limit,
        queues,
        kinds,
        patterns,
        escape(f"={want.version}"),
        escape(f">{key}") if key else "",
    )


def _choose(wants: Sequence[Want], looks: list[_Page]) -> list[list[_Candidate]]:
    """Return for each want its first items in order that no earlier want took."""
    taken: set[tuple[int, bytes]] = set()
    chosen: list[list[_Candidate]] = []
    for at, want in enumerate(wants):
        few: list[_Candidate] = []
        for one in sorted(one for look in looks for one in look.steps[at]):
            if len(few) >= want.limit:
                break
            if (one.partition, one.item) not in taken:
                taken.add((one.partition, one.item))
                few.append(one)
        chosen.append(few)
    return chosen


def _page_of(partition: Partition, reply: Reply) -> _Page:
    now, next_moment, steps, overdue, versions = reply
    next_us = int(next_moment) if next_moment else None
    if not versions:
        return _Page(int(now), next_us, [[] for _ in steps], [])
    return _Page(
        now_us=int(now),
        next_us=next_us,
        steps=[list(_steps_of(partition.number, found, versions)) for found in steps],
        due=list(_due_of(partition.number, overdue, versions)),
    )


def _steps_of(partition: int, found: list[Any], versions: list[bytes]) -> Iterator[_Candidate]:
    for at in range(0, len(found), 2):
        place: bytes = found[at]
        run: int = found[at + 1]
        tail = place.rpartition(SEPARATOR.encode())[2]
        order = tail[:_ITEM].decode()
        moment_us = int(order[_MOMENT])
        version = int(versions[run - 1])
        known = (place, b"")
        yield _Candidate((order, partition), partition, tail[_ITEM:], known, moment_us, version)


def _due_of(partition: int, found: list[Any], versions: list[bytes]) -> Iterator[_Candidate]:
    for at in range(0, len(found), 3):
        item: bytes = found[at]
        moment: bytes = found[at + 1]
        run: int = found[at + 2]
        # At the same moment, leases come before timers.
        order = moment.decode() + item[:1].decode()
        version = int(versions[run - 1])
        known = (item, moment)
        yield _Candidate((order, partition), partition, item, known, int(moment), version)


def _names(item: bytes) -> list[str]:
    """Return tenant, run and name of an item."""
    return [unescape(part) for part in item[1:].decode().split(":")]


def _step(one: _Candidate, now_us: int) -> ReadyStep:
    tenant_id, run_id, name = _names(one.item)
    return ReadyStep(
        tenant_id=tenant_id,
        run_id=run_id,
        execution_id=name,
        version=one.version,
        waited_ms=max(0, now_us - one.moment_us) // 1_000,
    )


def _due(one: _Candidate) -> Due:
    item, _, lease = one.item.partition(SEPARATOR.encode())
    tenant_id, run_id, name = _names(item)
    kind, token = DueKind.TIMER, ""
    if lease:
        limit_us, token = int(lease[:16]), lease[16:].decode()
        at_limit = 0 < limit_us <= one.moment_us
        kind = DueKind.ATTEMPT_TIMED_OUT if at_limit else DueKind.LEASE_EXPIRED
    return Due(
        tenant_id=tenant_id,
        run_id=run_id,
        kind=kind,
        name=name,
        token=token,
        version=one.version,
    )

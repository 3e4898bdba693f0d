"""Pages: the rows of one run in their orders, runs by creation, and commits in the order of the
feed.

Each partition has its own ordered list of runs and of commits. They are merged as they are read.
The cursor of a list of runs is one position in the merged order. The feed's cursor has a position
in each partition, so that nothing is skipped: a commit that becomes visible in a partition comes
after that partition's position, whatever the other partitions' clocks say. Commits of different
partitions are ordered by their stamps, which rise for commits that one caller makes one after
another.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from stepwell.core.port import (
    CheckpointQuery,
    EndedQuery,
    ExecutionQuery,
    FeedEntry,
    FeedQuery,
    FoundQuestion,
    JournalQuery,
    LeaseQuery,
    LogQuery,
    MessageQuery,
    Page,
    PresenceQuery,
    Query,
    QuestionQuery,
    RunQuery,
    TaskQuery,
)
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.model import Execution, Message, Run, Task
from stepwell_drivers.filters import matches
from stepwell_drivers.redis import rows
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.cursors import cursor_of, feed_cursor, feed_places, place_of
from stepwell_drivers.redis.journals import Journals
from stepwell_drivers.redis.keys import SEPARATOR, RunKeys, escape, unescape
from stepwell_drivers.redis.logs import Logs
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.packing import births_of, ordered
from stepwell_drivers.redis.presence import PresenceRows
from stepwell_drivers.redis.rows import packed
from stepwell_drivers.redis.scripts import Call
from stepwell_drivers.redis.search import Search

R = TypeVar("R")

RUNS_LOOKED_AT = 2_000
"""The number of runs that a partition reads through in one call."""
SPARE = 4
_STAMP_CHARS = 16
_NUMBER_MAX = 2**53
_LAST = b"\xff"

_Birth = tuple[int, int, str]
"""Stamp, partition, run."""


class Pages:
    """Pages of each kind of row."""

    def __init__(
        self, base: Base, search: Search, presence: PresenceRows, logs: Logs, journals: Journals
    ) -> None:
        self._base = base
        self._readers: Mapping[type[Query[Any]], Callable[[Any], Awaitable[Page[Any]]]] = {
            RunQuery: self._runs,
            TaskQuery: self._tasks,
            ExecutionQuery: self._executions,
            MessageQuery: self._messages,
            CheckpointQuery: self._checkpoints,
            LogQuery: logs.page,
            JournalQuery: journals.page,
            QuestionQuery: lambda query: (
                self._questions(query) if query.run_id else search.open_questions(query)
            ),
            EndedQuery: search.ended,
            PresenceQuery: presence.workers,
            LeaseQuery: presence.leases,
            FeedQuery: self._feed,
        }

    async def page(self, query: Query[R]) -> Page[R]:
        """Return the rows that a query asks for."""
        return await self._readers[type(query)](query)

    # --- rows of one run ---

    async def _tasks(self, query: TaskQuery) -> Page[Task]:
        run, limit = self._base.run(query.tenant_id, query.run_id), max(query.limit, 1)
        found: list[Task] = []
        start = place_of(query.cursor, "t", tuple[int, int], (0, 0))
        async for place, task in self._tasks_from(run, start, limit + 1):
            if len(found) == limit:
                return Page(items=tuple(found), cursor=cursor_of("t", place))
            found.append(task)
        return Page(items=tuple(found))

    async def _tasks_from(
        self, run: RunKeys, start: tuple[int, int], at_once: int
    ) -> AsyncIterator[tuple[tuple[int, int], Task]]:
        """Yield tasks from a place on, each with its place: its revision, and its number in that revision's order."""
        revision, first = max(start[0], 0), max(start[1], 0)
        between = (f"[p{ordered(revision)}", b"[p" + _LAST)
        members = await self._base.read(run, ("ZRANGEBYLEX", run.orders, *between))
        for each in [int(member[1:]) for member in members]:
            order = await self._base.read(run, ("HGET", run.rows, f"po:{each}"))
            ids = [] if order is None else rows.ids_of(order)
            for at in range(first if each == revision else 0, len(ids), at_once):
                fields = [f"t:{task_id}" for task_id in ids[at : at + at_once]]
                found = await self._base.read(run, ("HMGET", run.rows, *fields))
                for number_of, row in enumerate(found, start=at):
                    task = None if row is None else rows.task_of(row)
                    # A later plan may have redefined the task.
                    if task is not None and task.revision == each:
                        yield (each, number_of), task

    async def _executions(self, query: ExecutionQuery) -> Page[Execution]:
        run, limit = self._base.run(query.tenant_id, query.run_id), max(query.limit, 1)
        after = place_of(query.cursor, "x", int, 0)
        numbers, found = await self._base.call(
            run.partition,
            self._base.scripts.executions,
            (run.rows,),
            number(min(max(after, 0), _NUMBER_MAX)),
            number(limit + 1),
            query.task_id.encode(),
        )
        cursor = cursor_of("x", int(numbers[limit - 1])) if len(numbers) > limit else ""
        return Page(items=tuple(map(rows.execution_of, found[:limit])), cursor=cursor)

    async def _questions(self, query: QuestionQuery) -> Page[FoundQuestion]:
        found, cursor = await self._page(query, b"i", 1 + rows.SEQ_CHARS, b"i:")
        questions = (
            FoundQuestion(run_id=query.run_id, question=rows.question_of(row)) for row in found
        )
        return Page(items=tuple(questions), cursor=cursor)

    async def _messages(self, query: MessageQuery) -> Page[Message]:
        order = _order_of(b"j", query.task_id) if query.task_id else b"y"
        found, cursor = await self._page(query, order, len(order), b"m:")
        return Page(items=tuple(map(rows.message_of, found)), cursor=cursor)

    async def _checkpoints(self, query: CheckpointQuery) -> Page[Checkpoint]:
        found, cursor = await self._page(query, b"h", 1, b"h:")
        return Page(items=tuple(map(rows.checkpoint_of, found)), cursor=cursor)

    async def _page(
        self,
        query: QuestionQuery | MessageQuery | CheckpointQuery,
        order: bytes,
        skip: int,
        prefix: bytes,
    ) -> tuple[list[bytes], str]:
        """Return rows in one of the run's orders, and the cursor of the next page."""
        run = self._base.run(query.tenant_id, query.run_id)
        kind, limit = order[:1].decode(), max(query.limit, 1)
        place = place_of(query.cursor, kind, bytes, b"")
        reply = await self._base.call(
            run.partition,
            self._base.scripts.page,
            (run.rows, run.orders),
            b"(" + order + place if place else b"[" + order,
            b"[" + order + _LAST,
            number(limit + 1),
            number(skip),
            prefix,
        )
        members, found = reply
        more = cursor_of(kind, members[limit - 1][len(order) :]) if len(members) > limit else ""
        return [row for row in found[:limit] if row is not None], more

    # --- over all runs ---

    async def _runs(self, query: RunQuery) -> Page[Run]:
        limit = max(query.limit, 1)
        last = place_of(query.cursor, "r", tuple[int, int], (2**63 - 1, 0))
        walk = _Births(self._base, query, last)
        found: list[Run] = []
        while True:
            births = await walk.some(limit + 1 - len(found))
            read = await self._rows(query.tenant_id, births)
            for birth, run in zip(births, read, strict=True):
                # The list entry may be outdated.
                if run is None or not matches(run, query):
                    last = birth[:2]
                    continue
                if len(found) == limit:
                    return Page(items=tuple(found), cursor=cursor_of("r", last))
                found.append(run)
                last = birth[:2]
            if walk.ended:
                return Page(items=tuple(found))

    async def _rows(self, tenant_id: str, births: Sequence[_Birth]) -> list[Run | None]:
        runs = [self._base.run(tenant_id, run_id) for _, _, run_id in births]
        asks = [Ask(run.partition.slot, ("HMGET", run.rows, "run", "spec")) for run in runs]
        replies = await self._base.network.ask_all(asks)
        return [None if row is None else rows.run_of(row, spec) for row, spec in replies]

    async def _feed(self, query: FeedQuery) -> Page[FeedEntry]:
        base, limit, cursor = self._base, max(query.limit, 1), query.cursor
        partitions = base.keys.partitions
        if cursor == "now":
            places = await base.stamps()
            return Page(cursor=feed_cursor(base.store_id, places))
        places = [0] * len(partitions)
        if cursor:
            places = feed_places(cursor, base.store_id, len(partitions))
        entries: list[FeedEntry] = []
        share = min(limit, 2 * -(-limit // len(partitions)) + SPARE)
        buffers: list[list[tuple[int, FeedEntry]]] = [[] for _ in partitions]
        more = set(range(len(partitions)))
        while len(entries) < limit:
            # Read on in partitions whose buffers are empty: the merge needs the first entry of
            # each.
            dry = [at for at in more if not buffers[at]]
            if dry:
                more -= await self._read_on(query.tenant_id, places, buffers, dry, share)
            heads = [(buffer[0][0], at) for at, buffer in enumerate(buffers) if buffer]
            if not heads:
                break
            _, at = min(heads)
            places[at], entry = buffers[at].pop(0)
            entries.append(entry)
        # What this caller commits next comes after what it has seen here.
        base.raise_floor(max(places))
        return Page(items=tuple(entries), cursor=feed_cursor(base.store_id, places))

    async def _read_on(
        self,
        tenant_id: str,
        places: Sequence[int],
        buffers: list[list[tuple[int, FeedEntry]]],
        dry: Sequence[int],
        share: int,
    ) -> set[int]:
        """Fill the empty buffers; return which partitions have no more."""
        asks: list[Ask] = []
        for at in dry:
            one = self._base.keys.partitions[at]
            key = self._base.keys.tenant_feed(one, tenant_id) if tenant_id else one.feed
            after = f"({places[at]}-0"
            asks.append(Ask(one.slot, ("XRANGE", key, after, "+", "COUNT", share)))
        ended: set[int] = set()
        for at, found in zip(dry, await self._base.network.ask_all(asks), strict=True):
            if len(found) < share:
                ended.add(at)
            for name, (run, version) in found:
                tenant, _, run_id = run.decode().partition(":")
                entry = FeedEntry(
                    tenant_id=unescape(tenant),
                    run_id=unescape(run_id),
                    version=abs(int(version)),
                    deleted=int(version) < 0,
                )
                buffers[at].append((int(name.partition(b"-")[0]), entry))
        return ended


class _Births:
    """A walk over a tenant's runs in all partitions, newest first."""

    def __init__(self, base: Base, query: RunQuery, last: tuple[int, int]) -> None:
        self._base = base
        self._tenant = escape(query.tenant_id).encode()
        self._prefix = births_of(query.tenant_id, query.parent_run_id)
        traits = (query.pipeline_id, query.queue, query.executor_id)
        self._traits = "".join(escape(trait) + SEPARATOR for trait in traits).encode()
        self._statuses = packed({status.value: True for status in query.statuses})
        self._run_id_prefix = escape(query.run_id_prefix).encode()
        self._blocked = packed({kind.value: True for kind in query.blocked_on})
        self._buffers: list[list[_Birth]] = [[] for _ in base.keys.partitions]
        self._before = [
            self._bound(last[0], inclusive=one.number < last[1]) for one in base.keys.partitions
        ]
        """The bound from which each partition is read on; empty if the partition has no more."""
        self.ended = False

    def _bound(self, stamp: int, *, inclusive: bool) -> bytes:
        if stamp >= 10**_STAMP_CHARS:
            return b"[" + self._prefix.encode() + b"\xff"
        place = f"{self._prefix}{stamp:016d}".encode()
        return b"[" + place + b"\xff" if inclusive else b"(" + place

    async def some(self, many: int) -> list[_Birth]:
        """Return the next `many` runs that may match; fewer if there are no more."""
        found: list[_Birth] = []
        count = 2 * -(-many // len(self._buffers)) + SPARE
        while len(found) < many:
            while dry := [
                at for at, buffer in enumerate(self._buffers) if not buffer and self._before[at]
            ]:
                await self._read_on(dry, count)
            heads = [buffer[0] for buffer in self._buffers if buffer]
            if not heads:
                self.ended = True
                break
            newest = max(heads)
            self._buffers[newest[1]].pop(0)
            found.append(newest)
        return found

    async def _read_on(self, dry: Sequence[int], count: int) -> None:
        base, asks = self._base, list[Ask]()
        for at in dry:
            one = base.keys.partitions[at]
            arguments = (
                *(self._prefix.encode(), self._before[at], number(count)),
                *(number(RUNS_LOOKED_AT), self._traits, self._statuses, self._blocked),
                *(self._tenant, self._run_id_prefix),
            )
            keys = (one.book, one.lists)
            asks.append(Ask(one.slot, Call(base.scripts.runs, keys, arguments)))
        for at, reply in zip(dry, await base.network.ask_all(asks), strict=True):
            self._before[at], births = reply
            self._buffers[at] += [self._birth(at, birth.decode()) for birth in births]

    def _birth(self, partition: int, member: str) -> _Birth:
        start = len(self._prefix)
        stamp = member[start : start + _STAMP_CHARS]
        run_id = member[start + _STAMP_CHARS :].partition(SEPARATOR)[0]
        return int(stamp), partition, unescape(run_id)


def _order_of(letter: bytes, task_id: str) -> bytes:
    return letter + (escape(task_id) + SEPARATOR).encode()

"""Searches across runs: open questions, and runs that have ended.

Each partition has its own index, in the order in which it is read. All partitions are asked at once
and their answers merged, so a page costs what each partition returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.port import EndedQuery, EndedRun, FoundQuestion, Page, QuestionQuery
from stepwell.core.records.states import QuestionStatus, RunStatus
from stepwell_drivers.redis import rows
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.cursors import cursor_of, place_of
from stepwell_drivers.redis.keys import SEPARATOR, unescape
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.packing import asked_of, ended_in, micros
from stepwell_drivers.redis.scripts import Call

_LIMIT_MAX = 10_000
_Place = tuple[str, int]
"""Stamp and number within the run, and the partition."""
_Asked = tuple[_Place, str, str]
"""Its place, run and question."""


class Search:
    """Searches in all partitions."""

    def __init__(self, base: Base) -> None:
        self._base = base

    # --- questions ---

    async def open_questions(self, query: QuestionQuery) -> Page[FoundQuestion]:
        """Return a tenant's open questions, the oldest first."""
        limit = max(query.limit, 1)
        last = place_of(query.cursor, "a", tuple[str, int], ("", -1))
        found: list[FoundQuestion] = []
        while True:
            wanted = limit + 1 - len(found)
            asked = await self._asked(query.tenant_id, last, wanted)
            requests = await self._requests(query.tenant_id, asked)
            for one, request in zip(asked, requests, strict=True):
                if request is not None:
                    if len(found) == limit:
                        return Page(items=tuple(found), cursor=cursor_of("a", last))
                    found.append(request)
                last = one[0]
            if len(asked) < wanted:
                return Page(items=tuple(found))

    async def _asked(self, tenant_id: str, last: _Place, many: int) -> list[_Asked]:
        """Return the first `many` questions after a place."""
        prefix = asked_of(tenant_id).encode()
        place, partition = last[0].encode(), last[1]
        asks: list[Ask] = []
        for one in self._base.keys.partitions:
            # Places end with the partition's number, so a partition with a lower number is read
            # after its stamp.
            after = prefix + place + (b"\xff" if one.number <= partition else b"")
            sent = ("ZRANGEBYLEX", one.lists, b"[" + after, b"[" + prefix + b"\xff")
            asks.append(Ask(one.slot, (*sent, "LIMIT", 0, many)))
        found: list[_Asked] = []
        for at, members in enumerate(await self._base.network.ask_all(asks)):
            for member in members:
                stamp, run, name = member[len(prefix) :].decode().split(SEPARATOR, 2)
                found.append(((stamp, at), unescape(run), name))
        return sorted(found)[:many]

    async def _requests(
        self, tenant_id: str, asked: Sequence[_Asked]
    ) -> list[FoundQuestion | None]:
        """Return the questions as they are now, and None for those that are no longer open."""
        runs = [self._base.run(tenant_id, run_id) for _, run_id, _ in asked]
        asks = [
            Ask(run.partition.slot, ("HGET", run.rows, f"i:{name}"))
            for run, (_, _, name) in zip(runs, asked, strict=True)
        ]
        found: list[FoundQuestion | None] = []
        for (_, run_id, _), row in zip(asked, await self._base.network.ask_all(asks), strict=True):
            question = None if row is None else rows.question_of(row)
            is_open = question is not None and question.status is QuestionStatus.OPEN
            found.append(
                FoundQuestion(run_id=run_id, question=question) if question and is_open else None
            )
        return found

    # --- ended runs ---

    async def ended(self, query: EndedQuery) -> Page[EndedRun]:
        """Return ended runs, the earliest ended first."""
        limit = min(max(query.limit, 1), _LIMIT_MAX)
        lists = [
            ended_in(query.tenant_id, query.pipeline_id, status).encode()
            for status in dict.fromkeys(query.statuses)
        ]
        # Use the given time: this partition's clock may have gone back since.
        older, seen_us = micros(max(query.older_ms, 0)), self._base.now_us
        arguments = (number(older), number(seen_us), number(limit), *lists)
        asks = [
            Ask(one.slot, Call(self._base.scripts.ended, (one.book, one.lists), arguments))
            for one in self._base.keys.partitions
        ]
        found = [
            _ended_of(name, line)
            for reply in await self._base.network.ask_all(asks)
            for name, line in zip(reply[::2], reply[1::2], strict=True)
        ]
        found.sort(key=lambda one: (one.ended_us, one.tenant_id, one.run_id))
        return Page(items=tuple(found[:limit]))


def _ended_of(name: bytes, line: bytes) -> EndedRun:
    tenant, _, run = name.decode().partition(":")
    version, _, status, _, moment, _ = line.decode().split(" ", 5)
    return EndedRun(
        tenant_id=unescape(tenant),
        run_id=unescape(run),
        version=int(version),
        status=RunStatus(status),
        ended_us=int(moment),
    )

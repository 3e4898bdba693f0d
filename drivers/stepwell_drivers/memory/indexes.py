"""Searches across a tenant's runs: open questions, key reservations, ended runs.

Each index is kept in the order in which it is read, so that a page costs what it returns.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from stepwell.core.port import NOBODY, EndedQuery, FoundQuestion, KeySwap, Page, Reservation
from stepwell.core.records.model import Question, Run
from stepwell.core.records.states import QuestionStatus, RunStatus


class OpenQuestions:
    """A tenant's open questions, the oldest first."""

    __slots__ = ("_births", "_found")

    def __init__(self) -> None:
        self._births: list[int] = []
        self._found: dict[int, FoundQuestion] = {}

    def put(self, birth: int, run_id: str, question: Question) -> None:
        """Keep a question while it is OPEN."""
        if question.status is not QuestionStatus.OPEN:
            self.drop(birth)
            return
        if birth not in self._found:
            insort(self._births, birth)
        self._found[birth] = FoundQuestion(run_id=run_id, question=question)

    def drop(self, birth: int) -> None:
        """Remove a question."""
        if self._found.pop(birth, None) is not None:
            del self._births[bisect_left(self._births, birth)]

    def page(self, cursor: int, limit: int) -> Page[FoundQuestion]:
        """Return entries created from `cursor` on."""
        start = bisect_left(self._births, cursor)
        end = start + max(limit, 1)
        found = tuple(self._found[birth] for birth in self._births[start:end])
        after = str(self._births[end]) if end < len(self._births) else ""
        return Page(items=found, cursor=after)


class Keys:
    """A tenant's reservations by pipeline and idempotency key."""

    __slots__ = ("_by_run", "_reserved")

    def __init__(self) -> None:
        self._reserved: dict[tuple[str, str], Reservation] = {}
        self._by_run: dict[str, set[tuple[str, str]]] = {}

    def swap(self, pipeline_id: str, swap: KeySwap) -> Reservation:
        """Replace `before` by `after` if `before` is stored; return what is stored then."""
        place = (pipeline_id, swap.key)
        now = self._reserved.get(place, NOBODY)
        if now != swap.before or now == swap.after:
            return now
        self._drop(place, now)
        if swap.after != NOBODY:
            self._reserved[place] = swap.after
            self._by_run.setdefault(swap.after.run_id, set()).add(place)
        return swap.after

    def free(self, run_id: str) -> None:
        """Release every key that a run has reserved."""
        for place in self._by_run.pop(run_id, ()):
            del self._reserved[place]

    def _drop(self, place: tuple[str, str], reservation: Reservation) -> None:
        if self._reserved.pop(place, None) is not None:
            places = self._by_run[reservation.run_id]
            places.discard(place)
            if not places:
                del self._by_run[reservation.run_id]


class EndedRuns:
    """Ended runs in the order of their ends, by tenant (or all) and pipeline (or all)."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str | None, str | None, RunStatus], list[tuple[int, str, str]]] = {}

    def put(self, tenant_id: str, run_id: str, run: Run) -> None:
        """Add a run if it has ended."""
        if run.ended:
            for runs in self._lists_of(tenant_id, run):
                insort(runs, (run.ended_us, tenant_id, run_id))

    def drop(self, tenant_id: str, run_id: str, run: Run) -> None:
        """Remove a run, given as it was when it was added."""
        if run.ended:
            for runs in self._lists_of(tenant_id, run):
                del runs[bisect_left(runs, (run.ended_us, tenant_id, run_id))]

    def _lists_of(self, tenant_id: str, run: Run) -> Iterator[list[tuple[int, str, str]]]:
        for tenant in (None, tenant_id):
            for pipeline_id in (None, run.spec.pipeline_id):
                yield self._ended.setdefault((tenant, pipeline_id, run.status), [])

    def find(
        self, query: EndedQuery, now_us: int, forks: Counter[tuple[str, str]]
    ) -> Sequence[tuple[str, str]]:
        """Return tenant and run of matching runs without forks, the earliest ended first."""
        until_us = now_us - query.older_ms * 1_000
        tenant_id, pipeline_id = query.tenant_id or None, query.pipeline_id or None
        lists = (
            self._ended.get((tenant_id, pipeline_id, status), [])
            for status in dict.fromkeys(query.statuses)
        )
        old_enough = takewhile(lambda run: run[0] <= until_us, heapq.merge(*lists))
        names = ((tenant, run) for _, tenant, run in old_enough)
        return list(islice((name for name in names if not forks[name]), max(query.limit, 1)))

"""Reads of one run: its row, what the loop needs, payloads, plans, events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any

from msgspec.structs import replace

from stepwell.core.port import INPUT_KEY, EventPage, Loaded, OpenExecution, StoredPayload
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.limits import REQUESTS_KEPT_MAX
from stepwell.core.records.model import Plan, Question, Run
from stepwell.core.records.states import ENDED
from stepwell_drivers.redis import rows
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.keys import RunKeys
from stepwell_drivers.redis.packing import ordered

DELTA_COMMITS_MAX = 256
"""A reader that is further behind than this reads everything."""
_AFTER_MAX = 2**63 - 1


class Reads:
    """Reads of one run."""

    def __init__(self, base: Base) -> None:
        self._base = base

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        """Return the run, or None."""
        run = self._base.run(tenant_id, run_id)
        row, spec = await self._base.read(run, ("HMGET", run.rows, "run", "spec"))
        return None if row is None else rows.run_of(row, spec)

    async def load(self, tenant_id: str, run_id: str, since: int) -> Loaded | None:
        """Return all that the loop needs of a run, or what changed after `since`."""
        run = self._base.run(tenant_id, run_id)
        one = run.partition
        reply = await self._base.call(
            one,
            self._base.scripts.load,
            (one.book, run.rows, run.orders),
            run.name.encode(),
            number(since),
            number(DELTA_COMMITS_MAX),
            number(REQUESTS_KEPT_MAX),
        )
        if reply is None:
            return None
        now, complete, row, spec, plans, tasks, executions, questions, requests, named, *ids = reply
        commit_id, since_id = (each.decode() for each in ids)
        found = sorted(_there(map(rows.request_of, _there(requests))), key=lambda it: it.version)
        return Loaded(
            run=rows.loaded_run(row, spec),
            plans=tuple(sorted(map(rows.plan_of, _there(plans)), key=lambda it: it.revision)),
            tasks=tuple(map(rows.loaded_task, _there(tasks))),
            executions=tuple(_open_ones(executions)),
            # The order of questions precedes their rows, so sorting the rows sorts the questions.
            questions=tuple(map(rows.loaded_question, sorted(_there(questions)))),
            requests=tuple(found),
            checkpoint=None if named is None else rows.checkpoint_of(named),
            complete=complete == 1,
            commit_id=commit_id,
            since_id=since_id,
            now_us=self._base.observe(int(now)),
        )

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str], *, texts: bool
    ) -> list[StoredPayload]:
        """Return what is stored under these keys, in their order."""
        names = ["input" if key == INPUT_KEY else f"u:{key}" for key in keys]
        if texts:
            names += [f"v:{key}" for key in keys]
        stored = await self._pick(self._base.run(tenant_id, run_id), names)
        found = [
            rows.stored_of(key, row, said)
            for key, row, said in zip_longest(keys, stored[: len(keys)], stored[len(keys) :])
            if row is not None
        ]
        return [one for one in found if texts or one.payload is not None]

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        """Return one plan revision."""
        (row,) = await self._pick(self._base.run(tenant_id, run_id), [f"p:{revision}"])
        return None if row is None else rows.plan_of(row)

    async def read_base(self, tenant_id: str, run_id: str, version: int) -> Checkpoint | None:
        """Return the last checkpoint up to a version that has a base."""
        run = self._base.run(tenant_id, run_id)
        reply = await self._base.call(
            run.partition,
            self._base.scripts.base,
            (run.rows, run.orders),
            ordered(max(version, 0)).encode(),
        )
        if reply is None:
            return None
        row, base = reply
        return replace(rows.checkpoint_of(row), base=base)

    async def read_questions(
        self, tenant_id: str, run_id: str, question_ids: Sequence[str]
    ) -> list[Question]:
        """Return these questions, in their order."""
        names = [f"i:{each}" for each in question_ids]
        found = await self._pick(self._base.run(tenant_id, run_id), names)
        return list(map(rows.question_of, _there(found)))

    async def _pick(self, run: RunKeys, names: Sequence[str]) -> list[bytes | None]:
        if not names:
            return []
        return await self._base.read(run, ("HMGET", run.rows, *map(str.encode, names)))

    async def read_events(
        self, tenant_id: str, run_id: str, after: int, limit: int
    ) -> EventPage | None:
        """Return whole commits' events after a number."""
        run = self._base.run(tenant_id, run_id)
        after = min(max(after, 0), _AFTER_MAX)
        reply = await self._base.call(
            run.partition,
            self._base.scripts.events,
            (run.partition.book, run.rows),
            run.name.encode(),
            number(after),
            number(max(limit, 1)),
        )
        if reply is None:
            return None
        last, status, records = reply
        found = chain.from_iterable(map(rows.events_of, records))
        events = tuple(event for event in found if event.number > after)
        reached = events[-1].number if events else after
        ended = status.decode() in ENDED and reached >= int(last)
        return EventPage(events=events, latest=int(last), ended=ended)


def _there(found: Any) -> list[Any]:
    return [row for row in found if row is not None]


def _open_ones(found: list[Any]) -> Iterator[OpenExecution]:
    """Return executions with their leases, in the order of their numbers."""
    ones = [found[at : at + 4] for at in range(0, len(found), 4) if found[at] is not None]
    for row, progress, session, sums in sorted(ones, key=lambda one: rows.number_of(one[0])):
        yield rows.loaded_execution(row, progress, session, sums)

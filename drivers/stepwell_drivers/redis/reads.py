"""Reads of one run: its row, what the loop needs of it, its bytes, its events, its lists by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.core.port import (
    INPUT_KEY,
    EventPage,
    ExecutionPage,
    FoundInput,
    InputPage,
    Loaded,
    MessagePage,
    OpenExecution,
    StoredPayload,
    TaskPage,
)
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.events import Event
from stepwell.core.records.limits import REQUESTS_KEPT_MAX
from stepwell.core.records.model import InputRequest, Outcome, Plan, Run
from stepwell.core.records.states import ENDED
from stepwell_drivers.redis import rows
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.cursors import cursor_of, place_of
from stepwell_drivers.redis.keys import SEPARATOR, RunKeys, escape
from stepwell_drivers.redis.packing import holder_of

DELTA_COMMITS_MAX = 256
"""Further behind than this, a reader reads everything."""
_AFTER_MAX = 2**63 - 1
_LAST = b"\xff"


def _holder(holder: str) -> tuple[str, str]:
    _, worker_id, _, _, instance_id, _ = holder_of(holder)
    return worker_id, instance_id


class Reads:
    """The door for those who look at one run."""

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
        now, complete, row, spec, plans, tasks, executions, inputs, requests, *ids = reply
        commit_id, since_id = (each.decode() for each in ids)
        found = sorted(_there(map(rows.request_of, _there(requests))), key=lambda it: it.version)
        return Loaded(
            run=rows.run_of(row, spec),
            plans=tuple(sorted(map(rows.plan_of, _there(plans)), key=lambda it: it.revision)),
            # Places and orders of birth stand before the rows.
            tasks=tuple(map(rows.task_of, sorted(_there(tasks)))),
            executions=tuple(one for _, one in sorted(_open_ones(executions), key=_first)),
            inputs=tuple(map(rows.input_of, sorted(_there(inputs)))),
            requests=tuple(found),
            complete=complete == 1,
            commit_id=commit_id,
            since_id=since_id,
            now_us=self._base.observe(int(now)),
        )

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str]
    ) -> list[StoredPayload]:
        """Return the bytes under these keys, in their order."""
        names = ["input" if key == INPUT_KEY else f"b:{key}" for key in keys]
        found = await self._results(self._base.run(tenant_id, run_id), names)
        return [
            StoredPayload(key=key, payload=rows.payload_of(row))
            for key, row in zip(keys, found, strict=True)
            if row is not None
        ]

    async def read_outcomes(
        self, tenant_id: str, run_id: str, execution_ids: Sequence[str]
    ) -> list[Outcome]:
        """Return what these executions left behind, in their order."""
        names = [name for each in execution_ids for name in (f"u:{each}", f"b:{each}")]
        found = await self._results(self._base.run(tenant_id, run_id), names)
        return [
            rows.outcome_of(row, result)
            for row, result in zip(found[::2], found[1::2], strict=True)
            if row is not None
        ]

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        """Return one plan revision."""
        (row,) = await self._pick(self._base.run(tenant_id, run_id), [f"p:{revision}"])
        return None if row is None else rows.plan_of(row)

    async def read_inputs(
        self, tenant_id: str, run_id: str, input_ids: Sequence[str]
    ) -> list[InputRequest]:
        """Return these input requests, in their order."""
        names = [f"i:{each}" for each in input_ids]
        found = await self._pick(self._base.run(tenant_id, run_id), names)
        return list(map(rows.input_of, _there(found)))

    async def _results(self, run: RunKeys, names: Sequence[str]) -> list[bytes | None]:
        """Return rows of results; those of a deleted run, if its family keeps them."""
        found = await self._pick(run, names)
        if found and found.count(None) == len(found):
            # Its own input goes with it.
            left = await self._pick(run, names, run.kept)
            return [None if name == "input" else row for name, row in zip(names, left, strict=True)]
        return found

    async def _pick(
        self, run: RunKeys, names: Sequence[str], key: bytes = b""
    ) -> list[bytes | None]:
        if not names:
            return []
        try:
            fields = [name.encode() for name in names]
        except UnicodeEncodeError:
            raise InvalidArgument("a name holds half a surrogate pair") from None
        return await self._base.read(run, ("HMGET", key or run.rows, *fields))

    async def read_events(
        self, tenant_id: str, run_id: str, after: int, limit: int
    ) -> EventPage | None:
        """Return whole commits' events after a number."""
        run = self._base.run(tenant_id, run_id)
        after = min(max(after, 0), _AFTER_MAX)
        reply = await self._base.call(
            run.partition,
            self._base.scripts.events,
            (run.partition.book, run.rows, run.events),
            run.name.encode(),
            number(after),
            number(max(limit, 1)),
        )
        if reply is None:
            return None
        last, status, found = reply
        events: tuple[Event, ...] = tuple(map(rows.event_of, found))
        reached = events[-1].number if events else after
        ended = status.decode() in ENDED and reached >= int(last)
        return EventPage(events=events, latest=int(last), ended=ended)

    # --- pages ---

    async def list_tasks(self, tenant_id: str, run_id: str, cursor: str, limit: int) -> TaskPage:
        """Return tasks in the order of revision, then of their plan."""
        run = self._base.run(tenant_id, run_id)
        skip = 1 + rows.PLACE_CHARS
        found, more = await self._page(run, b"t", cursor, limit, skip=skip, prefix=b"t:")
        return TaskPage(tasks=tuple(map(rows.task_of, found)), cursor=more)

    async def list_executions(
        self, tenant_id: str, run_id: str, task_id: str, cursor: str, limit: int
    ) -> ExecutionPage:
        """Return executions in the order of their birth."""
        run = self._base.run(tenant_id, run_id)
        order = _order_of(b"k", task_id) if task_id else b"x"
        skip = len(order) + rows.SEQ_CHARS
        found, more = await self._page(run, order, cursor, limit, skip=skip, prefix=b"e:")
        return ExecutionPage(executions=tuple(map(rows.execution_of, found)), cursor=more)

    async def list_inputs(self, tenant_id: str, run_id: str, cursor: str, limit: int) -> InputPage:
        """Return all input requests of a run, the oldest first."""
        run = self._base.run(tenant_id, run_id)
        skip = 1 + rows.SEQ_CHARS
        found, more = await self._page(run, b"i", cursor, limit, skip=skip, prefix=b"i:")
        asked = (FoundInput(run_id=run_id, request=rows.input_of(row)) for row in found)
        return InputPage(inputs=tuple(asked), cursor=more)

    async def read_messages(
        self, tenant_id: str, run_id: str, task_id: str, cursor: str, limit: int
    ) -> MessagePage:
        """Return the conversation in the order of its commits."""
        run = self._base.run(tenant_id, run_id)
        order = _order_of(b"j", task_id) if task_id else b"y"
        found, more = await self._page(run, order, cursor, limit, skip=len(order), prefix=b"m:")
        return MessagePage(messages=tuple(map(rows.message_of, found)), cursor=more)

    async def _page(
        self, run: RunKeys, order: bytes, cursor: str, limit: int, *, skip: int, prefix: bytes
    ) -> tuple[list[bytes], str]:
        """Return a page of rows in one of the run's orders, and the cursor of the next."""
        kind, limit = order[:1].decode(), max(limit, 1)
        place = place_of(cursor, kind, bytes, b"")
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
        return _there(found[:limit]), more


def _order_of(letter: bytes, task_id: str) -> bytes:
    return letter + (escape(task_id) + SEPARATOR).encode()


def _there(found: Any) -> list[Any]:
    return [row for row in found if row is not None]


def _first(pair: tuple[bytes, OpenExecution]) -> bytes:
    return pair[0]


def _open_ones(found: list[bytes | None]) -> list[tuple[bytes, OpenExecution]]:
    """Return executions with their leases, each behind its order of birth."""
    ones: list[tuple[bytes, OpenExecution]] = []
    for at in range(0, len(found), 3):
        row, progress, session = found[at : at + 3]
        if row is not None:
            one = rows.open_execution_of(row, progress, session, _holder)
            ones.append((row[: rows.SEQ_CHARS], one))
    return ones

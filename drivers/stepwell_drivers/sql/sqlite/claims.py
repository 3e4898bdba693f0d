"""Claims: ready steps for workers, expired leases, timers, and the holds on them.

Ready steps lie in lanes, one for each (tenant, queue, kind, role, type, pin), ordered by priority
and then by when they became available. A claim reads the heads of the wanted lanes and skips steps
that aren't available yet, so it costs what it returns, however many runs are parked. A claim writes
nothing: holds are kept in memory, because one process holds the file (in Postgres they are a
column).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    bindparam,
    func,
    literal_column,
    select,
    tuple_,
)

from stepwell.core.port import Claim, Claimed, Due, ReadyStep, Want
from stepwell.core.records.states import DueKind, StepKind
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.statements import Pick, Query

PAGE = 64
"""The number of rows read at once from a lane, or of due rows."""

_READY = schema.executions.c.status == literal_column("'READY'")
"""As a literal, because a parameter would rule out the partial index."""
_LEASED = schema.executions.c.status == literal_column("'LEASED'")
_steps = schema.executions.c
_in_queue: tuple[ColumnElement[bool], ...] = (
    _READY,
    _steps.tenant_id == bindparam("tenant_id"),
    _steps.queue == bindparam("queue"),
)
_LANE: tuple[str, ...] = ("kind", "role", "type", "pin")
_lane = [_steps[name] for name in _LANE]
_lane_sought: list[ColumnElement[str]] = [bindparam(name) for name in _LANE]
_in_lane = (*_in_queue, *(_steps[name] == bindparam(name) for name in _LANE))
# SQLite starts a range over several columns at rows that equal its lower end, and drops those one
# by one. No step has this priority, so no row equals it.
_past_priority: ColumnElement[int] = literal_column(str(2**63 - 1))
_next_lane = Query(
    select(*_lane)
    .where(*_in_queue, tuple_(*_lane, _steps.priority) > tuple_(*_lane_sought, _past_priority))
    .order_by(*_lane)
    .limit(1)
)
_next_priority = Query(
    select(func.max(_steps.priority)).where(*_in_lane, _steps.priority < bindparam("below"))
)
_available = Query(
    select(_steps.available_us, _steps.seq, _steps.run_key, _steps.execution_id, _steps.version)
    .where(
        *_in_lane,
        _steps.priority == bindparam("priority"),
        _steps.available_us <= bindparam("now_us"),
        tuple_(_steps.available_us, _steps.seq) > tuple_(bindparam("us"), bindparam("seq")),
    )
    .order_by(_steps.available_us, _steps.seq)
    .limit(bindparam("many"))
)
_run = schema.runs.c
_expired = Query(
    select(
        *(_steps.deadline_us, _steps.seq, _steps.run_key, _steps.execution_id, _steps.version),
        *(_run.tenant_id, _run.run_id, _steps.token, _steps.limit_us),
    )
    .where(
        _LEASED,
        _steps.deadline_us <= bindparam("now_us"),
        tuple_(_steps.deadline_us, _steps.seq) > tuple_(bindparam("us"), bindparam("seq")),
        _run.run_key == _steps.run_key,
    )
    .order_by(_steps.deadline_us, _steps.seq)
    .limit(bindparam("many"))
)
_timer = schema.timers.c
_ran_out = Query(
    select(
        *(_timer.due_us, _timer.run_key, _timer.name, _timer.version),
        *(_run.tenant_id, _run.run_id),
    )
    .where(
        _timer.due_us <= bindparam("now_us"),
        tuple_(_timer.due_us, _timer.run_key, _timer.name)
        > tuple_(bindparam("us"), bindparam("run_key"), bindparam("name")),
        _run.run_key == _timer.run_key,
    )
    .order_by(_timer.due_us, _timer.run_key, _timer.name)
    .limit(bindparam("many"))
)
_upcoming = [
    Query(
        select(func.min(_steps.available_us)).where(
            _READY, _steps.available_us > bindparam("now_us")
        )
    ),
    Query(
        select(func.min(_steps.deadline_us)).where(
            _LEASED, _steps.deadline_us > bindparam("now_us")
        )
    ),
    Query(select(func.min(_timer.due_us)).where(_timer.due_us > bindparam("now_us"))),
]
_pick_runs = Pick(schema.runs, ("run_key",), ("run_key", "tenant_id", "run_id", "version"))

HoldKey = tuple[int, str, str]
"""A run's number, the kind of row, and its name."""


class Holds:
    """Held rows with the end of each hold. A row that changed since then is no longer held."""

    def __init__(self) -> None:
        self._held: dict[HoldKey, tuple[tuple[int, int], int]] = {}
        self._clean_at = 1_024

    def until_us(self, key: HoldKey, form: tuple[int, int], now_us: int) -> int:
        """Return the end of a hold, or 0 if the row is not held."""
        held = self._held.get(key)
        if held is None or held[0] != form or held[1] <= now_us:
            return 0
        return held[1]

    def hold(self, key: HoldKey, form: tuple[int, int], until_us: int, now_us: int) -> None:
        """Hold a row; forget expired holds when there are many."""
        self._held[key] = (form, until_us)
        if len(self._held) >= self._clean_at:
            self._held = {one: held for one, held in self._held.items() if held[1] > now_us}
            self._clean_at = max(1_024, 2 * len(self._held))


class _Candidate(NamedTuple):
    """A row that may be returned, with its sort key."""

    order: tuple[int, int, int]
    key: HoldKey
    form: tuple[int, int]
    """The row's version and moment."""
    kind: DueKind = DueKind.TIMER
    token: str = ""


class _Claim:
    """One claim in progress."""

    def __init__(self, connection: Link, holds: Holds, now_us: int) -> None:
        self._connection = connection
        self._holds = holds
        self._now_us = now_us
        self._taken: set[HoldKey] = set()
        self.next_us: list[int] = []

    def free(self, found: Iterator[_Candidate]) -> Iterator[_Candidate]:
        """Skip rows that are held or already returned."""
        for one in found:
            until_us = self._holds.until_us(one.key, one.form, self._now_us)
            if until_us:
                self.next_us.append(until_us)
            elif one.key not in self._taken:
                yield one

    def pick(self, found: Iterator[_Candidate], limit: int) -> list[_Candidate]:
        """Return the first `limit` rows."""
        taken = list(islice(self.free(found), max(limit, 0)))
        self._taken.update(one.key for one in taken)
        return taken

    def hold(self, found: list[_Candidate], hold_ms: int) -> None:
        """Hold the returned rows; a hold ends by itself."""
        if hold_ms <= 0:
            return
        until_us = self._now_us + hold_ms * 1_000
        for one in found:
            self._holds.hold(one.key, one.form, until_us, self._now_us)
        if found:
            self.next_us.append(until_us)

    # --- ready steps ---

    def ready(self, want: Want) -> Iterator[_Candidate]:
        """Merge the wanted lanes: higher priority first, then the longest available."""
        lanes = [
            self._lane({"tenant_id": want.tenant_id, "queue": queue} | lane)
            for queue in dict.fromkeys(want.queues)
            for lane in self._lanes(want.tenant_id, queue)
            if want.takes(StepKind(lane["kind"]), lane["type"], lane["role"], lane["pin"])
        ]
        return merge(*lanes)

    def _lanes(self, tenant_id: str, queue: str) -> Iterator[dict[str, str]]:
        """Jump from lane to lane of a queue: one lookup each, however many steps a lane has."""
        lane = dict.fromkeys(_LANE, "")
        while row := _next_lane.first(self._connection, tenant_id=tenant_id, queue=queue, **lane):
            lane = dict(zip(_LANE, map(str, row), strict=True))
            yield lane

    def _lane(self, lane: dict[str, Any]) -> Iterator[_Candidate]:
        below = 2**63 - 1
        while True:
            row = _next_priority.first(self._connection, **lane, below=below)
            if row is None or row[0] is None:
                return
            below = row[0]
            for us, seq, run_key, name, version in self._at_priority(lane, below):
                key = (run_key, "step", name)
                yield _Candidate((-below, us, seq), key, (version, us))

    def _at_priority(self, lane: dict[str, Any], priority: int) -> Iterator[Values]:
        us, seq = -1, -1
        while True:
            rows = _available.run(
                self._connection,
                **lane,
                priority=priority,
                now_us=self._now_us,
                us=us,
                seq=seq,
                many=PAGE,
            )
            yield from rows
            if len(rows) < PAGE:
                return
            us, seq = rows[-1][0], rows[-1][1]

    # --- what is due ---

    def due(self) -> Iterator[_Candidate]:
        """Merge expired leases and timers, oldest first."""
        leases = (
            _Candidate(
                *((us, 0, 0), (run_key, "lease", name), (version, us)),
                *(
                    DueKind.ATTEMPT_TIMED_OUT if 0 < limit_us <= us else DueKind.LEASE_EXPIRED,
                    token,
                ),
            )
            for us, _, run_key, name, version, _, _, token, limit_us in self._overdue(
                _expired, {"us": -1, "seq": 0}, (5, 6, 3)
            )
        )
        timers = (
            _Candidate((us, 1, 0), (run_key, "timer", name), (version, us))
            for us, run_key, name, version, _, _ in self._overdue(
                _ran_out, {"us": -1, "run_key": 0, "name": ""}, (4, 5, 2)
            )
        )
        return merge(leases, timers, key=lambda one: one.order)

    def _overdue(
        self, query: Query, place: dict[str, Any], names: Sequence[int]
    ) -> Iterator[Values]:
        """Yield due rows from a place on; `names` are the columns of tenant, run and row."""
        while True:
            rows = query.run(self._connection, **place, now_us=self._now_us, many=PAGE)
            # Rows that are due at the same moment are ordered by name, never by number.
            yield from sorted(rows, key=lambda row: (row[0], *[row[at] for at in names]))
            if len(rows) < PAGE:
                return
            place = dict(zip(place, rows[-1], strict=False))


def claim(connection: Link, claim: Claim, holds: Holds, now_us: int) -> Claimed:
    """Return ready steps and due timers, and hold them. One claim runs at a time."""
    search = _Claim(connection, holds, now_us)
    steps = [search.pick(search.ready(want), want.limit) for want in claim.wants]
    due = search.pick(search.due(), claim.due_limit)
    found = [one for several in (*steps, due) for one in several]
    search.hold(found, claim.hold_ms)
    wanted = dict.fromkeys(one.key[:1] for one in found)
    runs: dict[int, Values] = {row[0]: row[1:] for row in _pick_runs.run(connection, list(wanted))}
    return Claimed(
        ready=tuple(
            tuple(_step(one, runs[one.key[0]], now_us) for one in several) for several in steps
        ),
        due=tuple(_due(one, runs[one.key[0]]) for one in due),
        next_due_ms=_next_due_ms(connection, search.next_us, now_us),
        now_us=now_us,
    )


def _step(one: _Candidate, run: Values, now_us: int) -> ReadyStep:
    tenant_id, run_id, version = run
    return ReadyStep(
        tenant_id=tenant_id,
        run_id=run_id,
        execution_id=one.key[2],
        version=version,
        waited_ms=(now_us - one.form[1]) // 1_000,
    )


def _due(one: _Candidate, run: Values) -> Due:
    tenant_id, run_id, version = run
    return Due(
        tenant_id=tenant_id,
        run_id=run_id,
        kind=one.kind,
        name=one.key[2],
        token=one.token,
        version=version,
    )


def _next_due_ms(connection: Link, held_us: list[int], now_us: int) -> int:
    moments = [query.run(connection, now_us=now_us)[0][0] for query in _upcoming]
    coming = [moment for moment in (*moments, *held_us) if moment is not None]
    # Rounded up, so that a caller that comes back then is not too early.
    return -((now_us - min(coming)) // 1_000) if coming else -1

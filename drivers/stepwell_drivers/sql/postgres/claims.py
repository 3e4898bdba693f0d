"""Claims in Postgres.

Holds are stored in the rows, so they count for every replica. The lanes are those of
`sql.sqlite.claims`, but the server walks them: recursive queries jump from lane to lane and from
priority to priority, so a claim reads only the heads of lanes, however many runs are parked.
Candidates are chosen without locks and then locked unless another transaction has locked them (SKIP
LOCKED), so a claim never waits. Every write of such a row ends its hold, because it writes
`held_until_us` 0. The planner overestimates how many rows are found, and would read all due rows,
or all runs of a tenant, instead of looking a few up. Therefore found rows are looked up by a
separate query, in which `+ 0` and `|| ''` prevent the use of the ready and due indexes.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from stepwell.core.port import Claim, Claimed, Due, ReadyStep, Want
from stepwell.core.records.routing import TYPED, version_key
from stepwell.core.records.states import DueKind
from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.postgres.clock import database_clock
from stepwell_drivers.sql.statements import Query

LOOKS_MAX = 4
"""The most searches for one want: other replicas may lock everything that a search finds."""

_NUMBER, _TEXTS = BigInteger(), ARRAY(Text())

_ready = Query(
    text(
        """
        WITH RECURSIVE lanes AS (
          SELECT q.queue, f.* FROM unnest(:queues) AS q(queue) CROSS JOIN LATERAL (
            SELECT e.kind, e.role, e.type, e.pin FROM executions AS e WHERE e.status = 'READY'
              AND e.tenant_id = :tenant_id AND e.queue = q.queue COLLATE "C"
            ORDER BY e.kind, e.role, e.type, e.pin LIMIT 1) AS f
          UNION ALL
          SELECT l.queue, n.* FROM lanes AS l CROSS JOIN LATERAL (
            SELECT e.kind, e.role, e.type, e.pin FROM executions AS e WHERE e.status = 'READY'
              AND e.tenant_id = :tenant_id AND e.queue = l.queue COLLATE "C"
              AND (e.kind, e.role, e.type, e.pin) > (l.kind, l.role, l.type, l.pin)
            ORDER BY e.kind, e.role, e.type, e.pin LIMIT 1) AS n
        ), wanted AS MATERIALIZED (
          SELECT l.* FROM lanes AS l WHERE l.kind = ANY (:kinds)
            AND (l.pin IN ('', :exact) OR (l.pin >= '>' AND l.pin <= :least))
            AND (l.kind <> ALL (:typed) OR EXISTS (
              SELECT FROM unnest(:task_kinds, :task_types, :task_roles) AS t(kind, type, role)
              WHERE t.kind = l.kind AND t.type IN ('*', l.type) AND t.role IN ('*', l.role)))
        ), levels AS (
          SELECT l.*, (
            SELECT max(e.priority) FROM executions AS e WHERE e.status = 'READY'
              AND e.tenant_id = :tenant_id AND e.queue = l.queue COLLATE "C" AND e.kind = l.kind
              AND e.role = l.role AND e.type = l.type AND e.pin = l.pin) AS priority
          FROM wanted AS l
          UNION ALL
          SELECT l.queue, l.kind, l.role, l.type, l.pin, (
            SELECT max(e.priority) FROM executions AS e WHERE e.status = 'READY'
              AND e.tenant_id = :tenant_id AND e.queue = l.queue COLLATE "C" AND e.kind = l.kind
              AND e.role = l.role AND e.type = l.type AND e.pin = l.pin
              AND e.priority < l.priority)
          FROM levels AS l WHERE l.priority IS NOT NULL
        ), found AS MATERIALIZED (
          SELECT head.seq, head.priority, head.available_us
          FROM levels AS l CROSS JOIN LATERAL (
            SELECT e.seq, e.priority, e.available_us FROM executions AS e
            WHERE e.status = 'READY' AND e.tenant_id = :tenant_id
              AND e.queue = l.queue COLLATE "C" AND e.kind = l.kind AND e.role = l.role
              AND e.type = l.type AND e.pin = l.pin AND e.priority = l.priority
              AND e.available_us <= :now_us AND e.held_until_us <= :now_us
              AND e.seq <> ALL (:seen)
            ORDER BY e.available_us, e.seq LIMIT :many) AS head
          WHERE l.priority IS NOT NULL
          ORDER BY head.priority DESC, head.available_us, head.seq LIMIT :many
        ), free AS MATERIALIZED (
          SELECT mine.seq FROM found CROSS JOIN LATERAL (
            SELECT e.seq FROM executions AS e WHERE e.seq = found.seq
              AND e.status || '' = 'READY' AND e.available_us + 0 <= :now_us
              AND e.held_until_us + 0 <= :now_us
            FOR NO KEY UPDATE SKIP LOCKED) AS mine
        ), held AS (
          -- The second condition has the planner expect one row, not ten.
          UPDATE executions AS e SET held_until_us = :until_us FROM free
          WHERE e.seq = free.seq AND free.seq + 0 = free.seq
          RETURNING e.seq, e.run_key, e.execution_id, e.available_us
        )
        SELECT f.seq, r.run_id, h.execution_id, h.available_us, r.version
        FROM found AS f LEFT JOIN held AS h ON h.seq = f.seq
        LEFT JOIN LATERAL (
          SELECT run_id, version FROM run_rows WHERE run_key = h.run_key OFFSET 0) AS r ON true
        ORDER BY f.priority DESC, f.available_us, f.seq
        """
    ).bindparams(
        *[bindparam(name, type_=_TEXTS) for name in ("queues", "kinds", "typed")],
        *[bindparam(name, type_=_TEXTS) for name in ("task_kinds", "task_types", "task_roles")],
        *[bindparam(name, type_=Text()) for name in ("tenant_id", "exact", "least")],
        bindparam("seen", type_=ARRAY(BigInteger())),
        *[bindparam(name, type_=_NUMBER) for name in ("now_us", "until_us", "many")],
    )
)
_due = Query(
    text(
        """
        WITH found AS MATERIALIZED (
          SELECT * FROM (
            (SELECT 0 AS kind, deadline_us AS us, seq AS number, '' AS name
             FROM executions
             WHERE status = 'LEASED' AND deadline_us <= :now_us AND held_until_us <= :now_us
             ORDER BY deadline_us, seq LIMIT :many)
            UNION ALL
            (SELECT 1, due_us, run_key, name FROM timers
             WHERE due_us <= :now_us AND held_until_us <= :now_us
             ORDER BY due_us, run_key, name LIMIT :many)
          ) AS either ORDER BY us, kind, number, name LIMIT :many
        ), free_leases AS MATERIALIZED (
          SELECT mine.* FROM found AS f CROSS JOIN LATERAL (
            SELECT e.seq FROM executions AS e
            WHERE e.seq = f.number AND e.status || '' = 'LEASED'
              AND e.deadline_us + 0 <= :now_us AND e.held_until_us + 0 <= :now_us
            FOR NO KEY UPDATE SKIP LOCKED) AS mine
          WHERE f.kind = 0
        ), held_leases AS (
          UPDATE executions AS e SET held_until_us = :until_us FROM free_leases AS f
          WHERE e.seq = f.seq
          RETURNING e.run_key, e.execution_id, e.deadline_us, e.limit_us, e.token
        ), free_timers AS MATERIALIZED (
          SELECT mine.* FROM found AS f CROSS JOIN LATERAL (
            SELECT t.run_key, t.name FROM timers AS t
            WHERE t.run_key = f.number AND t.name = f.name
              AND t.due_us + 0 <= :now_us AND t.held_until_us + 0 <= :now_us
            FOR NO KEY UPDATE SKIP LOCKED) AS mine
          WHERE f.kind = 1
        ), held_timers AS (
          UPDATE timers AS t SET held_until_us = :until_us FROM free_timers AS f
          WHERE t.run_key = f.run_key AND t.name = f.name
          RETURNING t.run_key, t.name, t.due_us
        ), taken AS (
          SELECT 0 AS kind, deadline_us AS us, run_key, execution_id AS name, token,
            0 < limit_us AND limit_us <= deadline_us AS over
          FROM held_leases
          UNION ALL SELECT 1, due_us, run_key, name, '', false FROM held_timers
        )
        SELECT t.kind, r.tenant_id, r.run_id, t.name, t.token, t.over, r.version
        FROM taken AS t CROSS JOIN LATERAL (
          SELECT tenant_id, run_id, version FROM run_rows WHERE run_key = t.run_key OFFSET 0) AS r
        ORDER BY t.us, t.kind, r.tenant_id, r.run_id, t.name
        """
    ).bindparams(*[bindparam(name, type_=_NUMBER) for name in ("now_us", "until_us", "many")])
)
# Not `min`, for which the planner may choose an index in another order while there are few rows.
_next = Query(
    text(
        """
        SELECT least(
          (SELECT available_us FROM executions WHERE status = 'READY' AND available_us > :now_us
           ORDER BY available_us LIMIT 1),
          (SELECT deadline_us FROM executions WHERE status = 'LEASED' AND deadline_us > :now_us
           ORDER BY deadline_us LIMIT 1),
          (SELECT due_us FROM timers WHERE due_us > :now_us ORDER BY due_us LIMIT 1),
          (SELECT held_until_us FROM executions WHERE held_until_us > 0 AND held_until_us > :now_us
           ORDER BY held_until_us LIMIT 1),
          (SELECT held_until_us FROM timers WHERE held_until_us > 0 AND held_until_us > :now_us
           ORDER BY held_until_us LIMIT 1))
        """
    ).bindparams(bindparam("now_us", type_=_NUMBER))
)


def claim(connection: Link, claim: Claim) -> Claimed:
    """Return ready steps and due timers, and hold them."""
    now_us = database_clock(connection)
    until_us = now_us + max(claim.hold_ms, 0) * 1_000
    seen: list[int] = []
    ready = tuple(_take(connection, want, now_us, until_us, seen) for want in claim.wants)
    rows: list[Values] = []
    if claim.due_limit > 0:
        rows = _due.run(connection, now_us=now_us, until_us=until_us, many=claim.due_limit)
    upcoming = _next.run(connection, now_us=now_us)[0][0]
    return Claimed(
        ready=ready,
        due=tuple(_due_of(row) for row in rows),
        # Rounded up, so that a caller that comes back then is not too early.
        next_due_ms=-1 if upcoming is None else -((now_us - upcoming) // 1_000),
        now_us=now_us,
    )


def _take(
    connection: Link, want: Want, now_us: int, until_us: int, seen: list[int]
) -> tuple[ReadyStep, ...]:
    """Lock and hold steps for one want; add every candidate to `seen`."""
    steps: list[ReadyStep] = []
    key = version_key(want.version)
    for _ in range(LOOKS_MAX):
        many = want.limit - len(steps)
        if many <= 0:
            break
        rows = _ready.run(
            connection,
            tenant_id=want.tenant_id,
            queues=list(dict.fromkeys(want.queues)),
            kinds=list(dict.fromkeys(kind.value for kind in want.kinds)),
            typed=[kind.value for kind in TYPED] if want.tasks else [],
            task_kinds=[one.kind.value for one in want.tasks],
            task_types=[one.type for one in want.tasks],
            task_roles=[one.role for one in want.tasks],
            exact=f"={want.version}",
            least=f">{key}" if key else "",
            now_us=now_us,
            until_us=until_us,
            seen=seen,
            many=many,
        )
        taken = [row for row in rows if row[1] is not None]
        seen += [row[0] for row in rows]
        steps += [
            ReadyStep(
                tenant_id=want.tenant_id,
                run_id=run_id,
                execution_id=name,
                version=version or 0,
                waited_ms=(now_us - available_us) // 1_000,
            )
            for _, run_id, name, available_us, version in taken
        ]
        if len(rows) < many or len(taken) == len(rows):
            break
    return tuple(steps)


def _due_of(row: Values) -> Due:
    kind, tenant_id, run_id, name, token, over, version = row
    expired = DueKind.ATTEMPT_TIMED_OUT if over else DueKind.LEASE_EXPIRED
    return Due(
        tenant_id=tenant_id,
        run_id=run_id,
        kind=DueKind.TIMER if kind else expired,
        name=name,
        token=token,
        version=version,
    )

"""Heartbeats in Postgres: one UPDATE for many leases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell_drivers.sql.columns import bytes_of
from stepwell_drivers.sql.writes import NO_SESSION, RenewWork, beat_of, merged

RENEW = """
UPDATE executions AS e SET
  deadline_us = least(clock.now_us + g.lease_us, nullif(e.limit_us, 0)),
  held_until_us = 0,
  progress_media_type = CASE WHEN g.progress IS NULL THEN e.progress_media_type ELSE g.media_type END,
  progress = coalesce(g.progress, e.progress),
  session_backend = coalesce(g.backend, e.session_backend),
  session_id = coalesce(g.session_id, e.session_id)
FROM (SELECT stepwell_now_us() AS now_us OFFSET 0) AS clock
CROSS JOIN unnest(
  $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[],
  $6::text[], $7::bytea[], $8::text[], $9::text[]
) WITH ORDINALITY AS g(
  tenant_id, run_id, execution_id, token, lease_us, media_type, progress, backend, session_id, place
)
JOIN run_rows AS r ON r.tenant_id = g.tenant_id AND r.run_id = g.run_id
WHERE e.run_key = r.run_key AND e.execution_id = g.execution_id AND e.token = g.token
RETURNING g.place
"""


class RenewCall:
    """Heartbeats as one call."""

    sql = RENEW

    def __init__(self, works: Sequence[RenewWork]) -> None:
        self._works = works
        renewals = [renewal for work in works for renewal in work.renewals]
        # In the order in which commits lock the same rows.
        self._beats = sorted(merged(renewals).items())

    @property
    def arguments(self) -> list[list[Any]]:
        """The arguments of the call."""
        columns: list[list[Any]] = [[] for _ in range(9)]
        for beat, renewal in self._beats:
            session = renewal.session
            names = (None, None) if session == NO_SESSION else (session.backend, session.session_id)
            row = (*beat, renewal.lease_ms * 1_000, *bytes_of(renewal.progress), *names)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        return [columns]

    def answers(self, answered: Sequence[Sequence[Any]]) -> list[list[bool]]:
        """Return the answer to each work, by the rows that the call returned."""
        places: list[int] = [row[0] for row in answered[0]]
        renewed = {self._beats[place - 1][0] for place in places}
        return [[beat_of(one) in renewed for one in work.renewals] for work in self._works]

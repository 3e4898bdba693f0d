"""Heartbeats in SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell_drivers.sql import schema
from stepwell_drivers.sql.batch import RowKey
from stepwell_drivers.sql.columns import Values, bytes_of
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.statements import Pick, Update
from stepwell_drivers.sql.writes import NO_SESSION, Beat, RenewWork, beat_of, merged

_RUN = ("tenant_id", "run_id")
_STEP = ("run_key", "execution_id")
_pick_runs = Pick(schema.runs, _RUN, (*_RUN, "run_key"))
_pick_leases = Pick(schema.executions, _STEP, (*_STEP, "token", "limit_us"))
_PROGRESS = ("progress_media_type", "progress")
_SESSION = ("session_backend", "session_id")
_MOVED = ("deadline_us", "held_until_us")
_renew = {
    (False, False): Update(schema.executions, _STEP, _MOVED),
    (True, False): Update(schema.executions, _STEP, (*_MOVED, *_PROGRESS)),
    (False, True): Update(schema.executions, _STEP, (*_MOVED, *_SESSION)),
    (True, True): Update(schema.executions, _STEP, (*_MOVED, *_PROGRESS, *_SESSION)),
}


def renew(connection: Link, works: Sequence[RenewWork], now_us: int) -> list[list[bool]]:
    """Move deadlines, and answer each work; of several heartbeats for one lease the last one counts."""
    beats = merged([renewal for work in works for renewal in work.renewals])
    runs = dict.fromkeys((tenant_id, run_id) for tenant_id, run_id, *_ in beats)
    numbers = {(row[0], row[1]): row[2] for row in _pick_runs.run(connection, list(runs))}
    keys = {beat: (numbers.get(beat[:2], 0), beat[2]) for beat in beats}
    stored: dict[RowKey, tuple[str | None, int | None]] = {
        (row[0], row[1]): (row[2], row[3])
        for row in _pick_leases.run(connection, list(dict.fromkeys(keys.values())))
    }
    rows: dict[tuple[bool, bool], list[Values]] = {}
    renewed: set[Beat] = set()
    for beat, renewal in beats.items():
        token, limit_us = stored.get(keys[beat], ("", 0))
        if not token or token != renewal.token:
            continue
        renewed.add(beat)
        deadline_us = now_us + renewal.lease_ms * 1_000
        deadline_us = min(deadline_us, limit_us) if limit_us else deadline_us
        session = renewal.session
        progress = () if renewal.progress is None else bytes_of(renewal.progress)
        names = () if session == NO_SESSION else (session.backend, session.session_id)
        row = (*keys[beat], deadline_us, 0, *progress, *names)
        rows.setdefault((bool(progress), bool(names)), []).append(row)
    for kind, several in rows.items():
        _renew[kind].run(connection, several)
    return [[beat_of(renewal) in renewed for renewal in work.renewals] for work in works]

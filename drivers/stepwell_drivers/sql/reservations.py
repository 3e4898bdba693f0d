"""Reservations of idempotency keys: each is compared and swapped while its row is locked.

A key has a row while a run has reserved it, and during a transaction that asks for it. A
transaction's first statement locks all its rows in the order of their keys, so that no two
transactions wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select

from stepwell.core.port import NOBODY, KeySwap, Reservation
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.statements import Delete, InsertOrLock, Pick, Query, Update

Place = tuple[str, str, str]
"""Tenant, pipeline and key."""

_PLACE = ("tenant_id", "pipeline_id", "key")
_HOLDER = ("run_id", "commit_id")
_put_or_lock = InsertOrLock(schema.reservations, (*_PLACE, *_HOLDER), key=_PLACE)
_move = Update(schema.reservations, _PLACE, _HOLDER)
_drop = Delete(schema.reservations, _PLACE)
_pick = Pick(schema.reservations, _PLACE, (*_PLACE, *_HOLDER))
_reserved = schema.reservations.c
_of_run = Query(
    select(*[_reserved[name] for name in _PLACE])
    .where(
        schema.listed(_reserved.tenant_id),
        _reserved.tenant_id == bindparam("tenant_id"),
        _reserved.run_id == bindparam("run_id"),
    )
    .order_by(_reserved.pipeline_id, _reserved.key)
    .with_for_update()
)


class SwapWork(NamedTuple):
    """`Store.swap_keys`; answers with a list of Reservation."""

    tenant_id: str
    pipeline_id: str
    swaps: Sequence[KeySwap]

    @property
    def only_looks(self) -> bool:
        """True if none of the swaps can change anything."""
        return all(swap.before == swap.after for swap in self.swaps)


def swap_keys(connection: Link, works: Sequence[SwapWork]) -> list[list[Reservation]]:
    """Execute these swaps in order, and return the reservation after each."""
    asked = [[(_place(work, swap), swap) for swap in work.swaps] for work in works]
    first: dict[Place, Reservation] = {}
    for several in asked:
        for place, swap in several:
            # Most swaps reserve a free key, which the first statement does completely.
            first.setdefault(place, swap.after if swap.before == NOBODY else NOBODY)
    rows = [_row(place, first[place]) for place in sorted(first)]
    found = _reservations(_put_or_lock.read(connection, rows))
    stands = dict(found)
    answers: list[list[Reservation]] = []
    for several in asked:
        answers.append([])
        for place, swap in several:
            if stands[place] == swap.before:
                stands[place] = swap.after
            answers[-1].append(stands[place])
    moved = [_row(place, now) for place, now in stands.items() if now not in (NOBODY, found[place])]
    freed = [place for place, now in stands.items() if now == NOBODY]
    _move.run(connection, moved)
    _drop.run(connection, freed)
    return answers


def read(connection: Link, work: SwapWork) -> list[Reservation]:
    """Return the reservations of keys that are only read."""
    places = [_place(work, swap) for swap in work.swaps]
    stands = _reservations(_pick.run(connection, list(dict.fromkeys(places))))
    return [stands.get(place, NOBODY) for place in places]


def free(connection: Link, tenant_id: str, run_id: str) -> None:
    """Remove a run's reservations."""
    _drop.run(connection, _of_run.run(connection, tenant_id=tenant_id, run_id=run_id))


def _place(work: SwapWork, swap: KeySwap) -> Place:
    return work.tenant_id, work.pipeline_id, swap.key


def _row(place: Place, reservation: Reservation) -> Values:
    return (*place, reservation.run_id, reservation.commit_id)


def _reservations(rows: Sequence[Values]) -> dict[Place, Reservation]:
    return {(row[0], row[1], row[2]): Reservation(run_id=row[3], commit_id=row[4]) for row in rows}

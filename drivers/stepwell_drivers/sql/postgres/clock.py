"""The database's clock, which is the store's."""

from __future__ import annotations

from sqlalchemy import text

from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.statements import Query

_now = Query(text("SELECT stepwell_now_us()"))


def database_clock(connection: Link) -> int:
    """Return Postgres' time."""
    return _now.run(connection)[0][0]

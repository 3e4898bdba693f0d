"""Postgres: many processes over one database, which has the clock, the holds and the order of commits."""

from __future__ import annotations

from stepwell_drivers.sql.postgres.migrating import migrate_store
from stepwell_drivers.sql.postgres.opening import open_store

__all__ = ["migrate_store", "open_store"]

"""SQLite: one file, one process, one writing connection with a disk thread, and several that read."""

from __future__ import annotations

from stepwell_drivers.sql.sqlite.migrating import migrate_store
from stepwell_drivers.sql.sqlite.opening import open_store

__all__ = ["migrate_store", "open_store"]

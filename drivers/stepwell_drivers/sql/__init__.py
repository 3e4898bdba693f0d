"""The SQL store: `sqlite:///PATH` now; Postgres comes as the same module over another dialect.

All SQL is plain functions over a SQLAlchemy connection (`commits`, `writes`, `reads`, `pages`,
`claims`); `writer`, `readers` and `engine` are how SQLite runs them.
"""

from __future__ import annotations

from stepwell_drivers.sql.opening import open_store

__all__ = ["open_store"]

"""Fixtures of several files: places for a SQL store, and a Postgres that asks for a password."""

from __future__ import annotations

from tests.contract.drivers.sql_places import place, store
from tests.support.backends.fixtures import bouncer, database, own, server

__all__ = ["bouncer", "database", "own", "place", "server", "store"]

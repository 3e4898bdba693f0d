"""A Postgres that asks for a password, for the tests of what it refuses."""

from __future__ import annotations

from tests.support.backends.fixtures import bouncer, database, own, server

__all__ = ["bouncer", "database", "own", "server"]

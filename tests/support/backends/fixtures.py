"""Fixtures of a Postgres that asks for a password; conftest files import them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.load.chains import SECRET, Server
from tests.support.backends.pgbouncer import PgBouncer
from tests.support.backends.postgres import Postgres
from tests.support.backends.shared import postgres_server, shared


@pytest.fixture
def server(backends: None) -> Iterator[Server]:
    """A Postgres that asks for a password, up again at the end."""
    found = postgres_server(18, password=SECRET)
    yield found
    found.start()


@pytest.fixture
def own(server: Server) -> Postgres:
    """The same, where it is ours to stop."""
    if not isinstance(server, Postgres):
        pytest.skip("needs a server of its own")
    return server


@pytest.fixture
def bouncer(own: Postgres) -> PgBouncer:
    return shared(PgBouncer, own)


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    """An empty database in it."""
    name = server.new_database()
    yield name
    server.start()
    server.drop_database(name)

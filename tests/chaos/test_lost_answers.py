"""Calls that neither commit nor record, whose answer is lost: none of them leaves anybody in doubt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import pytest

from stepwell.core.port import Claim, LogsOfExecution, OldLogs, Store
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.states import LogKind
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.conformance import builders as b
from tests.support.backends.postgres import Postgres
from tests.support.backends.proxy import Proxy
from tests.support.backends.shared import postgres_server

RUN = (b.TENANT, b.RUN)
TRIES = 20
CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "renew": lambda store: store.renew([b.renewal()]),
    "put_presence": lambda store: store.put_presence([b.presence()], ttl_ms=1_000),
    "append_logs": lambda store: store.append_logs(*RUN, [b.line("x")]),
    "trim_logs": lambda store: store.remove_logs(
        LogsOfExecution(tenant_id=RUN[0], run_id=RUN[1], execution_id="x", kind=LogKind.CHUNK)
    ),
    "purge_logs": lambda store: store.remove_logs(OldLogs(older_ms=1, limit=1)),
    "claim": lambda store: store.claim(Claim(wants=(b.want(),))),
}


class Between(NamedTuple):
    """A store, and the proxy before its server."""

    store: Store
    proxy: Proxy


@pytest.fixture
async def between() -> AsyncIterator[Between]:
    server = postgres_server()
    if not isinstance(server, Postgres):
        pytest.skip("needs a server of its own")
    name = server.new_database()
    async with Proxy(server.port) as proxy:
        url = server.url(name, port=proxy.port, sslmode="disable")
        store = await open_store(url, runtime=SystemRuntime())
        await store.commit([b.created_leased()])
        yield Between(store, proxy)
        proxy.heal()
        await store.close()
    server.drop_database(name)


async def lost(
    between: Between, call: Callable[[Store], Awaitable[object]], last: bytes = b"COMMIT"
) -> object:
    """Make the call until the answer was lost to the last that it sends; return what the caller got."""
    for _ in range(TRIES):
        # Of two connections, one may be gone before it is asked: then another is as good.
        between.proxy.heal()
        before = between.proxy.fired
        between.proxy.lose_reply_to(last)
        try:
            answer = await call(between.store)
        except StoreUnavailable as error:
            return error
        if between.proxy.fired > before:
            return answer
    raise AssertionError("no answer was ever lost")


@pytest.mark.parametrize("name", CALLS)
async def test_S4_call_that_neither_commits_nor_records_is_never_unknown(
    name: str, between: Between
) -> None:
    # Heartbeats are one statement, which no COMMIT follows.
    last = b.STEP.encode() if name == "renew" else b"COMMIT"
    assert isinstance(await lost(between, CALLS[name], last), StoreUnavailable)
    between.proxy.heal()
    await CALLS[name](between.store)


async def test_S4_deletion_whose_answer_was_lost_is_resolved(between: Between) -> None:
    deleted = await lost(between, lambda store: store.delete_run(*RUN, version=1))
    assert deleted is True
    assert await between.store.get_run(*RUN) is None

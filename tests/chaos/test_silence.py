"""Databases that fall silent: no FIN, no RST, nothing but answers that don't come. A proxy stands still.

test_databases.py tests a commit meanwhile, and peers of gRPC that vanish in test_half_open.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import grpc.aio
import pytest

from stepwell.config import ExecutorSettings
from stepwell.rpc.server import Server
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import ME, Client, settings_for
from tests.service.leaks.bench import Anybody
from tests.support.backends.proxy import Proxy
from tests.support.backends.shared import postgres_server, redis_server
from tests.support.patience import PATIENCE_S
from tests.support.proofs import record
from tests.support.proofs.sizes import Scale, scale

pytestmark = pytest.mark.proof

EXECUTOR = ExecutorSettings(lease_ms=60_000, poll_ms=100, hold_ms=50)
"""One worker has all steps at once and does them one after another: no lease runs out meanwhile."""
POOL = 4
KINDS = ("redis",) if scale() is Scale.TEST else ("postgres", "redis")


class Place(NamedTuple):
    """A database with a proxy before it."""

    proxy: Proxy
    url: str
    """Through the proxy."""
    connections: Callable[[], int]


@asynccontextmanager
async def _postgres() -> AsyncIterator[Place]:
    server = postgres_server()
    name = server.new_database()
    limits: dict[str, Any] = {"statement_timeout_ms": "1000", "lock_timeout_ms": "500"}
    limits |= {"connect_timeout_ms": "1000", "pool_size": str(POOL), "sslmode": "disable"}

    def connections() -> int:
        counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
        return server.fetch(counted, name)[0][0]

    try:
        async with Proxy(server.port) as proxy:
            yield Place(proxy, server.url(name, port=proxy.port, **limits), connections)
    finally:
        server.drop_database(name)


@asynccontextmanager
async def _redis() -> AsyncIterator[Place]:
    server = redis_server("redis")
    server.flush()

    def connections() -> int:
        return len(server.execute("CLIENT", "LIST").splitlines()) - 1

    async with Proxy(server.port) as proxy:
        url = server.url(port=proxy.port, timeout_ms="1000", connections=str(POOL))
        yield Place(proxy, url, connections)


PLACES = {"postgres": _postgres, "redis": _redis}


async def started(client: Client, request_id: str) -> str | None:
    """Ask once for a run of one task, with all the patience a caller has; None: no answer."""
    plan = types_pb2.PlanDraft(tasks=[types_pb2.TaskSpec(task_id="a")])
    request = opb.StartRunRequest(plan=plan, queue="q", request_id=request_id)
    try:
        reply = await client.runs.StartRun(request, metadata=ME, timeout=3.0)
    except grpc.aio.AioRpcError as error:
        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            raise
        return None
    return reply.run.spec.run_id


async def until_started(client: Client, request_id: str) -> str:
    async with asyncio.timeout(PATIENCE_S):
        while (run_id := await started(client, request_id)) is None:  # noqa: ASYNC110 - it is asked each time
            await asyncio.sleep(0.1)
    return run_id


@pytest.mark.parametrize("kind", KINDS)
async def test_S3_server_goes_on_when_its_silent_database_answers_again(
    kind: str, tmp_path: Path
) -> None:
    count = 12
    async with PLACES[kind]() as place:
        settings = settings_for(place.url, tmp_path, executor=EXECUTOR, drain_ms=2_000)
        # Its limits are as short as its database's, and a server doesn't start without that.
        server = Server(settings, authenticator=Anybody())
        async with server:
            client = Client(server.addresses[0])
            before = [await until_started(client, str(uuid4())) for _ in range(count)]
            baseline = place.connections()
            wanted = [str(uuid4()) for _ in range(count)]
            place.proxy.freeze()
            silent = await asyncio.gather(*(started(client, one) for one in wanted))
            assert not any(silent), "nobody can have answered"
            place.proxy.thaw()
            runs = [await until_started(client, one) for one in wanted]
            # Each is one run, and all of them, old and new, are done by whoever comes.
            assert len({*runs, *before}) == 2 * count, "S16"
            async with client.worker("near", queues=["q"], grant=2 * count) as worker:
                for _ in range(2 * count):
                    ack = await worker.complete(await worker.assignment())
                    assert ack.status == wpb.ACK_STATUS_ACCEPTED
            for run_id in (*runs, *before):
                run = await client.wait(run_id)
                assert run.status == types_pb2.RUN_STATUS_SUCCEEDED, "L1"
            async with asyncio.timeout(PATIENCE_S):
                while place.connections() > max(baseline, POOL + 2):  # noqa: ASYNC110 - the database tells nobody
                    await asyncio.sleep(0.1)
            await client.channel.close()
    record.note(f"silent databases, {kind}", {"runs over a silence": 2 * count})

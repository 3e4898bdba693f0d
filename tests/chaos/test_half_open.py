"""Workers and watchers that vanish without a word, and servers that do: what waits for them, goes on without.

Nobody closes a connection here: the proxy on the way stands still, and takes what is sent. Keepalive finds it out,
leases run out by themselves, and a client's watch goes on where it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stepwell.config import ExecutorSettings, GrpcSettings
from stepwell.core.port import ExecutionQuery
from stepwell.rpc.server import Server
from stepwell_client import Client as LibraryClient
from stepwell_client.internal import Connection
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import Client, RawWorker, settings_for
from tests.service.leaks.bench import Anybody
from tests.support.backends.proxy import Proxy
from tests.support.patience import PATIENCE_S, until
from tests.support.proofs import record
from tests.support.proofs.sizes import Scale, scale
from tests.unit.engine.executor_world import TENANT

KEEPALIVE_MS = 400
NOTICED_S = 5.0
"""Twice keepalive and its time-out are 1.6 s; the rest is for a busy machine."""
LEASE_MS = 1_500
EXECUTOR = ExecutorSettings(lease_ms=LEASE_MS, poll_ms=100, hold_ms=50)
WAYS = (True,) if scale() is Scale.TEST else (True, False)
"""Ways in which a watch goes on: at another address, or at the same one when it is there again."""
SOON = types_pb2.RetryPolicy(initial_backoff={"nanos": 1_000_000}, max_attempts=100)


@asynccontextmanager
async def served(url: str, folder: Path) -> AsyncIterator[tuple[Server, Proxy]]:
    """A server, and the one way to it that can stand still."""
    grpc = GrpcSettings(
        host="127.0.0.1",
        port=0,
        keepalive_ms=KEEPALIVE_MS,
        keepalive_timeout_ms=KEEPALIVE_MS,
    )
    settings = settings_for(url, folder, grpc=grpc, executor=EXECUTOR)
    async with (
        Server(settings, authenticator=Anybody()) as server,
        Proxy(int(server.addresses[0].rpartition(":")[2])) as proxy,
    ):
        yield server, proxy


def streams(server: Server, method: str) -> float:
    """Return the gauge of open streams of a method, as the page for Prometheus shows it."""
    name = "stepwell_rpc_streams"
    return server.metrics.registry.get_sample_value(name, {"method": method}) or 0.0


async def until_done(worker: RawWorker, got: wpb.Assignment) -> None:
    """Do a step, again if need be: nobody tells anybody that this worker is alive, and its leases are short."""
    while (ack := await worker.complete(got)).status != wpb.ACK_STATUS_ACCEPTED:
        assert ack.status == wpb.ACK_STATUS_LEASE_LOST
        await worker.send(grant=1)
        got = await worker.assignment()


@pytest.mark.proof
async def test_S10_vanished_worker_is_noticed_and_its_step_taken_over(tmp_path: Path) -> None:
    async with served("memory://", tmp_path) as (server, proxy):
        client, far = Client(server.addresses[0]), Client(f"127.0.0.1:{proxy.port}")
        tasks = [types_pb2.TaskSpec(task_id="a", retry=SOON)]
        run = await client.start(plan=types_pb2.PlanDraft(tasks=tasks), queue="q")
        async with far.worker("far", queues=["q"], grant=1) as other:
            await other.assignment()
            assert streams(server, "/stepwell.v1.Worker/Work") == 1
            proxy.freeze()
            pulled = time.monotonic()
            async with client.worker("near", queues=["q"], grant=1) as near:
                got = await near.assignment()
                over = time.monotonic() - pulled
                assert got.execution.attempt == 2, "S9"
                page = await server.store.page(
                    ExecutionQuery(tenant_id=TENANT, run_id=run.spec.run_id, limit=1)
                )
                lost = page.items[0]
                lived_ms = (lost.ended_us - lost.leased_us) / 1_000
                assert lived_ms >= LEASE_MS * 0.9, "S10: taken while it was alive"
                await until_done(near, got)
                await until(lambda: len(server.deps.executor.connected) == 1)
                noticed = time.monotonic() - pulled
                assert noticed < NOTICED_S + LEASE_MS / 1_000
                await until(lambda: streams(server, "/stepwell.v1.Worker/Work") == 1)
            done = await client.wait(run.spec.run_id)
            assert done.status == types_pb2.RUN_STATUS_SUCCEEDED
        print(f"noticed after {noticed:.1f} s, taken over after {over:.1f} s")
        await client.channel.close()
        await far.channel.close()
    record.note("half-open connections, workers", {"vanished": 1})


@pytest.mark.proof
async def test_R1_vanished_watcher_is_let_go_of(tmp_path: Path) -> None:
    async with served("memory://", tmp_path) as (server, proxy):
        client, far = Client(server.addresses[0]), Client(f"127.0.0.1:{proxy.port}")
        run = await client.start_tasks("a", queue="q")
        name = "/stepwell.v1.Orchestrator/WatchRun"
        call = far.watch(run.spec.run_id)
        await call.read()
        assert streams(server, name) == 1
        proxy.freeze()
        async with asyncio.timeout(NOTICED_S):
            await until(lambda: streams(server, name) == 0)
        call.cancel()
        await client.channel.close()
        await far.channel.close()
    record.note("half-open connections, watchers", {"vanished": 1})


def _short_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own are 20 s and 10 s: too long to be waited for here."""
    monkeypatch.setattr(Connection, "keepalive_ms", KEEPALIVE_MS)
    monkeypatch.setattr(Connection, "keepalive_timeout_ms", KEEPALIVE_MS)


async def _watch(client: LibraryClient, run_id: str, numbers: list[int]) -> None:
    async with client.run(run_id).watch() as events:
        async for event in events:
            numbers.append(event.number)  # noqa: PERF401 - each is looked at as it comes


async def _do_all(client: Client, count: int) -> None:
    """Do the steps of a run, a few at a time, so that its events come one after another."""
    async with client.worker("near", queues=["q"], grant=1) as worker:
        for _ in range(count):
            await until_done(worker, await worker.assignment())
            await worker.send(grant=1)


@pytest.mark.proof
@pytest.mark.parametrize("elsewhere", WAYS, ids=lambda way: "elsewhere" if way else "later")
async def test_E3_watch_goes_on_when_its_server_vanishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    _short_keepalive(monkeypatch)
    url = f"sqlite:///{tmp_path / 'stepwell.db'}"
    async with served(url, tmp_path) as (server, proxy):
        client = Client(server.addresses[0])
        tasks = [types_pb2.TaskSpec(task_id=name, retry=SOON) for name in "abcd"]
        run = await client.start(plan=types_pb2.PlanDraft(tasks=tasks), queue="q")
        targets = [f"127.0.0.1:{proxy.port}", *(server.addresses if elsewhere else ())]
        numbers: list[int] = []
        async with LibraryClient(f"ipv4:{','.join(targets)}", token="") as watcher:
            watching = asyncio.create_task(_watch(watcher, run.spec.run_id, numbers))
            await until(lambda: bool(numbers))
            proxy.freeze()
            seen = len(numbers)
            await _do_all(client, 4)
            if not elsewhere:
                await asyncio.sleep(3 * KEEPALIVE_MS / 1_000)
                assert len(numbers) == seen
                proxy.thaw()
            async with asyncio.timeout(PATIENCE_S):
                await watching
        latest = (await client.get(run.spec.run_id)).last_event
        assert numbers == list(range(1, latest + 1)), "E3"
        await client.channel.close()
    record.note("half-open connections, watches of the client", {"vanished": 1})

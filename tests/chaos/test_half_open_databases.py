"""S4: a database that falls silent in the middle of a commit, and is there again later.

The wire is pulled when the commit goes by: before it has arrived, or after, when the answer is on its way.
The driver gives up within its own time-outs and says that it doesn't know; asked again, with the same
`commit_id`, the database says what became of it. Then the pool is as it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import grpc.aio
import pytest

from stepwell.config import ExecutorSettings
from stepwell.core.port import Commit, FeedEntry, Store
from stepwell.core.records.errors import OutcomeUnknown
from stepwell.core.records.states import Verdict
from stepwell.rpc.server import Server
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from stepwell_testkit.conformance import builders as b
from tests.chaos.faults.peer import Peer, peer
from tests.chaos.faults.wire import Wire, wire
from tests.chaos.load.bench import Anybody
from tests.service.conftest import ME, Client, settings_for
from tests.support.backends.postgres import Postgres
from tests.support.backends.redis import Redis
from tests.support.backends.required import missing
from tests.support.backends.shared import postgres_server, redis_server
from tests.support.patience import insisting
from tests.support.proofs import record
from tests.support.proofs.sizes import Scale, scale

PORT = "7000"
GIVES_UP_S = 10.0
"""The drivers' limits are told below; Postgres' add up to 4 s. The rest is for a busy machine."""
POOL = 4
EXECUTOR = ExecutorSettings(lease_ms=60_000, poll_ms=100, hold_ms=50)
"""One worker has all steps at once and does them one after another: no lease runs out meanwhile."""
KINDS = ("redis",) if scale() is Scale.TEST else ("postgres", "redis")


class Place(NamedTuple):
    """A database at the other end of a wire."""

    wire: Wire
    far: Peer
    url: str
    """Through the wire."""
    direct: str
    """Past it."""
    connections: Callable[[], int]
    word: str
    """What a commit has in it on its way."""

    async def pull_at_the_commit(self, when: str) -> None:
        await self.far.tell(f"cut {when} {self.word}")
        await self.far.says("armed")


@asynccontextmanager
async def _postgres(stack: AsyncExitStack, cable: Wire) -> AsyncIterator[Place]:
    server = postgres_server()
    if not isinstance(server, Postgres):
        missing("netns", "the Postgres that is named has no socket of ours")
    name = server.new_database()
    socket = f"{server.folder}/.s.PGSQL.{server.port}"
    limits = {"statement_timeout_ms": "1000", "lock_timeout_ms": "500"}
    limits |= {"connect_timeout_ms": "1000", "pool_size": str(POOL), "sslmode": "disable"}
    query = "&".join(f"{key}={value}" for key, value in limits.items())
    url = f"postgresql://stepwell@{cable.far}:{PORT}/{name}?{query}"

    def connections() -> int:
        counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
        return server.fetch(counted, name)[0][0]

    try:
        arguments = ("forward", cable.far, PORT, socket, cable.interface)
        far = await stack.enter_async_context(peer(cable, *arguments))
        await far.says("listens")
        direct = server.url(name) + "?sslmode=disable"
        yield Place(cable, far, url, direct, connections, "COMMIT")
    finally:
        # Who still uses it is thrown out.
        await stack.aclose()
        server.drop_database(name)


@asynccontextmanager
async def _redis(stack: AsyncExitStack, cable: Wire) -> AsyncIterator[Place]:
    server = redis_server("redis")
    if not isinstance(server, Redis):
        missing("netns", "the Redis that is named has no socket of ours")
    server.flush()

    def connections() -> int:
        return len(server.execute("CLIENT", "LIST").splitlines()) - 1

    arguments = ("forward", cable.far, PORT, str(server.socket), cable.interface)
    far = await stack.enter_async_context(peer(cable, *arguments))
    await far.says("listens")
    url = f"redis://{cable.far}:{PORT}?timeout_ms=1000&connections={POOL}"
    yield Place(cable, far, url, server.url(), connections, "marked-commit")
    await stack.aclose()


@asynccontextmanager
async def place_on(kind: str) -> AsyncIterator[Place]:
    with wire() as cable:
        async with AsyncExitStack() as stack:
            make = {"postgres": _postgres, "redis": _redis}[kind]
            async with make(stack, cable) as place:
                yield place


async def until_answered(store: Store, commit: Commit) -> Verdict:
    """Ask until there is an answer, as whoever wants to know does."""
    (result,) = await insisting(lambda: store.commit([commit]))
    return result.verdict


@pytest.mark.proof
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
async def test_S4_a_commit_to_a_database_that_falls_silent_is_unknown_and_resolves_once(
    kind: str, when: str
) -> None:
    since = time.monotonic()
    async with place_on(kind) as place:
        store = await insisting(lambda: open_store(place.url, runtime=SystemRuntime()))
        beside = await open_store(place.direct, runtime=SystemRuntime())
        try:
            assert await until_answered(store, b.born("warm")) is Verdict.COMMITTED
            commit = b.born("silent", commit_id="marked-commit")
            await place.pull_at_the_commit(when)
            pulled = time.monotonic()
            with pytest.raises(OutcomeUnknown):
                await store.commit([commit])
            gave_up = time.monotonic() - pulled
            assert gave_up < GIVES_UP_S, f"S4: it took {gave_up:.1f} s"
            await place.far.says("cut")
            there = await beside.get_run(b.TENANT, "silent") is not None
            if when == "after":
                assert there, "S4"
            place.wire.mend()
            assert await until_answered(store, commit) is Verdict.COMMITTED
            assert await until_answered(store, b.step(commit)) is Verdict.COMMITTED
            named = [one for one in (await beside.feed()).entries if one.run_id == "silent"]
            wanted = [FeedEntry(tenant_id=b.TENANT, run_id="silent", version=v) for v in (1, 2)]
            assert named == wanted, "S4"
        finally:
            place.wire.mend()
            await store.close()
            await beside.close()
    print(f"{kind}: gave up after {gave_up:.1f} s; applied: {there}")
    fate = "unknown commit that was applied" if there else "unknown commit that was not applied"
    kept(kind, since, {fate: 1, "commit_id seen again": 1}, unknown_commits=1)


def kept(kind: str, since: float, happened: dict[str, int], **figures: int) -> None:
    record.keep(
        record.Record(
            proof=f"half-open connections, {kind}",
            command="make proof ARGS='-k half_open'",
            figures={name.replace("_", " "): count for name, count in figures.items()},
            happened=happened,
            seconds=time.monotonic() - since,
        )
    )


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


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
async def test_S3_a_server_whose_database_was_silent_goes_on_when_it_answers(
    kind: str, tmp_path: Path
) -> None:
    since = time.monotonic()
    count = 12
    async with place_on(kind) as place, AsyncExitStack() as stack:
        settings = settings_for(place.url, tmp_path, executor=EXECUTOR, drain_ms=2_000)
        # Its limits are as short as its database's, and a server doesn't start without that.
        server = await insisting(
            lambda: stack.enter_async_context(Server(settings, authenticator=Anybody()))
        )
        client = Client(server.addresses[0])
        before = [await _until_started(client, str(uuid4())) for _ in range(count)]
        baseline = place.connections()
        wanted = [str(uuid4()) for _ in range(count)]
        place.wire.cut()
        silent = await asyncio.gather(*(started(client, one) for one in wanted))
        assert not any(silent), "nobody can have answered"
        place.wire.mend()
        async with asyncio.timeout(30):
            runs = [await _until_started(client, one) for one in wanted]
        # Each is one run, and all of them, old and new, are done by whoever comes.
        assert len({*runs, *before}) == 2 * count, "S16"
        async with client.worker("near", queues=["q"], grant=2 * count) as worker:
            for _ in range(2 * count):
                ack = await worker.complete(await worker.assignment())
                assert ack.status == wpb.ACK_STATUS_ACCEPTED
        for run_id in (*runs, *before):
            run = await client.wait(run_id)
            assert run.status == types_pb2.RUN_STATUS_SUCCEEDED, "L1"
        async with asyncio.timeout(20):
            while place.connections() > max(baseline, POOL + 2):  # noqa: ASYNC110 - the database tells nobody
                await asyncio.sleep(0.1)
        await client.channel.close()
    kept(kind, since, {}, runs_over_a_silence=2 * count)


async def _until_started(client: Client, request_id: str) -> str:
    while (run_id := await started(client, request_id)) is None:  # noqa: ASYNC110 - it is asked each time
        await asyncio.sleep(0.1)
    return run_id

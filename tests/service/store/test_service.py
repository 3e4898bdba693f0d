"""The Store service: what is sent arrives, and only from who may send it."""

from __future__ import annotations

from pathlib import Path

import grpc.aio
import pytest
from pydantic import SecretStr

from stepwell.config import AuthSettings, GrpcSettings, Settings, StoreSettings
from stepwell.core.port import FeedQuery
from stepwell.core.records.errors import InvalidArgument, StoreUnavailable
from stepwell.core.records.limits import STORE_MESSAGE_BYTES_MAX
from stepwell.core.records.states import Durability, RunStatus
from stepwell.rpc import store as store_rpc
from stepwell.rpc.server import Server
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client.store.v1 import store_pb2, store_pb2_grpc
from stepwell_client.v1 import orchestrator_pb2, orchestrator_pb2_grpc, types_pb2
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.harness import soon
from tests.service.store.conftest import COMMITTED, World, verdicts
from tests.service.store_server import TOKEN

# --- who may call, and with what --------------------------------------------------------------------


async def test_a_request_that_is_no_legal_call_is_refused_with_the_field(world: World) -> None:
    store = await world.open()
    async with grpc.aio.insecure_channel(world.server.address) as channel:
        stub = store_pb2_grpc.StoreStub(channel)
        metadata = grpc.aio.Metadata(("authorization", f"Bearer {TOKEN}"))
        bad = store_pb2.CommitRequest()
        bad.commits.add(commit_id="c", version=1)
        for request, field in ((bad, "run"), (store_pb2.CommitRequest(), "")):
            if field:
                with pytest.raises(grpc.aio.AioRpcError, match="must be given") as caught:
                    await stub.Commit(request, metadata=metadata)
                assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            else:
                assert not (await stub.Commit(request, metadata=metadata)).results
        claim = store_pb2.ClaimRequest()
        claim.claim.wants.add(kinds=[99])
        with pytest.raises(grpc.aio.AioRpcError, match="99") as caught:
            await stub.Claim(claim, metadata=metadata)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(InvalidArgument) as wrong:
        await store.get_run("t" * 20_000, "r")
    assert [violation.field for violation in wrong.value.violations] == ["tenant_id"]
    with pytest.raises(InvalidArgument):
        await store.get_run("\ud800", "r")
    with pytest.raises(InvalidArgument):
        await store.page(FeedQuery(cursor="none of yours"))


# --- the server around it ---------------------------------------------------------------------------


def server_settings(folder: Path, url: str) -> Settings:
    folder.mkdir(mode=0o700)
    return Settings(
        store=StoreSettings(url=SecretStr(url)),
        grpc=GrpcSettings(port=0),
        auth=AuthSettings(token_file=folder / "token"),
        drain_ms=5_000,
    )


def store_server(folder: Path, url: str) -> Server:
    """As `stepwell store --driver URL` makes it."""
    return Server(
        server_settings(folder, url),
        services=(store_rpc.make_service,),
        receive_bytes_max=STORE_MESSAGE_BYTES_MAX,
        executes=False,
    )


async def test_executor_and_store_apart(tmp_path: Path) -> None:
    async with store_server(tmp_path / "store", f"sqlite:///{tmp_path / 'x.db'}") as apart:
        url = f"grpc://{apart.addresses[0]}?token_file={tmp_path / 'store' / 'token'}"
        async with Server(server_settings(tmp_path / "executor", url)) as executor:
            token = (tmp_path / "executor" / "token").read_text(encoding="ascii").strip()
            metadata = grpc.aio.Metadata(("authorization", f"Bearer {token}"))
            plan = types_pb2.PlanDraft(tasks=[types_pb2.TaskSpec(task_id="a")])
            async with grpc.aio.insecure_channel(executor.addresses[0]) as channel:
                stub = orchestrator_pb2_grpc.OrchestratorStub(channel)
                started = await stub.StartRun(
                    orchestrator_pb2.StartRunRequest(goal="apart", plan=plan), metadata=metadata
                )
                cancel = orchestrator_pb2.CancelRunRequest(run_id=started.run.spec.run_id)
                await stub.CancelRun(cancel, metadata=metadata)
                wait = orchestrator_pb2.WaitRunRequest(run_id=started.run.spec.run_id)
                ended = await stub.WaitRun(wait, metadata=metadata)
            assert ended.run.status == types_pb2.RUN_STATUS_CANCELLED
            info = await executor.store.describe()
        assert info.durability is Durability.POWER
        kept = await apart.store.get_run("default", started.run.spec.run_id)
        assert kept is not None
        assert kept.status is RunStatus.CANCELLED


async def test_store_server_takes_large_commits_and_refuses_while_draining(
    tmp_path: Path,
) -> None:
    async with store_server(tmp_path / "store", "memory://") as apart:
        url = f"grpc://{apart.addresses[0]}?token_file={tmp_path / 'store' / 'token'}"
        store = await open_store(url, runtime=SystemRuntime())
        received: list[tuple[str, str]] = []
        store.subscribe(lambda tenant, run, _version: received.append((tenant, run)))
        outcomes = [b.outcome(bytes(1_000_000), f"task:{at}#1") for at in range(20)]
        first = b.created(executions=[b.ended(it.execution_id) for it in outcomes])
        assert await verdicts(store, first) == [COMMITTED]
        assert await verdicts(store, b.step(first, outcomes=outcomes)) == [COMMITTED]
        keys = [outcome.execution_id for outcome in outcomes]
        assert len(await store.read_payloads(b.TENANT, b.RUN, keys, texts=True)) == 20
        assert await soon(lambda: (b.TENANT, b.RUN) in received)
        await apart.drain()
        with pytest.raises(StoreUnavailable) as caught:
            await store.commit([b.created("late")])
        assert caught.value.reason == "DRAINING"
        assert await apart.store.get_run(b.TENANT, "late") is None
        await store.close()

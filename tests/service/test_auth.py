"""Access: who is let in, and the files that tokens lie in. Every RPC by every caller: `tenants/test_matrix.py`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from pydantic import SecretStr

from stepwell.config import AuthSettings, SettingsRefused, StaticToken
from stepwell.core.records.errors import Unauthenticated
from stepwell.rpc import scopes
from stepwell.rpc.auth import mint, open_authenticator
from stepwell.rpc.server import Server
from stepwell.runtime import SystemRuntime
from stepwell_testkit.runtime import ManualRuntime
from tests.service.conftest import ME, Client, World, bearer, refusal, settings_for
from tests.support.methods import SERVED, STORE, path_of


def test_every_method_of_the_protocol_has_a_scope() -> None:
    assert {path_of(name) for name in (*SERVED, *STORE)} <= scopes.SCOPES.keys()
    assert {name for name, scope in scopes.SCOPES.items() if scope == scopes.NONE} == {
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.health.v1.Health/List",
    }


async def test_a_method_without_a_scope_stops_the_server(world: World, monkeypatch: Any) -> None:
    path = "/stepwell.v1.Orchestrator/StartRun"
    monkeypatch.delitem(scopes.SCOPES, path)

    with pytest.raises(SettingsRefused, match=r"Orchestrator/StartRun"):
        await world.server()


@pytest.fixture
async def stranger(world: World) -> Client:
    return await world.client(await world.server())


async def test_reflection_needs_a_token_and_then_names_the_services(stranger: Client) -> None:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", stranger.channel))
    request = reflection_pb2.ServerReflectionRequest(list_services="")

    refused = stub.ServerReflectionInfo(iter([request]))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await refused.read()
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    answered = stub.ServerReflectionInfo(iter([request]), metadata=bearer("worker"))
    answer = await answered.read()
    names = {service.name for service in answer.list_services_response.service}
    assert {"stepwell.v1.Orchestrator", "stepwell.v1.Worker", "grpc.health.v1.Health"} <= names


async def test_reflection_speaks_version_1_too(stranger: Client) -> None:
    ask = stranger.channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol="stepwell.v1.Worker")
    call: Any = ask(iter([request]), metadata=bearer("worker"))
    assert (await call.read()).file_descriptor_response.file_descriptor_proto


async def test_health_lists_all_names_without_a_token(stranger: Client) -> None:
    stub: Any = health_pb2_grpc.HealthStub(stranger.channel)
    messages: Any = health_pb2
    statuses = (await stub.List(messages.HealthListRequest())).statuses
    assert statuses.keys() == {"", "liveness", "stepwell.v1.Orchestrator", "stepwell.v1.Worker"}
    assert {one.status for one in statuses.values()} == {health_pb2.HealthCheckResponse.SERVING}


async def test_unknown_method_reveals_nothing_without_a_token(stranger: Client) -> None:
    for path in ("/stepwell.v1.Orchestrator/StartRunX", "/x.grpc.health.v1.Health/Check"):
        call = stranger.channel.unary_unary(path)
        assert (await refusal(call(b""))).code is grpc.StatusCode.UNAUTHENTICATED
        error = await refusal(call(b"", metadata=ME))
        assert (error.code, error.reason) == (grpc.StatusCode.UNIMPLEMENTED, "METHOD_UNKNOWN")


async def test_metadata_that_is_too_large_is_refused(stranger: Client) -> None:
    metadata = (*ME, ("x-much", "m" * 20_000))

    error = await refusal(stranger.ask("GetServerInfo", metadata=metadata))

    assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.reason == "METADATA_TOO_LARGE"


# --- tokens ------------------------------------------------------------------------------------------


async def test_the_minted_token_opens_everything_and_lies_in_a_closed_file(world: World) -> None:
    server = await world.server()
    client = await world.client(server)
    path = server.settings.auth.token_file

    metadata = (("authorization", f"Bearer {path.read_text().strip()}"),)
    info = await client.ask("GetServerInfo", metadata=metadata)

    assert (info.tenant_id, info.subject) == ("default", "local")
    assert set(info.scopes) == scopes.ALL
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_token_is_minted_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "stepwell" / "token"

    first = mint(path, SystemRuntime())

    assert mint(path, SystemRuntime()) == first
    assert len(first) > 64
    assert [one.name for one in path.parent.iterdir()] == ["token"]


def opened(path: Path, mode: int) -> None:
    mint(path, SystemRuntime())
    path.chmod(mode)


def entered(path: Path) -> None:
    path.parent.mkdir(mode=0o755)


def given_away(path: Path) -> None:
    mint(path, SystemRuntime())
    os.chown(path, 65_534, -1)


def linked(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    elsewhere = path.parents[1] / "elsewhere"
    elsewhere.write_text("x" * 40)
    elsewhere.chmod(0o600)
    path.symlink_to(elsewhere)


def emptied(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch(mode=0o600)


IS_ROOT = os.geteuid() == 0


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        *((partial(opened, mode=mode), r"chmod 600 \S+/token") for mode in (0o644, 0o660, 0o606)),
        (entered, r"chmod 700 \S+/stepwell"),
        pytest.param(
            given_away,
            "belongs to user 65534",
            marks=pytest.mark.skipif(not IS_ROOT, reason="only root can give files away"),
        ),
        (linked, "can't be read"),
        (emptied, "holds no token"),
    ],
    ids=["read by all", "by the group", "by others", "folder", "owner", "link", "empty"],
)
def test_a_token_file_that_is_not_ones_own_is_refused_with_the_fix(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / "stepwell" / "token"
    spoil(path)

    with pytest.raises(SettingsRefused, match=said):
        mint(path, SystemRuntime())


def test_a_token_expires(tmp_path: Path) -> None:
    runtime = ManualRuntime(start_us=1_800_000_000_000_000)
    given = StaticToken(
        token_sha256=SecretStr(hashlib.sha256(b"secret-of-a-client").hexdigest()),
        tenant="t",
        scopes=frozenset({"run:read"}),
        expires=datetime(2027, 1, 15, 8, 0, 1, tzinfo=UTC),
    )
    settings = AuthSettings(token_file=tmp_path / "s" / "token", tokens=(given,))
    authenticator = open_authenticator(settings, runtime)
    metadata = {"authorization": "Bearer secret-of-a-client"}

    assert authenticator.authenticate(metadata).tenant_id == "t"
    runtime.advance(1_001)
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(metadata)


def test_a_token_in_a_file_is_given_out_by_its_scopes(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a-token-in-a-file\n")
    path.chmod(0o600)
    given = StaticToken(token_file=path, tenant="t", scopes=frozenset({"worker"}), name="gpu-1")
    settings = AuthSettings(mint=False, tokens=(given,))

    who = open_authenticator(settings, SystemRuntime()).authenticate(
        {"authorization": "bearer a-token-in-a-file"}
    )

    assert (who.subject, who.tenant_id, who.scopes) == ("gpu-1", "t", frozenset({"worker"}))


def test_an_unknown_scope_and_an_empty_list_are_refused(tmp_path: Path) -> None:
    given = StaticToken(token_sha256=SecretStr("0" * 64), tenant="t", scopes=frozenset({"root"}))
    with pytest.raises(SettingsRefused, match="no scope root"):
        open_authenticator(AuthSettings(mint=False, tokens=(given,)), SystemRuntime())
    with pytest.raises(SettingsRefused, match="nobody could call"):
        open_authenticator(AuthSettings(mint=False), SystemRuntime())


@pytest.mark.parametrize("tenant", ["acme/threads", "acme/schedules", "t" * 119])
def test_a_tenant_with_a_name_that_is_the_services_own_is_refused(tenant: str) -> None:
    given = StaticToken(
        token_sha256=SecretStr("0" * 64), tenant=tenant, scopes=frozenset({"worker"})
    )
    with pytest.raises(SettingsRefused, match="at most 118 characters"):
        open_authenticator(AuthSettings(mint=False, tokens=(given,)), SystemRuntime())


def test_no_secret_is_shown(tmp_path: Path) -> None:
    settings = settings_for("postgresql://user:hunter2@host/db", tmp_path)
    shown = repr(settings) + str(settings) + repr(Server(settings))

    assert "hunter2" not in shown
    assert hashlib.sha256(b"test-token-of-all").hexdigest() not in shown

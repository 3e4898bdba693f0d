"""A console in a process of its own, which calls a server by gRPC with its own credential."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from stepwell.config import ConsoleSettings
from stepwell.console.forward import ForwardingBackend
from stepwell.console.serving import Place, serving
from stepwell.console.sessions import Sessions
from stepwell.core.port import Principal
from stepwell.rpc.admission import GateLimits
from stepwell.rpc.auth import Credential, TokenAuthenticator
from stepwell_client.v1 import orchestrator_pb2 as opb
from tests.service.conftest import ME, NO_RUN, Client, World, bearer, token
from tests.service.console.http import FORMS, Http
from tests.service.console.test_calls import refused
from tests.service.test_watch import finished
from tests.support.patience import until

LOCAL = "token-of-this-process"


class Access:
    """A token as a file holds it."""

    def __init__(self, written: str) -> None:
        self.written = self.used = written
        self.reloads = 0

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.used}"),)

    def reload(self) -> bool:
        self.reloads += 1
        changed = self.used != self.written
        self.used = self.written
        return changed


class Forwarded:
    """A server, the console of another process before it, and a client of each."""

    def __init__(self, server: Any, client: Client, http: Http, access: Access) -> None:
        self.access = access
        self.server = server
        self.client = client
        self.http = http


@pytest.fixture
async def forwarded(world: World) -> AsyncIterator[Forwarded]:
    server = await world.server()
    client = await world.client(server)
    async with AsyncExitStack() as stack:
        principal = Principal("here", "any", frozenset())
        credential = Credential(hashlib.sha256(LOCAL.encode()).digest(), principal)
        tokens = TokenAuthenticator((credential,), world.runtime)
        sessions = Sessions(tokens, LOCAL.encode(), world.runtime)
        gate_limits = GateLimits()
        access = Access(token("all"))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(server.addresses[0]))
        backend = ForwardingBackend(
            server.addresses[0],
            lambda: channel,
            access,
            sessions,
            world.runtime,
            stall_ms=gate_limits.stall_ms,
        )
        place = Place.bind(ConsoleSettings(port=0), world.runtime.now_us)
        console = serving(place, backend, sessions, world.runtime, gate_limits, proof="")
        await stack.enter_async_context(console)
        key = sessions.begin(credential)["key"]
        http = Http(place.address, (("authorization", f"Bearer {key}"),))
        stack.push_async_callback(http.client.aclose)
        yield Forwarded(server, client, http, access)


@pytest.mark.parametrize("form", FORMS)
async def test_calls_and_streams_go_on_to_the_server_with_its_token(
    forwarded: Forwarded, form: str
) -> None:
    (info,) = await forwarded.http.call(
        "Orchestrator/GetServerInfo", opb.GetServerInfoRequest(), form
    )
    assert isinstance(info, opb.GetServerInfoResponse)
    assert (info.subject, info.tenant_id) == ("all", "tenant-a")
    run = await finished(forwarded.client, "a", "b")
    request = opb.WatchRunRequest(run_id=run.spec.run_id)
    messages = await forwarded.http.call("Orchestrator/WatchRun", request, form)
    assert messages == [one async for one in forwarded.client.watch(run.spec.run_id)]


@pytest.mark.parametrize("form", FORMS)
async def test_token_that_is_not_valid_any_more_is_read_again(
    forwarded: Forwarded, form: str
) -> None:
    request = opb.GetServerInfoRequest()
    forwarded.access.used = "of-yesterday"
    await forwarded.http.call("Orchestrator/GetServerInfo", request, form)
    forwarded.access.used = "of-yesterday"
    run = await finished(forwarded.client, "a")
    watch = opb.WatchRunRequest(run_id=run.spec.run_id)
    messages = await forwarded.http.call("Orchestrator/WatchRun", watch, form)
    assert messages == [one async for one in forwarded.client.watch(run.spec.run_id)]

    forwarded.access.written = forwarded.access.used = "of-nobody"
    before = forwarded.access.reloads
    error = await refused(forwarded.http.call("Orchestrator/GetServerInfo", request, form))
    assert error.code is grpc.StatusCode.UNAUTHENTICATED
    assert forwarded.access.reloads == before + 1


async def test_token_of_the_server_is_none_here(forwarded: Forwarded) -> None:
    for metadata in ((), ME, bearer("reader")):
        error = await refused(
            forwarded.http.call(
                "Orchestrator/GetServerInfo", opb.GetServerInfoRequest(), metadata=metadata
            )
        )
        assert error.code is grpc.StatusCode.UNAUTHENTICATED
    assert token("all") not in str(forwarded.http.metadata)


@pytest.mark.parametrize("form", FORMS)
async def test_errors_of_the_server_are_passed_on_whole(forwarded: Forwarded, form: str) -> None:
    requests: list[tuple[str, Message, str]] = [
        ("GetRun", opb.GetRunRequest(run_id=NO_RUN), "RUN_NOT_FOUND"),
        ("WatchRun", opb.WatchRunRequest(run_id=NO_RUN), "RUN_NOT_FOUND"),
        ("StartRun", opb.StartRunRequest(priority=1_000), "INVALID_ARGUMENT"),
    ]
    for name, request, reason in requests:
        error = await refused(forwarded.http.call(f"Orchestrator/{name}", request, form))
        assert error.reason == reason


async def test_other_services_are_not_there(forwarded: Forwarded) -> None:
    for path in ("/stepwell.v1.Worker/Heartbeat", "/stepwell.v1.Store/GetRun"):
        answer = await forwarded.http.client.post(path, json={}, headers=forwarded.http.metadata)
        assert answer.status_code == 501


async def test_client_that_goes_away_ends_the_servers_stream(forwarded: Forwarded) -> None:
    labels = {"method": "/stepwell.v1.Orchestrator/WatchRuns"}

    def streams() -> float | None:
        return forwarded.server.metrics.registry.get_sample_value("stepwell_rpc_streams", labels)

    watch = forwarded.http.stream("Orchestrator/WatchRuns", opb.WatchRunsRequest())
    async with aclosing(watch):
        assert await anext(watch) is None
        assert streams() == 1
    await until(lambda: streams() == 0)


@pytest.mark.parametrize("name", ["ListRuns", "WatchRuns"])
async def test_server_that_is_gone_is_said_with_a_reason(forwarded: Forwarded, name: str) -> None:
    await forwarded.server.stop()
    request = getattr(opb, f"{name}Request")()
    error = await refused(forwarded.http.call(f"Orchestrator/{name}", request))
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "SERVER_UNREACHABLE")
    assert forwarded.server.addresses[0] in error.message

"""The `grpc://` driver: its URL, its token, its hints, its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio
import pytest

from stepwell.core.records.errors import StoreRefused
from stepwell.rpc import store as store_rpc
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client.store.v1 import store_pb2, store_pb2_grpc
from stepwell_drivers.remote.access import Access
from stepwell_drivers.remote.errors import Fault
from stepwell_drivers.remote.link import Link
from stepwell_drivers.remote.url import parse
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.harness import soon
from tests.service.store.conftest import COMMITTED, World, verdicts
from tests.service.store_server import FOREIGN_TOKEN, TOKEN, StoreServer

# --- the URL ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("grpc://", "neither a host nor a socket"),
        ("grpc:///", "neither a host nor a socket"),
        ("grpc://127.0.0.1", "no host with a port"),
        ("grpc://127.0.0.1:0", "no host with a port"),
        ("grpc://127.0.0.1:99999", "no URL of a Store service"),
        ("grpc://:7000", "no host with a port"),
        ("grpc://a%20b:7000", "no host with a port"),
        ("grpc://[::1:7000", "no URL of a Store service"),
        ("grpc://localhost:1/path", "no path"),
        ("grpc://localhost:1#x", "no URL of a Store service"),
        ("grpc://me:SECRET@localhost:1", "does not stand in the URL"),
        ("grpc://localhost:1?token=SECRET", "unknown URL parameter 'token'"),
        ("grpc://localhost:1?SECRET", "not of the form"),
        ("grpc://localhost:1?timeout_ms=0", "timeout_ms must be"),
        ("grpc://localhost:1?timeout_ms=1e3", "timeout_ms must be"),
        ("grpc://localhost:1?timeout_ms=200&timeout_ms=300", "given twice"),
        ("grpc://example.org:7000", "not on this machine"),
        ("grpc://10.0.0.1:7000?insecure_allow_remote=yes", "true or false"),
        ("grpc:///" + "x" * 120, "longer than 107 bytes"),
        ("grpc:///a%00b", "neither a host nor a socket"),
        ("grpc://localhost:1?token_file=/nowhere/at/all", "is not there"),
    ],
)
async def test_url_without_a_service_is_refused_with_a_reason(url: str, words: str) -> None:
    with pytest.raises(StoreRefused, match=words) as caught:
        await open_store(url, runtime=SystemRuntime())
    assert "SECRET" not in str(caught.value)


# --- a socket ---------------------------------------------------------------------------------------


async def test_a_store_is_reached_over_a_socket_with_an_odd_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = await open_store("memory://", runtime=SystemRuntime())
    monkeypatch.setenv("STEPWELL_STORE_TOKEN", TOKEN)
    folder = Path("/tmp") / f"sw {tmp_path.name[-20:]} %é"
    folder.mkdir(mode=0o700, exist_ok=True)
    socket = folder / "store.sock"
    server = await StoreServer(behind, tmp_path).start(f"unix:{socket}")
    store = await open_store(f"grpc://{str(socket).replace('%', '%25')}", runtime=SystemRuntime())
    assert await verdicts(store, b.created()) == [COMMITTED]
    assert str(socket) in (await store.describe()).detail
    await store.close()
    await server.close()
    await behind.close()
    socket.unlink(missing_ok=True)
    folder.rmdir()


# --- the token --------------------------------------------------------------------------------------


async def test_wrong_token_is_refused_at_open_and_never_shown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.server.token_file.write_text("stw_a-wrong-token\n", encoding="ascii")
    with pytest.raises(StoreRefused, match="token") as caught:
        await world.open()
    assert str(world.server.token_file) in str(caught.value)
    assert "stw_" not in str(caught.value)
    world.server.token_file.write_text(FOREIGN_TOKEN, encoding="ascii")
    with pytest.raises(StoreRefused, match="scope") as caught:
        await world.open()
    assert FOREIGN_TOKEN not in str(caught.value)
    world.server.token_file.unlink()
    with pytest.raises(StoreRefused, match="is not there"):
        await world.open()
    monkeypatch.setenv("XDG_STATE_HOME", str(world.folder / "nowhere"))
    with pytest.raises(StoreRefused, match="nowhere/stepwell/token"):
        await open_store(f"grpc://{world.server.address}", runtime=SystemRuntime())
    monkeypatch.setenv("STEPWELL_STORE_TOKEN", "stw_another")
    with pytest.raises(StoreRefused, match="STEPWELL_STORE_TOKEN") as caught:
        await open_store(f"grpc://{world.server.address}", runtime=SystemRuntime())
    assert "stw_another" not in repr(caught.value)


async def test_token_minted_by_the_users_server_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.folder / "stepwell").mkdir()
    (world.folder / "stepwell" / "token").write_text(f"{TOKEN}\n", encoding="ascii")
    monkeypatch.setenv("XDG_STATE_HOME", str(world.folder))
    store = await open_store(f"grpc://{world.server.address}", runtime=SystemRuntime())
    await store.close()


async def test_a_token_that_was_changed_is_read_again(world: World) -> None:
    world.server.token_file.write_text("stw_of-yesterday\n", encoding="ascii")
    place = parse(world.server.url)
    link = Link(place, Access(place.token_file), SystemRuntime())
    for method in (link.ask, link.ask_once):
        refused = await method(link.stub.Describe, store_pb2.DescribeRequest())
        assert isinstance(refused, Fault)
        assert (refused.refused, refused.certain) == (True, True)
    world.server.token_file.write_text(TOKEN, encoding="ascii")
    answer = await link.ask_once(link.stub.Describe, store_pb2.DescribeRequest())
    assert isinstance(answer, store_pb2.DescribeResponse)
    await link.close()


# --- hints, and the end -----------------------------------------------------------------------------


async def test_hints_go_on_after_a_restart_and_say_that_some_may_be_missing(world: World) -> None:
    store = await world.open()
    received: list[tuple[str, str, int]] = []
    store.subscribe(lambda *hint: received.append(hint))
    assert await soon(lambda: received == [("", "", 0)])
    first = b.created()
    await world.behind.commit([first])
    assert await soon(lambda: received[1:] == [(b.TENANT, b.RUN, 1)])
    received.clear()
    await world.server.kill()
    await world.behind.commit([b.step(first)])
    await world.restart()
    assert await soon(lambda: received == [("", "", 0)])


async def test_E9_hints_that_are_not_read_cost_a_bounded_number_of_names(world: World) -> None:
    subscriber = store_rpc._Subscriber()
    for at in range(3):
        for version in (1, 3, 2):
            subscriber.hint(b.TENANT, f"r{at}", version)
    message = await subscriber.next()
    assert message is not None
    assert [(hint.run_id, hint.version) for hint in message.hints] == [
        ("r0", 3),
        ("r1", 3),
        ("r2", 3),
    ]
    for at in range(3 * store_rpc.HINTS_MAX):
        subscriber.hint(b.TENANT, f"r{at}", at)
    message = await subscriber.next()
    assert message is not None
    assert [(hint.tenant_id, hint.run_id, hint.version) for hint in message.hints] == [("", "", 0)]


async def test_R1_a_closed_door_leaves_no_stream_and_no_task_behind(world: World) -> None:
    subscribers = world.server.service._subscribers
    # By count: the server's own tasks, one a method, are new after each call.
    before = len(asyncio.all_tasks())
    for _ in range(5):
        store = await world.open()
        for _ in range(3):
            store.subscribe(lambda *_hint: None)
        assert await soon(lambda: len(subscribers) == 1)
        await asyncio.gather(store.close(), store.close())
        assert await soon(lambda: not subscribers)
    assert await soon(lambda: len(asyncio.all_tasks()) <= before)


async def test_the_streams_of_hints_end_when_the_service_does(world: World) -> None:
    async with grpc.aio.insecure_channel(world.server.address) as channel:
        stub = store_pb2_grpc.StoreStub(channel)
        metadata = grpc.aio.Metadata(("authorization", f"Bearer {TOKEN}"))
        call = stub.Subscribe(store_pb2.SubscribeRequest(), metadata=metadata)
        assert await call.read() == store_pb2.SubscribeResponse()
        await world.server.service.close()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK

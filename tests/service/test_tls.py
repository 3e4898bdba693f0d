"""TLS of a server: what it needs to start, who gets in, and new certificates without a dropped stream."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer.main

from stepwell.cli import app
from stepwell.cli.certificates import Made, make
from stepwell.config import AuthSettings, GrpcSettings, SettingsRefused
from stepwell.core.records.errors import StoreRefused, StoreUnavailable
from stepwell.rpc.server import Server
from stepwell.rpc.store import make_service
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client import Agent, Client, Security, SyncClient, Task, Unavailable, Worker
from stepwell_client.errors import NotSecured
from stepwell_drivers.remote.url import PARAMETERS
from stepwell_testkit.conformance import builders as b
from tests.service.conftest import World, settings_for, token
from tests.service.store.conftest import COMMITTED, verdicts
from tests.support.logs import capture_logs

HOSTS = ("localhost", "127.0.0.1")


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return _make(tmp_path / "certs")


def _make(folder: Path) -> Made:
    return make(folder, HOSTS, days=1, now=datetime.now(UTC))


def _listening(made: Made, kind: str = "server", **fields: Any) -> GrpcSettings:
    """Return settings of a port with TLS; `mutual`: clients show a certificate."""
    own: dict[str, Any] = {"port": 0}
    if kind != "none":
        own |= {"tls_cert": made.server.certificate, "tls_key": made.server.key}
    if kind == "mutual":
        own["tls_client_ca"] = made.authority.certificate
    return GrpcSettings(**(own | fields))


def _trusting(made: Made, *, is_known: bool = False) -> Security:
    """Return a client's options; `is_known`: it has a certificate of its own."""
    trusts = Security(tls_ca=made.authority.certificate)
    own = Security(tls_cert=made.client.certificate, tls_key=made.client.key)
    return trusts | own if is_known else trusts


@pytest.fixture
def said() -> Iterator[list[Any]]:
    with capture_logs() as entries:
        yield entries


# --- what a start needs ------------------------------------------------------------------------------


@pytest.mark.parametrize("bind", ["127.0.0.1", "socket", "0.0.0.0"])
async def test_port_for_others_needs_tls_and_a_credential_or_the_switch(
    world: World, tmp_path: Path, made: Made, bind: str, said: list[Any]
) -> None:
    number = itertools.count()
    for kind, has_credential, insecure in itertools.product(
        ("none", "server", "mutual"), (True, False), (False, True)
    ):
        place: dict[str, Any] = {"host": bind}
        if bind == "socket":
            place = {"socket": tmp_path / "run" / str(next(number))}
        listening = _listening(made, kind, insecure_allow_remote=insecure, **place)
        groups: dict[str, Any] = {"grpc": listening}
        if not has_credential:
            groups["auth"] = AuthSettings(mint=False)
        server = Server(settings_for("memory://", tmp_path, **groups), runtime=world.runtime)
        said.clear()
        if not has_credential:
            with pytest.raises(SettingsRefused, match="nobody could call"):
                await server.start()
        elif bind == "0.0.0.0" and kind == "none" and not insecure:
            with pytest.raises(SettingsRefused, match="--tls-cert and --tls-key"):
                await server.start()
        else:
            async with server:
                is_open = bind == "0.0.0.0" and kind == "none"
                assert any("without encryption" in one["event"] for one in said) is is_open
                for address in server.addresses:
                    await _is_served(address.replace("0.0.0.0", "127.0.0.1"), made, kind)


async def _is_served(address: str, made: Made, kind: str) -> None:
    has_tls = kind != "none" and not address.startswith("unix:")
    assert address.startswith("grpcs://") is has_tls
    security = _trusting(made, is_known=kind == "mutual") if has_tls else Security()
    async with Client(address, token=token("all"), **security) as client:
        assert (await client.info()).subject == "all"
    async with Client(address, token="", **security) as client:
        with pytest.raises(Exception, match="no token came"):
            await client.info()


async def test_certificate_that_cannot_be_used_is_refused_at_the_start(
    world: World, made: Made, tmp_path: Path
) -> None:
    for wrong, words in (
        (_listening(made, tls_key=made.client.key), "not a certificate and its key"),
        (_listening(made, "none", tls_cert=made.server.certificate), "name both"),
        (_listening(made, "none", tls_client_ca=made.authority.certificate), "--tls-cert"),
        (_listening(made, tls_client_ca=tmp_path / "no"), "can't be read"),
    ):
        with pytest.raises(SettingsRefused, match=words):
            await world.server(grpc=wrong)
    pair = made.server
    only_socket = GrpcSettings(
        socket=tmp_path / "run" / "s", tls_cert=pair.certificate, tls_key=pair.key
    )
    with pytest.raises(SettingsRefused, match="give --port too"):
        await world.server(grpc=only_socket)


async def test_certificates_that_are_not_valid_at_the_start_are_named_in_the_log(
    world: World, tmp_path: Path, said: list[Any]
) -> None:
    stale = make(tmp_path, HOSTS, days=1, now=datetime.now(UTC) - timedelta(days=9))
    await world.server(grpc=_listening(stale, "mutual"))
    (word,) = [one for one in said if "not valid" in one["event"]]
    assert word["file"] == str(stale.server.certificate)
    assert word["valid_until"] < datetime.now(UTC).isoformat()


def test_the_switch_has_one_name_wherever_it_is() -> None:
    name = "insecure_allow_remote"
    assert name in GrpcSettings.model_fields
    assert name in Security.__annotations__
    assert name in PARAMETERS
    group: Any = typer.main.get_command(app.app)
    for command in ("serve", "store", "worker", "ls", "health"):
        options = group.get_command(None, command).params
        assert f"--{name.replace('_', '-')}" in {text for one in options for text in one.opts}


# --- who gets in -------------------------------------------------------------------------------------


async def test_server_that_asks_for_certificates_connects_nobody_without(
    world: World, made: Made, tmp_path: Path
) -> None:
    server = await world.server(grpc=_listening(made, "mutual"))
    (address,) = server.addresses
    plain = address.removeprefix("grpcs://")
    stranger = _make(tmp_path / "others")
    unknown = _trusting(made) | Security(
        tls_cert=stranger.client.certificate, tls_key=stranger.client.key
    )
    for target, security, words in (
        (address, _trusting(made), "or a certificate of the client"),
        (address, unknown, "or a certificate of the client"),
        (address, _trusting(stranger, is_known=True), "TLS: .* is not trusted"),
        (plain, Security(), "want TLS"),
    ):
        async with Client(target, token=token("all"), **security) as client:
            with pytest.raises(Unavailable, match=words) as caught:
                await client.info()
            assert isinstance(caught.value, NotSecured) is ("not trusted" in words)


async def test_worker_client_and_watch_work_by_tls(world: World, made: Made) -> None:
    (address,) = (await world.server(grpc=_listening(made, "mutual"))).addresses
    agent = Agent("tls")

    @agent.task("double")
    def double(ctx: Any, number: int) -> int:
        return 2 * number

    async with (
        Client(address, token=token("all"), **_trusting(made, is_known=True)) as client,
        Worker(agent, client),
    ):
        run = await client.start("g", plan=[Task("a", "double", 21)])
        assert await run.result() == {"a": 42}
        events = [event async for event in client.run(run.id).watch()]
        assert events[-1].number == len(events)


async def test_store_is_served_and_opened_by_tls(
    world: World, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for("memory://", tmp_path, grpc=_listening(made, "mutual"))
    async with Server(settings, services=(make_service,), executes=False) as server:
        (url,) = server.addresses
        monkeypatch.setenv("STEPWELL_STORE_TOKEN", token("store"))
        monkeypatch.setenv("STEPWELL_TLS_CERT", str(made.client.certificate))
        monkeypatch.setenv("STEPWELL_TLS_KEY", str(made.client.key))
        with pytest.raises(StoreUnavailable, match="not trusted"):
            await open_store(url, runtime=SystemRuntime())
        with pytest.raises(StoreRefused, match=r"grpcs://HOST:PORT"):
            await open_store("grpc://127.0.0.1:1?tls_ca=x", runtime=SystemRuntime())
        store = await open_store(
            f"{url}?tls_ca={made.authority.certificate}", runtime=SystemRuntime()
        )
        assert await verdicts(store, b.created()) == [COMMITTED]
        _replace(made, _make(tmp_path / "later"))
        assert await verdicts(store, b.created("2")) == [COMMITTED]
        await store.close()


async def test_of_several_addresses_the_one_that_answers_is_used(world: World, made: Made) -> None:
    server = await world.server(grpc=_listening(made))
    port = server.addresses[0].rpartition(":")[2]
    target = f"grpcs://127.0.0.1:1,127.0.0.1:{port}"
    security = _trusting(made) | Security(tls_name="localhost")
    async with Client(target, token=token("all"), **security) as client:
        assert (await client.info()).subject == "all"
    security |= Security(tls_name="elsewhere")
    async with Client(f"127.0.0.1:{port}", token=token("all"), **security) as client:
        with pytest.raises(NotSecured, match="not for the address"):
            await client.info()


# --- new certificates --------------------------------------------------------------------------------


def _replace(made: Made, by: Made) -> None:
    for old, new in zip((*made.server, *made.client), (*by.server, *by.client), strict=True):
        shutil.copy(new, old)
    shutil.copy(by.authority.certificate, made.authority.certificate)


async def test_new_certificates_are_taken_and_no_stream_ends(
    world: World, made: Made, tmp_path: Path, said: list[Any]
) -> None:
    (address,) = (await world.server(grpc=_listening(made, "mutual"))).addresses
    before = _make(tmp_path / "before")
    _replace(before, made)
    later = _make(tmp_path / "later")

    def connect(files: Made) -> Client:
        return Client(address, token=token("all"), **_trusting(files, is_known=True))

    async with connect(made) as client, connect(before) as stale:
        run = await client.start("g")
        async with client.run(run.id).watch() as watch:
            events = aiter(watch)
            await anext(events)

            # Half of the new pair: who connects is served with the one before.
            shutil.copy(later.server.certificate, made.server.certificate)
            async with connect(before) as another:
                assert (await another.run(run.id).get()).version == 1
            (word,) = [one for one in said if "are not taken" in one["event"]]
            assert str(made.server.certificate) in word["why"]

            _replace(made, later)
            async with connect(later) as another:
                await another.run(run.id).cancel()
            assert [event async for event in events]
        assert any("in use" in one["event"] for one in said)
        # The client's own files are new too, for its next call; those of another client are not.
        await client.run(run.id).get()
        with pytest.raises(NotSecured, match="not trusted"):
            await stale.run(run.id).get()


async def test_synchronous_client_takes_new_certificates(
    world: World, made: Made, tmp_path: Path
) -> None:
    (address,) = (await world.server(grpc=_listening(made, "mutual"))).addresses
    with SyncClient(address, token=token("all"), **_trusting(made, is_known=True)) as client:
        await asyncio.to_thread(client.info)
        _replace(made, _make(tmp_path / "later"))
        assert (await asyncio.to_thread(client.info)).subject == "all"

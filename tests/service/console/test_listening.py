"""The console's port: where it listens, for whom, and with which certificate."""

from __future__ import annotations

import itertools
import shutil
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli.certificates import Made, make
from stepwell.cli.process.serving import running
from stepwell.config import AuthSettings, ConsoleSettings, GrpcSettings, SettingsRefused
from stepwell.console.serving import Place, serving_server
from stepwell.rpc.server import Server
from tests.service.conftest import ME, World, settings_for
from tests.service.console.http import Http
from tests.support.logs import capture_logs
from tests.support.patience import PATIENCE_S

HOSTS = ("localhost", "127.0.0.1", "::1")
NAMED: dict[str, Any] = {"port": 0, "hosts": ("console.test",)}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return _make(tmp_path / "certs")


def _make(folder: Path) -> Made:
    return make(folder, HOSTS, days=1, now=datetime.now(UTC))


def _tls(made: Made) -> dict[str, Any]:
    return {"tls_cert": made.server.certificate, "tls_key": made.server.key}


@pytest.mark.parametrize("bind", ["127.0.0.1", "localhost", "::1", "0.0.0.0"])
async def test_port_for_others_needs_tls_and_a_credential_or_the_switch(
    tmp_path: Path, made: Made, bind: str
) -> None:
    for has_tls, has_credential, insecure in itertools.product((False, True), repeat=3):
        listening = ConsoleSettings(
            host=bind, insecure_allow_remote=insecure, **NAMED, **(_tls(made) if has_tls else {})
        )
        groups: dict[str, Any] = {"console": listening}
        if not has_credential:
            groups["auth"] = AuthSettings(mint=False, token_file=tmp_path / "none" / "token")
        server = Server(settings_for("memory://", tmp_path, **groups))
        is_open = bind == "0.0.0.0" and not has_tls
        with capture_logs() as said:
            if is_open and not insecure:
                with pytest.raises(SettingsRefused, match=r"console\.tls_cert"):
                    await _started_and_ended(server, made)
            elif not has_credential:
                with pytest.raises(SettingsRefused, match="nobody could call"):
                    await _started_and_ended(server, made)
            else:
                await _started_and_ended(server, made)
        warned = any("without encryption" in one["event"] for one in said)
        assert warned is (is_open and insecure)


async def _started_and_ended(server: Server, made: Made) -> None:
    """Start a server as `stepwell serve --console` does, and log in by its token."""
    async with running(server, True):
        has_tls = server.settings.console.tls_cert is not None
        assert server.console_address.startswith("https://" if has_tls else "http://")
        await _answers(server.console_address, made.authority.certificate)


def test_address_that_is_not_this_machines_is_refused(world: World) -> None:
    settings = ConsoleSettings(host="192.0.2.1", insecure_allow_remote=True, **NAMED)
    with pytest.raises(SettingsRefused, match=r"can't listen on 192\.0\.2\.1"):
        Place.bind(settings, world.runtime.now_us)


def test_answers_on_a_kept_connection_wait_for_no_acknowledgement(world: World) -> None:
    place = Place.bind(ConsoleSettings(port=0), world.runtime.now_us)
    with place.taken, socket.create_connection(place.taken.getsockname()):
        accepted, _ = place.taken.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_wildcard_needs_the_names_that_browsers_call(world: World, made: Made) -> None:
    settings = ConsoleSettings(host="0.0.0.0", port=0, **_tls(made))
    with pytest.raises(SettingsRefused, match=r"console\.hosts"):
        Place.bind(settings, world.runtime.now_us)


def test_wildcard_of_ipv6_takes_both_families_and_shows_an_address_to_open(
    world: World, made: Made
) -> None:
    wanted = ConsoleSettings(host="::", **NAMED, **_tls(made))
    place = Place.bind(wanted, world.runtime.now_us)
    with place.taken:
        shown, _, port = place.address.rpartition(":")
        assert shown == "https://[::1]"
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()


def test_default_port_that_is_taken_is_replaced_and_a_named_one_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsRefused, match=f":{port}: .*--console-port"):
            Place.bind(ConsoleSettings(port=port), world.runtime.now_us)
        monkeypatch.setattr(ConsoleSettings.model_fields["port"], "default", port)
        settings = ConsoleSettings.model_construct(_fields_set=set(), port=port)
        place = Place.bind(settings, world.runtime.now_us)
        assert port < int(place.address.rpartition(":")[2]) <= port + 20
        place.taken.close()


def test_certificate_that_cannot_be_used_is_refused(world: World, made: Made) -> None:
    broken: dict[str, Any]
    for broken in (
        {"tls_cert": made.server.certificate},
        {"tls_key": made.server.key},
        {"tls_cert": made.server.certificate, "tls_key": made.client.key},
    ):
        with pytest.raises(SettingsRefused, match=r"console\.tls_cert and console\.tls_key"):
            Place.bind(ConsoleSettings(**NAMED, **broken), world.runtime.now_us)


async def test_console_by_tls_takes_new_certificates(
    world: World, made: Made, tmp_path: Path
) -> None:
    server = await world.server()
    place = Place.bind(ConsoleSettings(**NAMED, **_tls(made)), world.runtime.now_us)
    async with serving_server(place, server, world.runtime):
        await _answers(place.address, made.authority.certificate)
        newer = _make(tmp_path / "newer")
        for before, after in (
            (made.server.certificate, newer.server.certificate),
            (made.server.key, newer.server.key),
        ):
            shutil.copyfile(after, before)
        await _answers(place.address, newer.authority.certificate)
        with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
            await _answers(place.address, made.authority.certificate)


async def _answers(url: str, authority: Path) -> None:
    context = ssl.create_default_context(cafile=str(authority))
    http = Http(url, ME, verify=context)
    async with http.client:
        answer = await http.client.post("/session", headers={**dict(ME), "origin": url})
        assert answer.status_code == 200


async def test_console_is_served_where_grpc_is_on_a_socket(world: World, tmp_path: Path) -> None:
    server = await world.server(grpc=GrpcSettings(socket=tmp_path / "run" / "stepwell.sock"))
    place = Place.bind(ConsoleSettings(port=0), world.runtime.now_us)
    async with serving_server(place, server, world.runtime):
        http = Http(place.address)
        async with http.client:
            assert (await http.client.get("/")).status_code == 200


async def test_secret_that_others_can_read_stops_the_console(world: World) -> None:
    server = await world.server()
    key = server.settings.auth.token_file.with_name("console.key")
    key.write_text("x" * 40)
    key.chmod(0o644)
    place = Place.bind(ConsoleSettings(port=0), world.runtime.now_us)
    with place.taken, pytest.raises(SettingsRefused, match="chmod 600"):
        async with serving_server(place, server, world.runtime):
            pass

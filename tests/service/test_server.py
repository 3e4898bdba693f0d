"""Starting and ending a server: where it listens, what it refuses, how it drains."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from stepwell.config import (
    GrpcSettings,
    LogSettings,
    MetricsSettings,
    SettingsRefused,
    load,
)
from stepwell.core.records.errors import StoreUnavailable
from stepwell.logger import get_logger
from stepwell.rpc import logs
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import ME, Client, World, completed, refusal
from tests.support.logs import capture_logs, loggers_restored
from tests.support.patience import until

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def _health(client: Client, name: str = "") -> int:
    stub: Any = health_pb2_grpc.HealthStub(client.channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status


# --- where it listens --------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.com", ""])
async def test_an_address_that_others_reach_is_refused(world: World, host: str) -> None:
    with pytest.raises(SettingsRefused, match="insecure-allow-remote"):
        await world.server(grpc=GrpcSettings(host=host, port=0))


async def test_it_can_be_insisted_on_and_warns(world: World) -> None:
    with capture_logs() as lines:
        await world.server(grpc=GrpcSettings(host="0.0.0.0", port=0, insecure_allow_remote=True))

    (warned,) = (line["event"] for line in lines if line["log_level"] == "warning")
    assert "without encryption" in warned


async def test_a_port_that_is_taken_is_refused(world: World) -> None:
    first = await world.server()
    port = int(first.addresses[0].rpartition(":")[2])

    with pytest.raises(SettingsRefused, match=f"{port} can't be bound"):
        await world.server(grpc=GrpcSettings(port=port))


async def test_a_unix_socket_is_closed_to_others_and_serves(world: World, tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    server = await world.server(grpc=GrpcSettings(socket=path))
    client = await world.client(server)

    assert server.addresses == (f"unix:{path}",)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert (await client.start(goal="g")).spec.goal == "g"
    with pytest.raises(SettingsRefused, match="another server listens"):
        await world.server(grpc=GrpcSettings(socket=path))
    assert await _health(client) == SERVING


async def test_a_stale_socket_is_replaced_and_nothing_else_is(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    stale = folder / "stale"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(stale))
    file = folder / "file"
    file.write_text("precious")

    server = await world.server(grpc=GrpcSettings(socket=stale))
    assert await _health(await world.client(server)) == SERVING
    with pytest.raises(SettingsRefused, match="no socket"):
        await world.server(grpc=GrpcSettings(socket=file))
    assert file.read_text() == "precious"


async def test_a_socket_in_a_folder_of_all_is_refused(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)

    with pytest.raises(SettingsRefused, match="only you can enter"):
        await world.server(grpc=GrpcSettings(socket=folder / "s"))


# --- how it ends -------------------------------------------------------------------------------------


async def test_a_drain_ends_every_stream_with_a_message(world: World, tmp_path: Path) -> None:
    world.url = f"sqlite:///{tmp_path / 'stepwell.db'}"
    server = await world.server()
    client = await world.client(server)
    run = await client.start_tasks("a", "b", "c", queue="q", max_parallel=1)
    watch = client.watch(run.spec.run_id)
    await watch.read()
    every = client.ask("WatchRuns", resume_token="now")
    await every.read()
    waiting = asyncio.ensure_future(client.wait(run.spec.run_id))
    async with client.worker(queues=["q"], grant=3) as worker:
        got = await worker.assignment()
        await worker.send(completed(got))
        await worker.ack()
        held = await worker.assignment()

        stopping = asyncio.ensure_future(server.stop())
        end = await worker.until_end()
        assert end is not None
        assert end.reason == wpb.WORK_END_REASON_DRAINING
        assert await worker.call.code() is grpc.StatusCode.OK
    assert await _last(watch) == opb.WATCH_END_REASON_DRAINING
    assert await _last(every) == opb.WATCH_END_REASON_DRAINING
    error = await refusal(waiting)
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    await stopping

    # The lease goes on: its worker finds it on the next replica.
    second = await world.client(await world.server())
    one = held.lease
    async with second.worker(queues=["q"], held=[one]) as worker:
        assert worker.welcome.held[0].status == wpb.LEASE_STATUS_LIVE
        assert (await worker.complete(held)).status == wpb.ACK_STATUS_ACCEPTED
        await worker.complete(await worker.assignment())
    done = await second.wait(run.spec.run_id)
    assert done.status == types_pb2.RUN_STATUS_SUCCEEDED
    assert [done.counts.completed, done.counts.total] == [3, 3]


async def _last(call: Any) -> int:
    message = await call.read()
    while not message.HasField("end"):
        message = await call.read()
    assert await call.read() is grpc.aio.EOF
    return message.end.reason


async def test_while_it_drains_health_says_no_and_outcomes_are_still_taken(world: World) -> None:
    server = await world.server()
    client = await world.client(server)
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await server.drain()

    assert await _health(client) == NOT_SERVING
    assert await _health(client, "stepwell.v1.Worker") == NOT_SERVING
    assert await _health(client, "liveness") == SERVING
    error = await refusal(client.start(goal="g"))
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    request = wpb.ReportOutcomesRequest(outcomes=[completed(got)])
    reply = await client.work.ReportOutcomes(request, metadata=ME)
    assert reply.acks[0].status == wpb.ACK_STATUS_ACCEPTED


async def test_server_that_leaves_still_serves_until_balancers_have_seen_it(world: World) -> None:
    server = await world.server(notice_ms=60_000)
    client = await world.client(server)
    drain = asyncio.create_task(server.drain())
    await asyncio.sleep(0)
    assert await _health(client) == NOT_SERVING

    assert (await client.start(goal="g")).spec.goal == "g"

    world.runtime.skip(60_000)
    await drain
    assert (await refusal(client.start(goal="g"))).reason == "DRAINING"


async def test_stopping_twice_is_safe_and_leaves_no_task(world: World) -> None:
    before = asyncio.all_tasks()
    server = await world.server()
    client = await world.client(server)
    await client.start(goal="g")
    await client.channel.close()

    await server.stop()
    await server.stop()

    await until(lambda: not any(_is_ours(task) for task in asyncio.all_tasks() - before))


def _is_ours(task: asyncio.Task[Any]) -> bool:
    return "grpc" not in repr(task.get_coro())


async def test_health_follows_the_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await world.server(health_ms=50)
    client = await world.client(server)
    assert await _health(client) == SERVING

    async def is_health(expected: int) -> bool:
        return await _health(client, "stepwell.v1.Orchestrator") == expected

    async def refuse(*_args: object, **_fields: object) -> None:
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(server.store, "put_presence", refuse)
        await until(lambda: is_health(NOT_SERVING))
    await until(lambda: is_health(SERVING))


# --- what it shows -----------------------------------------------------------------------------------


async def test_metrics_are_on_loopback_when_asked(world: World) -> None:
    server = await world.server(metrics=MetricsSettings(port=0))
    client = await world.client(server)
    await client.start(goal="g")
    await refusal(client.runs.GetServerInfo(opb.GetServerInfoRequest()))

    url = f"http://127.0.0.1:{server.metrics_port}/metrics"
    page = (await asyncio.to_thread(lambda: urlopen(url).read())).decode()

    start = 'method="/stepwell.v1.Orchestrator/StartRun"'
    assert f'stepwell_rpc_total{{code="OK",{start}}} 1.0' in page
    assert 'code="UNAUTHENTICATED"' in page
    assert f"stepwell_rpc_seconds_count{{{start}}} 1.0" in page
    assert 'stepwell_executor_total{what="commits_committed"} 1.0' in page
    assert "stepwell_loop_lag_seconds" in page
    assert "stepwell_workers 0.0" in page
    assert 'stepwell_runs{blocked_on="WORKER"} 1.0' in page


def test_logs_hold_no_secret_and_no_control_characters() -> None:
    entry = {
        "event": "a\x1b[31mred\x00",
        "lease_token": "t",
        "authorization": "Bearer x",
        "data": b"bytes",
        "nested": {"payload": "p", "text": "\x07", "\u202e": "\u202e"},
    }

    cleaned = logs.clean(dict(entry))

    assert "\x1b" not in cleaned["event"]
    assert cleaned["lease_token"] == cleaned["authorization"] == "[secret]"
    assert cleaned["data"] == "[5 bytes]"
    assert cleaned["nested"]["payload"] == "[secret]"
    assert "\u202e" not in cleaned["nested"]["\u202e"]


@pytest.fixture
def restored() -> Iterator[None]:
    with loggers_restored():
        yield


@pytest.mark.usefixtures("restored")
def test_logs_are_structured(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(format="json", level="info"))
    get_logger("stepwell.x").info("hello", run_id="r", prompt="secret")
    get_logger("stepwell.x").debug("unseen")
    logging.getLogger("grpc.x").warning("it's %s\x1b", "late")
    ours, library = map(json.loads, capsys.readouterr().err.splitlines())

    assert ours.pop("timestamp").endswith("Z")
    assert ours == {"event": "hello", "level": "info", "run_id": "r", "prompt": "[secret]"}
    assert library["event"] == "it's late\N{REPLACEMENT CHARACTER}"


@pytest.mark.usefixtures("restored")
def test_logged_exception_is_printed_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings())
    fault = ValueError("broken")
    get_logger("stepwell_drivers.x").error("it failed", table="runs", why="no room", exc_info=fault)

    line, *below = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT[0-9:.]+Z \[error    \] it failed +table=runs why='no room'", line
    )
    assert below[-1] == "ValueError: broken"


@pytest.mark.usefixtures("restored")
def test_a_log_whose_reader_has_left_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    broken = os.fdopen(writer, "w")
    try:
        monkeypatch.setattr("sys.stderr", broken)
        logs.configure(LogSettings())
        get_logger("stepwell.x").info("is anybody there?")
    finally:
        with suppress(BrokenPipeError):
            broken.close()


# --- settings ----------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_flags_go_over_the_environment_over_the_file(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "stepwell.toml").write_text(
        '[grpc]\nport = 1\nkeepalive_ms = 7\n[log]\nlevel = "error"\n[store]\nurl = "memory://x"\n'
    )
    monkeypatch.setenv("STEPWELL_GRPC__PORT", "2")
    monkeypatch.setenv("STEPWELL_LOG__LEVEL", "warning")

    settings = load({"log": {"level": "debug"}})

    assert (settings.grpc.port, settings.grpc.keepalive_ms) == (2, 7)
    assert settings.log.level == "debug"
    assert settings.store.url.get_secret_value() == "memory://x"


@pytest.mark.parametrize(
    ("toml", "variable", "named"),
    [
        ("[grcp]\nport = 1", None, "grcp"),
        ("[grpc]\nprot = 1", None, r"grpc\.prot"),
        ('[[auth.tokens]]\ntenant = "t"\nscope = "x"', None, r"auth\.tokens\.0\.scope"),
        ("", "STEPWELL_GRCP__PORT", "STEPWELL_GRCP__PORT"),
        ("", "STEPWELL_GRPC__PROT", r"grpc\.prot"),
        ("", "STEPWELL_PORT", "STEPWELL_PORT"),
        ("port =", None, "can't be read"),
    ],
)
def test_unknown_keys_are_refused_by_name(
    here: Path, monkeypatch: pytest.MonkeyPatch, toml: str, variable: str | None, named: str
) -> None:
    (here / "stepwell.toml").write_text(toml)
    if variable:
        monkeypatch.setenv(variable, "1")

    with pytest.raises(SettingsRefused, match=named):
        load()


def test_environment_writes_groups_tables_and_lists_as_json(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = {"tenant": "acme", "scopes": ["read"], "token_sha256": "0" * 64}
    monkeypatch.setenv("STEPWELL_AUTH__TOKENS", json.dumps([token]))
    monkeypatch.setenv("STEPWELL_GRPC", '{"port": 1, "calls_max": 7}')
    monkeypatch.setenv("STEPWELL_GRPC__PORT", "2")
    monkeypatch.setenv("STEPWELL_QUEUES", '{"Mail": {"max_parallel": 3}}')
    monkeypatch.setenv("stepwell_queues__post__max_parallel", "4")

    settings = load()

    assert [one.scopes for one in settings.auth.tokens] == [frozenset({"read"})]
    assert (settings.grpc.port, settings.grpc.calls_max) == (2, 7)
    limits = {name: queue.max_parallel for name, queue in settings.queues.items()}
    assert limits == {"Mail": 3, "post": 4}


def test_list_in_environment_that_is_no_json_is_named_and_not_shown(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWELL_AUTH__TOKENS", "secret")

    with pytest.raises(SettingsRefused, match="STEPWELL_AUTH__TOKENS") as refused:
        load()
    assert "secret" not in str(refused.value)


def test_unfit_setting_is_named_and_not_shown(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_GRPC__PORT", "70000secret")

    with pytest.raises(SettingsRefused, match=r"grpc\.port") as caught:
        load()
    assert "secret" not in str(caught.value)


def test_a_file_that_is_named_must_be_there(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CONFIG", str(here / "no.toml"))

    with pytest.raises(SettingsRefused, match="is not there"):
        load()

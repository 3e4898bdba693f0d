"""`serve` beside a host program: signals that the host has, or that can't be had, are left to it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest

from stepwell_client import Agent, Client, Worker, decode, serve
from tests.service.client.fakes import TOKEN, FakeServer, Stream, welcomed
from tests.support.patience import PATIENCE_S, until
from tests.support.steps import assignment

LEFT = "left to the host program"


async def does_a_step(stream: Stream) -> None:
    await stream.send(assignments=[assignment(type_="double", given=4)])
    outcome = await stream.outcome()
    assert decode(outcome.completed.result) == 8
    await stream.ack(outcome)


async def test_worker_serves_in_another_thread(
    server: FakeServer, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    workers: list[Worker] = []

    async def host() -> None:
        async with Client(server.target, token=TOKEN) as client:
            workers.append(Worker(agent, client))
            await serve(workers[0])

    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await host()

    thread = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(main())))
    await does_a_step(await welcomed(server))
    drained = asyncio.run_coroutine_threadsafe(workers[0].drain(0.0), loops[0])
    await asyncio.wait_for(thread, PATIENCE_S)
    drained.cancel()
    assert LEFT in caplog.text


async def test_worker_serves_on_a_loop_that_takes_no_signals(
    server: FakeServer,
    client: Client,
    agent: Agent,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)

    def refuse(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", refuse)
    worker = Worker(agent, client)
    program = asyncio.ensure_future(serve(worker))
    await does_a_step(await welcomed(server))
    await worker.drain(0.0)
    await asyncio.wait_for(program, PATIENCE_S)
    assert LEFT in caplog.text


async def test_handler_of_the_host_is_called_during_serve_and_after_it(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    calls: list[str] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, calls.append, "host")
    try:
        worker = Worker(agent, client)
        program = asyncio.ensure_future(serve(worker))
        await does_a_step(await welcomed(server))
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: calls == ["host"])
        assert not program.done()
        await worker.drain(0.0)
        await asyncio.wait_for(program, PATIENCE_S)
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: calls == ["host", "host"])
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def test_handlers_are_as_before_when_serve_has_ended(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    worker = Worker(agent, client)
    program = asyncio.ensure_future(serve(worker))
    await does_a_step(await welcomed(server))
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] != before
    await worker.drain(0.0)
    await asyncio.wait_for(program, PATIENCE_S)
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == before

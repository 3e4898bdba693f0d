"""Connections to the console's port: which are closed by the server, and what it logs of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import Any

import pytest

from stepwell.console import serving
from stepwell_client.v1 import orchestrator_pb2 as opb
from tests.service.conftest import ME, World
from tests.service.console.conftest import Console, new_console
from tests.support.patience import PATIENCE_S

HOST = b"Host: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
AUTHORIZATION = f"Authorization: {ME[0][1]}\r\n".encode()
UNFINISHED = (
    b"POST /session HTTP/1.1\r\n" + HOST + CHUNKED,
    b"POST /stepwell.v1.Orchestrator/GetServerInfo HTTP/1.1\r\nContent-Type: application/json\r\n"
    + AUTHORIZATION
    + HOST
    + CHUNKED,
)


@pytest.fixture
async def hasty(world: World, monkeypatch: Any) -> AsyncGenerator[Console]:
    """A console that doesn't wait for long for a request."""
    monkeypatch.setattr(serving, "_HEAD_S", 0.05)
    async with AsyncExitStack() as stack:
        yield await new_console(world, stack)


@asynccontextmanager
async def connected(
    console: Console,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = console.http.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: loc"])
async def test_connection_without_a_whole_request_is_closed_and_a_stream_is_not(
    hasty: Console, begun: bytes
) -> None:
    async with aclosing(
        hasty.http.stream("Orchestrator/WatchRuns", opb.WatchRunsRequest())
    ) as watch:
        assert await anext(watch) is None
        async with connected(hasty) as (reader, writer):
            writer.write(begun)
            assert await reader.read() == b""
        assert hasty.streams("WatchRuns") == 1
        await hasty.client.start(goal="seen by the stream that is still there")
        async with asyncio.timeout(PATIENCE_S):
            assert await anext(watch) is not None


async def test_bytes_that_trickle_in_keep_no_connection_open(hasty: Console) -> None:
    async with connected(hasty) as (reader, writer):

        async def trickle() -> None:
            writer.write(b"GET / HTTP/1.1\r\nX: ")
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.01)

        trickling = asyncio.ensure_future(trickle())
        try:
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        finally:
            trickling.cancel()


async def test_body_of_a_refused_request_keeps_no_connection_open(hasty: Console) -> None:
    async with connected(hasty) as (reader, writer):
        writer.write(b"PUT / HTTP/1.1\r\n" + HOST + CHUNKED)
        await reader.readuntil(b"takes GET, HEAD\n")
        writer.write(b"1\r\nx\r\n")
        assert await reader.read() == b""


@pytest.mark.parametrize("request_", UNFINISHED)
async def test_unfinished_bodies_at_the_end_of_the_port_leave_no_error(
    world: World, monkeypatch: Any, request_: bytes, caplog: Any
) -> None:
    monkeypatch.setattr(serving, "_LAST_WORDS_S", 0.05)
    with caplog.at_level(logging.ERROR):
        async with AsyncExitStack() as stack:
            console = await new_console(world, stack)
            async with connected(console) as (reader, writer):
                # The server says by it that it reads the body.
                writer.write(request_.replace(HOST, HOST + b"Expect: 100-continue\r\n"))
                await reader.readuntil(b"\r\n\r\n")
                await stack.aclose()
                assert await reader.read() == b""
    # uvicorn notes the number of such requests.
    assert [record.exc_info for record in caplog.records] == [None]


async def test_bytes_that_are_no_http_after_an_answer_leave_no_error(
    console: Console, caplog: Any
) -> None:
    with caplog.at_level(logging.ERROR):
        async with connected(console) as (reader, writer):
            writer.write(b"PUT / HTTP/1.1\r\n" + HOST + CHUNKED)
            await reader.readuntil(b"takes GET, HEAD\n")
            writer.write(b"no chunk\r\n")
            assert await reader.read() == b""
    assert not caplog.records


async def test_bytes_that_are_no_http_get_the_headers_of_every_response(console: Console) -> None:
    async with connected(console) as (reader, writer):
        writer.write(b"TWO WORDS / HTTP/1.1\r\n\r\n")
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-security-policy: default-src 'none'" in answer
    assert b"x-content-type-options: nosniff" in answer


async def test_request_for_a_web_socket_gets_the_page_and_no_line_in_the_log(
    console: Console, caplog: Any
) -> None:
    headers = {"connection": "upgrade", "upgrade": "websocket"}
    with caplog.at_level(logging.WARNING):
        assert (await console.http.client.get("/", headers=headers)).status_code == 200
    assert not caplog.records

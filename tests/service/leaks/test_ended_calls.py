"""Calls that end while a handler writes to them: their callers have gone, and that is no error."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from tests.service.leaks.bench import METHODS, Bench, Context, serving
from tests.service.leaks.requests import asked, furnish
from tests.support.logs import capture_logs


class Ended(Context):
    """A call that has just ended: nothing can be sent on it, and its context doesn't know that yet."""

    async def send_initial_metadata(self, _metadata: Any) -> None:
        raise grpc.aio.InternalError('Failed "ExecuteBatch": (SendInitialMetadataOperation)')

    async def write(self, message: Any) -> None:
        raise grpc.aio.InternalError('Failed "ExecuteBatch": (SendMessageOperation)')


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].server_streaming])
async def test_write_to_a_call_that_has_ended_is_not_logged(method: str, tmp_path: Path) -> None:
    async with serving("memory://", tmp_path) as server:
        bench = Bench(server)
        await furnish(bench)
        call = await asked(bench, method)
        with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
            await bench.serve(method, call.requests, Ended())
    assert [line for line in logs if line["log_level"] == "error"] == []

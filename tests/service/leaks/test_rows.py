"""Every RPC has a row, and what the rows ask is taken: a call that is refused at once shows nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc

from tests.service.leaks import store_requests
from tests.service.leaks.bench import METHODS, Bench, Context, serving
from tests.service.leaks.requests import ROWS, furnish
from tests.support.patience import PATIENCE_S

STREAM_S = 0.2
"""A stream that has nothing to say is waited for to its end."""


def test_every_RPC_has_a_row() -> None:
    assert store_requests
    assert set(ROWS) == set(METHODS)


async def test_each_row_is_a_call_that_is_answered(tmp_path: Path) -> None:
    async with serving("memory://", tmp_path) as server:
        bench = Bench(server)
        await furnish(bench)
        for method, make in ROWS.items():
            asked, context = await make(bench), Context()
            streams = METHODS[method].server_streaming
            call = asyncio.ensure_future(bench.serve(method, asked.requests, context))
            done, _ = await asyncio.wait((call,), timeout=STREAM_S if streams else PATIENCE_S)
            assert bool(done) != streams or context.written, method
            call.cancel()
            try:
                await call
            except asyncio.CancelledError:
                assert streams, method
            assert context.code is grpc.StatusCode.OK, method

"""Forked processes: a check that gRPC works in one, made before a channel is opened there.

gRPC's threads don't live on in a forked process. It starts them again, unless a thread of the parent was within
gRPC at that moment, or a channel of asyncio was open. Every call would then wait without end, whatever its time-out.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress

import grpc
import grpc.aio

from stepwell_client.errors import Misconfigured

PROBE_SECONDS = 4.0
_NO_SERVER = "unix:/dev/null/none"
_works_in = {False: os.getpid(), True: os.getpid()}
"""The process in which gRPC is known to work, without asyncio and with it."""


def check_process(*, aio: bool = False) -> None:
    """Raise Misconfigured in a forked process in which gRPC stands still."""
    if _works_in[aio] == os.getpid():
        return
    probe = threading.Thread(target=_call_aio if aio else _call, daemon=True)
    probe.start()
    probe.join(PROBE_SECONDS)
    if probe.is_alive():
        raise Misconfigured(
            "gRPC stands still in this process: it was forked while its parent made calls, or had"
            " an asyncio client open. Fork before that, or start processes by spawn or forkserver"
        )
    _works_in[aio] = os.getpid()


def _call() -> None:
    with suppress(grpc.RpcError), grpc.insecure_channel(_NO_SERVER) as channel:
        channel.unary_unary("/none")(b"", timeout=1.0)


def _call_aio() -> None:
    async def call() -> None:
        async with grpc.aio.insecure_channel(_NO_SERVER) as channel:
            await channel.unary_unary("/none")(b"", timeout=1.0)

    with suppress(grpc.RpcError):
        asyncio.run(call())

"""Forked processes: a check that gRPC works in one, made before a channel is opened there.

gRPC's threads don't live on in a forked process. It starts them again, unless a thread of the parent was within
gRPC at that moment, or a channel of asyncio was open. Every call would then wait without end, whatever its time-out.
After the second, a first call in the child may work and the next one hang, so that one isn't tried at all.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from contextlib import suppress

import grpc
import grpc.aio

from stepwell_client.errors import Misconfigured

PROBE_SECONDS = 4.0
_NO_SERVER = "unix:/dev/null/none"
_works_in = {False: os.getpid(), True: os.getpid()}
"""The process in which gRPC is known to work, without asyncio and with it."""


class _AioChannels:
    """The channels of asyncio that this process made, and what a fork does to them."""

    def __init__(self) -> None:
        self._made: weakref.WeakSet[grpc.aio.Channel] = weakref.WeakSet()
        self._is_any_open = False
        self.are_lost = False
        """True if one was open when this process was forked, or when its parent was."""

    def add(self, channel: grpc.aio.Channel) -> None:
        self._made.add(channel)

    def note_open(self) -> None:
        """Note before a fork if one is open."""
        closed = grpc.ChannelConnectivity.SHUTDOWN
        self._is_any_open = any(one.get_state() is not closed for one in self._made)

    def lose(self) -> None:
        """Forget the parent's channels, in the child."""
        self.are_lost = self.are_lost or self._is_any_open
        self._made.clear()


_aio_channels = _AioChannels()
if hasattr(os, "register_at_fork"):  # Not on Windows.
    os.register_at_fork(before=_aio_channels.note_open, after_in_child=_aio_channels.lose)


def watch_channel(channel: grpc.aio.Channel) -> grpc.aio.Channel:
    """Return the channel; a process that is forked while it is open opens none of asyncio."""
    _aio_channels.add(channel)
    return channel


def check_process(*, aio: bool = False) -> None:
    """Raise Misconfigured in a forked process in which gRPC stands still."""
    if _works_in[aio] == os.getpid():
        return
    if (aio and _aio_channels.are_lost) or not _answers(aio=aio):
        raise Misconfigured(
            "gRPC stands still in this process: it was forked while its parent made calls, or had"
            " an asyncio client open. Fork before that, or start processes by spawn or forkserver"
        )
    _works_in[aio] = os.getpid()


def _answers(*, aio: bool) -> bool:
    """Return whether a call ends that has no server."""
    probe = threading.Thread(target=_call_aio if aio else _call, daemon=True)
    probe.start()
    probe.join(PROBE_SECONDS)
    return not probe.is_alive()


def _call() -> None:
    with suppress(grpc.RpcError), grpc.insecure_channel(_NO_SERVER) as channel:
        channel.unary_unary("/none")(b"", timeout=1.0)


def _call_aio() -> None:
    async def call() -> None:
        async with grpc.aio.insecure_channel(_NO_SERVER) as channel:
            await channel.unary_unary("/none")(b"", timeout=1.0)

    with suppress(grpc.RpcError):
        asyncio.run(call())

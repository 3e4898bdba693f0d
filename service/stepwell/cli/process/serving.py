"""The server process: settings from flags, a banner, a loop until a signal, an orderly end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import EnumType
from importlib import import_module
from typing import Any, cast

from stepwell.cli.exits import CliError, Exit
from stepwell.cli.process import signals
from stepwell.cli.view.text import note
from stepwell.config import Settings, SettingsRefused, load
from stepwell.core.records.errors import StoreError, StoreRefused
from stepwell.rpc import logs
from stepwell.rpc.server import Server
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import mask_url

_SURVIVES = {
    "VOLATILE": "nothing: it is gone with this process",
    "PROCESS": "the end of any process",
    "POWER": "a power cut",
    "NODE": "the loss of this machine",
}

Companion = Callable[[Server, asyncio.Event], Awaitable[int]]
"""Work beside a server, until the event is set; returns the exit code."""


def settings(flags: Mapping[str, Mapping[str, Any]]) -> Settings:
    """Return the settings; flags that were not given are left to the environment and the file."""
    groups = {
        name: {key: value for key, value in group.items() if value is not None}
        for name, group in flags.items()
    }
    overrides = {name: group for name, group in groups.items() if group}
    try:
        return load(overrides)
    except SettingsRefused as error:
        raise CliError(str(error)) from error


async def _until_stopped(server: Server, stop: asyncio.Event) -> int:
    del server
    await stop.wait()
    return Exit.DONE


def serve(
    wanted: Settings,
    make: Callable[[Settings], Server],
    kind: str,
    *,
    companion: Companion = _until_stopped,
    has_console: bool = False,
) -> int:
    """Serve until a signal, or until the work beside it ends; return the exit code.

    `has_console`: with a console, where the settings have one.
    """
    logs.configure(wanted.log)
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(
                _serve(wanted, make, kind, companion, has_console and wanted.console.enabled)
            )
    except SettingsRefused as error:
        raise CliError(str(error)) from error
    except StoreError as error:
        raise store_error(error) from error


def store_error(error: StoreError) -> CliError:
    """Return the error of a command whose store could not be opened or used."""
    code = Exit.USAGE if isinstance(error, StoreRefused) else Exit.FAILED
    return CliError(error.message, code)


def _begin_to_collect_garbage() -> None:
    """Collect garbage from now on, and seldom: nearly all of a server's objects are free of cycles and short-lived.

    Python's own pace, for programs in general, costs a tenth of a busy server's CPU. What is there once the server
    listens stays there, and is never looked through.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def find_enum_members_directly() -> None:
    """Have this interpreter find an enum's members as Python 3.12 does, without a hook that finds nothing more.

    The hook of Python 3.11 makes each `Status.DONE` five times as slow, and a step has some sixty.
    """
    if "__getattr__" in vars(EnumType):
        delattr(EnumType, "__getattr__")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop factory if the extra is installed, or None for asyncio's own."""
    try:
        uvloop = import_module("uvloop")
    except ModuleNotFoundError:
        return None
    return cast("Callable[[], asyncio.AbstractEventLoop]", uvloop.new_event_loop)


async def _serve(
    wanted: Settings,
    make: Callable[[Settings], Server],
    kind: str,
    companion: Companion,
    has_console: bool,
) -> int:
    find_enum_members_directly()
    with signals.stopping() as stop:
        server = make(wanted)
        async with running(server, has_console):
            _begin_to_collect_garbage()
            # At once: who waits for the first line has the others, too.
            print("\n".join(banner(server, wanted, kind)), flush=True)
            code = await companion(server, stop)
            note("draining; Ctrl-C again quits at once")
            # The server itself cuts off calls that don't end in time.
            await server.drain()
    print("stopped", flush=True)
    return code


@asynccontextmanager
async def running(server: Server, has_console: bool) -> AsyncGenerator[None]:
    """Run the server until the block ends, and its console beside it."""
    if not has_console:
        async with server:
            yield
        return
    # Its HTTP server takes a tenth of a second to import.
    console = import_module("stepwell.console.serving")
    runtime = SystemRuntime()
    place = console.Place.bind(server.settings.console, runtime.now_us)
    server.console_address = place.address
    with place.taken:
        async with server, console.serving_server(place, server, runtime):
            yield


def banner(server: Server, wanted: Settings, kind: str) -> Sequence[str]:
    """Return the lines that are printed at the start."""
    info = server.deps.store_info
    survives = _SURVIVES.get(info.durability, "")
    lines = [
        f"{kind} listens on {' and '.join(server.addresses)}",
        f"  store    {mask_url(wanted.store.url.get_secret_value())}",
        f"  durable  {info.durability}: what is acknowledged survives {survives}",
    ]
    if info.detail:
        lines[-1] += f" ({info.detail})"
    if wanted.grpc.tls_cert is not None:
        asked = (
            f"; clients show one of {wanted.grpc.tls_client_ca}"
            if wanted.grpc.tls_client_ca
            else ""
        )
        lines.append(f"  tls      {wanted.grpc.tls_cert}{asked}")
    if wanted.auth.mint:
        lines.append(f"  token    {wanted.auth.token_file}")
    if server.console_address:
        lines.append(f"  console  {server.console_address}; log in by: stepwell console")
    if server.metrics_port:
        lines.append(f"  metrics  http://127.0.0.1:{server.metrics_port}/metrics")
    return lines

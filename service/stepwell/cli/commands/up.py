"""The command `stepwell up`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any

import typer

from stepwell.cli import options
from stepwell.cli.commands.console import open_console
from stepwell.cli.exits import CliError
from stepwell.cli.process import browser, serving
from stepwell.cli.process.supervisor import keep_running
from stepwell.cli.view.text import note
from stepwell.config import Settings
from stepwell.rpc.auth import read_token
from stepwell.rpc.server import Server
from stepwell.runtime import SystemRuntime

EXAMPLES = {"up": "stepwell up agent:agent"}
_FOLDER = ".stepwell"
_PORTS_MAX = 100
"""The number of ports that are tried, from the wanted one on."""


def up(
    agent: Annotated[
        str,
        typer.Argument(
            help="Where it is, as module:name; modules are looked for from here.",
            show_default=False,
        ),
    ],
    queue: options.Queues = None,
    concurrency: options.Concurrency = 8,
    drain: options.Drain = 30.0,
    port: options.Port = None,
    log_level: options.LogLevel = None,
    no_open: Annotated[
        bool,
        typer.Option(
            "--no-open",
            help="Print the console's link and open no browser. So does STEPWELL_NO_OPEN.",
        ),
    ] = False,
) -> int:
    """Run service, console and an agent's worker in one terminal.

    A link logs a browser in to the console: it is printed, and opened where there is a desktop.

    The state lies in .stepwell/ of this folder, unless the settings name a store. A taken port is replaced by the
    next free one. The worker is a process of its own, and is started again when it ends. Ctrl-C ends all: first
    the worker, which drains, then the service.
    """
    wanted, moved = _settings(port, log_level)

    async def work(server: Server, stop: asyncio.Event) -> int:
        # Only now: a store that is refused ends it before there is a port.
        if moved:
            note(moved)
        if wanted.auth.mint and server.console_address.startswith("http:"):
            leading = SystemRuntime().spawn(
                _lead(server.console_address, wanted, no_open=no_open), name="lead to the console"
            )
        else:
            leading = None
        command = [
            *(sys.executable, "-m", "stepwell", "worker", agent, "--end-with-input"),
            *("--target", server.addresses[0], "--drain", f"{drain}"),
            *("--concurrency", f"{concurrency}"),
            *(word for name in queue or () for word in ("--queue", name)),
        ]
        if wanted.auth.mint:
            command += ["--token-file", str(wanted.auth.token_file)]
        try:
            return await keep_running(command, SystemRuntime(), stop, drain_seconds=drain)
        finally:
            if leading is not None:
                leading.cancel()

    return serving.serve(wanted, Server, "stepwell", companion=work, has_console=True)


async def _lead(url: str, wanted: Settings, *, no_open: bool) -> None:
    """Print a link that logs in to the console, and open another one where there is a desktop."""
    token = read_token(wanted.auth.token_file)
    try:
        await open_console(url, token, None, no_open=True)
        if not no_open and has_desktop():
            await open_console(url, token, None, no_open=False)
    except (OSError, HTTPException, CliError) as error:
        note(f"no link could be made ({error}); log in by: stepwell console")


def has_desktop() -> bool:
    """Return whether a person sits before this process: a terminal, a browser, and neither CI nor a test."""
    quiet = ("STEPWELL_NO_OPEN", "CI", "PYTEST_CURRENT_TEST")
    return sys.stdout.isatty() and browser.has_browser() and not any(map(os.environ.get, quiet))


def _settings(port: int | None, log_level: str | None) -> tuple[Settings, str]:
    """Return the settings, with a store in this folder where they name none and a free port for a taken one.

    With them comes what to say of the port; empty: it is the wanted one.
    """
    moved = ""
    given = {"grpc": {"port": port}, "console": {"enabled": True}, "log": {"level": log_level}}
    wanted = serving.settings(given)
    chosen: dict[str, dict[str, Any]] = {}
    if "url" not in wanted.store.model_fields_set:
        chosen["store"] = {"url": f"sqlite:///{_folder() / 'stepwell.db'}"}
    listen = wanted.grpc
    if listen.socket is None or "port" in listen.model_fields_set:
        free = _free_port(listen.host, listen.port)
        if free != listen.port:
            moved = (
                f"port {listen.port} is taken, so this is port {free}; for other terminals:"
                f" export STEPWELL_TARGET={listen.host}:{free}"
            )
            chosen["grpc"] = {"port": free}
    return serving.settings({**given, **chosen}) if chosen else wanted, moved


def _folder() -> Path:
    """Return the folder of the state, made if missing, with a file that keeps it out of git."""
    folder = Path(_FOLDER)
    folder.mkdir(mode=0o700, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return folder


def _free_port(host: str, wanted: int) -> int:
    """Return the first free port from the wanted one on; the wanted one itself where none is found."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in range(wanted, min(wanted + _PORTS_MAX, 65_536)):
        with suppress(OSError), socket.create_server((host.strip("[]"), port), family=family):
            return port
    return wanted

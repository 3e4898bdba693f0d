"""`stepwell store`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from stepwell.cli import serving
from stepwell.core.records.limits import STORE_MESSAGE_BYTES_MAX
from stepwell.rpc.server import Server
from stepwell.rpc.store import make_service

EXAMPLE = (
    "Example: stepwell store --driver sqlite:///stepwell.db --port 7879, and beside it: "
    "stepwell serve --store grpc://127.0.0.1:7879"
)


def command(
    driver: Annotated[
        str | None,
        typer.Option(
            "--driver", "-d", metavar="URL", help="The store: sqlite:///file, memory:// …"
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="Where to listen. [127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="PORT", min=0, max=65535, help="0: a free one. [7878]"),
    ] = None,
    socket: Annotated[
        Path | None,
        typer.Option("--socket", metavar="FILE", help="A Unix socket, instead of a port."),
    ] = None,
    insecure_allow_remote: Annotated[
        bool,
        typer.Option(
            "--insecure-allow-remote",
            help="Listen where other machines can reach it. Nothing is encrypted.",
        ),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Where the token is made at first."),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error. [info]"),
    ] = None,
    log_format: Annotated[
        str | None,
        typer.Option("--log-format", metavar="FORMAT", help="console or json. [console]"),
    ] = None,
) -> int:
    """Offer a store to services on other machines.

    It keeps the state and runs no loop: services connect to it with --store grpc://host:port. SIGTERM
    or Ctrl-C drains; a second one quits at once.
    """
    wanted = serving.settings(
        {
            "store": {"url": driver},
            "grpc": {
                "host": host,
                "port": port,
                "socket": socket,
                "insecure_allow_remote": insecure_allow_remote or None,
            },
            "auth": {"token_file": token_file},
            "log": {"level": log_level, "format": log_format},
        }
    )
    make = partial(
        Server,
        services=(make_service,),
        receive_bytes_max=STORE_MESSAGE_BYTES_MAX,
        executes=False,
    )
    return serving.serve(wanted, make, "stepwell store")

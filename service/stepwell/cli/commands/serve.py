"""`stepwell serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepwell.cli import serving
from stepwell.rpc.server import Server

EXAMPLE = "Example: stepwell serve --store sqlite:///stepwell.db --metrics-port 9464"


def command(
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            "-s",
            metavar="URL",
            help="Where the state is kept: sqlite:///file, memory://, grpc://host:port … Default: a "
            "SQLite file in ~/.local/state/stepwell.",
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
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="Metrics for Prometheus, on loopback.",
        ),
    ] = None,
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
    """Run the service: workers and clients connect to it.

    Settings come from flags, then from STEPWELL_… variables (STEPWELL_GRPC__PORT), then from
    stepwell.toml. SIGTERM or Ctrl-C drains; a second one quits at once.
    """
    wanted = serving.settings(
        {
            "store": {"url": store},
            "grpc": {
                "host": host,
                "port": port,
                "socket": socket,
                "insecure_allow_remote": insecure_allow_remote or None,
            },
            "auth": {"token_file": token_file},
            "metrics": {"port": metrics_port},
            "log": {"level": log_level, "format": log_format},
        }
    )
    return serving.serve(wanted, Server, "stepwell")

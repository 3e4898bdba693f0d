"""The command `stepwell mcp`."""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from stepwell.cli.connect import Connection, connecting
from stepwell.cli.errors import exit_of_error
from stepwell.cli.exits import CliError, Exit
from stepwell_client import StepwellClientError

EXAMPLES = {"mcp": "stepwell mcp --http 127.0.0.1:8765"}


@connecting
def mcp(
    where: Connection,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Listen for HTTP there, at /mcp; port 0: a free one. Default: standard input and output.",
        ),
    ] = None,
    http_cert: Annotated[
        Path | None,
        typer.Option(
            "--http-cert", metavar="FILE", help="With --http: the certificate; it speaks TLS."
        ),
    ] = None,
    http_key: Annotated[
        Path | None, typer.Option("--http-key", metavar="FILE", help="The certificate's key.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="With --http: a name by which clients call it, besides those of loopback; may be given again.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="URL",
            help="With --http: pages of this origin may call it; may be given again.",
        ),
    ] = None,
) -> int:
    """Give an assistant tools for runs, by MCP.

    By the Model Context Protocol it starts, watches, lists, shows, answers, cancels and forks runs of the server.
    By standard input it uses this user's token, as other commands do. By HTTP it has none: each call
    carries the token of its caller.
    """
    server = _needed("server")
    try:
        if http is None:
            # A target or token that can't be used is told here, and not to the assistant.
            server.make_client(where, None)
            made = server.make_server(server.local_client(where), version("stepwell"))
            made.run("stdio")
            return Exit.DONE
        by_http = _needed("http")
        host, port = by_http.parse_address(http)
        listen = by_http.Listen(
            host, port, allow_host or (), allow_origin or (), cert=http_cert, key=http_key
        )
        by_http.refuse_insecure(listen)
        server.make_client(where, "checked")
    except StepwellClientError as error:
        raise CliError(error.message, exit_of_error(error)) from error
    made = server.make_server(server.callers_client(where), version("stepwell"))
    asyncio.run(by_http.serve(made, listen))
    return Exit.DONE


def _needed(name: str) -> Any:
    try:
        return import_module(f"stepwell.cli.mcp.{name}")
    except ModuleNotFoundError as error:
        raise CliError(
            "`stepwell mcp` needs a package that is not installed"
            f" ({error.name}): pip install 'stepwell[mcp]'"
        ) from None

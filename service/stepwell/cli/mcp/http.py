"""MCP by HTTP: on loopback unless it speaks TLS, for known hosts and origins, and for callers with a token.

A browser that was lured to a page of somebody else's sends that page's Origin, and the name that leads it here
as Host: both are checked. No session is kept, so that no call can use what another one has brought.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from stepwell.cli.exits import CliError
from stepwell.cli.process import signals
from stepwell.console.sockets import listening
from stepwell.core.records.errors import Unauthenticated
from stepwell.rpc.auth import bearer_token, texts_of
from stepwell_client.internal import is_local

PATH = "/mcp"
CALLS_MAX = 100
"""Requests that are answered side by side; more are refused at once."""
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_DRAIN_SECONDS = 5
_NO_TOKEN = "this server lends no token: send your own, as 'Authorization: Bearer TOKEN'"  # noqa: S105 - a message


class Listen(NamedTuple):
    """The place where to listen, and for whom."""

    host: str
    port: int
    hosts: Sequence[str] = ()
    """More names by which clients call this server."""
    origins: Sequence[str] = ()
    """Origins of the pages that may call it."""
    cert: Path | None = None
    key: Path | None = None


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `[::1]:PORT` or `PORT`."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise CliError(f"--http {text!r} is no HOST:PORT, such as 127.0.0.1:8765")
    return host.strip("[]") or "127.0.0.1", int(port)


class RequireToken:
    """Refuses requests without a token. What it is worth, the server says that it is passed on to."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] == "http":
                bearer_token(texts_of(Headers(scope=scope).items()))
        except Unauthenticated:
            refusal = JSONResponse(
                {"error": _NO_TOKEN}, status_code=401, headers={"WWW-Authenticate": "Bearer"}
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def refuse_insecure(listen: Listen) -> None:
    """Refuse to listen in clear text where other machines can reach it.

    Raises:
        CliError: other machines could reach it, or it has no known names.
    """
    if (listen.cert is None) != (listen.key is None):
        raise CliError("--http-cert and --http-key go together")
    if is_local(f"{_bracketed(listen.host)}:{listen.port}"):
        return
    if listen.cert is None:
        raise CliError(
            f"other machines can reach {listen.host}, and tokens would travel in clear text: give"
            " --http-cert and --http-key, or listen on 127.0.0.1"
        )
    if not listen.hosts:
        raise CliError("say by which names clients call this server: --allow-host NAME")


def security(listen: Listen) -> TransportSecuritySettings:
    """Return the hosts and origins that are let in."""
    scheme = "https" if listen.cert else "http"
    names = [*_LOOPBACK, *listen.hosts]
    with_port = [f"{name}:*" for name in names]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*names, *with_port],
        allowed_origins=[*(f"{scheme}://{host}" for host in [*names, *with_port]), *listen.origins],
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def serve(server: MCPServer[Any], listen: Listen) -> None:
    """Serve until a signal."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        transport_security=security(listen),
    )
    config = uvicorn.Config(
        RequireToken(app),
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=CALLS_MAX,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        ssl_certfile=listen.cert,
        ssl_keyfile=listen.key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise CliError(f"--http-cert and --http-key can't be used: {error}") from error
    with signals.stopping() as stop, bound(listen) as taken:
        port = taken.getsockname()[1]
        scheme = "https" if listen.cert else "http"
        url = f"{scheme}://{_bracketed(listen.host)}:{port}{PATH}"
        await _Server(config, url, stop).serve(sockets=[taken])
    print("stopped", flush=True)


class _Server(uvicorn.Server):
    """Says that it listens once it handles signals, each of which it hands on when it has ended."""

    def __init__(self, config: uvicorn.Config, url: str, stop: asyncio.Event) -> None:
        super().__init__(config)
        self._url = url
        self._stop = stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # A signal that came earlier was not its own.
        self.should_exit = self.should_exit or self._stop.is_set()
        print(f"stepwell mcp listens on {self._url}", flush=True)


def bound(listen: Listen) -> socket.socket:
    """Return the socket that listens there.

    Raises:
        CliError: the address can't be bound.
    """
    try:
        return listening(listen.host, listen.port)
    except OSError as error:
        raise CliError(f"can't listen on {listen.host}:{listen.port}: {error.strerror}") from error

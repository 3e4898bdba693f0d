"""The command `stepwell console`."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from stepwell.cli.connect import Connection, connecting
from stepwell.cli.errors import exit_of_error, explain
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.process import browser, serving, signals
from stepwell.cli.view.text import note
from stepwell.config import ConsoleSettings, LogSettings, SettingsRefused
from stepwell.console.forward import ForwardingBackend
from stepwell.console.serving import PROOF_HEADER, Place, proof_of
from stepwell.console.serving import serving as serving_console
from stepwell.console.sessions import CODE_S, Sessions
from stepwell.core.port import Principal
from stepwell.core.records.errors import Unauthenticated
from stepwell.rpc import logs
from stepwell.rpc.admission import GateLimits
from stepwell.rpc.auth import Credential, TokenAuthenticator, bearer_token, digest_of
from stepwell.runtime import SystemRuntime
from stepwell_client import ServerInfo, StepwellClientError, SyncClient, internal

EXAMPLES = {"console": "stepwell console --target grpcs://stepwell.example.org:7878"}
_LOOK_S = 0.5
_ANSWER_S = 10.0


@connecting
def console(
    where: Connection,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="PORT",
            min=0,
            max=65535,
            help="The port on loopback, where this command serves the console itself. [7880, or the"
            " next one that is free]",
        ),
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address and open no browser.")
    ] = False,
) -> int:
    """Open the web console of a server.

    The browser is logged in by the token that other commands use. Where the server of this machine has a console
    (`stepwell serve --console`), it is that one's page. Else this command serves the page on loopback, and calls
    the server by gRPC, until Ctrl-C.
    """
    try:
        with SyncClient(where.target, token_file=where.token_file, **where.security) as client:
            target = client.connection.target
            try:
                info = client.info()
            except StepwellClientError as error:
                raise CliError(explain(error, target), exit_of_error(error)) from error
            token = _token(client.connection)
            authority = client.connection.authority
    except StepwellClientError as error:
        raise CliError(error.message, exit_of_error(error)) from error
    is_here = port is None and internal.is_local(target)
    if is_here and info.console_address and _is_of(info, authority):
        asyncio.run(open_console(info.console_address, token, authority, no_open=no_open))
        return Exit.DONE
    settings = ConsoleSettings() if port is None else ConsoleSettings(port=port)
    return _forward(where, info, token, settings, no_open=no_open)


def _token(connection: internal.Connection) -> str:
    try:
        return bearer_token(dict(connection.access.metadata))
    except Unauthenticated:
        raise CliError(
            "the console logs in by a token: name its file with --token-file", Exit.UNREACHABLE
        ) from None


# --- the page of a server on this machine ------------------------------------------------------------


def _is_of(info: ServerInfo, authority: Path | None) -> bool:
    """Return whether the port that a server names is that server's: it may be another machine's, called by a tunnel."""
    try:
        _answer, headers = _asked(info.console_address, "HEAD", "/", authority)
    except (OSError, http.client.HTTPException, CliError):
        return False
    return headers.get(PROOF_HEADER) == proof_of(info.replica_id)


def _asked(
    url: str, method: str, path: str, authority: Path | None, token: str = "", **body: str
) -> tuple[Any, Any]:
    """Return the JSON that the console's port answers with, and the headers."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=authority)
        connection = http.client.HTTPSConnection(host, port, timeout=_ANSWER_S, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_S)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise CliError(f"{url} answers {response.status}: {text[:200]!r}", Exit.FAILED)
        return (json.loads(text) if method == "POST" else None), response.headers
    finally:
        connection.close()


async def open_console(url: str, token: str, authority: Path | None, *, no_open: bool) -> None:
    """Lead a browser to a server's own page, or with `no_open` print a link, logged in by the token."""
    made, _ = await asyncio.to_thread(_asked, url, "POST", "/session/code", authority, token)

    async def waits() -> bool:
        answer, _ = await asyncio.to_thread(
            _asked, url, "POST", "/session/code", authority, token, code=made["code"]
        )
        return answer["waits"]

    await _log_in(url, made["code"], waits, no_open=no_open)


async def _log_in(
    url: str, code: str, waits: Callable[[], Awaitable[bool]], *, no_open: bool
) -> None:
    """Lead a browser to the page with a code, and wait until the code is used or too old."""
    link = f"{url}/#code={code}"
    if no_open or not browser.has_browser():
        print(f"open within {CODE_S} s, once: {link}", flush=True)
        return
    with browser.leading_file(link) as file:
        # A thread waits for browsers that don't go to the background, which call this process meanwhile.
        if not await asyncio.to_thread(webbrowser.open, file):
            print(f"no browser opens: open within {CODE_S} s, once: {link}", flush=True)
            return
        print(f"{url} opens in the browser", flush=True)
        runtime = SystemRuntime()
        with suppress(TimeoutError):
            async with asyncio.timeout(CODE_S - 1):
                while await waits():
                    await runtime.sleep(_LOOK_S)
                return
    note("nobody has logged in; call `stepwell console --no-open` for an address to open by hand")


# --- the page of this process ------------------------------------------------------------------------


def _forward(
    where: Connection,
    info: ServerInfo,
    token: str,
    settings: ConsoleSettings,
    *,
    no_open: bool,
) -> int:
    logs.configure(LogSettings(level="warning"))
    who = Principal(info.subject, info.tenant_id, frozenset(info.scopes))
    credential = Credential(digest_of(token), who)
    runtime = SystemRuntime()
    try:
        place = Place.bind(settings, runtime.now_us)
    except SettingsRefused as error:
        raise CliError(str(error)) from error
    with place.taken, asyncio.Runner(loop_factory=serving.loop_factory()) as runner:
        sessions = Sessions(TokenAuthenticator((credential,), runtime), token.encode(), runtime)
        runner.run(_serve(where, place, sessions, credential, no_open=no_open))
    print("stopped", flush=True)
    return Exit.DONE


class _Access:
    """The token that calls go on with, read again from its file once the server refuses it."""

    def __init__(self, connection: internal.Connection) -> None:
        self._access = connection.access

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return self._access.metadata

    def reload(self) -> bool:
        try:
            return self._access.reload()
        except StepwellClientError as error:
            note(f"the token before stays in use: {error.message}")
            return False


async def _serve(
    where: Connection, place: Place, sessions: Sessions, credential: Credential, *, no_open: bool
) -> None:
    runtime = SystemRuntime()
    connection = internal.Connection(where.target, token_file=where.token_file, **where.security)
    channel = internal.CurrentChannel(connection, connection.aio_channel)
    gate_limits = GateLimits()
    backend = ForwardingBackend(
        connection.target,
        channel.get,
        _Access(connection),
        sessions,
        runtime,
        stall_ms=gate_limits.stall_ms,
    )
    try:
        with signals.stopping() as stop:
            async with serving_console(place, backend, sessions, runtime, gate_limits, proof=""):
                print(f"the console of {connection.target} is at {place.address}", flush=True)
                code = sessions.new_code(credential)["code"]

                async def waits() -> bool:
                    return sessions.waits(code)

                leading = runtime.spawn(
                    _log_in(place.address, code, waits, no_open=no_open), name="log in"
                )
                await stop.wait()
                leading.cancel()
                await asyncio.wait((leading,))
    finally:
        for one in channel.take():
            await one.close()

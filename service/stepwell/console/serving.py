"""The console's port: bound before the server starts, served with it, and closed after its drain.

place = Place.bind(settings.console, runtime.now_us) server.console_address = place.address async
with server, serving_server(place, server, runtime): ...
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from stepwell.config import ConsoleSettings, SettingsRefused
from stepwell.console.app import App
from stepwell.console.calls import Backend, Calls
from stepwell.console.local import LocalBackend
from stepwell.console.pages import HEADERS
from stepwell.console.pulse import Look, Pulse
from stepwell.console.sessions import Sessions
from stepwell.console.sockets import listening
from stepwell.core.port import Runtime
from stepwell.rpc.admission import GateLimits
from stepwell.rpc.auth import TokenAuthenticator, mint
from stepwell.rpc.listen import check_clear_text
from stepwell.rpc.server import Server
from stepwell.rpc.tls import server_context

_NEXT_PORTS = 20
"""The number of ports that are tried, from the default one on."""
_LAST_WORDS_S = 1
_HEAD_S = 10
"""The time for the head of a request, from the connection or the last answer on."""
PROOF_HEADER = "stepwell-server"
"""The header with a hash of the replica's id, which only the server's callers know. It proves the
port's identity to a client that is about to send a token."""
_TLS_NAMES = "console.tls_cert and console.tls_key"


class Place(NamedTuple):
    """A bound port, not served yet."""

    taken: socket.socket
    tls: ssl.SSLContext | None
    hosts: frozenset[str]
    """Further names by which it is called, besides those of loopback."""

    @classmethod
    def bind(cls, settings: ConsoleSettings, now_us: Callable[[], int]) -> Place:
        """Bind the port that the settings name.

        Raises:
            SettingsRefused: other machines could reach it without TLS, or only by a name that isn't
                listed; it is in use; or the certificate's files can't be used.
        """
        host = settings.host.strip("[]")
        tls = server_context(settings.tls_cert, settings.tls_key, now_us, _TLS_NAMES)
        if tls is None:
            check_clear_text(
                host,
                is_allowed=settings.insecure_allow_remote,
                cure=f"name a certificate in {_TLS_NAMES} (`stepwell certs` makes one to try), listen on"
                " 127.0.0.1, or take the risk with console.insecure_allow_remote",
            )
        hosts = frozenset(name.lower() for name in settings.hosts)
        if host in ("0.0.0.0", "::", "") and not hosts:  # noqa: S104 - it is refused
            raise SettingsRefused(
                f"console.host {host} is no name that a browser calls: list those in console.hosts"
            )
        return cls(_bound(settings, host), tls, hosts | {_bracketed(host).lower()})

    @property
    def address(self) -> str:
        """The URL of the page."""
        name: tuple[str, int] = self.taken.getsockname()[:2]
        host, port = name
        # A wildcard is no address to open, but loopback's is.
        loopback = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it is shown
        shown = _bracketed(loopback.get(host, host))
        return f"{'https' if self.tls else 'http'}://{shown}:{port}"


def _bound(settings: ConsoleSettings, host: str) -> socket.socket:
    is_named = "port" in settings.model_fields_set
    # As gRPC does. Otherwise clients by IPv4 would be left out.
    is_dual = host == "::" and socket.has_dualstack_ipv6()
    last = settings.port + (0 if is_named else _NEXT_PORTS)
    for port in range(settings.port, last + 1):
        try:
            return listening(host, port, is_dual=is_dual)
        except OSError as error:
            if port == last or error.errno != errno.EADDRINUSE:
                raise SettingsRefused(
                    f"the console can't listen on {_bracketed(host)}:{port}: {error.strerror};"
                    " name another port with --console-port or console.port"
                ) from None
    raise AssertionError("the last port is taken or refused")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@asynccontextmanager
async def serving_server(place: Place, server: Server, runtime: Runtime) -> AsyncGenerator[None]:
    """Serve the page and the calls of a server that has started, until the block ends.

    Raises:
        SettingsRefused: the secret's file can't be used, or the server doesn't authenticate by
            tokens.
    """
    tokens = server.authenticator
    if not isinstance(tokens, TokenAuthenticator):
        raise SettingsRefused("the console logs in by tokens, and this server takes none")
    settings = server.settings
    key_file = settings.console.key_file or settings.auth.token_file.with_name("console.key")
    sessions = Sessions(tokens, _secret(key_file, runtime), runtime)
    backend = LocalBackend(server.gate, server.methods, server.metrics, sessions)
    proof = proof_of(server.deps.executor.replica_id)
    executor, rings = server.deps.executor, server.deps.notifier.rings
    pulse = Pulse(
        lambda: Look(Counter(rings.commits), Counter(rings.ends), executor.run_counts()), runtime
    )
    samples = runtime.spawn(pulse.run(), name="samples for the console")
    try:
        async with serving(
            place, backend, sessions, runtime, server.gate_limits, proof=proof, pulse=pulse
        ):
            yield
    finally:
        samples.cancel()


def proof_of(replica_id: str) -> str:
    """Return the proof that the port of a replica sends."""
    return hashlib.sha256(replica_id.encode()).hexdigest()


def _secret(path: Path, runtime: Runtime) -> bytes:
    return mint(path, runtime, "made a key, by which the console knows its logins").encode()


@asynccontextmanager
async def serving(
    place: Place,
    backend: Backend,
    sessions: Sessions,
    runtime: Runtime,
    gate_limits: GateLimits,
    *,
    proof: str,
    pulse: Pulse | None = None,
) -> AsyncGenerator[None]:
    """Serve the page and calls to a backend, until the block ends; see `proof_of` for `proof`."""
    calls = Calls(backend, runtime, gate_limits)
    app = App(
        calls, sessions, runtime, hosts=place.hosts, stall_ms=gate_limits.stall_ms, pulse=pulse
    )
    config = uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=[*HEADERS, (PROOF_HEADER, proof)],
        timeout_keep_alive=_HEAD_S,
        # They would let a caller choose its apparent address.
        proxy_headers=False,
        limit_concurrency=gate_limits.calls_max + gate_limits.streams_max,
        timeout_graceful_shutdown=_LAST_WORDS_S,
    )
    config.load()
    config.ssl = place.tls
    http = _Http(config)
    task = runtime.spawn(http.serve(sockets=[place.taken]), name="console")
    started = runtime.spawn(http.listens.wait(), name="console starts")
    await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED)
    started.cancel()
    try:
        if task.done():
            task.result()
        yield
    finally:
        http.should_exit = True
        await task


class _Http(uvicorn.Server):
    """Leaves signals to the process, and reports when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()


class _Connection(H11Protocol):
    """Closes the connection if no request comes, and can cut it off if an answer isn't read."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        # Whatever handlers the process's loggers have: a path may be a secret.
        self.access_log = False
        self.app_state: dict[str, Any] = {**self.app_state, "abort": self._abort}
        # The first request gets the same time as the next ones, for which uvicorn waits after an
        # answer.
        self.on_response_complete()

    def data_received(self, data: bytes) -> None:
        # Unlike in uvicorn, only the whole head of a request ends the wait for it, not any byte.
        self.conn.receive_data(data)
        self.handle_events()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [*self.server_state.default_headers, (b"connection", b"close")]
            answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (answer, h11.Data(data=f"{msg}\n".encode()), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _should_upgrade(self) -> bool:
        # uvicorn would warn of each WebSocket request, and recommend a package.
        return False

    def _abort(self) -> None:
        # uvicorn logs an error for a request without an answer while its client is connected.
        self.cycle.disconnected = True
        self.transport.abort()

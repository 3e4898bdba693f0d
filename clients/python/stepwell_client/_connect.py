"""Targets, tokens and channels: the server's address, and the credentials for it.

A server mints a token into a file that only its user can read; programs of the same user read it from
there. So nothing needs to be configured on one machine, and nothing is open either.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import grpc
import grpc.aio

from stepwell_client._errors import Misconfigured

DEFAULT_TARGET = "127.0.0.1:7878"
TARGET_VARIABLE = "STEPWELL_TARGET"
TOKEN_VARIABLE = "STEPWELL_TOKEN"  # noqa: S105 - the variable's name, not a token
TOKEN_FILE_VARIABLE = "STEPWELL_TOKEN_FILE"  # noqa: S105 - the variable's name, not a token

SEND_BYTES_MAX = 4 * 1024 * 1024
"""The largest message that the server receives."""
RECEIVE_BYTES_MAX = 8 * 1024 * 1024

_LOCAL_SCHEMES = ("unix:", "unix-abstract:")
_LOCAL_HOSTS = ("localhost", "::1", "[::1]")

Metadata = tuple[tuple[str, str], ...]


def default_token_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the file where a server of the same user mints its token: `~/.local/state/stepwell/token`."""
    environ = os.environ if environ is None else environ
    named = Path(environ.get("XDG_STATE_HOME", ""))
    # The XDG base directory specification wants relative paths to be ignored.
    state = named if named.is_absolute() else Path("~/.local/state").expanduser()
    return state / "stepwell" / "token"


def is_local(target: str) -> bool:
    """Return whether bytes sent to the target never leave this machine.

    `ipv4:HOST:PORT,HOST:PORT` names several servers: each of them must be here.
    """
    if target.startswith(_LOCAL_SCHEMES):
        return True
    for prefix in ("ipv4:", "ipv6:"):
        if target.startswith(prefix):
            return all(_is_local_address(one) for one in target.removeprefix(prefix).split(","))
    return _is_local_address(target.removeprefix("dns:///").removeprefix("dns:"))


def _is_local_address(address: str) -> bool:
    host = address if address in _LOCAL_HOSTS else address.rpartition(":")[0] or address
    return host in _LOCAL_HOSTS or (host.startswith("127.") and host.replace(".", "").isdecimal())


class Access:
    """A token, or the file that it is read from; without both, calls carry no token."""

    def __init__(self, token: str | None, path: Path | None) -> None:
        self._path = path
        self._token = token
        if token is None:
            self.reload()

    def __repr__(self) -> str:
        return f"Access(path={self._path!r})"  # Never the token.

    @property
    def has_token(self) -> bool:
        """True if there is a token to be sent."""
        return bool(self._token)

    def reload(self) -> bool:
        """Read the file again, as after a refusal; return whether the token has changed."""
        if self._path is None:
            return False
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return False
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"the token file {self._path} can't be read: {error}") from error
        changed = token != self._token
        self._token = token
        return changed

    @property
    def metadata(self) -> Metadata:
        """The metadata of every call."""
        return (("authorization", f"Bearer {self._token}"),) if self._token else ()


class Connection:
    """A target with its credentials; makes channels, holds none."""

    keepalive_ms = 20_000
    keepalive_timeout_ms = 10_000

    def __init__(
        self,
        target: str | None = None,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self.target = target or environ.get(TARGET_VARIABLE) or DEFAULT_TARGET
        self._credentials = credentials
        self.access = _find_access(token, token_file, environ)
        if self.access.has_token and credentials is None and not is_local(self.target):
            raise Misconfigured(
                f"a token must not travel to {self.target} in clear text: pass `credentials` for "
                'TLS, or token="" to call without a token'
            )

    def options(self) -> list[tuple[str, int | str]]:
        """Return the channel's options; none is left to a default."""
        return [
            ("grpc.max_send_message_length", SEND_BYTES_MAX),
            ("grpc.max_receive_message_length", RECEIVE_BYTES_MAX),
            ("grpc.keepalive_time_ms", self.keepalive_ms),
            ("grpc.keepalive_timeout_ms", self.keepalive_timeout_ms),
            # The time-out above is the kernel's; a frozen server, whose kernel goes on answering, has this one.
            ("grpc.http2.ping_timeout_ms", self.keepalive_timeout_ms),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            # A server that comes back is reached soon; the calls themselves back off with jitter.
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 1_000),
            ("grpc.max_reconnect_backoff_ms", 400),
            # Retries are ours: they know which calls may be repeated.
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            # Two channels to one target are two connections: heartbeats don't queue behind results.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0 if is_local(self.target) else 1),
            ("grpc.primary_user_agent", "stepwell-client"),
        ]

    def aio_channel(self) -> grpc.aio.Channel:
        """Open a channel of the running event loop."""
        if self._credentials is not None:
            return grpc.aio.secure_channel(self.target, self._credentials, options=self.options())
        return grpc.aio.insecure_channel(self.target, options=self.options())

    def sync_channel(self) -> grpc.Channel:
        """Open a channel for threads."""
        if self._credentials is not None:
            return grpc.secure_channel(self.target, self._credentials, options=self.options())
        return grpc.insecure_channel(self.target, options=self.options())


def _find_access(
    token: str | None, token_file: str | Path | None, environ: Mapping[str, str]
) -> Access:
    """Return the token: arguments win over the environment, and that over the default file."""
    if token is None and token_file is None:
        token = environ.get(TOKEN_VARIABLE)
        token_file = environ.get(TOKEN_FILE_VARIABLE) or None
        if token is None and token_file is None:
            return Access(None, default_token_file(environ))
    if token is not None:
        return Access(token.strip(), None)
    access = Access(None, Path(str(token_file)).expanduser())
    if not access.has_token:
        raise Misconfigured(f"the token file {token_file} is not there, or is empty")
    return access

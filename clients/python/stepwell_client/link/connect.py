"""Targets, tokens, TLS and channels: the server's address, and the credentials for it.

A server writes a token into a file that only its user can read, and programs of the same user read
it from there. One machine thus needs no configuration, and its server is still protected. Another
machine is called by TLS and with a token that was given for it, unless `insecure_allow_remote` is
set.
"""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypedDict, TypeVar, Unpack

import grpc
import grpc.aio

from stepwell_client.errors import Misconfigured
from stepwell_client.link.forks import check_process, watch_channel
from stepwell_client.tls import ClientTls, FilesRefused
from stepwell_client.token_file import default_token_file

DEFAULT_TARGET = "127.0.0.1:7878"
SECURE_SCHEME = "grpcs://"
TARGET_VARIABLE = "STEPWELL_TARGET"
TOKEN_VARIABLE = "STEPWELL_TOKEN"  # noqa: S105 - the variable's name, not a token
TOKEN_FILE_VARIABLE = "STEPWELL_TOKEN_FILE"  # noqa: S105 - the variable's name, not a token
TLS_CA_VARIABLE = "STEPWELL_TLS_CA"
TLS_CERT_VARIABLE = "STEPWELL_TLS_CERT"
TLS_KEY_VARIABLE = "STEPWELL_TLS_KEY"
TLS_NAME_VARIABLE = "STEPWELL_TLS_NAME"
INSECURE_VARIABLE = "STEPWELL_INSECURE_ALLOW_REMOTE"

SEND_BYTES_MAX = 4 * 1024 * 1024
"""The largest message that the server receives."""
RECEIVE_BYTES_MAX = 8 * 1024 * 1024

_PREFIXES = ("STEPWELL_", "XDG_STATE_HOME")
"""The variables that a connection reads."""
_LOCAL_SCHEMES = ("unix:", "unix-abstract:")
_LOCAL_HOSTS = ("localhost", "::1", "[::1]")

Metadata = tuple[tuple[str, str], ...]
ChannelT = TypeVar("ChannelT", grpc.Channel, grpc.aio.Channel)


class Security(TypedDict, total=False):
    """Options that secure a connection. The environment (`STEPWELL_TLS_CA` and so on) supplies
    those that are left out or None.
    """

    tls_ca: str | Path | None
    """The file of the authority that signed the server's certificate. Any file here means TLS.
    Without this one (or with `grpcs://HOST:PORT` alone), grpcio's public authorities are trusted.
    """
    tls_cert: str | Path | None
    """The file of a client certificate, for servers that ask for one."""
    tls_key: str | Path | None
    """The file of the client certificate's key."""
    tls_name: str | None
    """The name in the server's certificate, if it isn't the address's; required with several addresses."""
    insecure_allow_remote: bool | None
    """Allow calls to other machines without TLS or without a token. Anyone on the network path can read them."""


def is_local(target: str) -> bool:
    """Return whether bytes that are sent to the target stay on this machine.

    `ipv4:HOST:PORT,HOST:PORT` names several servers, all of which must be here.
    """
    if target.startswith(_LOCAL_SCHEMES):
        return True
    for prefix in ("ipv4:", "ipv6:", SECURE_SCHEME):
        if target.startswith(prefix):
            return all(_is_local_address(one) for one in target.removeprefix(prefix).split(","))
    return _is_local_address(target.removeprefix("dns:///").removeprefix("dns:"))


def _is_local_address(address: str) -> bool:
    host = address if address in _LOCAL_HOSTS else address.rpartition(":")[0] or address
    return host in _LOCAL_HOSTS or (host.startswith("127.") and host.replace(".", "").isdecimal())


class Access:
    """A token, or the file that it is read from. Without both, calls have no token."""

    def __init__(self, token: str | None, path: Path | None) -> None:
        self._path = path
        self._token = token
        if token is None:
            self.reload()

    def __repr__(self) -> str:
        return f"Access(path={self._path!r})"  # Never shows the token.

    @property
    def has_token(self) -> bool:
        """True if there is a token to send."""
        return bool(self._token)

    def reload(self) -> bool:
        """Read the file again, for example after a refusal; return whether the token has changed."""
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
    """A target with its credentials. Makes channels without keeping them."""

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
        **security: Unpack[Security],
    ) -> None:
        """`credentials` are channel credentials made by the caller, instead of TLS by files.

        Raises:
            Misconfigured: a file can't be used, or the target is on another machine and TLS or a
                token is
                missing.
        """
        environ = os.environ if environ is None else environ
        read = {key: environ[key] for key in environ if key.startswith(_PREFIXES)}
        named = {"target": target, "token": token, "token_file": token_file, "environ": read}
        self.arguments = None if credentials is not None else named | security
        """Arguments that make the same connection in another process; None with `credentials`."""
        self.target = target or environ.get(TARGET_VARIABLE) or DEFAULT_TARGET
        self._dialed = _dialed(self.target)
        self._credentials = credentials
        self._tls = None if credentials is not None else _find_tls(self.target, security, environ)
        is_remote = not is_local(self.target)
        self.access = _find_access(token, token_file, environ, is_remote=is_remote)
        if is_remote and not _is_insecure(security, environ):
            self._refuse_insecure(wants_token=token is None)

    def _refuse_insecure(self, *, wants_token: bool) -> None:
        if self._credentials is None and self._tls is None:
            raise Misconfigured(
                f"{self.target} is not on this machine, and all would travel there in clear text: name the"
                " authority of its certificate (tls_ca, --tls-ca or STEPWELL_TLS_CA; a grpcs:// target where"
                " that is a public one), or take the risk with insecure_allow_remote"
            )
        if wants_token and not self.access.has_token:
            raise Misconfigured(
                f"{self.target} is not on this machine, and no token was named for it: name its file"
                " (token_file, --token-file or STEPWELL_TOKEN_FILE); the one that a server of this user mints"
                " stays on this machine"
            )

    @property
    def authority(self) -> Path | None:
        """The file of the authority that certificates are verified by; None: the public authorities, or no TLS."""
        return self._tls.authority if self._tls is not None else None

    @property
    def generation(self) -> int:
        """A number that grows when the TLS files have changed; channels opened before are outdated."""
        return self._tls.generation() if self._tls is not None else 0

    def options(self) -> list[tuple[str, int | str]]:
        """Return the channel's options, none of which is left to a default."""
        return [
            ("grpc.max_send_message_length", SEND_BYTES_MAX),
            ("grpc.max_receive_message_length", RECEIVE_BYTES_MAX),
            ("grpc.keepalive_time_ms", self.keepalive_ms),
            ("grpc.keepalive_timeout_ms", self.keepalive_timeout_ms),
            # The time-out above is the kernel's. This one detects a frozen server whose kernel
            # still answers.
            ("grpc.http2.ping_timeout_ms", self.keepalive_timeout_ms),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            # A server that comes back is reached soon; the calls themselves back off with jitter.
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 1_000),
            ("grpc.max_reconnect_backoff_ms", 200),
            # The client retries instead, because it knows which calls may be repeated.
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            # Two channels to one target are two connections, so that heartbeats don't queue behind
            # results.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0 if is_local(self.target) else 1),
            ("grpc.primary_user_agent", "stepwell-client"),
            *(self._tls.options() if self._tls is not None else ()),
        ]

    def aio_channel(self) -> grpc.aio.Channel:
        """Open a channel of the running event loop."""
        check_process(aio=True)
        credentials = self._channel_credentials()
        if credentials is not None:
            channel = grpc.aio.secure_channel(self._dialed, credentials, options=self.options())
        else:
            channel = grpc.aio.insecure_channel(self._dialed, options=self.options())
        return watch_channel(channel)

    def sync_channel(self) -> grpc.Channel:
        """Open a channel for threads."""
        check_process()
        credentials = self._channel_credentials()
        if credentials is not None:
            return grpc.secure_channel(self._dialed, credentials, options=self.options())
        return grpc.insecure_channel(self._dialed, options=self.options())

    def _channel_credentials(self) -> grpc.ChannelCredentials | None:
        return self._tls.credentials() if self._tls is not None else self._credentials


class CurrentChannel(Generic[ChannelT]):
    """A channel that is opened at its first use, and again when the TLS files have changed. Any thread may use it.

    Running calls continue on the previous channel, which is kept until the next change.
    """

    def __init__(self, connection: Connection, opens: Callable[[], ChannelT]) -> None:
        self._connection = connection
        self._opens = opens
        self._channels: list[ChannelT] = []
        self._generation = 0
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._parents: tuple[ChannelT, ...] = ()
        """The channels of the process that was forked: never used here, nor closed."""

    def get(self) -> ChannelT:
        """Return the channel for the next call, in a forked process another one."""
        if self._pid != os.getpid():
            self._lock, self._parents, self._channels = threading.Lock(), self.opened, []
            self._pid = os.getpid()
        generation = self._connection.generation
        with self._lock:
            if not self._channels or generation != self._generation:
                self._channels = [self._opens(), *self._channels[:1]]
                self._generation = generation
            return self._channels[0]

    @property
    def opened(self) -> tuple[ChannelT, ...]:
        """The open channels, including any that the caller closed at the end."""
        return tuple(self._channels)

    def take(self) -> tuple[ChannelT, ...]:
        """Return the channels for the caller to close; the next call opens a new one."""
        with self._lock:
            taken, self._channels = self.opened, []
            return taken


def _dialed(target: str) -> str:
    """Return the target as gRPC wants it.

    Raises:
        Misconfigured: after `grpcs://` there is no HOST:PORT, or several that are names.
    """
    if not target.startswith(SECURE_SCHEME):
        return target
    addresses = target.removeprefix(SECURE_SCHEME).split(",")
    for address in addresses:
        host, colon, port = address.rpartition(":")
        if not host or not colon or not port.isdecimal() or "/" in address:
            raise Misconfigured(f"{target} is no target: write grpcs://HOST:PORT")
    if len(addresses) == 1:
        return f"dns:///{addresses[0]}"
    try:
        kinds = {
            ipaddress.ip_address(one.rpartition(":")[0].strip("[]")).version for one in addresses
        }
        (kind,) = kinds
    except ValueError:
        raise Misconfigured(
            f"{target}: several addresses are numbers of one kind, such as"
            " grpcs://10.0.0.1:7878,10.0.0.2:7878"
        ) from None
    return f"ipv{kind}:{','.join(addresses)}"


def _find_tls(target: str, security: Security, environ: Mapping[str, str]) -> ClientTls | None:
    """Return the TLS of a target, by files or by its scheme, or None without TLS, as with every Unix socket."""
    ca = _file(security.get("tls_ca"), TLS_CA_VARIABLE, environ)
    cert = _file(security.get("tls_cert"), TLS_CERT_VARIABLE, environ)
    key = _file(security.get("tls_key"), TLS_KEY_VARIABLE, environ)
    is_wanted = target.startswith(SECURE_SCHEME) or not (
        ca is None and cert is None and key is None
    )
    if not is_wanted or target.startswith(_LOCAL_SCHEMES):
        return None
    name = security.get("tls_name") or environ.get(TLS_NAME_VARIABLE, "")
    if "," in target and not name:
        raise Misconfigured(
            f"{target}: several addresses share one name in their certificates; give it"
            f" (tls_name, --tls-name or {TLS_NAME_VARIABLE})"
        )
    try:
        return ClientTls(authority=ca, certificate=cert, key=key, name=name)
    except FilesRefused as error:
        raise Misconfigured(f"TLS: {error}") from error


def _file(given: str | Path | None, variable: str, environ: Mapping[str, str]) -> Path | None:
    named = given or environ.get(variable)
    return Path(named).expanduser() if named else None


def _is_insecure(security: Security, environ: Mapping[str, str]) -> bool:
    given = security.get("insecure_allow_remote")
    if given is not None:
        return given
    text = environ.get(INSECURE_VARIABLE, "").lower()
    if text not in {"", "0", "1", "false", "true"}:
        raise Misconfigured(f"{INSECURE_VARIABLE} is true or false, not {text!r}")
    return text in {"1", "true"}


def _find_access(
    token: str | None,
    token_file: str | Path | None,
    environ: Mapping[str, str],
    *,
    is_remote: bool,
) -> Access:
    """Return the token: from the arguments, else the environment, else the default file.

    The default file's token is sent only to servers on this machine.
    """
    if token is None and token_file is None:
        token = environ.get(TOKEN_VARIABLE)
        token_file = environ.get(TOKEN_FILE_VARIABLE) or None
        if token is None and token_file is None:
            if is_remote:
                return Access("", None)
            return Access(None, default_token_file(environ))
    if token is not None:
        return Access(token.strip(), None)
    access = Access(None, Path(str(token_file)).expanduser())
    if not access.has_token:
        raise Misconfigured(f"the token file {token_file} is not there, or is empty")
    return access

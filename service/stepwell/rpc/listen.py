"""Binds a server's addresses: loopback or a Unix socket of its own user, and others by default only with TLS."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import grpc
import grpc.aio

from stepwell.config import GrpcSettings, SettingsRefused
from stepwell.logger import get_logger
from stepwell.rpc.tls import server_credentials

log = get_logger(__name__)

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_SOCKET_PATH_BYTES_MAX = 100
"""The kernel's limit is 108; gRPC's error for a longer path is not helpful."""
_PROBE_S = 1.0


def bind(
    server: grpc.aio.Server, settings: GrpcSettings, now_us: Callable[[], int]
) -> tuple[str, ...]:
    """Bind the server's addresses; return them as clients dial them.

    TLS is for the port; `now_us` is the time for checking its certificates. A Unix socket's folder
    decides who can reach it.

    Raises:
        SettingsRefused: an address is open to other machines without TLS, in use, or can't be
            bound; or the certificate's files can't be used.
    """
    bound: list[str] = []
    credentials = server_credentials(settings, now_us)
    has_port = settings.socket is None or "port" in settings.model_fields_set
    if credentials is not None and not has_port:
        raise SettingsRefused("TLS is for a port, and only a socket is named: give --port too")
    if settings.socket is not None:
        bound.append(_bind_socket(server, settings.socket))
    if has_port:
        bound.append(_bind_port(server, settings, credentials))
    return tuple(bound)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def check_clear_text(host: str, *, is_allowed: bool, cure: str) -> None:
    """Refuse a port without TLS that other machines can reach, or warn about it if it is allowed.

    Raises:
        SettingsRefused: the message has the remedy.
    """
    if is_loopback(host):
        return
    if not is_allowed:
        raise SettingsRefused(
            f"{host} can be reached from other machines and nothing would be encrypted; {cure}"
        )
    log.warning(
        "listening where other machines can reach it, without encryption: tokens and payloads"
        " can be read on the way",
        host=host,
    )


def _bind_port(
    server: grpc.aio.Server, settings: GrpcSettings, credentials: grpc.ServerCredentials | None
) -> str:
    host = settings.host.strip("[]")
    if credentials is None:
        check_clear_text(
            host,
            is_allowed=settings.insecure_allow_remote,
            cure="give a certificate with --tls-cert and --tls-key (`stepwell certs` makes one to"
            " try), listen on 127.0.0.1 or a Unix socket, or take the risk with"
            " --insecure-allow-remote",
        )
    shown = f"[{host}]" if ":" in host else host
    address = f"{shown}:{settings.port}"
    try:
        if credentials is not None:
            port = server.add_secure_port(address, credentials)
        else:
            port = server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if not port:
        raise SettingsRefused(
            f"{address} can't be bound: it is taken, or not this machine's;"
            " name another with --port or STEPWELL_GRPC__PORT"
        )
    return f"{'grpcs://' if credentials is not None else ''}{shown}:{port}"


def _bind_socket(server: grpc.aio.Server, path: Path) -> str:
    path = path.absolute()
    if len(os.fsencode(path)) > _SOCKET_PATH_BYTES_MAX:
        raise SettingsRefused(f"the socket's path is too long: {path}; name a shorter one")
    folder = path.parent
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
        raise SettingsRefused(
            f"the socket's folder {folder} is open to others; name a path in a folder that only you"
            f" can enter, such as {folder / 'stepwell' / path.name} (it is made)"
        )
    _remove_stale(path)
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError:
        raise SettingsRefused(f"the socket {path} can't be bound") from None
    # Until here only the folder's mode has kept other users out.
    path.chmod(0o600)
    return f"unix:{path}"


def _remove_stale(path: Path) -> None:
    """Remove a socket that nobody listens on; gRPC itself would also remove one in use."""
    if not path.is_symlink() and not path.exists():
        return
    if not path.is_socket() or path.is_symlink():
        raise SettingsRefused(f"{path} is there and no socket; move it away")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            log.info("removed a socket that nobody listened on", path=str(path))
            return
        except OSError as error:
            raise SettingsRefused(f"the socket {path} can't be probed: {error}") from None
    raise SettingsRefused(f"another server listens on {path}; stop it, or name another socket")

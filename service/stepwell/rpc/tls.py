"""The server's end of TLS: a certificate and a key from files, taken anew when they have changed.

gRPC asks before each handshake, so a connection that is open keeps what it began with and the next one gets
the new files. Nothing is restarted and no stream ends.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import grpc

from stepwell.config import GrpcSettings, SettingsRefused
from stepwell.logger import get_logger
from stepwell_client.tls import FilesRefused, PemFiles, validity

log = get_logger(__name__)


def server_credentials(
    settings: GrpcSettings, now_us: Callable[[], int]
) -> grpc.ServerCredentials | None:
    """Return the credentials of the server's port; None: the settings name no certificate.

    Files that are not valid at the time are used all the same, with a warning in the log: the clock may be wrong.

    Raises:
        SettingsRefused: the files can't be used, or one is missing; the message says which.
    """
    if settings.tls_cert is None and settings.tls_key is None:
        if settings.tls_client_ca is not None:
            raise SettingsRefused(
                "--tls-client-ca asks clients for certificates, which needs one of the server's own:"
                " give --tls-cert and --tls-key"
            )
        return None
    try:
        files = PemFiles(
            authority=settings.tls_client_ca, certificate=settings.tls_cert, key=settings.tls_key
        )
    except FilesRefused as error:
        raise SettingsRefused(f"TLS: {error}; see --tls-cert, --tls-key, --tls-client-ca") from None

    def check_dates() -> None:
        _warn_of_dates(settings, files, datetime.fromtimestamp(now_us() / 1_000_000, UTC))

    check_dates()
    return grpc.dynamic_ssl_server_credentials(
        _configuration(files),
        lambda: _changed(files, check_dates),
        require_client_authentication=settings.tls_client_ca is not None,
    )


def _configuration(files: PemFiles) -> grpc.ServerCertificateConfiguration:
    pem = files.pem
    pair = (pem.key or b"", pem.certificate or b"")
    return grpc.ssl_server_certificate_configuration([pair], pem.authority)


def _warn_of_dates(settings: GrpcSettings, files: PemFiles, now: datetime) -> None:
    for path, content in (
        (settings.tls_cert, files.pem.certificate),
        (settings.tls_client_ca, files.pem.authority),
    ):
        valid = validity(content) if content is not None else None
        if valid is not None and not valid[0] <= now <= valid[1]:
            log.warning(
                "a certificate is not valid at this time: connections that need it fail",
                file=str(path),
                valid_from=valid[0].isoformat(),
                valid_until=valid[1].isoformat(),
            )


def _changed(
    files: PemFiles, check_dates: Callable[[], None]
) -> grpc.ServerCertificateConfiguration:
    """Return the configuration for the next handshake. gRPC calls this in threads of its own."""
    try:
        if files.refresh():
            log.info("new TLS files are in use for connections from now on")
            check_dates()
            return _configuration(files)
    except FilesRefused as error:
        log.warning("changed TLS files are not taken, those before stay in use", why=str(error))
    # gRPC takes None for "as before", which the stubs don't know.
    return cast("grpc.ServerCertificateConfiguration", None)

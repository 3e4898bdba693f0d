"""The server's end of TLS: a certificate and a key from files, taken anew when they have changed.

gRPC asks before each handshake, so a connection that is open keeps what it began with and the next one gets
the new files. Nothing is restarted and no stream ends.
"""

from __future__ import annotations

from typing import cast

import grpc

from stepwell.config import GrpcSettings, SettingsRefused
from stepwell.logger import get_logger
from stepwell_client.tls import FilesRefused, PemFiles

log = get_logger(__name__)


def server_credentials(settings: GrpcSettings) -> grpc.ServerCredentials | None:
    """Return the credentials of the server's port; None: the settings name no certificate.

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
    return grpc.dynamic_ssl_server_credentials(
        _configuration(files),
        lambda: _changed(files),
        require_client_authentication=settings.tls_client_ca is not None,
    )


def _configuration(files: PemFiles) -> grpc.ServerCertificateConfiguration:
    pem = files.pem
    pair = (pem.key or b"", pem.certificate or b"")
    return grpc.ssl_server_certificate_configuration([pair], pem.authority)


def _changed(files: PemFiles) -> grpc.ServerCertificateConfiguration:
    """Return the configuration for the next handshake. gRPC calls this in threads of its own."""
    try:
        if files.refresh():
            log.info("new TLS files are in use for connections from now on")
            return _configuration(files)
    except FilesRefused as error:
        log.warning("changed TLS files are not taken, those before stay in use", why=str(error))
    # gRPC takes None for "as before", which the stubs don't know.
    return cast("grpc.ServerCertificateConfiguration", None)

"""The server's end of TLS: a certificate and a key from files, read again when they have changed.

Both ports ask before each handshake, so open connections keep their certificate and new ones get
the new files. Nothing is restarted and no stream ends.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import grpc

from stepwell.config import GrpcSettings, SettingsRefused
from stepwell.logger import get_logger
from stepwell_client.tls import FilesRefused, Pem, PemFiles, validity

log = get_logger(__name__)


class Certificates:
    """The files of a port's TLS. Any thread may use it."""

    def __init__(
        self,
        certificate: Path | None,
        key: Path | None,
        authority: Path | None,
        now_us: Callable[[], int],
        names: str,
    ) -> None:
        """`authority` signs clients' certificates. `names` are the settings or flags, for people.

        Certificates outside their validity period are used with a warning in the log, because the
        clock may be wrong.

        Raises:
            SettingsRefused: the files can't be used, or one is missing; the message says which.
        """
        try:
            self._files = PemFiles(authority=authority, certificate=certificate, key=key)
        except FilesRefused as error:
            raise SettingsRefused(f"TLS: {error}; see {names}") from None
        self._certificate, self._authority = certificate, authority
        self._now_us = now_us
        self._warn_of_dates()

    @property
    def pem(self) -> Pem:
        """The content of the files."""
        return self._files.pem

    def changed(self) -> bool:
        """Take over changed files that match; return whether there were any."""
        try:
            if not self._files.refresh():
                return False
        except FilesRefused as error:
            log.warning("changed TLS files are not taken, those before stay in use", why=str(error))
            return False
        log.info("new TLS files are in use for connections from now on")
        self._warn_of_dates()
        return True

    def _warn_of_dates(self) -> None:
        now = datetime.fromtimestamp(self._now_us() / 1_000_000, UTC)
        for path, content in (
            (self._certificate, self.pem.certificate),
            (self._authority, self.pem.authority),
        ):
            valid = validity(content) if content is not None else None
            if valid is not None and not valid[0] <= now <= valid[1]:
                log.warning(
                    "a certificate is not valid at this time: connections that need it fail",
                    file=str(path),
                    valid_from=valid[0].isoformat(),
                    valid_until=valid[1].isoformat(),
                )


def server_credentials(
    settings: GrpcSettings, now_us: Callable[[], int]
) -> grpc.ServerCredentials | None:
    """Return the credentials of the gRPC port, or None if the settings name no certificate.

    Raises:
        SettingsRefused: see Certificates.
    """
    if settings.tls_cert is None and settings.tls_key is None:
        if settings.tls_client_ca is not None:
            raise SettingsRefused(
                "--tls-client-ca asks clients for certificates, which needs one of the server's own:"
                " give --tls-cert and --tls-key"
            )
        return None
    certificates = Certificates(
        settings.tls_cert,
        settings.tls_key,
        settings.tls_client_ca,
        now_us,
        "--tls-cert, --tls-key, --tls-client-ca",
    )

    def changed() -> grpc.ServerCertificateConfiguration:
        """Return the configuration for the next handshake. gRPC calls this in its own threads."""
        if certificates.changed():
            return _configuration(certificates.pem)
        # gRPC takes None for "unchanged", which the stubs don't know.
        return cast("grpc.ServerCertificateConfiguration", None)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(certificates.pem),
        changed,
        require_client_authentication=settings.tls_client_ca is not None,
    )


def _configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
    pair = (pem.key or b"", pem.certificate or b"")
    return grpc.ssl_server_certificate_configuration([pair], pem.authority)


def server_context(
    certificate: Path | None, key: Path | None, now_us: Callable[[], int], names: str
) -> ssl.SSLContext | None:
    """Return the TLS context of a port that Python serves, or None if no file is named.

    Raises:
        SettingsRefused: see Certificates.
    """
    if certificate is None and key is None:
        return None
    certificates = Certificates(certificate, key, None, now_us, names)
    assert certificate is not None, "Certificates refuses one file of the two"
    current = _context(certificate, key)

    def renew(connection: Any, _name: str | None, _context_before: ssl.SSLContext) -> None:
        nonlocal current
        if certificates.changed():
            current = _context(certificate, key)
        connection.context = current

    outer = _context(certificate, key)
    outer.sni_callback = renew
    return outer


def _context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    return context

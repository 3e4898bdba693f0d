"""Certificates in files, for both ends of TLS: read, checked, and read again when they have changed.

The client, the server and the `grpcs://` driver share it. gRPC takes certificates once and checks
them late. Here a certificate and key that don't match are refused before gRPC sees them, so that a
half-written file never replaces a working one.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, NoReturn

import grpc

__all__ = [
    "ClientTls",
    "FilesRefused",
    "Pem",
    "PemFiles",
    "guess",
    "handshake_trouble",
    "validity",
]

_log = logging.getLogger("stepwell_client.tls")

_Stamps = tuple[tuple[int, int, int] | None, ...]


class FilesRefused(ValueError):
    """TLS files can't be used as they are; the message names them and says why."""


class Pem(NamedTuple):
    """The content of the files; None: no file was named."""

    authority: bytes | None
    certificate: bytes | None
    key: bytes | None


class PemFiles:
    """An authority, and a certificate with its key, as they last matched. Any thread may use it."""

    def __init__(
        self,
        *,
        authority: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        """Read the files.

        Raises:
            FilesRefused: a file can't be read or holds no certificate, or certificate and key don't
                match.
        """
        if (certificate is None) != (key is None):
            raise FilesRefused("a certificate and its key belong together: name both files")
        self._authority, self._certificate, self._key = authority, certificate, key
        self._lock = threading.Lock()
        self._taken = self._stamps()
        self._refused: _Stamps | None = None
        self.pem = self._read(self._taken)
        """The last content that matched."""

    def refresh(self) -> bool:
        """Read the files again if they have changed; return whether `pem` is new.

        Raises:
            FilesRefused: the changed files don't match, such as a new certificate with the old key.
                `pem` stays unchanged. Raised once for each change; every call tries again.
        """
        with self._lock:
            stamps = self._stamps()
            if stamps == self._taken:
                return False
            try:
                self.pem = self._read(stamps)
            except FilesRefused:
                if stamps == self._refused:
                    return False
                self._refused = stamps
                raise
            self._taken = stamps
            return True

    def _stamps(self) -> _Stamps:
        """Return what changes when a file is written, replaced or removed."""
        return tuple(_stamp(path) for path in (self._authority, self._certificate, self._key))

    def _read(self, stamps: _Stamps) -> Pem:
        pem = Pem(_bytes(self._authority), _bytes(self._certificate), _bytes(self._key))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if self._certificate is not None and self._key is not None:
            _check_pair(context, self._certificate, self._key)
        if pem.authority is not None:
            _check_authority(context, f"{self._authority}", pem.authority)
        if self._stamps() != stamps:
            raise FilesRefused("the files are being written")
        return pem


class ClientTls:
    """A client's TLS: the trusted authority, its own certificate if any, and the server's name."""

    def __init__(
        self,
        *,
        authority: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        name: str = "",
    ) -> None:
        """`authority` None means grpcio's authorities. `name` is the name in the server's
        certificate; empty: the address.

        Raises:
            FilesRefused: see PemFiles.
        """
        self.authority = authority
        self._files = PemFiles(authority=authority, certificate=certificate, key=key)
        self._name = name
        self._generation = 0

    def generation(self) -> int:
        """Return a number that grows when the files have changed: the next connection needs a new channel."""
        try:
            if self._files.refresh():
                self._generation += 1
        except FilesRefused as error:
            _log.warning("changed TLS files are not taken, those before stay in use: %s", error)
        return self._generation

    def credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials of a new channel."""
        pem = self._files.pem
        return grpc.ssl_channel_credentials(pem.authority, pem.key, pem.certificate)

    def options(self) -> list[tuple[str, int | str]]:
        """Return additional options for a channel."""
        return [("grpc.ssl_target_name_override", self._name)] if self._name else []


def validity(pem: bytes) -> tuple[datetime, datetime] | None:
    """Return the validity period of the first certificate in a file, or None if none is found."""
    block = _CERTIFICATE.search(pem)
    # The standard library reads these fields only of authorities. In a certificate they are the
    # first two adjacent times.
    found = _VALIDITY.search(b64decode(block[1])) if block is not None else None
    return (_moment(found[1]), _moment(found[2])) if found is not None else None


def handshake_trouble(details: str) -> str:
    """Return what went wrong with TLS, for people, from gRPC's message about a failed call; empty if unknown."""
    for sign, words in _TROUBLES.items():
        if sign in details:
            why = details.partition(f"{_UNTRUSTED}: ")[2].removesuffix(": OK")
            return f"TLS: {words}{why and f' ({why})'}"
    return f"TLS: the handshake failed: {details}" if "ls handshake failed" in details else ""


def guess(details: str) -> str:
    """Return gRPC's message about a failed call, with a possible reason if a connection was closed at once.

    A server that requires TLS or a certificate closes connections silently. So does a server that
    was just killed.
    """
    is_closed = "failed to connect" in details and any(sign in details for sign in _CLOSED)
    return _CLOSED_AT_ONCE if is_closed else details


_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]+)-----END")
_TIME = rb"(?:\x17\x0d|\x18\x0f)([0-9]{12,14})Z"
_VALIDITY = re.compile(_TIME + _TIME)
"""Two times in ASN.1: UTCTime with 12 digits, or GeneralizedTime with 14."""

_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_CLOSED = ("Socket closed", "Connection reset by peer")
_CLOSED_AT_ONCE = (
    "the connection was closed at once; does the server want TLS (tls_ca, --tls-ca, STEPWELL_TLS_CA) or a"
    " certificate of the client's (tls_cert, --tls-cert, STEPWELL_TLS_CERT)?"
)

_TROUBLES = {
    "Hostname Verification Check failed": "the server's certificate is not for the address that was called;"
    " call it by a name that is in the certificate, or give that name (tls_name, --tls-name,"
    " STEPWELL_TLS_NAME)",
    _UNTRUSTED: "the server's certificate is not trusted; tls_ca, --tls-ca or STEPWELL_TLS_CA"
    " names the authority that must have signed it",
    "WRONG_VERSION_NUMBER": "the server speaks no TLS there; it is served without a certificate",
}
"""Parts of gRPC's messages, and what they mean."""


def _moment(digits: bytes) -> datetime:
    text = digits.decode("ascii")
    if len(text) == 12:  # The century is omitted: 50 to 99 are in the last one.
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    try:
        status = path.stat() if path is not None else None
    except OSError:
        status = None  # Reading the file reports the reason.
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status is not None else None


def _bytes(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path is not None else None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise FilesRefused(f"the file {path} can't be read: {why}") from None


def _check_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    def refuse() -> NoReturn:
        raise FilesRefused(f"the key {key} is encrypted; write it to a file without a passphrase")

    try:
        context.load_cert_chain(certificate, key, password=refuse)
    except ssl.SSLError as error:
        raise FilesRefused(
            f"{certificate} and {key} are not a certificate and its key ({_why(error)})"
        ) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise FilesRefused(f"{certificate} or {key} can't be read: {why}") from None


def _check_authority(context: ssl.SSLContext, name: str, content: bytes) -> None:
    try:
        context.load_verify_locations(cadata=content.decode("ascii"))
    except ssl.SSLError as error:
        raise FilesRefused(f"{name} holds no certificate ({_why(error)})") from None
    except ValueError:
        raise FilesRefused(f"{name} holds no certificate in PEM's form") from None


def _why(error: ssl.SSLError) -> str:
    return (error.reason or "not in PEM's form").replace("_", " ").lower()

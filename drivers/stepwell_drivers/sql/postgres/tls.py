"""libpq's `sslmode` and its files, as asyncpg takes them: as our own SSL context wherever possible."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from stepwell.core.records.errors import StoreRefused

MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
SYSTEM = "system"
"""As `sslrootcert`: the authorities that this machine trusts, as in libpq 16."""

_ADVISORY = ("allow", "prefer")


class Tls(NamedTuple):
    """The URL's encryption parameters; "" if absent."""

    mode: str
    rootcert: str = ""
    cert: str = ""
    key: str = ""


def context_of(wanted: Tls) -> bool | str | ssl.SSLContext:
    """Return asyncpg's `ssl`: False, the name of a mode that may fall back, or a context.

    Raises:
        StoreRefused: the mode is unknown, or its files are contradictory or unreadable.
    """
    if wanted.mode not in MODES:
        raise StoreRefused(f"sslmode must be one of {', '.join(MODES)}")
    _check_files(wanted)
    if wanted.mode == "disable":
        return False
    if wanted.mode in _ADVISORY:
        # Only asyncpg itself can try both; it also requires TLS 1.2.
        return wanted.mode
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = wanted.mode == "verify-full"
    # `require` with an authority verifies it, as in libpq.
    if wanted.mode == "require" and not wanted.rootcert:
        context.verify_mode = ssl.CERT_NONE
    _load_authorities(context, wanted.rootcert)
    _load_own(context, wanted)
    return context


def _check_files(wanted: Tls) -> None:
    weak = wanted.mode == "disable" or wanted.mode in _ADVISORY
    if weak and (wanted.rootcert or wanted.cert):
        name = "sslrootcert" if wanted.rootcert else "sslcert"
        raise StoreRefused(
            f"{name} does nothing with sslmode={wanted.mode}; write sslmode=verify-full (or require,"
            " which encrypts and checks no host name)"
        )
    if wanted.key and not wanted.cert:
        raise StoreRefused("sslkey is the key of a certificate; name that with sslcert")


def _load_authorities(context: ssl.SSLContext, rootcert: str) -> None:
    if rootcert and rootcert != SYSTEM:
        try:
            context.load_verify_locations(cafile=Path(rootcert).expanduser())
        except (OSError, ValueError) as error:
            raise StoreRefused(f"sslrootcert can't be read: {_why(error)}") from None
    elif context.verify_mode != ssl.CERT_NONE:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)


def _load_own(context: ssl.SSLContext, wanted: Tls) -> None:
    if not wanted.cert:
        return
    key = Path(wanted.key).expanduser() if wanted.key else None
    try:
        # OpenSSL would ask for an encrypted key's password at the terminal; an empty password is
        # refused instead.
        context.load_cert_chain(Path(wanted.cert).expanduser(), key, password="")
    except (OSError, ValueError) as error:
        raise StoreRefused(
            f"sslcert and sslkey can't be used: {_why(error)}; they are PEM files, the key"
            " unencrypted and closed to others"
        ) from None


def _why(error: Exception) -> str:
    """Return the reason without the path, because a secret may be in the URL by mistake."""
    if isinstance(error, ssl.SSLError):
        return "it is no such certificate or key"
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__

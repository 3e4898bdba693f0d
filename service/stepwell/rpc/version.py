"""The versions of this distribution and of the protocol."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

PROTOCOL_REVISION = 1
"""Grows when a peer must know of a change; what peers may ignore doesn't count."""
FEATURES: tuple[str, ...] = ()
"""Names of what this server can do beyond the revision."""


@cache
def server_version() -> str:
    """Return the version of this distribution."""
    try:
        return version("stepwell")
    except PackageNotFoundError:
        return "0"

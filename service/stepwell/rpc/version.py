"""The versions of this distribution and of the protocol."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

PROTOCOL_REVISION = 1
"""Grows when a peer must know of a change; changes that peers may ignore don't count."""
FEATURES: tuple[str, ...] = ()
"""Names of features of this server beyond the revision."""


@cache
def server_version() -> str:
    """Return the version of this distribution."""
    try:
        return version("stepwell")
    except PackageNotFoundError:
        return "0"

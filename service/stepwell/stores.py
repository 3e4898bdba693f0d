"""Opens a store by its URL: the scheme picks the driver, found by the entry point of that name.

Nothing here or above names a driver, so a driver of one's own needs nothing but an entry point in the
group `stepwell.drivers`: `async def open_store(url: str, *, runtime: Runtime) -> Store`.
"""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

from stepwell.core.errors import StoreRefused
from stepwell.core.ports import Runtime, Store

DRIVERS = "stepwell.drivers"
"""The entry-point group."""

_SECRET = re.compile(r"([?&][^=&]*(?:pass|secret|token|key|auth)[^=&]*=)[^&]*", re.IGNORECASE)


class _Opener(Protocol):
    async def __call__(self, url: str, *, runtime: Runtime) -> Store: ...


async def open_store(url: str, *, runtime: Runtime) -> Store:
    """Open the store that the URL names.

    Raises:
        StoreRefused: no driver for the scheme, a package that the driver needs is missing, or the
            driver refuses the store; the message says what to do.
    """
    scheme, separator, _ = url.partition("://")
    drivers = {point.name: point for point in entry_points(group=DRIVERS)}
    if not separator or scheme not in drivers:
        known = ", ".join(f"{name}://" for name in sorted(drivers)) or "none is installed"
        raise StoreRefused(f"no driver opens {mask_url(url)!r}; known: {known}")
    return await _load(drivers[scheme])(url, runtime=runtime)


def mask_url(url: str) -> str:
    """Return the URL without its password and without the values of parameters that look secret.

    Rather masks too much than too little: it never fails, because it stands in error messages.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    # Up to the last `@` of all: a password may have a bare `?`, `/` or `@` in it.
    credentials, at, place = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    masked = f"{user}{':***' if colon else ''}{at}{place}"
    return f"{scheme}://" + _SECRET.sub(r"\1***", masked)


def _load(point: EntryPoint) -> _Opener:
    try:
        return cast("_Opener", point.load())
    except ModuleNotFoundError as error:
        raise StoreRefused(
            f"the driver for {point.name}:// needs the package {error.name!r}, which is not"
            f" installed; try: pip install 'stepwell[{point.name}]'"
        ) from error

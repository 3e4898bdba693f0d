"""Opens a store by its URL: the scheme selects the driver by the entry point of that name.

No driver is named here or above, so another driver needs only an entry point in the group
`stepwell.drivers`: `async def open_store(url: str, *, runtime: Runtime) -> Store`. A driver whose
store is a file also takes `create: bool = True`. A driver is imported when its scheme is first
used, so its requirements may be missing until then.
"""

from __future__ import annotations

import inspect
import re
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

from stepwell.core.port import Runtime, Store
from stepwell.core.records.errors import StoreRefused

DRIVERS = "stepwell.drivers"
"""The entry-point group."""

_SECRET = re.compile(r"([?&][^=&]*(?:pass|secret|token|key|auth|url)[^=&]*=)[^&]*", re.IGNORECASE)

_drivers: dict[str, list[EntryPoint]] = {}
"""The drivers by scheme, cached because listing all installed ones takes milliseconds."""


class _Opener(Protocol):
    async def __call__(self, url: str, *, runtime: Runtime, **options: bool) -> Store: ...


async def open_store(url: str, *, runtime: Runtime, create: bool = True) -> Store:
    """Open the store that the URL names; with `create`, create a missing file with a store in it.

    Raises:
        StoreMissing: the file is missing, without `create`.
        StoreRefused: no driver for the scheme, a package that the driver needs is missing, the
            driver is broken, or it refuses the store; the message says what to do.
    """
    scheme, separator, _ = url.partition("://")
    if not separator or not scheme:
        raise StoreRefused(
            f"{mask_url(url)!r} is no store URL: it begins with no scheme, as memory:// does;"
            f" known: {_known()}"
        )
    point = _driver_of(scheme, url)
    opener = _load(point)
    must_exist = not create and "create" in inspect.signature(opener).parameters
    try:
        opening = opener(url, runtime=runtime, **({"create": False} if must_exist else {}))
        if not inspect.isawaitable(opening):
            raise StoreRefused(f"{_named(point)} is broken: {point.value!r} is no async function")
        return await opening
    # A library that imports its own parts by name fails only now.
    except ModuleNotFoundError as error:
        raise _missing(point, error) from error


def mask_url(url: str) -> str:
    """Return the URL without its password and without the values of parameters that seem secret.

    Masks too much rather than too little, and never fails, because error messages use it.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    # Up to the last `@`, because a password may have a bare `?`, `/` or `@` in it.
    credentials, at, place = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    masked = f"{user}{':***' if colon else ''}{at}{place}"
    return f"{scheme}://" + _SECRET.sub(r"\1***", masked)


def _driver_of(scheme: str, url: str) -> EntryPoint:
    if scheme not in _drivers:
        # Listed again at each miss, because a package may have been installed since.
        _list_drivers()
    if scheme not in _drivers:
        raise StoreRefused(f"no driver opens {mask_url(url)!r}; known: {_known()}")
    point, *others = _drivers[scheme]
    if others:
        rivals = " and ".join(_distribution(rival) or rival.value for rival in (point, *others))
        raise StoreRefused(f"{scheme}:// is opened by {rivals}: uninstall all but one of them")
    return point


def _list_drivers() -> None:
    _drivers.clear()
    for point in entry_points(group=DRIVERS):
        _drivers.setdefault(point.name, []).append(point)


def _known() -> str:
    if not _drivers:
        _list_drivers()
    return ", ".join(f"{name}://" for name in sorted(_drivers)) or "none is installed"


def _load(point: EntryPoint) -> _Opener:
    try:
        loaded: object = point.load()
    except ModuleNotFoundError as error:
        raise _missing(point, error) from error
    # A third party's module may raise anything.
    except Exception as error:
        raise StoreRefused(
            f"{_named(point)} can't be loaded from {point.value!r}: {type(error).__name__}: {error}"
        ) from error
    if not callable(loaded):
        raise StoreRefused(
            f"{_named(point)} is broken: {point.value!r} is not callable, but a"
            f" {type(loaded).__name__}"
        )
    return cast("_Opener", loaded)


def _missing(point: EntryPoint, error: ModuleNotFoundError) -> StoreRefused:
    distribution = _distribution(point)
    # The entry point names the extra that installs its driver's packages in brackets.
    wanted = f"{distribution or 'stepwell'}[{','.join(point.extras)}]" if point.extras else ""
    advice = f"try: pip install '{wanted}'"
    if not wanted:
        advice = f"install it, or {distribution or 'the driver'} again with all that it needs"
    return StoreRefused(
        f"{_named(point)} needs the package {error.name!r}, which is not installed; {advice}"
    )


def _named(point: EntryPoint) -> str:
    distribution = _distribution(point)
    return f"the driver for {point.name}://" + (f" (of {distribution})" if distribution else "")


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else ""

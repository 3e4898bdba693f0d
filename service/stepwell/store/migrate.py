"""Migrates a store's schema, or checks its version: for drivers that have a schema.

Such a driver has a second entry point for its scheme, in the group `stepwell.migrations`: `async
def migrate_store(url: str, *, runtime: Runtime, check: bool, sql: Callable[[str], object] | None)
-> tuple[str, str]`. It returns the schema's version ("" if there is none yet) and the version that
this program wants, which the store has afterwards unless `check` is true. Two migrations at a time
are safe. An unknown schema is refused; a newer schema that this program may use stays unchanged.
With `sql` the store is not touched: the function gets all migrations as text, to be run with
another program.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple, Protocol, cast

from stepwell.core.port import Runtime
from stepwell.core.records.errors import StoreRefused
from stepwell.store.opener import DRIVERS, mask_url

MIGRATIONS = "stepwell.migrations"
"""The entry-point group."""


class SchemaVersions(NamedTuple):
    """The version of a store's schema, and the one that this program wants."""

    found: str
    """The stored version; empty if there is none yet."""
    wanted: str


class _Migrator(Protocol):
    async def __call__(
        self, url: str, *, runtime: Runtime, check: bool, sql: Callable[[str], object] | None
    ) -> tuple[str, str]: ...


async def migrate_store(
    url: str,
    *,
    runtime: Runtime,
    check: bool = False,
    sql: Callable[[str], object] | None = None,
) -> SchemaVersions | None:
    """Migrate the schema of the store that the URL names, or with `check` only read its version.
    With `sql`, the function gets the migrations as a script instead, and the store is not touched.

    Returns None if stores of this scheme have no schema.

    Raises:
        StoreRefused: no driver for the scheme, a package that it needs is missing, or the driver
            refuses the store; the message says what to do.
        StoreUnavailable: the store can't be reached.
    """
    scheme, separator, _ = url.partition("://")
    if not separator or not entry_points(group=DRIVERS, name=scheme):
        raise StoreRefused(f"no driver opens {mask_url(url)!r}")
    for point in entry_points(group=MIGRATIONS, name=scheme):
        found, wanted = await _load(point)(url, runtime=runtime, check=check, sql=sql)
        return SchemaVersions(found, wanted)
    return None


def _load(point: EntryPoint) -> _Migrator:
    try:
        return cast("_Migrator", point.load())
    except ModuleNotFoundError as error:
        extras = f"[{','.join(point.extras)}]" if point.extras else ""
        name = point.dist.name if point.dist is not None else "stepwell"
        raise StoreRefused(
            f"the driver for {point.name}:// needs the package {error.name!r}, which is not"
            f" installed; try: pip install '{name}{extras}'"
        ) from error

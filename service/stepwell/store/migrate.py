"""Migrates a store's schema, or checks its version: for drivers that have a schema.

Such a driver names a second entry point of its scheme, in the group `stepwell.migrations`:
`async def migrate_store(url: str, *, runtime: Runtime, check: bool, sql: Callable[[str], object] | None) ->
tuple[str, str]`. It returns the version of the schema ("" where there is none yet) and the one that this program
wants; unless `check` is true, the store has that one afterwards. Two at a time are safe. A schema that it doesn't
know is refused; a newer one that this program may use is wanted as it is. With `sql` the store is not touched:
all migrations are given to it as text, for those who run them with a program of their own.
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
    """Empty: there is none yet."""
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
    """Migrate the schema of the store that the URL names; `check`: only read its version.

    With `sql` the migrations are given to it as a script instead, and the store is not touched.

    None: stores of this scheme have no schema.

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

"""`stepwell migrate`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from stepwell.cli import serving
from stepwell.cli.exits import CliError, Exit
from stepwell.core.records.errors import StoreError, StoreRefused
from stepwell.rpc import logs
from stepwell.runtime import SystemRuntime
from stepwell.store.migrate import SchemaVersions, migrate_store
from stepwell.store.opener import mask_url

EXAMPLE = "Example: stepwell migrate --store postgresql://stepwell@127.0.0.1/stepwell"


def command(
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            "-s",
            metavar="URL",
            help="The store: postgresql://…, sqlite:///file … Default: the one that `serve` takes.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing; exit with 1 if there is something to do."),
    ] = False,
) -> int:
    """Bring a store's schema up to this version.

    A server does the same at its start, unless the store's URL says ?migrate=false. Several at once are
    safe; a SQLite file must not be served meanwhile.
    """
    wanted = serving.settings({"store": {"url": store}})
    logs.configure(wanted.log)
    url = wanted.store.url.get_secret_value()
    try:
        versions = asyncio.run(migrate_store(url, runtime=SystemRuntime(), check=check))
    except StoreError as error:
        refused = isinstance(error, StoreRefused)
        raise CliError(error.message, Exit.USAGE if refused else Exit.FAILED) from error
    return _tell(versions, mask_url(url), check=check)


def _tell(versions: SchemaVersions | None, shown: str, *, check: bool) -> int:
    if versions is None:
        print(f"{shown} has no schema: there is nothing to do")
        return Exit.DONE
    found = versions.found or "nothing"
    if versions.found == versions.wanted:
        print(f"{shown} has schema {found}: it is up to date")
        return Exit.DONE
    if check:
        raise CliError(
            f"{shown} has schema {found}, and this program wants {versions.wanted}; run `stepwell"
            " migrate`",
            Exit.FAILED,
        )
    print(f"{shown}: schema {found} → {versions.wanted}")
    return Exit.DONE

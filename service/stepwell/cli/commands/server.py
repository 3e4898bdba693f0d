"""Commands that serve: the service itself, a store for it, and the migration of a store's schema."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from stepwell.cli import options
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.process import serving
from stepwell.cli.signatures import adding
from stepwell.core.records.errors import StoreError
from stepwell.core.records.limits import STORE_MESSAGE_BYTES_MAX
from stepwell.rpc import logs
from stepwell.rpc.server import Server
from stepwell.rpc.store import make_service
from stepwell.runtime import SystemRuntime
from stepwell.store.migrate import SchemaVersions, migrate_store
from stepwell.store.opener import mask_url

_Settings = dict[str, dict[str, Any]]
EXAMPLES = {
    "serve": "stepwell serve --store sqlite:///stepwell.db --metrics-port 9464",
    "store": "stepwell store --driver sqlite:///stepwell.db --port 7879, and beside it: "
    "stepwell serve --store grpc://127.0.0.1:7879",
    "migrate": "stepwell migrate --store postgresql://stepwell@127.0.0.1/stepwell",
}


def _listening(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command that serves, with the options of each such command. It gets their settings first."""

    def run(**arguments: Any) -> int:
        given = {name: arguments.pop(name) for name in options.LISTEN}
        given["insecure_allow_remote"] = given["insecure_allow_remote"] or None
        auth = {"token_file": given.pop("token_file")}
        log = {"level": given.pop("log_level"), "format": given.pop("log_format")}
        return command({"grpc": given, "auth": auth, "log": log}, **arguments)

    return adding(run, command, 1, last=options.LISTEN)


@_listening
def serve(
    listen: _Settings,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            "-s",
            metavar="URL",
            help="Where the state is kept: sqlite:///file, memory://, grpc://host:port … Default: a "
            "SQLite file in ~/.local/state/stepwell.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="Metrics for Prometheus, on loopback.",
        ),
    ] = None,
    console: Annotated[
        bool, typer.Option("--console", help="Serve the web console, too: a page for browsers.")
    ] = False,
    console_port: Annotated[
        int | None,
        typer.Option(
            "--console-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="With --console: its port on loopback. [7880, or the next one that is free]",
        ),
    ] = None,
) -> int:
    """Run the service: workers and clients connect to it.

    Settings come from flags, then from STEPWELL_… variables (STEPWELL_GRPC__PORT), then from
    stepwell.toml. SIGTERM or Ctrl-C drains; a second one quits at once.
    """
    shown = {"enabled": console or None, "port": console_port}
    own = {"store": {"url": store}, "console": shown, "metrics": {"port": metrics_port}}
    wanted = serving.settings({**listen, **own})
    return serving.serve(wanted, Server, "stepwell", has_console=True)


@_listening
def store(
    listen: _Settings,
    driver: Annotated[
        str | None,
        typer.Option(
            "--driver", "-d", metavar="URL", help="The store: sqlite:///file, memory:// …"
        ),
    ] = None,
) -> int:
    """Offer a store to services on other machines.

    It keeps the state and runs no loop: services connect to it with --store grpcs://host:port. SIGTERM
    or Ctrl-C drains; a second one quits at once.
    """
    make = partial(
        Server,
        services=(make_service,),
        receive_bytes_max=STORE_MESSAGE_BYTES_MAX,
        executes=False,
    )
    return serving.serve(
        serving.settings({**listen, "store": {"url": driver}}), make, "stepwell store"
    )


def migrate(
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
    sql: Annotated[
        bool,
        typer.Option(
            "--sql",
            help="Print all migrations as SQL, for an empty database, and don't look at the store.",
        ),
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
        versions = asyncio.run(
            migrate_store(
                url, runtime=SystemRuntime(), check=check, sql=sys.stdout.write if sql else None
            )
        )
    except StoreError as error:
        raise serving.store_error(error) from error
    if sql and versions is not None:
        return Exit.DONE
    return _print_versions(versions, mask_url(url), check=check)


def _print_versions(versions: SchemaVersions | None, url: str, *, check: bool) -> int:
    if versions is None:
        print(f"{url} has no schema: there is nothing to do")
        return Exit.DONE
    present = versions.found or "nothing"
    if versions.found == versions.wanted:
        print(f"{url} has schema {present}: it is up to date")
        return Exit.DONE
    if check:
        raise CliError(
            f"{url} has schema {present}, and this program wants {versions.wanted}; run `stepwell"
            " migrate`",
            Exit.FAILED,
        )
    print(f"{url}: schema {present} → {versions.wanted}")
    return Exit.DONE

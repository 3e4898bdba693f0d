"""The command `stepwell certs`."""

from __future__ import annotations

import platform
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from stepwell.cli.exits import CliError, Exit
from stepwell.runtime import SystemRuntime

EXAMPLES = {"certs": "stepwell certs certs --name stepwell.example.org --name 10.0.0.1"}


def certs(
    folder: Annotated[Path, typer.Argument(help="Where the files go; made if missing.")] = Path(
        "certs"
    ),
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="A host name or address by which clients call the server; may be given again. "
            "Default: localhost, 127.0.0.1, ::1 and this host's name.",
        ),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", metavar="N", min=1, max=3650, help="They hold for so long.")
    ] = 90,
) -> int:
    """Make a private authority and certificates, to try TLS.

    Run again, it keeps the folder's authority and replaces the certificates: servers and clients take them
    for their next connections. ca-key.pem can make certificates that all of them trust, so keep it closed.
    """
    making = _making()
    names = name or ["localhost", "127.0.0.1", "::1", platform.node() or "localhost"]
    now = making.moment(SystemRuntime().now_us())
    try:
        made = making.make(folder, list(dict.fromkeys(names)), days=days, now=now)
    except making.CertificatesRefused as error:
        raise CliError(str(error)) from error
    what = "made" if made.is_new_authority else "kept"
    print(f"{made.authority.certificate}: the authority, {what}; its key is {made.authority.key}")
    print(f"{made.server.certificate}: for servers called {', '.join(dict.fromkeys(names))}")
    print(f"{made.client.certificate}: for clients, where the server asks for one")
    print(
        f"serve with:   --tls-cert {made.server.certificate} --tls-key {made.server.key}"
        f" [--tls-client-ca {made.authority.certificate}]"
    )
    print(
        f"connect with: --tls-ca {made.authority.certificate}"
        f" [--tls-cert {made.client.certificate} --tls-key {made.client.key}]"
    )
    return Exit.DONE


def _making() -> Any:
    try:
        return import_module("stepwell.cli.certificates")
    except ModuleNotFoundError as error:
        raise CliError(
            "`stepwell certs` needs a package that is not installed"
            f" ({error.name}): pip install 'stepwell[certs]'"
        ) from None

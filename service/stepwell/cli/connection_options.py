"""Options of the connection, which stand before a command or after it."""

from __future__ import annotations

# The environment is left to the client library: an option before the command goes over it too.
from pathlib import Path
from typing import Annotated, Any

import typer

Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="ADDRESS",
        help="The server, such as 127.0.0.1:7878, unix:/run/stepwell.sock or "
        "grpcs://stepwell.example.org:7878. Default: $STEPWELL_TARGET, else 127.0.0.1:7878.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="The token's file. Default: $STEPWELL_TOKEN_FILE, else, for this machine, the one that a "
        "server of this user writes.",
    ),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-ca",
        metavar="FILE",
        help="Call by TLS; this authority signed the server's certificate. [$STEPWELL_TLS_CA]",
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert",
        metavar="FILE",
        help="A certificate of your own, where the server asks for one. [$STEPWELL_TLS_CERT]",
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option("--tls-key", metavar="FILE", help="Its key. [$STEPWELL_TLS_KEY]"),
]
TlsName = Annotated[
    str | None,
    typer.Option(
        "--tls-name",
        metavar="NAME",
        help="The name in the server's certificate, if not the address's. [$STEPWELL_TLS_NAME]",
    ),
]
InsecureRemote = Annotated[
    bool,
    typer.Option(
        "--insecure-allow-remote",
        help="Call other machines also without TLS or token. [$STEPWELL_INSECURE_ALLOW_REMOTE]",
    ),
]
CONNECTION: dict[str, Any] = {
    "target": Target,
    "token_file": TokenFile,
    "tls_ca": TlsCa,
    "tls_cert": TlsCert,
    "tls_key": TlsKey,
    "tls_name": TlsName,
    "insecure_allow_remote": InsecureRemote,
}
"""The options of every command that calls a server, by the names of the client's arguments; also before a command."""

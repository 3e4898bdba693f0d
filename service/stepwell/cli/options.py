"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stepwell.cli.completion import complete_run, complete_task
from stepwell_client.internal import OnBusy

Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print JSON, by the field names of the protocol; errors too, to standard error.",
    ),
]
Run = Annotated[
    str,
    typer.Argument(
        help="The run's id, or its beginning.", show_default=False, autocompletion=complete_run
    ),
]
Task = Annotated[
    str, typer.Argument(help="The task's id.", show_default=False, autocompletion=complete_task)
]
Reason = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Why, for those who look.", show_default=False),
]
For = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="NAME",
        help="On whose behalf; shown beside your own name.",
        show_default=False,
    ),
]
Label = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="KEY=VALUE", help="A label; may be given again."),
]
Spend = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        metavar="PART=VALUE",
        help="What it may use up: cost=2.50, tokens-in=N, tokens-out=N, tasks=N, iterations=N, "
        "wall=30m; may be given again.",
    ),
]
Keep = Annotated[
    bool,
    typer.Option("--wait", help="Go on following while the run waits for something or is paused."),
]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Print its id and don't follow it.")]
Pipeline = Annotated[
    str, typer.Option("--pipeline", metavar="NAME", help="Only runs of this pipeline.")
]
All = Annotated[bool, typer.Option("--all", help="Show every task, however many.")]

# Of runs that are started or forked.
RunPayload = Annotated[
    str | None,
    typer.Option(
        "--input", "-i", metavar="JSON|@FILE", help="What it works on; @- is standard input."
    ),
]
MaxIterations = Annotated[
    int | None, typer.Option("--max-iterations", metavar="N", min=1, help="It ends after so many.")
]
MaxParallel = Annotated[
    int | None, typer.Option("--max-parallel", metavar="N", min=1, help="Tasks at once.")
]
WorkerVersion = Annotated[
    str,
    typer.Option(
        "--worker-version",
        metavar="VERSION",
        help="Only workers of this version do its steps: 1.4, '>=1.4' for that or a later one, or any.",
        show_default=False,
    ),
]

# Of workers.
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        "-q",
        metavar="NAME",
        help="A queue to serve; may be given again. Default: the agent's own, else default.",
    ),
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", "-c", metavar="N", min=1, max=500, help="Steps at once.")
]
Drain = Annotated[
    float,
    typer.Option("--drain", metavar="SECONDS", min=0, help="Seconds that steps may take to end."),
]

# Of servers.
Host = Annotated[
    str | None, typer.Option("--host", metavar="HOST", help="Where to listen. [127.0.0.1]")
]
Port = Annotated[
    int | None,
    typer.Option("--port", metavar="PORT", min=0, max=65535, help="0: a free one. [7878]"),
]
Socket = Annotated[
    Path | None, typer.Option("--socket", metavar="FILE", help="A Unix socket, instead of a port.")
]
InsecureAllowRemote = Annotated[
    bool,
    typer.Option(
        "--insecure-allow-remote",
        help="Listen where other machines can reach it, also without TLS. Nothing is encrypted then.",
    ),
]
ServerTlsCert = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert", metavar="FILE", help="The port's certificate, in PEM: it speaks TLS."
    ),
]
ServerTlsKey = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key.")
]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca",
        metavar="FILE",
        help="Connect only clients with a certificate of this authority.",
    ),
]
ServerTokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Where the token is made at first."),
]
LogLevel = Annotated[
    str | None,
    typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error. [info]"),
]
LogFormat = Annotated[
    str | None,
    typer.Option("--log-format", metavar="FORMAT", help="console or json. [console]"),
]
ReflectOn = Annotated[
    list[str] | None,
    typer.Option(
        "--reflect-on",
        metavar="NAME",
        help="A signal of this name makes it reflect early; may be given again.",
    ),
]
Thread = Annotated[
    str,
    typer.Option("--thread", metavar="ID", help="The thread, as of a chat, that it is a run of."),
]
Busy = Annotated[
    OnBusy,
    typer.Option("--on-busy", help="With --thread, if a run of the thread works."),
]
LISTEN: dict[str, Any] = {
    "host": Host,
    "port": Port,
    "socket": Socket,
    "tls_cert": ServerTlsCert,
    "tls_key": ServerTlsKey,
    "tls_client_ca": TlsClientCa,
    "insecure_allow_remote": InsecureAllowRemote,
    "token_file": ServerTokenFile,
    "log_level": LogLevel,
    "log_format": LogFormat,
}
"""The options of every command that serves, by the names of the settings."""

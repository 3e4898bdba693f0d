"""The options that several commands share."""

from __future__ import annotations

# The environment is left to the client library: an option before the command goes over it too.
from pathlib import Path
from typing import Annotated

import typer

Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="ADDRESS",
        help="The server, such as 127.0.0.1:7878 or unix:/run/stepwell.sock. Default: "
        "$STEPWELL_TARGET, else 127.0.0.1:7878.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="The token's file. Default: $STEPWELL_TOKEN_FILE, else the one that a server of this "
        "user writes.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON, by the field names of the protocol.")
]
RunId = Annotated[str, typer.Argument(help="The run's id, or its beginning.", show_default=False)]
TaskId = Annotated[str, typer.Argument(help="The task's id.", show_default=False)]
Reason = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Why, for those who look.", show_default=False),
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

"""The command `stepwell signals`."""

from __future__ import annotations

from stepwell.cli import connect, options
from stepwell.cli.connect import connected
from stepwell.cli.exits import Exit
from stepwell.cli.view import describe
from stepwell.cli.view.terminal import put_json, put_rows, table
from stepwell.cli.view.text import micros, moment, note, one_line
from stepwell_client import SyncClient

EXAMPLES = {"signals": "stepwell signals 3f2a9c1e"}


@connected
def signals(client: SyncClient, run: options.Run, json: options.Json = False) -> int:
    """List the signals that a run keeps, oldest first.

    Steps receive them in this order, those of one name one after the other.
    """
    kept = list(client.run(connect.run_id(client, run)).signals())
    if json:
        put_json({"signals": kept})
        return Exit.DONE
    rows = table(["NAME", "SENT", "BY"], right=["NUMBER"], wide="VALUE")
    for one in kept:
        rows.add_row(
            f"{one.number:,}",
            one_line(one.name),
            moment(micros(one.sent_time)),
            describe.caller(one.actor, one.on_behalf_of) or one_line(one.on_behalf_of),
            one_line(one.value.data.decode(errors="replace") if one.value is not None else ""),
        )
    if kept:
        put_rows(rows, "NUMBER", "SENT", "BY")
    else:
        note("this run keeps no signal")
    return Exit.DONE

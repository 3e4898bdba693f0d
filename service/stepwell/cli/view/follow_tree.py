"""Following a tree of runs: a line for each event of a root and of all child runs below it."""

from __future__ import annotations

from stepwell.cli.connect import advising, name_of
from stepwell.cli.errors import exit_of_status
from stepwell.cli.exits import Exit
from stepwell.cli.view import describe, event_lines
from stepwell.cli.view.live import PROGRESS_S
from stepwell.cli.view.terminal import put_json
from stepwell.cli.view.text import note, short_id
from stepwell_client import Run, RunView, SyncClient
from stepwell_client.enums import ENDED


def follow_tree(client: SyncClient, run: Run, *, json: bool) -> Exit:
    """Follow the tree that a run is in until all its runs have ended; return the exit code of the root's status."""
    root = describe.root_id(run)
    if root != run.id:
        note(f"run {name_of(run)} is a child: its tree begins at run {short_id(root)}")
    views: dict[str, RunView] = {}
    live = {root}
    with (
        advising(f"watch {short_id(root)} --tree"),
        client.watch(root_run_id=root, progress_interval=PROGRESS_S) as watch,
    ):
        for update in watch:
            if update.run is not None and update.run_id not in views:
                views[update.run_id] = RunView.before_events(update.run)
                live.add(update.run_id)
            view = views.get(update.run_id)
            if view is None:
                continue  # A deleted run of another tree.
            for event in update.events:
                view.apply(event)
                if json:
                    put_json({"run_id": update.run_id, "event": event}, compact=True)
                elif text := event_lines.line(view, event):
                    print(f"{short_id(update.run_id)}  {text}", flush=True)
            if update.deleted or view.run.status in ENDED:
                live.discard(update.run_id)
            if not live:
                break
    now = client.run(root).get()
    if json:
        put_json({"run": now}, compact=True)
    return exit_of_status(now.status)

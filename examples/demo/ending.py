"""The last words of the demo: the report's first lines, and commands to look around with."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from rich.console import Console

from examples.demo.text import plain, some

REPORT_LINES_SHOWN = 16


def show_report(console: Console, path: Path, markdown: str) -> None:
    """Print where the report is and how it begins."""
    console.print(f"\nThe report, {shown(path)}:\n", style="bold")
    lines = markdown.splitlines()
    for line in lines[:REPORT_LINES_SHOWN]:
        console.print(f"    {line}", overflow="ellipsis", no_wrap=True)
    if len(lines) > REPORT_LINES_SHOWN:
        console.print(f"    … and {some(len(lines) - REPORT_LINES_SHOWN, 'more line')}")


def show_ways_on(console: Console, store: Path, run_id: str, *, journal_of: str = "") -> None:
    """Print commands that work when pasted; with `journal_of` a task, one for its journal."""
    program = shown(Path(sys.executable).with_name("stepwell"))
    url = shlex.quote(f"sqlite:///{nearest(store)}")
    query = "SELECT task_id, status, attempts, title FROM tasks"
    ways = [
        ("serve this store", f"{program} serve --store {url}"),
        ("then, in another terminal, list its runs", f"{program} ls"),
        ("show the run, its tasks and its result", f"{program} show {run_id[:8]}"),
        ("follow it, as from its first event", f"{program} watch {run_id[:8]}"),
        ("read what the programs said", f"less {shown(store.parent)}/*.log"),
    ]
    if journal_of:
        ways.append(
            ("read the journal of its task", f"{program} journal {run_id[:8]} {journal_of}")
        )
    if shutil.which("sqlite3"):
        way = f'sqlite3 -readonly -header -column {shown(store)} "{query}"'
        ways.append(("ask for its tasks in SQL", way))
    ways.append(("remove all that this demo has left", f"rm -r {shown(store.parent)}"))
    console.print(f"\nLook around; all of it is in {shown(store.parent)}:\n", style="bold")
    for what, command in ways:
        console.print(f"    # {what}", style="dim", soft_wrap=True)
        console.print(f"    {command}", style="cyan", soft_wrap=True)


def nearest(path: Path) -> str:
    """Return a path from here, where it lies below; else the whole."""
    here = Path.cwd()
    return plain(str(path.relative_to(here) if path.is_relative_to(here) else path), 1_000)


def shown(path: Path) -> str:
    """Return a path as people would type it here."""
    return shlex.quote(nearest(path))

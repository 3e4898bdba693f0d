"""The tables at the end of the demo, made from what the store holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table

from examples.demo.history import Attempt, History
from stepwell_client import Client, ExecutionStatus


@dataclass(frozen=True)
class Kill:
    """A SIGKILL, and where the run was then."""

    program: str
    last_event: int
    """The number of the last event in the store when the program was dead."""


def last_event_in(store: Path, run_id: str) -> int:
    """Read the number of a run's last event out of the file, while no server has it open."""
    with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as connection:
        query = "SELECT max(number) FROM events WHERE run_name = ?"
        return int(connection.execute(query, (run_id,)).fetchone()[0] or 0)


async def read_history(client: Client, run_id: str) -> History:
    """Read all events of a run that has ended, from the first one."""
    history = History()
    async with client.run(run_id).watch() as events:
        async for event in events:
            history.add(event)
    return history


def steps_table(history: History, kills: Sequence[Kill], types: Mapping[str, str]) -> Table:
    """A row for each type of task and each other kind of step. `types` has those of tasks, by id."""
    table = new_table("What the store says")
    table.add_column("step")
    heads = ["tasks", "completed", "attempts"]
    heads += [f"in flight\nat {kill.program}\nkill" for kill in kills]
    for head in [*heads, "started\nagain\nwhen done"]:
        table.add_column(head, justify="right")
    groups: dict[str, list[Attempt]] = {}
    for attempt in history.attempts.values():
        groups.setdefault(types.get(attempt.step, attempt.step), []).append(attempt)
    for name, attempts in groups.items():
        table.add_row(name, *_figures(history, kills, attempts))
    table.add_section()
    table.add_row("all", *_figures(history, kills, list(history.attempts.values())), style="bold")
    return table


def new_table(title: str) -> Table:
    """Return a table without rows or columns."""
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _figures(history: History, kills: Sequence[Kill], attempts: Sequence[Attempt]) -> list[str]:
    tasks = {attempt.step for attempt in attempts if attempt.is_task}
    completed = sum(attempt.status == ExecutionStatus.COMPLETED for attempt in attempts)
    leased = sum(attempt.leased > 0 for attempt in attempts)
    flying = [
        sum(one in attempts for one in history.in_flight(at=kill.last_event)) for kill in kills
    ]
    again = sum(len(history.leases_after_completion(task_id)) for task_id in tasks)
    return [str(len(tasks) or "–"), *map(str, [completed, leased, *flying, again])]


def kills_table(history: History, kills: Sequence[Kill]) -> Table:
    """A row for each attempt that was in flight at a kill, with its end."""
    table = new_table("What was in flight, and what became of it")
    for head in ("killed", "in flight", "attempt", "leased by", "what became of it"):
        table.add_column(head)
    for kill in kills:
        table.add_section()
        flying = history.in_flight(at=kill.last_event)
        for attempt in flying:
            became = _became(history, attempt)
            row = (attempt.step, str(attempt.number), f"event {attempt.leased}", became)
            table.add_row(kill.program if attempt is flying[0] else "", *row)
        if not flying:
            table.add_row(kill.program, "nothing", "", "", f"after event {kill.last_event}")
    return table


def _became(history: History, attempt: Attempt) -> str:
    if attempt.status == ExecutionStatus.COMPLETED:
        return f"completed all the same (event {attempt.ended})"
    ending = f"{attempt.status.name.lower()} (event {attempt.ended})"
    for later in history.attempts.values():
        is_next = later.step == attempt.step and later.leased > attempt.ended
        if is_next and later.status == ExecutionStatus.COMPLETED:
            return f"{ending}, attempt {later.number} completed (event {later.ended})"
    return ending

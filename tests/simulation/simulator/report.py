"""What is said of a seed that failed: the invariant, how to replay it, and the rows as they stood."""

from __future__ import annotations

from tests.simulation.simulator.book import Book
from tests.simulation.simulator.violation import InvariantViolation
from tests.simulation.simulator.world import World

ROWS_MAX = 40
"""Of a run's newest executions and events."""
LINES_MAX = 60
"""Of the history's end; the replay shows all of it with --trace."""


class Failure(AssertionError):
    """A seed failed. `name` is the invariant's."""

    def __init__(
        self, seed: int, name: str, message: str, dump: str, lines: list[str] | None = None
    ) -> None:
        super().__init__(
            f"seed {seed}: {name}: {message}\n"
            f"replay: python -m tests.simulation.simulator --seed {seed}\n{dump}"
        )
        self.seed = seed
        self.name = name
        self.message = message
        self.lines = lines or []
        """The whole history."""


def describe(found: Exception, world: World) -> tuple[str, str, str, list[str]]:
    """Return the invariant's name, what happened, the dump and the history."""
    if isinstance(found, InvariantViolation):
        name, message = found.name, found.message
    else:
        name, message = "L3", f"{type(found).__name__}: {found}"
    runs = [line for book in world.ledger.books.values() for line in _dump(book)]
    crew = [f"  {line}" for line in world.last_seen]
    tail = world.history.lines[-LINES_MAX:]
    setting = [f"  {key}: {value}" for key, value in world.setting._asdict().items()]
    loads = [f"  {client.key}: {client.workload.name}" for client in world.clients]
    return (
        name,
        message,
        "\n".join(
            [
                "setting:",
                *setting,
                "runs:",
                *loads,
                *runs,
                "workers:",
                *crew,
                "history (its end):",
                *tail,
            ]
        ),
        world.history.lines,
    )


def _dump(book: Book) -> list[str]:
    run = book.run
    if run is None:
        return [f"{book.key}: not born"]
    state = f"{run.status} {run.phase} iteration {run.iteration} blocked on {run.blocked_on}"
    lines = [f"{book.key} v{run.version} {state} {run.counts}"]
    lines += [
        f"    task {t.task_id} {t.status} attempts {t.attempts} spent {t.spent} {t.result_id}"
        for t in book.tasks.values()
    ]
    for one in tuple(book.executions.values())[-ROWS_MAX:]:
        lease, deadline = book.leases.get(one.execution_id), book.deadlines.get(one.execution_id)
        held = f" lease of {lease.worker_id}" if lease is not None else ""
        until = f" until {deadline.from_us}" if deadline is not None else ""
        lines.append(f"    execution {one.execution_id} {one.status}{held}{until}")
    lines += [
        f"    event {e.number} v{e.version} {e.type} {e.execution_id or e.task_id}"
        for e in book.events[-ROWS_MAX:]
    ]
    return lines

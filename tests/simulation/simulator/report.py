"""The report of a failed seed: the invariant, how to replay it, and the rows as they stood."""

from __future__ import annotations

from tests.simulation.simulator.run_model import RunModel
from tests.simulation.simulator.violation import InvariantViolation
from tests.simulation.simulator.world import World

ROWS_MAX = 40
"""The number of a run's newest executions and events that are printed."""
LINES_MAX = 60
"""The number of the history's last lines that are printed; the replay shows all with --trace."""


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


def describe(error: Exception, world: World) -> tuple[str, str, str, list[str]]:
    """Return the invariant's name, what happened, the dump and the history."""
    if isinstance(error, InvariantViolation):
        name, message = error.name, error.message
    else:
        name, message = "L3", f"{type(error).__name__}: {error}"
    runs = [line for model in world.ledger.models.values() for line in _dump(model)]
    pool = [f"  {line}" for line in world.last_seen]
    tail = world.history.lines[-LINES_MAX:]
    setting = [f"  {key}: {value}" for key, value in world.setting._asdict().items()]
    loads = [f"  {client.key}: {client.workload.name}" for client in world.clients]
    parts = {"setting": setting, "runs": loads + runs, "workers": pool, "history (its end)": tail}
    dump = [line for part, lines in parts.items() for line in (f"{part}:", *lines)]
    return name, message, "\n".join(dump), world.history.lines


def _dump(model: RunModel) -> list[str]:
    run = model.run
    if run is None:
        return [f"{model.key}: not created"]
    state = f"{run.status} {run.phase} iteration {run.iteration} blocked on {run.blocked_on}"
    lines = [f"{model.key} v{run.version} {state} {run.counts}"]
    lines += [
        f"    task {t.task_id} {t.status} attempts {t.attempts} spent {t.spent} {t.result_id}"
        for t in model.tasks.values()
    ]
    for one in tuple(model.executions.values())[-ROWS_MAX:]:
        lease, deadline = model.leases.get(one.execution_id), model.deadlines.get(one.execution_id)
        held = f" lease of {lease.worker_id}" if lease is not None else ""
        until = f" until {deadline.from_us}" if deadline is not None else ""
        lines.append(f"    execution {one.execution_id} {one.status}{held}{until}")
    lines += [
        f"    event {e.number} v{e.version} {e.type} {e.execution_id or e.task_id}"
        for e in model.events[-ROWS_MAX:]
    ]
    return lines

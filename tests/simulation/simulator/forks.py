"""Forks that callers make of their own runs, while those go on: from any version, with any change.

What a fork begins with is worked out from what was witnessed, as a replica works it out from the
store's events. The fork is a run like another from there on, with a caller of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from stepwell.core.fork.fork import base_of
from stepwell.core.fork.inherit import Changes
from stepwell.core.loop.children import own_labels
from stepwell.core.loop.occurrences import Fork
from stepwell.core.records.errors import FailedPrecondition
from stepwell.core.records.events import Event
from stepwell.core.records.fold import fold
from stepwell.core.records.model import Payload, Plan, Run
from stepwell.core.records.states import ForkMode
from tests.simulation.simulator.journals import JournalModel
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.run_model import RunModel


def draw(model: RunModel, journals: JournalModel, run_id: str, rng: Rng) -> Fork | None:
    """Return a fork of a run at some version, or None if the drawn one doesn't fit."""
    run = model.run
    assert run is not None
    version = rng.between(1, run.version)
    fork = make(
        run, model.plans, model.events, version, run_id, lambda now: _changes(now, model, rng)
    )
    if fork is not None and journals.has_at_most_once(model.key):
        # Whether such a call would be made again is for those to find out who read the store.
        return None
    return fork


def make(
    run: Run,
    plans: Mapping[int, Plan],
    events: Iterable[Event],
    version: int,
    run_id: str,
    changes: Callable[[int], Changes],
) -> Fork | None:
    """Return the fork of a run at a version, changed by the plan's revision then, or None if it doesn't fit."""
    rows = fold(run.spec, plans, [event for event in events if event.version <= version])
    spec = replace(
        run.spec,
        run_id=run_id,
        parent_run_id=run.spec.run_id,
        parent_version=version,
        family_id=run.spec.family_id or run.spec.run_id,
        start_delay_ms=0,
        thread_id="",
        labels=own_labels(run.spec.labels),
        request_fingerprint=f"fork {run_id}",
    )
    try:
        base = base_of(spec, rows, plans, changes(rows.run.plan_revision))
    except FailedPrecondition:
        return None
    if base.misfits:
        return None
    return replace(base.fork, input=Payload(data=run.spec.goal.encode()))


def _changes(revision: int, model: RunModel, rng: Rng) -> Changes:
    draw = rng.random()
    if draw < 0.2 or not revision:
        return Changes(replan=True)
    if draw < 0.5:
        return Changes()
    tasks = list(model.plans[revision].tasks)
    if draw < 0.6:
        return Changes(plan=tuple(tasks))
    place = rng.between(0, len(tasks) - 1)
    tasks[place] = replace(tasks[place], prompt="otherwise")
    return Changes(mode=ForkMode.PATCH, plan=tuple(tasks))

"""Forks: runs that begin from a version of another run, with changes.

`base_of` computes what the fork carries over and what forbids it, without reading or writing. The
loop applies the `Fork` command that it returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.fork.compat import Misfit, MisfitKind, misfits_of
from stepwell.core.fork.inherit import Carry, Changes, Parent
from stepwell.core.fork.journals import Calls, StepJournal, journals_of, repeated_call
from stepwell.core.loop.occurrences import Fork
from stepwell.core.records import graph, limits
from stepwell.core.records.errors import FailedPrecondition, InvalidArgument, Violation
from stepwell.core.records.fold import Rows
from stepwell.core.records.model import Plan, Run, RunSpec, Tally
from stepwell.core.records.states import (
    FinishReason,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell.core.records.step_journal import Source
from stepwell.core.records.texts import id_ending


def fork_id(parent_run_id: str, fresh_id: str) -> str:
    """Return an id for a fork, made of a fresh UUID. It ends like the parent's id, as stores want."""
    return fresh_id.removesuffix(id_ending(fresh_id)) + id_ending(parent_run_id)


class Base(NamedTuple):
    """The command that creates a fork, with its incompatibilities and its carried tasks."""

    fork: Fork
    misfits: tuple[Misfit, ...] = ()
    """At most `VIOLATIONS_MAX`; with any of them the fork must not be started."""
    kept: tuple[str, ...] = ()
    """Tasks whose results carry over."""
    rerun: tuple[str, ...] = ()
    """Tasks that the parent completed and the fork runs again."""
    pending: tuple[str, ...] = ()
    """Tasks that the parent had not completed and that the fork runs."""
    journals: tuple[tuple[StepJournal, str], ...] = ()
    """The parent's journals of the steps that the fork runs, each with its task's path in the request."""


def base_of(spec: RunSpec, rows: Rows, plans: Mapping[int, Plan], changes: Changes) -> Base:
    """Return the base of a fork of this spec, from the parent's rows at `spec.parent_version`.

    `plans` are the parent's up to that version.

    Raises:
        InvalidArgument: PLAN_INVALID.
        FailedPrecondition: LAST_ITERATION.
    """
    if changes.plan is not None:
        changes = changes._replace(plan=tuple(graph.gathered(changes.plan)))
    parent = Parent(rows, plans)
    phase = _phase(parent, changes)
    carry = Carry(parent, changes, executing=phase is Phase.EXECUTING)
    _check_plan(carry, changes)
    run = _run(spec, parent, phase, changes)
    journals = tuple(journals_of(spec, parent, carry, changes, run))
    begun = {one.task_id: one.journal for one in journals if one.goes_on}
    run = replace(run, step_journal=begun.get("", run.step_journal))
    tasks = tuple(
        replace(one, journal=begun.get(one.task_id, one.journal))
        for one in carry.tasks(spec.parent_run_id)
    )
    asked = {task.question_id for task in tasks if task.question_id}
    fork = Fork(
        spec=spec,
        run=run,
        plan=tuple(carry.specs.values()),
        tasks=tasks,
        questions=tuple(one for one in rows.questions.values() if one.question_id in asked),
    )
    completed = [k for k in carry.specs if parent.status(k) is TaskStatus.COMPLETED]
    return Base(
        fork,
        tuple(misfits_of(parent, carry, changes))[: limits.VIOLATIONS_MAX],
        kept=tuple(k for k in completed if k in carry.carried),
        rerun=tuple(k for k in completed if k not in carry.carried),
        pending=tuple(
            k
            for k in carry.specs
            if k not in carry.carried and parent.status(k) is not TaskStatus.COMPLETED
        ),
        journals=tuple((one, carry.path(one.task_id)) for one in journals),
    )


def sources_of(base: Base) -> list[Source]:
    """Return the journals whose AT_MOST_ONCE calls decide on a fork; read them for `with_calls`."""
    return [source for step, _ in base.journals for source in step.journal.sources]


def with_calls(base: Base, calls: Calls) -> Base:
    """Return the base with the incompatibilities that come from calls in its journals."""
    misfits = [
        Misfit(MisfitKind.EFFECT_REPEATED, step.task_id, path, repeated)
        for step, path in base.journals
        if (repeated := repeated_call(step, calls))
    ]
    return base._replace(misfits=(*base.misfits, *misfits)[: limits.VIOLATIONS_MAX])


# --- the run ------------------------------------------------------------------------------------


def _phase(parent: Parent, changes: Changes) -> Phase:
    run = parent.run
    if changes.plan is not None:
        return Phase.EXECUTING
    if changes.replan or not run.plan_revision:
        return Phase.PLANNING
    if run.signals.early:
        return Phase.EXECUTING  # The fork reflects if it keeps the signal.
    if run.phase is not Phase.DONE:
        return run.phase
    if StepKind.SYNTHESIZE in run.stages:
        return Phase.SYNTHESIZING
    return Phase.REFLECTING if StepKind.REFLECT in run.stages else Phase.EXECUTING


def _run(spec: RunSpec, parent: Parent, phase: Phase, changes: Changes) -> Run:
    run = parent.run
    again = changes.replan and run.plan_revision > 0 and run.phase is not Phase.PLANNING
    iteration = run.iteration + again
    if iteration > spec.max_iterations:
        raise FailedPrecondition(
            f"version {spec.parent_version} is in iteration {run.iteration}, so that the fork begins in "
            f"iteration {iteration} of {spec.max_iterations}; allow more with max_iterations",
            reason="LAST_ITERATION",
        )
    has_plan = run.plan_revision > 0 or changes.plan is not None
    live = run.status not in (RunStatus.PAUSED, RunStatus.FAILED, RunStatus.CANCELLED)
    return Run(
        spec=spec,
        phase=phase,
        iteration=iteration,
        stages=run.stages if has_plan else (),
        stages_fixed=has_plan,
        step_attempt=run.step_attempt if phase is run.phase and not again else 0,
        finish_reason=run.finish_reason if phase is Phase.SYNTHESIZING else FinishReason.NONE,
        reason=run.reason if live and phase is run.phase and not again else "",
        tally=Tally(iterations_before=iteration - 1),
    )


# --- the plan -------------------------------------------------------------------------------------


def _check_plan(carry: Carry, changes: Changes) -> None:
    """Refuse an invalid plan."""
    inherited = carry.inherited if changes.plan is not None else frozenset[str]()
    if changes.plan is not None:
        violations = graph.violations_of(changes.plan, inherited.__contains__)
        if violations:
            first = violations[0]
            each = tuple(Violation(one.field, one.description) for one in violations)
            raise InvalidArgument(
                f"the plan is not valid: {first.field}: {first.description}",
                each,
                reason="PLAN_INVALID",
            )
    if len(carry.specs) > limits.PLAN_TASKS_MAX:
        what = (
            f"all plans together have {len(carry.specs)} tasks at that version, and a plan has at most "
            f"{limits.PLAN_TASKS_MAX}; fork an earlier version, or give a plan"
        )
        raise InvalidArgument(what, (Violation("plan", what),), reason="PLAN_INVALID")

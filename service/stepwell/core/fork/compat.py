"""Compatibility of a fork with its parent, checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from stepwell.core.fork.inherit import Carry, Changes, Parent
from stepwell.core.records.model import TaskSpec
from stepwell.core.records.routing import ANY
from stepwell.core.records.states import Effect, ExecutionStatus, ForkMode, TaskStatus


class MisfitKind(StrEnum):
    """The kind of an incompatibility."""

    TASK_REMOVED = "TASK_REMOVED"
    TASK_ADDED = "TASK_ADDED"
    DEFINITION_CHANGED = "DEFINITION_CHANGED"
    DEPENDENCY_CHANGED = "DEPENDENCY_CHANGED"
    EFFECT_REPEATED = "EFFECT_REPEATED"
    ROLE_MISSING = "ROLE_MISSING"
    PLAN_MISSING = "PLAN_MISSING"


class Misfit(NamedTuple):
    """One incompatibility of a fork with its parent."""

    kind: MisfitKind
    task_id: str
    field: str
    """The path from the request's root; empty if no part of the request is at fault."""
    description: str


def misfits_of(parent: Parent, carry: Carry, changes: Changes) -> Iterator[Misfit]:
    """Yield the incompatibilities of a fork."""
    if changes.plan is None and not changes.replan and not parent.run.plan_revision:
        yield Misfit(
            MisfitKind.PLAN_MISSING,
            "",
            "plan",
            "There is no plan at that version: give one, or ask for one with replan.",
        )
    if changes.plan is not None and changes.mode is ForkMode.STRICT:
        strict = tuple(_strict_misfits(parent.in_force, changes.plan))
        yield from strict
        if strict:
            return
    yield from _repeated_effects(parent, carry)
    if changes.roles is not None and ANY not in changes.roles:
        yield from _missing_roles(carry, changes.roles)


def _strict_misfits(
    in_force: Mapping[str, TaskSpec], given: Sequence[TaskSpec]
) -> Iterator[Misfit]:
    named = {spec.task_id for spec in given}
    for task_id in in_force:
        if task_id not in named:
            description = "The plan in force has this task; name it too, or fork with PATCH."
            yield Misfit(MisfitKind.TASK_REMOVED, task_id, "plan.tasks", description)
    for index, spec in enumerate(given):
        path, before = f"plan.tasks[{index}]", in_force.get(spec.task_id)
        if before is None:
            description = "The plan in force has no such task; leave it out, or fork with PATCH."
            yield Misfit(MisfitKind.TASK_ADDED, spec.task_id, path, description)
            continue
        if set(before.depends_on) != set(spec.depends_on):
            description = "It depended on other tasks; leave that as it was, or fork with PATCH."
            yield Misfit(
                MisfitKind.DEPENDENCY_CHANGED, spec.task_id, f"{path}.depends_on", description
            )
        changed = _changed_field(before, spec)
        if changed:
            description = f"Its {changed} was another; leave that as it was, or fork with PATCH."
            yield Misfit(
                MisfitKind.DEFINITION_CHANGED, spec.task_id, f"{path}.{changed}", description
            )


def _changed_field(before: TaskSpec, after: TaskSpec) -> str:
    for name in before.__struct_fields__:
        if name != "depends_on" and getattr(before, name) != getattr(after, name):
            return name.removesuffix("_ms")
    return ""


_UNKNOWN = frozenset(
    {
        ExecutionStatus.LEASED,
        ExecutionStatus.UNKNOWN_OUTCOME,
        ExecutionStatus.TIMED_OUT,
        ExecutionStatus.CANCELLED,
    }
)
"""Statuses of begun executions whose effect may or may not have taken place."""


def _repeated_effects(parent: Parent, carry: Carry) -> Iterator[Misfit]:
    unknown = {
        one.task_id for one in parent.executions.values() if one.begun and one.status in _UNKNOWN
    }
    for task_id, spec in carry.specs.items():
        old = parent.graph.specs.get(task_id)
        if (
            old is None
            or task_id in carry.carried
            or Effect.IDEMPOTENT in (old.effect, spec.effect)
        ):
            continue
        if parent.status(task_id) is TaskStatus.COMPLETED:
            description = (
                "It runs at most once, was completed, and would run again: leave it and what it is "
                "built on as they were, or declare it IDEMPOTENT."
            )
        elif task_id in unknown:
            description = (
                "It runs at most once, and whether it did is not known: fork a version at which that "
                "is settled, or declare it IDEMPOTENT in a plan with PATCH."
            )
        else:
            continue
        yield Misfit(MisfitKind.EFFECT_REPEATED, task_id, carry.path(task_id), description)


def _missing_roles(carry: Carry, roles: frozenset[str]) -> Iterator[Misfit]:
    for task_id, spec in carry.specs.items():
        if spec.role and spec.role not in roles and task_id not in carry.carried:
            path = carry.path(task_id)
            yield Misfit(
                MisfitKind.ROLE_MISSING,
                task_id,
                f"{path}.role" if path else "",
                f"No connected worker of the queue fills the role {spec.role!r}: start one, or name "
                "a queue that has one.",
            )

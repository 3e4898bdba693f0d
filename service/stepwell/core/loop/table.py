"""The tables of the loop: all legal moves of runs, tasks and executions.

The rules and the diagrams in `docs/concepts.md` both come from these tables.
"""

from __future__ import annotations

from enum import StrEnum

from stepwell.core.records.states import ExecutionStatus as E
from stepwell.core.records.states import Phase, RunStatus, StepKind
from stepwell.core.records.states import TaskStatus as T


class Trigger(StrEnum):
    """The cause of a move from one phase to the next."""

    PLAN_ACCEPTED = "a valid plan"
    TASKS_SETTLED = "all tasks settled"
    TASKS_SETTLED_NO_REFLECTION = "all tasks settled, no REFLECT stage"
    FINISH = "finish, or the last iteration"
    STEERED = "a signal of reflect_on"
    GO_ON = "go on with the plan"
    CONTINUE = "continue with a plan"
    REPLAN = "replan"
    SYNTHESIZED = "an answer, or no SYNTHESIZE stage"


class IllegalMove(Exception):
    """A move that is in no table: a defect of the loop, never of an occurrence. Nothing was changed."""


PHASE_MOVES: dict[tuple[Phase, Trigger], Phase] = {
    (Phase.PLANNING, Trigger.PLAN_ACCEPTED): Phase.EXECUTING,
    (Phase.EXECUTING, Trigger.TASKS_SETTLED): Phase.REFLECTING,
    (Phase.EXECUTING, Trigger.TASKS_SETTLED_NO_REFLECTION): Phase.SYNTHESIZING,
    (Phase.EXECUTING, Trigger.STEERED): Phase.REFLECTING,
    (Phase.EXECUTING, Trigger.REPLAN): Phase.PLANNING,
    (Phase.REFLECTING, Trigger.FINISH): Phase.SYNTHESIZING,
    (Phase.REFLECTING, Trigger.STEERED): Phase.REFLECTING,
    (Phase.REFLECTING, Trigger.GO_ON): Phase.EXECUTING,
    (Phase.REFLECTING, Trigger.CONTINUE): Phase.EXECUTING,
    (Phase.REFLECTING, Trigger.REPLAN): Phase.PLANNING,
    (Phase.SYNTHESIZING, Trigger.SYNTHESIZED): Phase.DONE,
}

STEP_OF_PHASE: dict[Phase, StepKind] = {
    Phase.PLANNING: StepKind.PLAN,
    Phase.EXECUTING: StepKind.TASK,
    Phase.REFLECTING: StepKind.REFLECT,
    Phase.SYNTHESIZING: StepKind.SYNTHESIZE,
}

RUN_MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset(
        {
            RunStatus.RUNNING,
            RunStatus.PAUSED,
            RunStatus.SUCCEEDED,
            RunStatus.FAILED,
            RunStatus.CANCELLED,
        }
    ),
    RunStatus.RUNNING: frozenset(
        {
            RunStatus.WAITING,
            RunStatus.PAUSED,
            RunStatus.SUCCEEDED,
            RunStatus.FAILED,
            RunStatus.CANCELLED,
        }
    ),
    RunStatus.WAITING: frozenset(
        {
            RunStatus.RUNNING,
            RunStatus.PAUSED,
            RunStatus.SUCCEEDED,
            RunStatus.FAILED,
            RunStatus.CANCELLED,
        }
    ),
    RunStatus.PAUSED: frozenset(
        {
            RunStatus.QUEUED,
            RunStatus.RUNNING,
            RunStatus.WAITING,
            RunStatus.SUCCEEDED,
            RunStatus.FAILED,
            RunStatus.CANCELLED,
        }
    ),
    RunStatus.FAILED: frozenset({RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING}),
    RunStatus.SUCCEEDED: frozenset(),
    RunStatus.CANCELLED: frozenset(),
}
"""Only a resume leaves FAILED; nothing leaves SUCCEEDED and CANCELLED."""

TASK_MOVES: dict[T, frozenset[T]] = {
    T.PENDING: frozenset(
        {T.READY, T.RUNNING, T.BLOCKED, T.COMPLETED, T.FAILED, T.SKIPPED, T.CANCELLED}
    ),
    T.READY: frozenset({T.RUNNING, T.PENDING, T.FAILED, T.SKIPPED, T.CANCELLED}),
    T.RUNNING: frozenset(
        {T.COMPLETED, T.FAILED, T.READY, T.PENDING, T.BLOCKED, T.SKIPPED, T.CANCELLED}
    ),
    T.BLOCKED: frozenset(
        {T.COMPLETED, T.FAILED, T.READY, T.PENDING, T.BLOCKED, T.SKIPPED, T.CANCELLED}
    ),
    T.FAILED: frozenset({T.PENDING}),
    T.SKIPPED: frozenset({T.PENDING}),
    T.COMPLETED: frozenset({T.PENDING}),
    T.CANCELLED: frozenset({T.PENDING}),
}
"""A settled task returns to PENDING by a resume, a retry, or a new plan that redefines it."""

EXECUTION_MOVES: dict[E, frozenset[E]] = {
    E.READY: frozenset({E.LEASED, E.RELEASED, E.CANCELLED, E.TIMED_OUT}),
    E.LEASED: frozenset(
        {
            E.COMPLETED,
            E.FAILED,
            E.TIMED_OUT,
            E.LOST,
            E.RELEASED,
            E.CANCELLED,
            E.NEEDS_ANSWER,
            E.UNKNOWN_OUTCOME,
            E.SUSPENDED,
        }
    ),
    E.UNKNOWN_OUTCOME: frozenset(
        {
            E.COMPLETED,
            E.FAILED,
            E.TIMED_OUT,
            E.CANCELLED,
            E.RELEASED,
            E.NEEDS_ANSWER,
            E.SUSPENDED,
        }
    ),
    E.COMPLETED: frozenset(),
    E.FAILED: frozenset(),
    E.TIMED_OUT: frozenset(),
    E.LOST: frozenset(),
    E.RELEASED: frozenset(),
    E.CANCELLED: frozenset(),
    E.NEEDS_ANSWER: frozenset(),
    E.SUSPENDED: frozenset(),
}


def next_phase(phase: Phase, trigger: Trigger) -> Phase:
    """Return the phase to which `trigger` leads from `phase`.

    Raises:
        IllegalMove: there is no such move.
    """
    try:
        return PHASE_MOVES[phase, trigger]
    except KeyError:
        raise IllegalMove(f"no move from {phase} by {trigger.name}") from None

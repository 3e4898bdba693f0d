"""Slots of limited queues: the token of a lease in such a queue names the slot that it takes.

A slot is a number below the queue's limit, and belongs to one run at a time (`engine/slots.py`). Leases of the same
run may pass it on within one commit.
"""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.core.loop.state import RunState
from stepwell.core.port import Commit
from stepwell.core.records.model import Execution
from stepwell.core.records.states import ExecutionStatus

NO_SLOT = "NO_SLOT"
"""The reason why a step isn't leased whose slot another run took first."""

_LEASED = ExecutionStatus.LEASED


def with_slot(token: str, slot: int) -> str:
    """Return a lease's token that names its slot."""
    return f"{token}@{slot}"


def slot_of(token: str) -> int:
    """Return the slot that a lease's token names; -1: none."""
    _, _, slot = token.partition("@")
    return int(slot) if slot else -1


def used_slots(state: RunState) -> set[int]:
    """Return the slots that leases of a run take."""
    leased = [one.token for one in state.open.values() if one.execution.status is _LEASED]
    return {slot_of(token) for token in leased} - {-1}


def left_slots(state: RunState, executions: Iterable[Execution]) -> list[int]:
    """Return the slots of leases of a run that these executions no longer have."""
    left: list[int] = []
    for execution in executions:
        row = state.open.get(execution.execution_id)
        if row is not None and row.execution.status is _LEASED is not execution.status:
            left.append(slot_of(row.token))
    return [slot for slot in left if slot >= 0]


def freed_slots(state: RunState, commit: Commit) -> set[int]:
    """Return the slots that no lease takes any more once a commit is applied to a run's state."""
    left = left_slots(state, commit.executions)
    return set(left) - {slot_of(lease.token) for lease in commit.leases}

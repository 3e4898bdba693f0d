"""Detects iterations that repeat the same plan and the same results.

Each task that settles adds its result's digest to the iteration's digest, so the order doesn't
matter and the tasks need not be read at the end. A plan equal to the previous one keeps its digest,
because its tasks carry over with their results.
"""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from stepwell.core.records.model import Payload, Run, Tally, Task
from stepwell.core.records.states import StepKind, TaskStatus

_BITS = 63
_MASK = 2**_BITS - 1


def is_watched(run: Run) -> bool:
    """Return whether the run has a limit and can repeat iterations at all."""
    return run.spec.no_progress_limit > 0 and StepKind.REFLECT in run.stages


def settled(tally: Tally, task: Task, result: Payload | None) -> Tally:
    """Return the tally with a settled task's result added."""
    if task.status is TaskStatus.CANCELLED:
        return tally  # It has no result, because a later plan left it out.
    digest = (tally.digest + _digest_of(task, result)) & _MASK
    return replace(tally, digest=digest)


def _digest_of(task: Task, result: Payload | None) -> int:
    parts = hashlib.sha256(f"{task.task_id}\0{task.status}\0".encode())
    if task.status is TaskStatus.COMPLETED and result is not None:
        parts.update(b"\1" + result.media_type.encode() + b"\0" + result.data)
    elif task.status is TaskStatus.FAILED:
        parts.update(b"\2" + task.failure.kind.encode())
    return int.from_bytes(parts.digest()[:8], "big") & _MASK


def planned(tally: Tally, plan_fingerprint: str) -> Tally:
    """Return the tally at the start of this plan's tasks."""
    last_plan, _, last_digest = tally.fingerprint.partition(":")
    same = last_plan == plan_fingerprint
    return replace(tally, digest=int(last_digest, 16) if same and last_digest else 0)


def iteration_ended(tally: Tally, plan_fingerprint: str) -> Tally:
    """Return the tally after an iteration, which repeats the one before or is new."""
    fingerprint = f"{plan_fingerprint}:{tally.digest:x}"
    equal = tally.repeats + 1 if fingerprint == tally.fingerprint else 1
    return replace(tally, fingerprint=fingerprint, repeats=equal)


def is_over_limit(run: Run) -> bool:
    """Return whether enough equal iterations followed each other to pause the run."""
    return is_watched(run) and run.tally.repeats >= run.spec.no_progress_limit


def describe(run: Run, revision: int) -> str:
    """Return a message about the repeated iterations, for people."""
    return (
        f"{run.tally.repeats} iterations in a row ended with the same plan (revision {revision}) and the"
        " same results; resume it to let it go on"
    )

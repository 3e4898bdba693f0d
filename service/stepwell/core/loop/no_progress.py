"""Detects iterations that repeat the same plan and the same results, and two that take turns.

Each task that settles adds its result's digest to the iteration's digest, so the order doesn't
matter and the tasks need not be read at the end. A plan equal to one of the last two, all of whose tasks carry over
with their results, keeps its digest. An iteration's plan is the one at its end, with what its tasks added to it.
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


def planned(tally: Tally, plan_fingerprint: str, *, carries: bool) -> Tally:
    """Return the tally at the start of this plan, which `carries` all of its tasks over or runs some of them."""
    for ended in (tally.fingerprint, tally.before) if carries else ():
        plan, _, digest = ended.partition(":")
        if plan == plan_fingerprint:
            return replace(tally, digest=int(digest, 16))
    return replace(tally, digest=0)


def iteration_ended(tally: Tally, plan_fingerprint: str) -> Tally:
    """Return the tally after an iteration, which repeats the one before, or the one before that, or is new."""
    fingerprint = f"{plan_fingerprint}:{tally.digest:x}"
    equal = tally.repeats + 1 if fingerprint == tally.fingerprint else 1
    turns = tally.turns + 1 if fingerprint == tally.before else 0
    before = tally.fingerprint
    return replace(tally, fingerprint=fingerprint, before=before, repeats=equal, turns=turns)


def _rounds(tally: Tally) -> int:
    """Return how often in a row the last two iterations were made."""
    return 1 + tally.turns // 2


def is_over_limit(run: Run) -> bool:
    """Return whether enough equal iterations, or equal pairs of them, followed each other to pause the run."""
    rounds = max(run.tally.repeats, _rounds(run.tally))
    return is_watched(run) and rounds >= run.spec.no_progress_limit


def describe(run: Run, revision: int) -> str:
    """Return a message about the repeated iterations, for people."""
    if run.tally.repeats < run.spec.no_progress_limit:
        return (
            f"two plans took turns {_rounds(run.tally)} times (the second is revision {revision}) and ended with the"
            " same results each time; resume it to let it go on"
        )
    return (
        f"{run.tally.repeats} iterations in a row ended with the same plan (revision {revision}) and the"
        " same results; resume it to let it go on"
    )

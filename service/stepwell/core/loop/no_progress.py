"""Going in circles: iterations that end with the same plan and the same results as the one before.

Each task that settles adds a digest of what it came to to the iteration's, so that the order in which
they settle makes no difference and nothing has to walk them at the end. A plan that is the last one's
over again keeps that one's digest: its tasks carry over with their results.
"""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from stepwell.core.records.model import Payload, Run, Tally, Task
from stepwell.core.records.states import StepKind, TaskStatus

_BITS = 63
_MASK = 2**_BITS - 1


def is_watched(run: Run) -> bool:
    """Tell whether the run could go in circles, and wants to be told."""
    return run.spec.no_progress_limit > 0 and StepKind.REFLECT in run.stages


def settled(tally: Tally, task: Task, result: Payload | None) -> Tally:
    """Return the tally with what a task came to."""
    if task.status is TaskStatus.CANCELLED:
        return tally  # It came to nothing: a later plan left it out.
    digest = (tally.digest + _digest_of(task, result)) & _MASK
    return replace(tally, digest=digest)


def _digest_of(task: Task, result: Payload | None) -> int:
    parts = hashlib.blake2b(f"{task.task_id}\0{task.status}\0".encode(), digest_size=8)
    if task.status is TaskStatus.COMPLETED and result is not None:
        parts.update(b"\1" + result.media_type.encode() + b"\0" + result.data)
    elif task.status is TaskStatus.FAILED:
        parts.update(b"\2" + task.failure.kind.encode())
    return int.from_bytes(parts.digest(), "big") & _MASK


def planned(tally: Tally, plan_fingerprint: str) -> Tally:
    """Return the tally as it is when the tasks of this plan begin."""
    last_plan, _, last_digest = tally.fingerprint.partition(":")
    same = last_plan == plan_fingerprint
    return replace(tally, digest=int(last_digest, 16) if same and last_digest else 0)


def iteration_ended(tally: Tally, plan_fingerprint: str) -> Tally:
    """Return the tally once an iteration is over: one more that is alike, or the first of its kind."""
    fingerprint = f"{plan_fingerprint}:{tally.digest:x}"
    alike = tally.alike + 1 if fingerprint == tally.fingerprint else 1
    return replace(tally, fingerprint=fingerprint, alike=alike)


def is_circling(run: Run) -> bool:
    """Tell whether there were as many alike iterations in a row as the run is paused for."""
    return is_watched(run) and run.tally.alike >= run.spec.no_progress_limit


def words_of(run: Run, revision: int) -> str:
    """Return what people are told of it."""
    return (
        f"{run.tally.alike} iterations in a row ended with the same plan (revision {revision}) and the"
        " same results; resume it to let it go on"
    )

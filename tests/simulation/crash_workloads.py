"""The fourteen workloads whose every commit is a crash point.

All that their workers and callers do follows from the run and from the world outside, never from
the number of an attempt that a crash may have used up. Each thus has one end, whatever happens on
the way.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from stepwell.core.loop.children import ChildEnd
from stepwell.core.loop.occurrences import (
    AwaitChild,
    AwaitSignal,
    Completed,
    Failed,
    NeedsAnswer,
    Result,
    Suspended,
    SuspendedCall,
)
from stepwell.core.port import Assignment
from stepwell.core.records.model import Budget, Failure, Payload, RetryPolicy, TaskSpec
from stepwell.core.records.states import Decision, Effect, ExpiryAction, OnFailure, StepKind
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.workloads import (
    BOTH,
    Workload,
    chain,
    diamond,
    digest,
    fan,
    task,
    with_behaviours,
)

AT_ONCE = RetryPolicy(max_attempts=6, initial_backoff_ms=0)
POISON_ATTEMPTS_MAX = 3
SHORT_MS = 200
"""The lease of a step whose worker is lost on purpose, and the expiry of a question that has no answer."""


class CrashWorkload(Workload, frozen=True, kw_only=True):
    """A workload with what only a crash needs of it."""

    forks_at: str = ""
    """The task after whose completion a caller forks the run. Empty: no fork."""
    clumsy_answers: int = 0
    """So many attempts at the synthesis fail."""
    signals: bool = False
    """A caller sends the run the signal that a step waits for."""

    def perform(self, assignment: Assignment) -> Result:
        """Return what a worker makes of a step, AT_MOST_ONCE tasks and their RECONCILE excepted."""
        execution, spec = assignment.execution, assignment.task
        if execution.kind is StepKind.SYNTHESIZE and execution.attempt <= self.clumsy_answers:
            return Failed(failure=Failure(kind="Clumsy", message="once more"))
        if spec is None or execution.kind is not StepKind.TASK:
            return super().perform(assignment)
        if spec.type == "parent":
            left = waits_of(assignment)
            return Suspended(waits=left) if left else _by_ends(spec, assignment)
        if spec.type == "unheard":
            return NeedsAnswer(prompt="anybody?", expires_ms=SHORT_MS, on_expiry=ExpiryAction.DENY)
        if spec.type == "ask":
            if assignment.answer is None:
                return NeedsAnswer(prompt="go on?")
            text = assignment.answer.data.decode()
            return Completed(result=digest(spec.task_id + text, assignment.results))
        return super().perform(assignment)


def waits_of(assignment: Assignment) -> tuple[SuspendedCall, ...]:
    """Return what a parent's step still waits for: a signal, and the ends of two children."""
    return tuple(
        SuspendedCall(call=call, wait=wait)
        for call, wait in FAMILY.items()
        if call not in _ends(assignment)
    )


def _ends(assignment: Assignment) -> dict[str, bytes]:
    entries = assignment.journal.entries if assignment.journal is not None else ()
    return {one.entry.key: one.entry.value.data for one in entries if one.entry.value is not None}


def _by_ends(spec: TaskSpec, assignment: Assignment) -> Result:
    """Return a result in which the signal is, and the results of both children."""
    ends = _ends(assignment)
    parts = [ends.pop("signal"), *(_results(ends[call]) for call in sorted(ends))]
    return Completed(result=digest(f"{spec.task_id}{parts}", assignment.results))


def _results(data: bytes) -> bytes:
    """Return the results of a child; the ids of runs are others each time."""
    end = msgspec.json.decode(data, type=ChildEnd)
    return f"{end.status} {[(name, one.data) for name, one in end.tasks.items()]}".encode()


def effect_of(task_id: str) -> Payload:
    """Return the result of an AT_MOST_ONCE task, the same for each that checks it later."""
    return digest(task_id, ())


def at_once(*plans: tuple[TaskSpec, ...]) -> tuple[tuple[TaskSpec, ...], ...]:
    """Return the plans without any back-off: on a real clock it would be waited for."""
    return tuple(tuple(replace(spec, retry=AT_ONCE) for spec in plan) for plan in plans)


FLAKY = with_behaviours(Rng("flaky"), diamond("r"), "flaky:1", "flaky:2")

_UNHEARD = task("unheard", behaviour="unheard", on_failure=OnFailure.CONTINUE)
_LOST = {"effect": Effect.AT_MOST_ONCE, "heartbeat_timeout_ms": SHORT_MS}
_FEW = RetryPolicy(max_losses=POISON_ATTEMPTS_MAX - 1, initial_backoff_ms=0)
_BAD = task("poison", behaviour="poison", on_failure=OnFailure.CONTINUE)

FAMILY: dict[str, AwaitSignal | AwaitChild] = {
    "signal": AwaitSignal(name="note"),
    **{
        name: AwaitChild(
            goal=name,
            tasks=at_once(
                (
                    task(name, behaviour="done", effect=Effect.AT_MOST_ONCE, reconcile=True),
                    task("after", name),
                )
            )[0],
        )
        for name in ("left", "right")
    },
}
"""The calls of a parent's step."""
PLAIN = {
    "sequence": CrashWorkload(name="sequence", plans=at_once(chain("s", 4)), by_caller=True),
    "fan-out": CrashWorkload(name="fan-out", plans=at_once(fan("f", 4)), max_parallel=2),
    "diamond": CrashWorkload(name="diamond", plans=at_once(diamond("d")), stages=BOTH),
    "retries": CrashWorkload(name="retries", plans=at_once(FLAKY), by_caller=True),
    "re-plan": CrashWorkload(
        name="re-plan",
        plans=at_once(chain("a", 1), chain("b", 1), fan("c", 2)),
        decisions=(Decision.REPLAN, Decision.CONTINUE),
        stages=BOTH,
    ),
    "cancel": CrashWorkload(
        name="cancel",
        plans=at_once(
            (*chain("k", 2), task("end", "k1", behaviour="cancel"), task("never", "end"))
        ),
        by_caller=True,
    ),
}
"""The workloads that need nothing but a worker, and a caller who cancels one of them."""

ALL = {
    **PLAIN,
    "questions": CrashWorkload(
        name="questions",
        plans=at_once((task("asked", behaviour="ask"), _UNHEARD, task("join", "asked", "unheard"))),
        by_caller=True,
    ),
    "budget pause": CrashWorkload(
        name="budget pause",
        plans=at_once(chain("b", 5)),
        by_caller=True,
        budget=Budget(input_tokens=2, tasks=4),
    ),
    "fork": CrashWorkload(name="fork", plans=at_once(chain("p", 4)), by_caller=True, forks_at="p1"),
    # Of these effects one succeeds, while the workers of the others are lost: before it, after it, for good.
    "effects": CrashWorkload(
        name="effects",
        plans=at_once(
            (
                task("pay", behaviour="done", effect=Effect.AT_MOST_ONCE, reconcile=True),
                task("too-early", behaviour="lost before", reconcile=True, **_LOST),
                task("too-late", behaviour="lost after", reconcile=True, **_LOST),
                task("by-a-person", behaviour="lost after", **_LOST),
                task("end", "pay", "too-early", "too-late", "by-a-person"),
            )
        ),
        by_caller=True,
    ),
    "poison": CrashWorkload(
        name="poison",
        plans=((replace(_BAD, retry=_FEW), *at_once(chain("o", 3))[0]),),
        by_caller=True,
    ),
    "family": CrashWorkload(
        name="family",
        plans=at_once((task("parent", behaviour="parent"), task("end", "parent"))),
        by_caller=True,
        signals=True,
    ),
    "synthesis": CrashWorkload(
        name="synthesis",
        plans=at_once(fan("y", 2)),
        stages=(StepKind.SYNTHESIZE,),
        bad_plans=1,
        clumsy_answers=1,
    ),
    # It adds tasks in two commits, one after the other: of these names none adds a cycle, and none is slow.
    "growth": CrashWorkload(
        name="growth",
        plans=at_once((task("find", behaviour="grow:2"), task("merge", "find", after_growth=True))),
        by_caller=True,
    ),
}

"""The twelve workloads whose every commit is a crash point.

All that their workers and callers do follows from the run and from the world outside, never from the
number of an attempt that a crash may have used up: so each has one end, whatever happens on the way.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop.signals import Completed, Failed, NeedsInput, Result
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

    def perform(self, assignment: Assignment) -> Result:
        """Return what a worker makes of a step, AT_MOST_ONCE tasks and their RECONCILE excepted."""
        execution, spec = assignment.execution, assignment.task
        if execution.kind is StepKind.SYNTHESIZE and execution.attempt <= self.clumsy_answers:
            return Failed(failure=Failure(kind="Clumsy", message="once more"))
        if spec is None or execution.kind is not StepKind.TASK:
            return super().perform(assignment)
        if spec.type == "unheard":
            return NeedsInput(prompt="anybody?", expires_ms=SHORT_MS, on_expiry=ExpiryAction.DENY)
        if spec.type == "ask":
            if assignment.answer is None:
                return NeedsInput(prompt="go on?")
            text = assignment.answer.data.decode()
            return Completed(result=digest(spec.task_id + text, assignment.results))
        return super().perform(assignment)


def effect_of(task_id: str) -> Payload:
    """Return the result of an AT_MOST_ONCE task, the same for each that checks it later."""
    return digest(task_id, ())


def at_once(*plans: tuple[TaskSpec, ...]) -> tuple[tuple[TaskSpec, ...], ...]:
    """Return the plans without any back-off: on a real clock it would be waited for."""
    return tuple(tuple(replace(spec, retry=AT_ONCE) for spec in plan) for plan in plans)


FLAKY = with_behaviours(Rng("flaky"), diamond("r"), "flaky:1", "flaky:2")

PLAIN: dict[str, Workload] = {
    "sequence": Workload(name="sequence", plans=at_once(chain("s", 4)), by_caller=True),
    "fan-out": Workload(name="fan-out", plans=at_once(fan("f", 4)), max_parallel=2),
    "diamond": Workload(name="diamond", plans=at_once(diamond("d")), stages=BOTH),
    "retries": Workload(name="retries", plans=at_once(FLAKY), by_caller=True),
    "re-plan": Workload(
        name="re-plan",
        plans=at_once(chain("a", 1), chain("b", 1), fan("c", 2)),
        decisions=(Decision.REPLAN, Decision.CONTINUE),
        stages=BOTH,
    ),
    "cancel": Workload(
        name="cancel",
        plans=at_once(
            (*chain("k", 2), task("end", "k1", behaviour="cancel"), task("never", "end"))
        ),
        by_caller=True,
    ),
}
"""The workloads that need nothing but a worker, and a caller who cancels one of them."""


def _inputs() -> Workload:
    unheard = task("unheard", behaviour="unheard", on_failure=OnFailure.CONTINUE)
    plan = (task("asked", behaviour="ask"), unheard, task("join", "asked", "unheard"))
    return CrashWorkload(name="inputs", plans=at_once(plan), by_caller=True)


def _budget_pause() -> Workload:
    budget = Budget(input_tokens=2, tasks=4)
    plans = at_once(chain("b", 5))
    return CrashWorkload(name="budget pause", plans=plans, by_caller=True, budget=budget)


def _fork() -> Workload:
    return CrashWorkload(name="fork", plans=at_once(chain("p", 4)), by_caller=True, forks_at="p1")


def _effects() -> Workload:
    """Return effects of which one succeeds, while the workers of the others are lost: before it, after it, for good."""
    once = {"effect": Effect.AT_MOST_ONCE, "heartbeat_timeout_ms": SHORT_MS}
    plan = (
        task("pay", behaviour="done", effect=Effect.AT_MOST_ONCE, reconcile=True),
        task("too-early", behaviour="lost before", reconcile=True, **once),
        task("too-late", behaviour="lost after", reconcile=True, **once),
        task("by-a-person", behaviour="lost after", **once),
        task("end", "pay", "too-early", "too-late", "by-a-person"),
    )
    return CrashWorkload(name="effects", plans=at_once(plan), by_caller=True)


def _poison() -> Workload:
    few = RetryPolicy(max_attempts=POISON_ATTEMPTS_MAX, initial_backoff_ms=0)
    bad = task("poison", behaviour="poison", on_failure=OnFailure.CONTINUE)
    (plan,) = at_once((bad, *chain("o", 3)))
    plans = ((replace(plan[0], retry=few), *plan[1:]),)
    return CrashWorkload(name="poison", plans=plans, by_caller=True)


def _synthesis() -> Workload:
    return CrashWorkload(
        name="synthesis",
        plans=at_once(fan("y", 2)),
        stages=(StepKind.SYNTHESIZE,),
        bad_plans=1,
        clumsy_answers=1,
    )


ALL: dict[str, Workload] = {
    **PLAIN,
    "inputs": _inputs(),
    "budget pause": _budget_pause(),
    "fork": _fork(),
    "effects": _effects(),
    "poison": _poison(),
    "synthesis": _synthesis(),
}

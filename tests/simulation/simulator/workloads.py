"""Workloads of the simulated runs: plans, decisions and behaviours of tasks, all drawn by the seed.

A task's behaviour is its spec's `type`, so that its worker needs nothing else: `flaky:2` fails
twice, `poison` kills its worker each time, `ask` needs a person's answer first (`ask:0` waits for
it without end), `reject` fails for good, `slow` takes longer than a lease, `meet` is done when the
run's planner is, `calls:5` makes five calls within it, `waits:3` three that wait (waiting.py), `grow:2` adds
tasks, which add tasks in their turn. A result is a digest of the task and of the
results that it builds on, so its bytes tell whether every task got what it depends on.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stepwell.core.loop.occurrences import (
    Completed,
    Failed,
    NeedsAnswer,
    Planned,
    Reconciled,
    Reflected,
    Result,
    Start,
    StartInThread,
)
from stepwell.core.port import Assignment, DependencyResult
from stepwell.core.records.model import (
    Budget,
    Failure,
    Payload,
    Question,
    Record,
    RetryPolicy,
    RunSpec,
    TaskSpec,
)
from stepwell.core.records.states import (
    Decision,
    Effect,
    ExpiryAction,
    Finding,
    OnBusy,
    OnFailure,
    StepKind,
)
from tests.simulation.simulator.growth import added_by, gathering, group
from tests.simulation.simulator.rng import Rng

BOTH = (StepKind.REFLECT, StepKind.SYNTHESIZE)
QUICK = RetryPolicy(max_attempts=5, initial_backoff_ms=50, max_backoff_ms=1_000)
SIGNALS = ("note", "stop")
"""The names of the signals for which tasks wait."""
CYCLE = (TaskSpec(task_id="a", depends_on=("b",)), TaskSpec(task_id="b", depends_on=("a",)))

Plans = tuple[tuple[TaskSpec, ...], ...]


class Workload(Record, frozen=True, kw_only=True):
    """One run: the command that starts it and the results of its workers."""

    name: str
    plans: Plans
    """One for each revision."""
    decisions: tuple[Decision, ...] = ()
    """One for each iteration; then FINISH."""
    stages: tuple[StepKind, ...] = ()
    by_caller: bool = False
    """The first plan comes with the start."""
    max_parallel: int = 4
    max_iterations: int = 4
    bad_plans: int = 0
    """So many attempts at planning bring a plan with a cycle."""
    start_delay_ms: int = 0
    poison: bool = False
    replans: float = 0.0
    """The probability that an answer asks for another plan."""
    budget: Budget = Budget()
    no_progress_limit: int = 0
    waits: bool = False
    """It gets signals, and may have child runs. It isn't forked."""
    thread: str = ""
    """The thread in which it is started."""
    on_busy: OnBusy = OnBusy.ENQUEUE
    reflect_on: tuple[str, ...] = ()
    """Names of signals that make it reflect before its tasks are settled."""

    def start(self, tenant_id: str, run_id: str) -> Start | StartInThread:
        """Return the command that brings it to life."""
        spec = RunSpec(
            tenant_id=tenant_id,
            run_id=run_id,
            # No two signals of a run are equal.
            goal=f"{self.name} {run_id}" if self.on_busy is OnBusy.STEER else self.name,
            max_iterations=self.max_iterations,
            max_parallel=self.max_parallel,
            step_retry=QUICK,
            start_delay_ms=self.start_delay_ms,
            budget=self.budget,
            no_progress_limit=self.no_progress_limit,
            request_fingerprint=f"start {run_id}",
            thread_id=self.thread,
            reflect_on=self.reflect_on,
        )
        run_input = Payload(data=self.name.encode())
        plan, stages = (self.plans[0], self.stages) if self.by_caller else (None, ())
        if self.thread:
            return StartInThread(
                spec=spec, input=run_input, plan=plan, stages=stages, on_busy=self.on_busy
            )
        return Start(spec=spec, input=run_input, plan=plan, stages=stages)

    def perform(self, assignment: Assignment) -> Result:
        """Return what a worker makes of a step. The same attempt always comes to the same."""
        execution = assignment.execution
        revision = assignment.run.plan_revision
        if execution.kind is StepKind.PLAN:
            if execution.attempt <= self.bad_plans:
                return Planned(tasks=CYCLE)
            return Planned(tasks=self.plans[min(revision, len(self.plans) - 1)])
        if execution.kind is StepKind.REFLECT:
            index = execution.iteration - 1
            if self.reflect_on and execution.attempt == 1 and revision % 2:
                # It goes on with the plan. Where tasks are settled that is refused: it is tried again.
                return Reflected(decision=Decision.CONTINUE)
            decision = self.decisions[index] if index < len(self.decisions) else Decision.FINISH
            if decision is Decision.CONTINUE and revision < len(self.plans):
                return Reflected(decision=decision, tasks=self.plans[revision])
            if decision is Decision.CONTINUE:
                decision = Decision.FINISH
            return Reflected(decision=decision)
        if assignment.task is not None and execution.kind is StepKind.RECONCILE:
            return reconcile(assignment.task, assignment)
        if assignment.task is None:
            return Completed(result=digest("answer", assignment.results))
        return perform_task(assignment.task, assignment)


def perform_task(task: TaskSpec, assignment: Assignment) -> Result:
    """Return what a worker makes of a task, by its behaviour."""
    behaviour, _, number = task.type.partition(":")
    attempt = assignment.execution.attempt
    if behaviour in ("flaky", "talk") and attempt <= int(number or 0):
        return Failed(failure=Failure(kind="Flaky", message=f"attempt {attempt}"))
    if behaviour == "reject":
        return Failed(failure=Failure(kind="Reject", message="never", retryable=False))
    if behaviour == "ask" and assignment.answered is None:
        expires_ms = int(number or 4_000)
        return NeedsAnswer(prompt="go on?", expires_ms=expires_ms, on_expiry=ExpiryAction.DENY)
    result = digest(task.task_id + task.prompt, assignment.results)
    if behaviour == "grow":
        return Completed(
            result=result, tasks=added_by(task, int(number), CYCLE if attempt == 1 else ())
        )
    return Completed(result=result)


def answer_to(question: Question) -> Payload:
    """Return what a person answers: no two requests are answered alike."""
    return Payload(data=question.question_id.encode(), media_type="text/plain")


def reconcile(task: TaskSpec, assignment: Assignment) -> Result:
    """Return the finding of a RECONCILE step, by the task and the number of the attempt."""
    draw = zlib.crc32(f"{task.task_id}#{assignment.execution.attempt}".encode()) % 4
    if draw == 0:
        return Failed(failure=Failure(kind="Flaky", message="nobody answers"))
    if draw == 1:
        return Reconciled(finding=Finding.NOT_DONE)
    if draw == 2:
        return Reconciled(finding=Finding.UNDECIDED)
    result = digest(task.task_id + task.prompt, assignment.results)
    return Reconciled(finding=Finding.DONE, result=result)


def digest(name: str, results: Sequence[DependencyResult]) -> Payload:
    """Return the bytes that a step of this name makes of these results."""
    return digest_of(name, [(one.task_id, one.payload) for one in results])


def digest_of(name: str, results: Sequence[tuple[str, Payload | None]]) -> Payload:
    """Return the same, of results by their tasks' ids."""
    whole = hashlib.blake2b(name.encode(), digest_size=8)
    for task_id, payload in sorted(results, key=lambda one: one[0]):
        data = payload.data if payload is not None else b"-"
        whole.update(task_id.encode() + b"=" + data + b";")
    return Payload(data=whole.hexdigest().encode())


def task(task_id: str, *depends_on: str, behaviour: str = "", **fields: object) -> TaskSpec:
    """Return a task with a behaviour."""
    base = TaskSpec(task_id=task_id, depends_on=depends_on, type=behaviour, retry=QUICK)
    return replace(base, **fields)


def chain(prefix: str, count: int, **fields: object) -> tuple[TaskSpec, ...]:
    """Return tasks one after another."""
    names = [f"{prefix}{index}" for index in range(count)]
    before = [(), *((name,) for name in names)]
    return tuple(task(n, *b, **fields) for n, b in zip(names, before, strict=False))  # pyright: ignore[reportArgumentType] - fields by name


def fan(prefix: str, count: int) -> tuple[TaskSpec, ...]:
    """Return tasks beside one another, and one that builds on all of them."""
    names = tuple(f"{prefix}{index}" for index in range(count))
    return (*(task(name) for name in names), task(f"{prefix}end", *names))


def diamond(prefix: str) -> tuple[TaskSpec, ...]:
    """Return one task, two upon it, and one upon these two."""
    a, b, c, d = (prefix + letter for letter in "abcd")
    return (task(a), task(b, a), task(c, a), task(d, b, c))


def with_behaviours(rng: Rng, plan: Sequence[TaskSpec], *behaviours: str) -> tuple[TaskSpec, ...]:
    """Return the plan with each behaviour assigned to one of its tasks."""
    chosen = rng.sample(range(len(plan)), len(behaviours))
    assigned = dict(zip(chosen, behaviours, strict=False))
    return tuple(
        replace(one, type=assigned[index]) if index in assigned else one
        for index, one in enumerate(plan)
    )


def _sequence(rng: Rng) -> Workload:
    plan = chain("s", rng.between(3, 6))
    return Workload(name="sequence", plans=(plan,), by_caller=True)


def _fan_out(rng: Rng) -> Workload:
    plan = fan("f", rng.between(3, 7))
    return Workload(name="fan-out", plans=(plan,), max_parallel=rng.between(2, 4))


def _diamond(rng: Rng) -> Workload:
    stages = rng.pick([(), BOTH])
    return Workload(name="diamond", plans=(diamond("d"),), stages=stages, by_caller=True)


def _retries(rng: Rng) -> Workload:
    plan = with_behaviours(rng, chain("r", 4), "flaky:1", "flaky:2")
    return Workload(name="retries", plans=(plan,), stages=BOTH, bad_plans=rng.between(0, 2))


def _goes_on(rng: Rng) -> Workload:
    first, again = diamond("g"), rng.pick([Decision.CONTINUE, Decision.REPLAN])
    # The second plan names an old task otherwise than before, and one as it was.
    second = (task("ga", prompt="anew"), first[1], *chain("h", 2))
    decisions = (again, rng.pick(list(Decision)))
    plans = (first, second, chain("i", 3))
    return Workload(name="goes on", plans=plans, decisions=decisions, stages=BOTH)


def _skips(rng: Rng) -> Workload:
    policy = rng.pick([OnFailure.SKIP_DEPENDENTS, OnFailure.CONTINUE])
    bad = task("bad", behaviour=rng.pick(["reject", "flaky:9"]), on_failure=policy)
    plan = (bad, task("after", "bad"), task("last", "after"), *chain("k", 3))
    return Workload(name="skips dependents", plans=(plan,), by_caller=rng.happens(0.5))


def _fails(rng: Rng) -> Workload:
    plan = with_behaviours(rng, fan("x", 3), rng.pick(["reject", "flaky:9"]))
    return Workload(name="fails", plans=(plan,), by_caller=True)


def _once(rng: Rng) -> Workload:
    plan = chain("o", rng.between(2, 4), effect=Effect.AT_MOST_ONCE)
    return Workload(name="at most once", plans=(plan,), by_caller=True)


def _reconciled(rng: Rng) -> Workload:
    names = [f"u{index}" for index in range(rng.between(2, 4))]
    plan = tuple(task(name, effect=Effect.AT_MOST_ONCE, reconcile=True) for name in names)
    slow = with_behaviours(rng, plan, "slow", "slow")
    return Workload(name="found out", plans=((*slow, task("uend", *names)),), by_caller=True)


def keyed(rng: Rng) -> Workload:
    """Several tasks of a run have the same key, and other runs of the tenant have it, too."""
    behaviour = rng.pick(["flaky:1", "ask", "slow", "reject"])
    effect = rng.pick([Effect.IDEMPOTENT, Effect.IDEMPOTENT, Effect.AT_MOST_ONCE])
    policy = OnFailure.CONTINUE if behaviour == "reject" else OnFailure.FAIL_RUN
    total_ms = 20_000 if rng.happens(0.1) else 0
    plan = with_behaviours(rng, fan("y", rng.between(3, 6)), behaviour)
    keys = ("one", "one", "two")
    tasks = tuple(
        one
        if one.depends_on
        else replace(
            one,
            idempotency_key=keys[index % len(keys)],
            effect=effect,
            on_failure=policy,
            total_timeout_ms=total_ms,
        )
        for index, one in enumerate(plan)
    )
    by_caller, places = rng.happens(0.7), rng.pick([1, 4])
    return Workload(name="keys", plans=(tasks,), by_caller=by_caller, max_parallel=places)


def _poison(rng: Rng) -> Workload:
    few = RetryPolicy(max_losses=rng.pick([1, 10]), initial_backoff_ms=10)
    policy = rng.pick([OnFailure.CONTINUE, OnFailure.FAIL_RUN])
    bad = task("poison", behaviour="poison", retry=few, on_failure=policy)
    plans = ((bad, *chain("p", 2)),)
    return Workload(name="poison", plans=plans, by_caller=True, poison=True)


def _asks(rng: Rng) -> Workload:
    plan = with_behaviours(rng, diamond("q"), "ask")
    return Workload(name="asks", plans=(plan,), by_caller=True)


def _asks_to_plan_again(rng: Rng) -> Workload:
    first = with_behaviours(rng, fan("n", rng.between(3, 5)), "ask", "ask", "slow")
    # Another plan keeps one task, redefines one and leaves the others out.
    second = (first[0], task("n1", prompt="anew", behaviour="ask"), *chain("m", 2, behaviour="ask"))
    return Workload(
        name="asks to plan again",
        plans=(first, second, (*second[:2], *diamond("o"))),
        by_caller=rng.happens(0.5),
        stages=rng.pick([(), BOTH]),
        max_parallel=rng.between(1, 4),
        replans=0.3,
    )


def plans_over_work(rng: Rng) -> Workload:
    """Another plan comes while its tasks are being worked at, and redefines those in every way."""
    busy = ("p1", "p2", "p3")
    last = task("pend", "p0", *busy)
    first = (task("p0", behaviour="ask:0"), *(task(n, behaviour="slow") for n in busy), last)
    quick = tuple(task(n) for n in busy)
    waits = (task("new", behaviour="slow"), task("p0", behaviour="ask:0"))
    second = rng.pick(
        [
            # Another prompt, another behaviour, and what they now depend on is not done.
            (*waits, *(task(n, "new", prompt="anew") for n in busy), last),
            (*waits, *(task(n, "new") for n in busy), last),
            (*waits, quick[0], *(task(n, "p1", prompt="anew") for n in busy[1:]), last),
            # They stay as they are, and what builds on them waits for more.
            (*first[1:4], *waits, task("pend", "new", *busy)),
        ]
    )
    return Workload(
        name="plans over work",
        plans=(first, second, (*second[:-1], task("pend", *busy, prompt="at last"))),
        by_caller=True,
        stages=rng.pick([(), BOTH]),
        max_parallel=rng.between(3, 5),
        replans=0.9,
    )


def plan_meets_outcomes(rng: Rng) -> Workload:
    """Another plan comes in one moment with outcomes of the old one's tasks, and changes who waits for whom."""
    numbers = range(rng.between(2, 4))
    meet = tuple(task(f"e{n}", behaviour="meet") for n in numbers)
    after = tuple(task(f"f{n}", f"e{n}") for n in numbers)
    again = tuple(task(f"f{n}", "late") for n in numbers)
    late = task("late", behaviour=rng.pick(["slow", "", "meet"]))
    # What was to follow an old task waits for a new one, which has not begun.
    second = (task("ea", behaviour="ask:0"), late, *again)
    return Workload(
        name="a plan meets outcomes",
        plans=((task("ea", behaviour="ask:0"), *meet, *after), second, (*meet, *after, late)),
        by_caller=True,
        max_parallel=5,
        replans=0.9,
    )


def _slow(rng: Rng) -> Workload:
    plan = with_behaviours(rng, fan("w", 3), "slow", "slow")
    patient = tuple(replace(one, total_timeout_ms=60_000) for one in plan)
    timed = tuple(replace(one, attempt_timeout_ms=2_500) for one in plan)
    delay_ms = rng.pick([0, 700])
    plans = (rng.pick([plan, patient, timed]),)
    return Workload(name="slow", plans=plans, by_caller=True, start_delay_ms=delay_ms)


def _budgeted(rng: Rng) -> Workload:
    part = rng.pick(["input_tokens", "tasks", "wall_ms", "iterations"])
    limit = {"input_tokens": 3, "tasks": 2, "wall_ms": 1_500, "iterations": 1}[part]
    plans = (with_behaviours(rng, fan("b", 3), "flaky:1"), chain("c", 2))
    return Workload(
        name=f"a budget of {part}",
        plans=plans,
        decisions=(Decision.CONTINUE,),
        stages=BOTH,
        budget=Budget(**{part: limit}),
    )


def _circles(rng: Rng) -> Workload:
    again = rng.pick([Decision.REPLAN, Decision.CONTINUE])
    plan = chain("z", 2)
    return Workload(
        name="goes in circles",
        plans=(plan,) * 6,
        decisions=(again,) * 5,
        stages=BOTH,
        max_iterations=6,
        no_progress_limit=rng.between(1, 3),
    )


def _conversing(rng: Rng) -> Workload:
    again = rng.pick([Decision.CONTINUE, Decision.FINISH])
    first = with_behaviours(rng, diamond("t"), "talk", "talk:1", "talk:2", "talk")
    # The second plan names an old task otherwise than before: it begins another conversation.
    second = (
        task("ta", prompt="anew", behaviour="talk:9"),
        first[1],
        *chain("v", 2, behaviour="talk"),
    )
    return Workload(
        name="has_conversation",
        plans=(first, second),
        decisions=(again,),
        stages=BOTH,
        max_parallel=rng.between(1, 4),
    )


def calling(rng: Rng) -> Workload:
    """Tasks make calls within them, which are recorded."""
    number = rng.between(3, 6)
    names = [f"j{index}" for index in range(rng.between(1, 3))]
    effects = [Effect.IDEMPOTENT, Effect.IDEMPOTENT, Effect.AT_MOST_ONCE]
    plan = tuple(
        task(name, behaviour=f"calls:{number}", effect=rng.pick(effects)) for name in names
    )
    last = task("jend", *names, behaviour="calls:2")
    return Workload(
        name="calls", plans=((*plan, last),), by_caller=rng.happens(0.7), max_parallel=3
    )


def growing(rng: Rng) -> Workload:
    """Tasks add tasks, others wait for these, and a person may ask for another plan meanwhile."""
    names = [f"l{index}" for index in range(rng.between(1, 2))]
    grow = tuple(task(name, behaviour=f"grow:{rng.between(1, 2)}") for name in names)
    asks = task("lask", behaviour=rng.pick(["ask", ""]))
    merge = task("lend", *names, after_growth=True)
    if rng.happens(0.5):
        merge = gathering(rng, merge)
        grow += group(rng, grow[0])
    plan = (*grow, asks, merge, task("lnext", names[0]))
    return Workload(
        name="grows",
        plans=(plan, (*plan[:-1], task("lnext", names[0], prompt="anew"))),
        by_caller=rng.happens(0.5),
        stages=rng.pick([(), BOTH]),
        max_parallel=rng.between(2, 4),
        replans=0.3,
    )


CHILD = Workload(name="child", plans=((task("k0", behaviour="waits:1"),),), waits=True)
"""A child run: where its parent gives it no plan, this is the one that it makes."""

KINDS: tuple[Callable[[Rng], Workload], ...] = (
    _conversing,
    _sequence,
    _fan_out,
    _diamond,
    _retries,
    _goes_on,
    _skips,
    _fails,
    _once,
    _reconciled,
    keyed,
    _poison,
    _asks,
    _asks_to_plan_again,
    plans_over_work,
    *(plan_meets_outcomes,) * 2,
    _slow,
    _budgeted,
    _circles,
)


def draw(rng: Rng) -> Workload:
    """Return one of them, or one that waits, grows or makes calls."""
    # A stream of its own: what else a seed plays stays as it is.
    if rng.stream("grows").happens(0.08):
        return growing(rng)
    return calling(rng) if rng.stream("calls").happens(0.14) else rng.pick(KINDS)(rng)

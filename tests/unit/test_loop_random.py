"""Random plans and outcomes through the loop; the world checks the invariants at every step.

Hypothesis draws one number per step and shrinks the list of them; what a number means is drawn from
it, so that a long history costs a few draws.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.core.loop.signals import (
    Answer,
    Begin,
    Cancel,
    Completed,
    Delivery,
    Failed,
    GrantLease,
    LeaseExpired,
    NeedsInput,
    Pause,
    Planned,
    RaiseBudget,
    Reconciled,
    Reflected,
    Released,
    Resolve,
    Result,
    Resume,
    RetryTask,
    Signal,
    SkipTask,
    Stop,
    TimerDue,
)
from stepwell.core.records.model import Budget, Failure, Payload, RetryPolicy, TaskSpec, Usage
from stepwell.core.records.states import (
    Decision,
    Effect,
    ExpiryAction,
    Finding,
    OnFailure,
    RunStatus,
    StepKind,
)
from tests.unit.loop_world import BOTH, YES, World


def plans(rnd: Random, prefix: str = "t") -> tuple[TaskSpec, ...]:
    """Return a sound plan: tasks depend on earlier ones only."""
    tasks: list[TaskSpec] = []
    for index in range(rnd.randint(1, 7)):
        earlier = [task.task_id for task in tasks]
        depends_on = rnd.sample(earlier, rnd.randint(0, len(earlier)))
        tasks.append(
            TaskSpec(
                task_id=f"{prefix}{index}",
                depends_on=tuple(depends_on),
                on_failure=rnd.choice(list(OnFailure)),
                effect=rnd.choice(list(Effect)),
                reconcile=rnd.random() < 0.5,
                idempotency_key=rnd.choice(["", "", "k", "l"]),
                total_timeout_ms=rnd.choice([0, 0, 1000]),
                retry=RetryPolicy(
                    max_attempts=rnd.randint(1, 3), initial_backoff_ms=rnd.choice([0, 100])
                ),
            )
        )
    return tuple(tasks)


def budgets(rnd: Random) -> Budget:
    """Return a budget, or none; a small one, so that it is used up."""
    if rnd.random() < 0.5:
        return Budget()
    return Budget(
        input_tokens=rnd.choice([0, 2, 6]),
        tasks=rnd.choice([0, 1, 3]),
        wall_ms=rnd.choice([0, 0, 20]),
        iterations=rnd.choice([0, 0, 1]),
    )


BAD_PLAN = (TaskSpec(task_id="a", depends_on=("b",)), TaskSpec(task_id="b", depends_on=("a",)))


def results(rnd: Random, kind: StepKind) -> Result:
    """Return something that a worker could say of a step of this kind."""
    good: dict[StepKind, list[Result]] = {
        StepKind.PLAN: [Planned(tasks=plans(rnd)), Planned(tasks=BAD_PLAN)],
        StepKind.TASK: [
            Completed(result=Payload(data=b"1")),
            Completed(),
            NeedsInput(prompt="?", expires_ms=5, on_expiry=rnd.choice(list(ExpiryAction))),
        ],
        StepKind.REFLECT: [
            Reflected(decision=Decision.FINISH),
            Reflected(decision=Decision.CONTINUE, tasks=plans(rnd, rnd.choice("tu"))),
            Reflected(decision=Decision.CONTINUE, tasks=BAD_PLAN),
            Reflected(decision=Decision.REPLAN),
        ],
        StepKind.SYNTHESIZE: [Completed(result=Payload(data=b"{}"))],
        StepKind.RECONCILE: [Reconciled(finding=finding) for finding in Finding],
    }
    bad: list[Result] = [
        Failed(failure=Failure(kind="Boom", retryable=rnd.random() < 0.7)),
        Released(),
        Planned(tasks=()),
    ]
    return rnd.choice(good[kind] * 3 + bad)


MOVES = ["lease"] * 5 + ["deliver"] * 8 + ["stale", "expire", "expire", "timer", "pause"]
MOVES += ["resume", "resume", "begin", "answer", "cancel", "retry", "skip", "stop", "raise"]
MOVES += ["resolve"]


def one_input(rnd: Random, world: World) -> Signal | None:
    """Return something that a worker, the clock or a person could do now."""
    leased, state = world.leased(), world.state
    match rnd.choice(MOVES):
        case "lease" if ready := world.ready():
            stages = tuple(s for s in BOTH if rnd.random() < 0.6)
            return world.take(rnd.choice(ready), stages=stages)
        case "deliver" if state.open:
            row = rnd.choice(list(state.open.values()))
            return Delivery(
                execution_id=row.execution.execution_id,
                token=row.token,
                result=results(rnd, row.execution.kind),
                usage=Usage(input_tokens=1),
            )
        case "stale" if world.executions:
            name = rnd.choice(sorted(world.executions))
            return Delivery(execution_id=name, token="stale", result=Completed())
        case "begin" if leased:
            name = rnd.choice(leased)
            return Begin(execution_id=name, token=world.held(name).token)
        case "expire" if leased:
            name, timed_out = rnd.choice(leased), rnd.random() < 0.5
            token = world.held(name).token
            return LeaseExpired(execution_id=name, token=token, timed_out=timed_out)
        case "timer" if world.timers:
            return TimerDue(name=rnd.choice(sorted(world.timers)))
        case kind:
            return one_command(rnd, world, kind)


def one_command(rnd: Random, world: World, kind: str) -> Signal | None:
    """Return something that a person could say now."""
    state = world.state
    match kind:
        case "answer" if state.inputs:
            input_id, replan = rnd.choice(sorted(state.inputs)), rnd.random() < 0.3
            return Answer(input_id=input_id, payload=YES, replan=replan, reason="no")
        case "pause" if rnd.random() < 0.4:
            return Pause()
        case "resume":
            return Resume(retry_failed=rnd.random() < 0.7)
        case "cancel" if rnd.random() < 0.1:
            return Cancel()
        case "resolve" if world.executions:
            finding = rnd.choice([Finding.DONE, Finding.NOT_DONE])
            return Resolve(execution_id=rnd.choice(sorted(world.executions)), finding=finding)
        case "retry" if state.tasks:
            return RetryTask(task_id=rnd.choice(sorted(state.tasks)))
        case "skip" if state.tasks:
            task_id = rnd.choice(sorted(state.tasks))
            return SkipTask(task_id=task_id, skip_dependents=rnd.random() < 0.5)
        case "stop" if rnd.random() < 0.2:
            return Stop()
        case "raise":
            steps = {"input_tokens": 3, "tasks": 1, "wall_ms": 2, "iterations": 1}
            limits = {name: getattr(world.run.budget, name) for name in steps}
            more = {name: limit and limit + steps[name] for name, limit in limits.items()}
            return RaiseBudget(budget=Budget(**more), resume=rnd.random() < 0.8)
        case _:
            return None


NUMBERS = st.integers(0, 2**32)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(NUMBERS, st.lists(NUMBERS, min_size=30, max_size=90))
def test_S_invariants_hold_whatever_workers_the_clock_and_people_do(
    first: int, steps: list[int]
) -> None:
    rnd = Random(first)
    world = World(seed=first)
    with_plan = rnd.random() < 0.5
    world.start(
        plan=plans(rnd) if with_plan else None,
        stages=(StepKind.REFLECT,) if with_plan and rnd.random() < 0.5 else (),
        max_parallel=rnd.randint(1, 3),
        max_iterations=rnd.randint(1, 3),
        start_delay_ms=rnd.choice([0, 0, 50]),
        budget=budgets(rnd),
        no_progress_limit=rnd.choice([0, 1, 2]),
    )
    for number in steps:
        rnd = Random(number)
        batch = [one_input(rnd, world) for _ in range(rnd.choice([1, 1, 1, 2]))]
        inputs = [one for one in batch if one is not None]
        if sum(isinstance(one, GrantLease) for one in inputs) < 2 and inputs:
            world.do(*inputs, eager=rnd.random() < 0.4)
        if world.run.status in (RunStatus.SUCCEEDED, RunStatus.CANCELLED):
            break


@settings(max_examples=100, deadline=None, derandomize=True)
@given(NUMBERS)
def test_L1_every_run_ends_once_its_steps_do(seed: int) -> None:
    rnd = Random(seed)
    world = World()
    world.start(max_parallel=rnd.randint(1, 4), max_iterations=rnd.randint(1, 3))
    for _ in range(500):
        if world.run.ended:
            break
        for name in world.ready():
            world.lease(name)
        name = rnd.choice(world.leased())
        row = world.held(name)
        result: Result
        if row.execution.kind is StepKind.PLAN:
            result = Planned(tasks=plans(rnd, f"i{world.run.iteration}-"))
        elif row.execution.kind is StepKind.REFLECT:
            tasks = plans(rnd, f"r{world.run.iteration}-")
            result = Reflected(decision=rnd.choice(list(Decision)), tasks=tasks)
        else:
            result = rnd.choice([Completed(), Failed(failure=Failure(kind="x"))])
        world.do(Delivery(execution_id=name, token=row.token, result=result))
    assert world.run.ended

"""What follows by itself once the inputs are taken: phases move on, steps are offered.

`settle` is the end of every transition. It may be called on any state and does nothing where there is
nothing to do; that is why a resume needs no code of its own.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.draft import Draft
from stepwell.core.inputs import Revoked
from stepwell.core.model import Execution, Failure
from stepwell.core.ports import Timer
from stepwell.core.states import (
    SETTLED,
    BlockedKind,
    EventType,
    ExecutionStatus,
    FinishReason,
    InputStatus,
    PauseReason,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell.core.table import STEP_OF_PHASE, Trigger, next_phase

BLOCKED_TIMER = "blocked"
"""Runs out when the first of the delayed steps may go, so that the run stops saying TIMER."""
TOTAL_TIMER = "total:"
"""Followed by a task's id: its total time-out."""
INPUT_TIMER = "input:"
"""Followed by an input request's id: its expiry."""


def settle(draft: Draft) -> None:
    """Move the phase on while it can move, offer what can be offered, and say what is waited for."""
    if not draft.run.ended:
        _move_on(draft)
    if not draft.run.ended:
        if draft.run.status is not RunStatus.PAUSED:
            _offer(draft)
        say_status(draft)


def enter(draft: Draft, trigger: Trigger, **fields: object) -> None:
    """Take the phase move that `trigger` makes, with a fresh allowance for the next stage's step."""
    phase = next_phase(draft.run.phase, trigger)
    draft.change_run(phase=phase, step_attempt=0, step_spent=0, **fields)


def finish_iteration(draft: Draft, trigger: Trigger, reason: FinishReason) -> None:
    """Leave the last iteration: on to SYNTHESIZE, or to the end where there is no such stage."""
    draft.event(EventType.ITERATION_COMPLETED)
    enter(draft, trigger, finish_reason=reason)
    if StepKind.SYNTHESIZE not in draft.run.stages:
        succeed(draft)


def succeed(draft: Draft, result_id: str = "") -> None:
    """End the run well."""
    draft.event(EventType.RUN_SUCCEEDED, execution_id=result_id)
    enter(draft, Trigger.SYNTHESIZED)
    end(draft, RunStatus.SUCCEEDED, result_id=result_id)


def fail_run(draft: Draft, failure: Failure) -> None:
    """End the run badly. What is in flight is revoked; a resume runs it again."""
    draft.event(EventType.RUN_FAILED, message=failure.message)
    close_open(draft, ExecutionStatus.CANCELLED, TaskStatus.PENDING, "the run failed")
    end(draft, RunStatus.FAILED, failure=failure)


def end(draft: Draft, status: RunStatus, **fields: object) -> None:
    """Bring the run to an end: no timer of it is left, and it waits for nothing."""
    fields |= {"status": status, "ended_us": draft.context.now_us, "pause_reason": PauseReason.NONE}
    if draft.run.blocked_on is not BlockedKind.NONE:
        fields |= {"blocked_on": BlockedKind.NONE, "blocked_since_us": draft.context.now_us}
        drop_timer(draft, BLOCKED_TIMER)
    draft.change_run(**fields)
    for task_id, spec in draft.graph.specs.items():
        task = draft.task(task_id)
        if spec.total_timeout_ms and task.attempts:
            drop_timer(draft, TOTAL_TIMER + task_id)
            if task.status not in SETTLED and task.started_us:
                draft.change_task(task_id, started_us=0)


def close_open(draft: Draft, status: ExecutionStatus, task_status: TaskStatus, reason: str) -> None:
    """Close every open execution and input request; their tasks go to `task_status`."""
    for execution in tuple(draft.open_executions()):
        close(draft, execution, status, reason=reason)
        if execution.task_id:
            draft.change_task(execution.task_id, status=task_status)
    for request in tuple(draft.open_inputs()):
        withdraw_inputs(draft, request.task_id)
        if draft.task(request.task_id).status is TaskStatus.BLOCKED:
            draft.change_task(request.task_id, status=task_status, input_id="")


def withdraw_inputs(draft: Draft, task_id: str) -> None:
    """Cancel what a task still asks."""
    for request in tuple(draft.open_inputs()):
        if request.task_id == task_id:
            ended = replace(request, status=InputStatus.CANCELLED, ended_us=draft.context.now_us)
            draft.put_input(ended)
            drop_timer(draft, INPUT_TIMER + request.input_id)


def hold_back(draft: Draft, why: PauseReason, reason: str) -> None:
    """Pause: withdraw what is ready, leave what is leased. The current event tells of it."""
    for execution in tuple(draft.open_executions()):
        if execution.status is ExecutionStatus.READY:
            close(draft, execution, ExecutionStatus.RELEASED)
            if execution.task_id:
                draft.change_task(execution.task_id, status=TaskStatus.PENDING)
    draft.change_run(status=RunStatus.PAUSED, pause_reason=why, reason=reason)


def close(
    draft: Draft,
    execution: Execution,
    status: ExecutionStatus,
    *,
    reason: str = "",
    **fields: object,
) -> None:
    """End an execution; a worker that still holds it is told, with `reason`."""
    if reason and execution.status is not ExecutionStatus.READY:
        revoke(draft, execution, reason)
    draft.change_execution(execution, status=status, ended_us=draft.context.now_us, **fields)


def revoke(draft: Draft, execution: Execution, reason: str) -> None:
    """Have the worker told that its lease is gone."""
    draft.revoked.append(
        Revoked(execution_id=execution.execution_id, worker_id=execution.worker_id, reason=reason)
    )


def drop_timer(draft: Draft, name: str) -> None:
    """Take a timer away."""
    draft.timers[name] = Timer(name=name, delay_ms=-1)


def offer_task(draft: Draft, task_id: str, *, delay_ms: int = 0) -> None:
    """Make the next attempt at a task ready, after `delay_ms`."""
    task, spec = draft.task(task_id), draft.spec(task_id)
    attempt = task.attempts + 1
    execution_id = f"task:{task_id}#{attempt}"
    _add(draft, StepKind.TASK, execution_id, attempt, delay_ms, task_id=task_id, role=spec.role)
    draft.change_task(task_id, status=TaskStatus.READY, attempts=attempt)
    if spec.total_timeout_ms and not task.started_us:
        name = TOTAL_TIMER + task_id
        draft.timers[name] = Timer(name=name, delay_ms=spec.total_timeout_ms + delay_ms)


def offer_step(draft: Draft, *, delay_ms: int = 0) -> None:
    """Make the next attempt at the current PLAN, REFLECT or SYNTHESIZE step ready."""
    run = draft.run
    kind = STEP_OF_PHASE[run.phase]
    attempt = run.step_attempt + 1
    execution_id = f"{kind.lower()}:{run.iteration}#{attempt}"
    _add(draft, kind, execution_id, attempt, delay_ms)
    draft.change_run(step_attempt=attempt)


def _add(
    draft: Draft,
    kind: StepKind,
    execution_id: str,
    attempt: int,
    delay_ms: int,
    *,
    task_id: str = "",
    role: str = "",
) -> None:
    spec = draft.run.spec
    draft.add_execution(
        Execution(
            execution_id=execution_id,
            kind=kind,
            task_id=task_id,
            iteration=draft.run.iteration,
            attempt=attempt,
            queue=spec.queue,
            role=role,
            priority=spec.priority,
            delay_ms=delay_ms,
            offered_us=draft.context.now_us,
        )
    )


def _move_on(draft: Draft) -> None:
    run = draft.run
    if run.phase is Phase.EXECUTING and run.counts.unsettled == 0:
        if StepKind.REFLECT in run.stages:
            enter(draft, Trigger.TASKS_SETTLED)
        else:
            trigger = Trigger.TASKS_SETTLED_NO_REFLECTION
            finish_iteration(draft, trigger, FinishReason.FINISHED)


def _offer(draft: Draft) -> None:
    run = draft.run
    delay_ms = run.spec.start_delay_ms if run.version == 0 else 0
    taking = [e for e in draft.open_executions() if e.status is not ExecutionStatus.UNKNOWN_OUTCOME]
    if run.phase is not Phase.EXECUTING:
        if not taking:
            offer_step(draft, delay_ms=delay_ms)
        return
    for _ in range(run.spec.max_parallel - len(taking)):
        task_id = draft.take_runnable()
        if task_id is None:
            return
        offer_task(draft, task_id, delay_ms=delay_ms)


def say_status(draft: Draft) -> None:
    """Bring `status` and `blocked_on` in line with what is open."""
    leased = ready = False
    delay_ms: int | None = None
    for execution in draft.open_executions():
        leased = leased or execution.status is ExecutionStatus.LEASED
        if execution.status is ExecutionStatus.READY:
            ready = True
            known = draft.is_new(execution) or draft.run.blocked_on is not BlockedKind.WORKER
            delay = execution.delay_ms if known else 0
            delay_ms = delay if delay_ms is None else min(delay, delay_ms)
    run = draft.run
    if run.status is not RunStatus.PAUSED:
        started = RunStatus.RUNNING if run.started_us else RunStatus.QUEUED
        status = started if leased or ready else RunStatus.WAITING
        if status is not run.status:
            draft.change_run(status=status)
    _say_blocked(draft, _blocked_on(draft, leased=leased, delay_ms=delay_ms), delay_ms or 0)


def _blocked_on(draft: Draft, *, leased: bool, delay_ms: int | None) -> BlockedKind:
    run = draft.run
    if run.status is RunStatus.PAUSED:
        exhausted = run.pause_reason is PauseReason.BUDGET_EXHAUSTED
        return BlockedKind.BUDGET if exhausted else BlockedKind.PAUSED
    if leased:
        return BlockedKind.NONE
    if delay_ms is not None:
        waited_for = draft.timers.get(BLOCKED_TIMER)
        is_over = waited_for is not None and waited_for.delay_ms < 0
        return BlockedKind.WORKER if delay_ms == 0 or is_over else BlockedKind.TIMER
    if any(True for _ in draft.open_inputs()):
        return BlockedKind.INPUT
    return BlockedKind.UNKNOWN_OUTCOME


def _say_blocked(draft: Draft, kind: BlockedKind, delay_ms: int) -> None:
    before = draft.run.blocked_on
    if kind is before:
        return
    draft.change_run(blocked_on=kind, blocked_since_us=draft.context.now_us)
    if kind is BlockedKind.TIMER:
        draft.timers[BLOCKED_TIMER] = Timer(name=BLOCKED_TIMER, delay_ms=delay_ms)
    elif before is BlockedKind.TIMER:
        drop_timer(draft, BLOCKED_TIMER)

"""Bugs of the loop itself: what is decided is wrong, whoever commits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stepwell.core.loop import (
    advance,
    attempts,
    budgets,
    closing,
    deliveries,
    dispatch,
    draft,
    failures,
    phases,
    plans,
    resuming,
    run_commands,
    task_commands,
    timers,
)
from stepwell.core.loop.signals import Reply, ReplyStatus
from stepwell.core.loop.table import Trigger
from stepwell.core.records.states import EventType, ExecutionStatus, Phase, RunStatus, TaskStatus
from tests.mutants.planting import Swap, everywhere, hidden
from tests.mutants.shelf import Shelf
from tests.mutants.simulated import Simulated

BUGS = Shelf()


@BUGS.put("fence-dropped", Simulated(), "S8")
def _fence_dropped() -> list[Swap]:
    """An outcome is matched by its step and not by its lease: whoever reports is believed."""
    honest = attempts.leased_by

    def leased_by(one: Any, execution_id: str, token: str) -> Any:
        execution = honest(one, execution_id, token)
        if execution is not None:
            return execution
        step = execution_id.rpartition("#")[0]
        for other in one.open_executions():
            leased = other.status is ExecutionStatus.LEASED
            if leased and other.execution_id.rpartition("#")[0] == step:
                return other
        return None

    return everywhere(honest, leased_by)


@BUGS.put("resume-runs-all-again", Simulated(), "S19", "S6")
def _resume_runs_all_again() -> list[Swap]:
    """A resume runs every task of the plan again, also those that were completed."""
    failed_tasks: Callable[..., list[str]] = hidden(resuming, "_failed_tasks")

    def all_tasks(one: Any) -> list[str]:
        again = failed_tasks(one)
        if one.run.phase is not Phase.EXECUTING:
            return again
        done = [n for n in one.graph.specs if one.task(n).status is TaskStatus.COMPLETED]
        return [*again, *done]

    return [(resuming, "_failed_tasks", all_tasks)]


@BUGS.put("completed-task-retried", Simulated(), "S6", "S11")
def _completed_task_retried() -> list[Swap]:
    """A person may retry any task that is settled, and nobody thought of those that were completed."""
    honest = task_commands.retry_task

    def retry_task(one: Any, command: Any) -> Reply:
        known = command.task_id in one.graph.specs and not one.run.ended
        if not known or one.task(command.task_id).status is not TaskStatus.COMPLETED:
            return honest(one, command)
        one.event(EventType.TASK_RETRY_REQUESTED, task_id=command.task_id)
        one.change_task(command.task_id, status=TaskStatus.PENDING)
        return Reply()

    return [(task_commands, "retry_task", retry_task)]


@BUGS.put("attempt-number-reused", Simulated(), "S9")
def _attempt_number_reused() -> list[Swap]:
    """An attempt's number is how many were spent before, so that one that was handed back comes again."""
    honest = dispatch.offer_task

    def offer_task(one: Any, task_id: str, *, delay_ms: int = 0) -> None:
        task = one.task(task_id)
        one.tasks[task_id] = replace(task, attempts=task.spent)
        honest(one, task_id, delay_ms=delay_ms)

    return everywhere(honest, offer_task)


@BUGS.put("retry-beside-the-waiting", Simulated(), "S10")
def _retry_beside_the_waiting() -> list[Swap]:
    """A task that a person retries is offered anew while the attempt that waits for its back-off stays."""

    def retry_now(one: Any, command: Any) -> Reply:
        one.event(EventType.TASK_RETRY_REQUESTED, task_id=command.task_id)
        one.change_task(command.task_id, status=TaskStatus.PENDING)
        dispatch.offer_task(one, command.task_id)
        return Reply()

    return [(task_commands, "_retry_now", retry_now)]


@BUGS.put("dependency-ignored", Simulated(), "S11")
def _dependency_ignored() -> list[Swap]:
    """A task is let go when one dependency is left, where it has several: the count is off by one."""
    honest: Callable[..., bool] = hidden(draft.Draft, "_is_runnable")
    count: Callable[..., None] = hidden(draft.Draft, "_count_dependencies")

    def is_runnable(self: Any, task_id: str) -> bool:
        several = len(self.spec(task_id).depends_on) > 1
        pending = self.task(task_id).status is TaskStatus.PENDING
        return honest(self, task_id) or (several and pending and self.waiting(task_id) == 1)

    def count_dependencies(self: Any, task_id: str, step: int) -> None:
        count(self, task_id, step)
        dependents = self.graph.dependents.get(task_id, ())
        hidden(self, "_fresh").extend(one for one in dependents if self.waiting(one) == 1)

    return [
        (draft.Draft, "_is_runnable", is_runnable),
        (draft.Draft, "_count_dependencies", count_dependencies),
    ]


@BUGS.put("one-too-many-at-once", Simulated(), "S11")
def _one_too_many_at_once() -> list[Swap]:
    """The limit of what runs beside one another is off by one."""
    offer_tasks: Callable[..., bool] = hidden(dispatch, "_offer_tasks")

    def one_more(one: Any, taking: Any, delay_ms: int) -> bool:
        return offer_tasks(one, taking[1:], delay_ms)

    return [(dispatch, "_offer_tasks", one_more)]


@BUGS.put("attempt-counted-late", Simulated(), "S12", "S13")
def _attempt_counted_late() -> list[Swap]:
    """An attempt is counted when it is reported, so that one that is lost never is."""
    spend: Callable[..., Any] = hidden(failures, "_spend")

    def late(one: Any, execution: Any) -> Any:
        if hidden(one, "_events")[-1].kind is not EventType.LEASE_LOST:
            return spend(one, execution)
        if execution.task_id:
            task = one.task(execution.task_id)
            spent = task.spent if task.allowance == one.run.allowance else 0
            return one.spec(execution.task_id).retry, spent
        return one.run.spec.step_retry, one.run.step_spent

    return [(failures, "_spend", late)]


@BUGS.put("no-new-allowance", Simulated(), "S12")
def _no_new_allowance() -> list[Swap]:
    """A resume forgets to open a new allowance: what failed runs again on attempts that are used up."""
    honest = draft.Draft.change_run

    def change_run(self: Any, **fields: Any) -> None:
        fields.pop("allowance", None)
        honest(self, **fields)

    return [(draft.Draft, "change_run", change_run)]


@BUGS.put("lost-attempts-are-free", Simulated(), "S13", "L1")
def _lost_attempts_are_free() -> list[Swap]:
    """A lost lease is taken for the worker's fault alone, so a step that kills its workers goes on for ever."""
    honest = failures.expire

    def expire(one: Any, expired: Any) -> Reply:
        held = one.held(expired.execution_id)
        begun = held is not None and held.execution.begun
        free = not (expired.timed_out or begun)
        return honest(one, replace(expired, undelivered=True) if free else expired)

    return [(failures, "expire", expire)]


@BUGS.put("cancel-leaves-the-ready", Simulated(), "S14")
def _cancel_leaves_the_ready() -> list[Swap]:
    """A cancel revokes what workers have, and forgets the steps that wait for a worker."""
    honest = closing.close_open

    def close_open(one: Any, status: Any, task_status: Any, reason: str) -> None:
        one.open_executions = lambda: [e for e in type(one).open_executions(one) if e.worker_id]
        honest(one, status, task_status, reason)
        del one.open_executions

    return [(run_commands, "close_open", close_open)]


@BUGS.put("end-leaves-a-timer", Simulated(), "S14")
def _end_leaves_a_timer() -> list[Swap]:
    """The timers of a run outlive it, and wake it when it is over."""
    honest = closing.end_run

    def end_run(one: Any, status: Any, fields: Any) -> None:
        before = dict(one.timers)
        honest(one, status, fields)
        one.timers = before

    return everywhere(honest, end_run)


@BUGS.put("stop-after-the-end", Simulated(), "S15")
def _stop_after_the_end() -> list[Swap]:
    """One of the commands forgets to ask whether the run is over, and adds an event behind its last one."""
    honest = run_commands.stop

    def stop(one: Any, command: Any) -> Reply:
        if not one.run.ended:
            return honest(one, command)
        one.event(EventType.STOP_REQUESTED, message=command.reason)
        one.change_run(stopping=True)
        return Reply()

    return [(run_commands, "stop", stop)]


@BUGS.put("request-forgotten", Simulated(), "S3", "S16")
def _request_forgotten() -> list[Swap]:
    """Requests are remembered by the replica that carried them out, and not with the run."""
    honest = draft.Draft.finish

    def finish(self: Any, replies: Any) -> Any:
        transition = honest(self, replies)
        if transition.commit is None:
            return transition
        return replace(transition, commit=replace(transition.commit, request=None))

    return [(draft.Draft, "finish", finish)]


@BUGS.put("request-payload-not-compared", Simulated(), "S16")
def _request_payload_not_compared() -> list[Swap]:
    """A request id that was used before is answered with what was done then, whatever is asked now."""
    once: Callable[..., Reply] = hidden(advance, "_apply_once")

    def by_id_alone(one: Any, command: Any) -> Reply:
        if command.request_id in one.state.requests:
            return Reply(status=ReplyStatus.UNCHANGED)
        return once(one, command)

    return [(advance, "_apply_once", by_id_alone)]


@BUGS.put("rejected-plan-takes-a-revision", Simulated(), "S17")
def _rejected_plan_takes_a_revision() -> list[Swap]:
    """A plan gets its revision before it is looked at, so that one that is rejected leaves a gap."""
    honest = plans.accept_plan

    def accept_plan(one: Any, *rest: Any) -> None:
        rejected = max(0, one.run.step_attempt - 1)
        one.run = replace(one.run, plan_revision=one.run.plan_revision + rejected)
        honest(one, *rest)

    return everywhere(honest, accept_plan)


@BUGS.put("replan-is-no-iteration", Simulated(), "S17", "S9")
def _replan_is_no_iteration() -> list[Swap]:
    """Another plan after a reflection begins no new iteration, so that the limit is never met."""
    honest = phases.enter_phase

    def enter(one: Any, trigger: Trigger, **fields: Any) -> None:
        if trigger is Trigger.REPLAN:
            fields.pop("iteration", None)
        honest(one, trigger, **fields)

    return [(deliveries, "enter_phase", enter)]


@BUGS.put("budget-counted-and-not-asked", Simulated(), "S17")
def _budget_counted_and_not_asked() -> list[Swap]:
    """What is used up is added up and shown, and nobody asks before the next step is given out."""
    return [(budgets, "used_up", lambda _run: ())]


@BUGS.put("resume-of-a-live-run", Simulated(), "S19")
def _resume_of_a_live_run() -> list[Swap]:
    """A resume is taken at any time, and gives a run that goes well a fresh allowance."""
    honest = run_commands.resume

    def resume(one: Any, command: Any) -> Reply:
        if one.run.ended or one.run.status is RunStatus.PAUSED:
            return honest(one, command)
        one.event(EventType.RUN_RESUMED, message=command.reason)
        one.change_run(allowance=one.run.allowance + 1)
        return Reply()

    return [(run_commands, "resume", resume)]


@BUGS.put("event-misses-a-field", Simulated(), "S20")
def _event_misses_a_field() -> list[Swap]:
    """A new field of the run is written to its row, and nobody thought of the event."""
    honest = draft.Draft.change_run

    def change_run(self: Any, **fields: Any) -> None:
        honest(self, **fields)
        hidden(self, "_events")[-1].run.pop("attempts", None)

    return [(draft.Draft, "change_run", change_run)]


@BUGS.put("failure-frees-nobody", Simulated(), "L1")
def _failure_frees_nobody() -> list[Swap]:
    """Only a completed dependency lets its dependents go, so one that failed and may be passed over stops all."""
    count: Callable[..., None] = hidden(draft.Draft, "_count_dependencies")

    def count_completed(self: Any, task_id: str, step: int) -> None:
        if self.task(task_id).status is TaskStatus.COMPLETED or step > 0:
            count(self, task_id, step)

    return [(draft.Draft, "_count_dependencies", count_completed)]


@BUGS.put("timer-fires-once", Simulated(), "L2", "L3", "L1")
def _timer_fires_once() -> list[Swap]:
    """A timer that comes due is looked at and, whatever came of it, taken for done: nothing drops it."""
    unchanged = Reply(status=ReplyStatus.UNCHANGED)
    return [(timers, "timer_due", lambda _draft, _signal: unchanged)]

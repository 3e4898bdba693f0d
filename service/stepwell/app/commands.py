"""Commands to a run: sent to the loop, or only rehearsed; refusals become errors."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import AnyCommand, Fork, Start, StartInThread
from stepwell.core.loop.state import RunState
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.records import errors
from stepwell.core.records.model import Run
from stepwell.engine.executor import Executor
from stepwell.engine.step_journal import first_entries

_NOT_FOUND = frozenset({"TASK_NOT_FOUND"})
"""Reasons for which the loop refuses a command about something that the run doesn't have."""


class CommandResult(NamedTuple):
    """The result of a command that the loop accepted."""

    run: Run
    """The run after the command."""
    changed: bool
    """False if it had been done before, or there was nothing to do."""


class Rehearsal(NamedTuple):
    """The result of a command that was decided but not committed."""

    before: Run | None
    """The current run, or None if it doesn't exist yet."""
    after: Run
    """The run as the command would change it."""


async def carry_out(
    executor: Executor, tenant_id: str, run_id: str, command: Start | Fork | AnyCommand
) -> CommandResult:
    """Send a command to the loop, and return once it is committed.

    Raises:
        RunNotFound: there is no such run.
        StoreUnavailable: nothing was done.
        StepwellError: the loop refused it, see `accepted`.
    """
    return accepted(await executor.send(tenant_id, run_id, command))


async def rehearse(
    executor: Executor, tenant_id: str, run_id: str, command: Start | AnyCommand
) -> Rehearsal:
    """Decide a command as the loop would, and commit nothing.

    Raises:
        RunNotFound: the run doesn't exist, and the command doesn't start it.
        StepwellError: the loop would refuse it, see `accepted`.
    """
    before, reply = await decide(executor, tenant_id, run_id, command)
    return Rehearsal(before, accepted(reply).run)


async def decide(
    executor: Executor,
    tenant_id: str,
    run_id: str,
    command: Start | Fork | StartInThread | AnyCommand,
) -> tuple[Run | None, Reply]:
    """Return the current run, and the loop's reply to a command that isn't committed.

    Raises:
        RunNotFound: the run doesn't exist, and the command doesn't start it.
    """
    loaded = await executor.store.load(tenant_id, run_id)
    if loaded is None and not isinstance(command, Start | Fork | StartInThread):
        raise errors.RunNotFound(run_id)
    state = RunState.of(loaded) if loaded else RunState.empty(tenant_id, run_id)
    now_us = loaded.now_us if loaded else 0
    context = Context(now_us=now_us or executor.now_us(), seed=0, lease_ms=executor.config.lease_ms)
    transition = advance(state, [command], context)
    while transition.asked_pages:
        pages = {one: await first_entries(executor.store, one) for one in transition.asked_pages}
        context = replace(context, pages={**context.pages, **pages})
        transition = advance(state, [command], context)
    return loaded.run if loaded else None, transition.replies[0]


def accepted(reply: Reply) -> CommandResult:
    """Return the result of a command from the loop's reply.

    Raises:
        AlreadyExists: the request id belongs to another request.
        VersionChanged: the run is at another version than the command expects.
        NotFound: the run has no such task.
        InvalidArgument: the plan, or another value, is invalid.
        FailedPrecondition: the run's state doesn't allow it.
    """
    if reply.run is not None:
        return CommandResult(reply.run, reply.status is ReplyStatus.ACCEPTED)
    if reply.reason == errors.AlreadyExists.reason:
        raise errors.AlreadyExists(reply.message)
    if reply.reason == errors.VersionChanged.reason:
        raise errors.VersionChanged(reply.message)
    if reply.reason in _NOT_FOUND:
        raise errors.NotFound(reply.message, reason=reply.reason)
    if reply.violations:
        first = reply.violations[0]
        raise errors.InvalidArgument(
            f"{reply.message}: {first.field}: {first.description}",
            tuple(errors.Violation(one.field, one.description) for one in reply.violations),
            reason=reply.reason,
        )
    raise errors.FailedPrecondition(reply.message, reason=reply.reason or None)

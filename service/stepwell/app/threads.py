"""Starts runs in threads."""

from __future__ import annotations

from stepwell.app.commands import CommandResult, Rehearsal, accepted, carry_out, decide
from stepwell.core.loop.occurrences import Start, StartInThread
from stepwell.core.records.errors import AlreadyExists, StoreUnavailable
from stepwell.core.records.model import RunSpec
from stepwell.core.records.threads import id_of, threads_of
from stepwell.engine.executor import Executor
from stepwell.engine.key_types import RunKey


async def start_in_thread(executor: Executor, command: StartInThread) -> CommandResult:
    """Start a run in its thread, and return it once it is there, whether it works or waits.

    Raises:
        AlreadyExists: the request id belongs to another request, or the run was deleted.
        FailedPrecondition: the thread is busy, or full, or the start is too large.
        StoreUnavailable: the run may be started later; the same request finds it.
    """
    spec, key = command.spec, thread_key(command.spec)
    run = await executor.store.get_run(spec.tenant_id, spec.run_id)
    if run is not None:
        start = Start(spec=spec, input=command.input, plan=command.plan, stages=command.stages)
        return await carry_out(executor, spec.tenant_id, spec.run_id, start)
    changed = accepted(await executor.send(*key, command)).changed
    await executor.deliver_letters(*key)
    run = await executor.store.get_run(spec.tenant_id, spec.run_id)
    if run is not None:
        return CommandResult(run, changed)
    loaded = await executor.store.load(*key)
    if loaded is not None and any(one.prompt == spec.run_id for one in loaded.questions):
        raise StoreUnavailable("the run is accepted and not started yet; repeat the same request")
    raise AlreadyExists("a run of this id was deleted a short while ago")


async def rehearse_in_thread(executor: Executor, command: StartInThread) -> Rehearsal:
    """Decide the start as the thread would, and commit nothing.

    Raises:
        StepwellError: it would be refused, see `accepted`.
    """
    spec = command.spec
    _, reply = await decide(executor, *thread_key(spec), command)
    accepted(reply)
    start = Start(spec=spec, input=command.input, plan=command.plan, stages=command.stages)
    before, reply = await decide(executor, spec.tenant_id, spec.run_id, start)
    return Rehearsal(before, accepted(reply).run)


def thread_key(spec: RunSpec) -> RunKey:
    """Return the tenant and the id under which a run's thread is kept."""
    return threads_of(spec.tenant_id), id_of(spec.tenant_id, spec.thread_id)

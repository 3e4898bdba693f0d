"""Starts runs in threads."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.app.commands import accepted, carry_out, decide
from stepwell.core.loop.occurrences import Start, StartInThread
from stepwell.core.records.errors import AlreadyExists, RunNotFound, StoreUnavailable
from stepwell.core.records.model import Run, RunSpec
from stepwell.core.records.states import OnBusy
from stepwell.core.records.threads import key_of
from stepwell.engine.executor import Executor
from stepwell.engine.key_types import RunKey


class Started(NamedTuple):
    """The result of a start in a thread."""

    run: Run
    """The run that was started, or the one that was steered."""
    changed: bool
    """False if the same request came before, or nothing was committed."""
    steered: bool = False
    """True: no run was started, and the run that works was sent a signal."""


def in_thread(start: Start, on_busy: OnBusy) -> StartInThread:
    """Return the command that starts a run in the thread that its specification names."""
    return StartInThread(
        spec=start.spec,
        input=start.input,
        plan=start.plan,
        stages=start.stages,
        on_busy=on_busy,
        actor=start.actor,
        on_behalf_of=start.on_behalf_of,
    )


async def start_in_thread(executor: Executor, command: StartInThread) -> Started:
    """Start a run in its thread, and return it once it is there, whether it works or waits; or steer the run that works.

    Raises:
        AlreadyExists: the request id belongs to another request, or the run was deleted.
        FailedPrecondition: the thread is busy, or full, or the start is too large.
        RunNotFound: the same request steered a run before, which was deleted.
        StoreUnavailable: the run may be started later; the same request finds it.
    """
    spec, key = command.spec, thread_key(command.spec)
    run = await executor.store.get_run(spec.tenant_id, spec.run_id)
    if run is not None:
        start = Start(spec=spec, input=command.input, plan=command.plan, stages=command.stages)
        return Started(*await carry_out(executor, spec.tenant_id, spec.run_id, start))
    reply = await executor.send(*key, command)
    changed = accepted(reply).changed
    await executor.deliver_letters(*key)
    run = await executor.store.get_run(spec.tenant_id, spec.run_id)
    if run is not None:
        return Started(run, changed)
    if reply.steered:
        return Started(await _steered(executor, spec, reply.steered), changed, steered=True)
    loaded = await executor.store.load(*key)
    if loaded is not None and any(one.prompt == spec.run_id for one in loaded.questions):
        raise StoreUnavailable("the run is accepted and not started yet; repeat the same request")
    raise AlreadyExists("a run of this id was deleted a short while ago")


async def rehearse_in_thread(executor: Executor, command: StartInThread) -> Started:
    """Decide the start as the thread would, and commit nothing.

    Raises:
        StepwellError: it would be refused, see `accepted`.
    """
    spec = command.spec
    _, reply = await decide(executor, *thread_key(spec), command)
    accepted(reply)
    if reply.steered:
        return Started(await _steered(executor, spec, reply.steered), changed=False, steered=True)
    start = Start(spec=spec, input=command.input, plan=command.plan, stages=command.stages)
    _, reply = await decide(executor, spec.tenant_id, spec.run_id, start)
    return Started(accepted(reply).run, changed=False)


async def _steered(executor: Executor, spec: RunSpec, run_id: str) -> Run:
    run = await executor.store.get_run(spec.tenant_id, run_id)
    if run is None:
        raise RunNotFound(run_id)
    return run


def thread_key(spec: RunSpec) -> RunKey:
    """Return the tenant and the id under which a run's thread is kept."""
    return key_of(spec.tenant_id, spec.thread_id)

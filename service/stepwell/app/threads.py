"""Threads: starts of runs in them, what is written from outside, their forks and their deletion."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.app.commands import CommandResult, accepted, carry_out, decide
from stepwell.app.runs import check_has_no_forks, delete_run
from stepwell.core.loop.occurrences import Cancel, Fork, Start, StartInThread
from stepwell.core.loop.steers import is_steer
from stepwell.core.loop.thread_messages import BLOCK_MESSAGES, block_of, fork_refusal
from stepwell.core.loop.thread_occurrences import CopyMessages, ForkThread, RunLeft, WriteToThread
from stepwell.core.loop.transition import Reply
from stepwell.core.port import Loaded, RunQuery, Store, every_row
from stepwell.core.records.errors import (
    AlreadyExists,
    FailedPrecondition,
    NotFound,
    RunNotFound,
    StoreUnavailable,
)
from stepwell.core.records.model import Question, Run, RunSpec
from stepwell.core.records.states import OnBusy, QuestionStatus
from stepwell.core.records.threads import THREAD_LABEL, key_of
from stepwell.engine.executor import Executor
from stepwell.engine.key_types import RunKey
from stepwell.engine.letters import start_of
from stepwell.engine.thread_reader import read_messages, read_state

_DELETE_ATTEMPTS_MAX = 10
_COPY_BYTES_MAX = 1024 * 1024
"""Messages that one commit copies; one that is larger by itself goes alone."""


class Started(NamedTuple):
    """The result of a start in a thread."""

    run: Run
    """The run that was started, or the one that was steered."""
    changed: bool
    """False if the same request came before, or nothing was committed."""
    steered: bool = False
    """True: no run was started, and the run that works was sent a signal."""


def in_thread(start: Start | Fork, on_busy: OnBusy) -> StartInThread:
    """Return the command that starts a run, or a fork, in the thread that its specification names."""
    command = StartInThread(
        spec=start.spec,
        input=start.input,
        on_busy=on_busy,
        actor=start.actor,
        on_behalf_of=start.on_behalf_of,
    )
    if isinstance(start, Fork):
        return replace(command, fork=replace(start, input=None))
    return replace(command, plan=start.plan, stages=start.stages)


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
        start = start_of(command, command.input)
        return Started(*await carry_out(executor, spec.tenant_id, spec.run_id, start))
    reply = await _sent(executor, key, command)
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
    start = start_of(command, command.input)
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


async def read_thread(store: Store, tenant_id: str, run_id: str, thread_id: str) -> Run:
    """Return the row of a thread, which is kept under this tenant and this id.

    Raises:
        NotFound: there is no such thread.
        FailedPrecondition: it is a fork that isn't complete.
    """
    run = await store.get_run(tenant_id, run_id)
    if run is None:
        raise NotFound(f"there is no thread {thread_id!r}", reason="THREAD_NOT_FOUND")
    if (incomplete := fork_refusal(run)) is not None:
        accepted(incomplete)
    return run


async def waiting_in(store: Store, thread: Run) -> int:
    """Return the number of runs that wait in a thread; starts that steer the run that works are none."""
    if not thread.thread.working:
        return 0
    loaded = await store.load(thread.spec.tenant_id, thread.spec.run_id)
    return max(0, sum(not is_steer(one) for one in _places(loaded)) - 1)


def _places(loaded: Loaded | None) -> list[Question]:
    """Return the open questions of a thread that stand for its runs, in the order in which they work."""
    questions = loaded.questions if loaded is not None else ()
    places = [one for one in questions if one.status is QuestionStatus.OPEN]
    return sorted(places, key=lambda one: one.question_id)


async def write_to_thread(
    executor: Executor, tenant_id: str, command: WriteToThread
) -> CommandResult:
    """Append messages to a thread, or set its state or its labels, from outside.

    Raises:
        AlreadyExists: the request id belongs to another request.
        FailedPrecondition: the thread was deleted a short while ago.
        VersionChanged: the state is at another version than the command expects.
    """
    return accepted(await _sent(executor, key_of(tenant_id, command.thread_id), command))


async def _sent(
    executor: Executor, key: RunKey, command: StartInThread | WriteToThread | ForkThread
) -> Reply:
    try:
        return await executor.send(*key, command)
    except AlreadyExists:
        what = "the thread was deleted a short while ago; use another id"
        raise FailedPrecondition(what, reason="THREAD_DELETED") from None


async def fork_thread(executor: Executor, tenant_id: str, command: ForkThread) -> CommandResult:
    """Make a thread with the messages of another one up to a number, and return it once it is complete.

    The first commit notes how many messages it is to have, and sets the state. Until it has them, it refuses all but
    its deletion, and the same call, which goes on where the copying stopped. Blocks are copied by a commit each.

    Raises:
        AlreadyExists: the request id belongs to another request.
        FailedPrecondition: the new thread exists, or was deleted a short while ago, or the other one isn't complete.
        NotFound: there is no such thread, or no such message in it.
    """
    store, name = executor.store, command.forked_from
    parent, key = key_of(tenant_id, name), key_of(tenant_id, command.thread_id)
    if await store.get_run(*key) is None:
        command = await _snapshot(store, parent, command)
    run, changed = accepted(await _sent(executor, key, command))
    while (first := run.thread.messages + 1) <= run.thread.forked_at:
        last = min(run.thread.forked_at, block_of(first) * BLOCK_MESSAGES)
        found, _ = await read_messages(store, parent, first, last, _COPY_BYTES_MAX)
        messages = tuple(one for number, one in enumerate(found, first) if one.number == number)
        if not messages:
            await read_thread(store, *parent, name)
            raise NotFound(f"thread {name!r} has no message {first}", reason="MESSAGE_NOT_FOUND")
        with suppress(RunNotFound):
            await executor.send(*key, CopyMessages(messages=messages))
        copied = await store.get_run(*key)
        if copied is None:
            what = f"thread {command.thread_id!r} was deleted while it was made"
            raise FailedPrecondition(what, reason="THREAD_DELETED")
        run = copied
    return CommandResult(run, changed)


async def _snapshot(store: Store, key: RunKey, command: ForkThread) -> ForkThread:
    """Return the command with the number at which the thread is forked now, and with the state of that moment."""
    while True:
        thread = (await read_thread(store, *key, command.forked_from)).thread
        command = replace(command, labels=thread.labels)
        at = thread.messages if command.at is None else command.at
        if at > thread.messages:
            what = f"thread {command.forked_from!r} has {thread.messages} messages, and no {at}"
            raise NotFound(what, reason="MESSAGE_NOT_FOUND")
        if at < thread.messages:
            return replace(command, at=at)
        version, state = await read_state(store, key)
        if version == thread.state:
            return replace(command, at=at, state=state)


async def delete_thread(executor: Executor, tenant_id: str, thread_id: str, *, force: bool) -> bool:
    """Remove a thread after its runs; return False if there is none. With `force`, cancel those that work or wait.

    Raises:
        FailedPrecondition: a run works or waits (THREAD_BUSY), or has forks outside the thread (RUN_HAS_FORKS).
        StoreUnavailable: further runs were started in it meanwhile; repeat the call, which removes the rest.
    """
    store, key = executor.store, key_of(tenant_id, thread_id)
    for attempt in range(_DELETE_ATTEMPTS_MAX):
        loaded = await store.load(*key)
        if loaded is None:
            return attempt > 0
        if (places := _places(loaded)) and not force:
            what = f"run {loaded.run.thread.working} of thread {thread_id!r} works; cancel it first"
            raise FailedPrecondition(f"{what}, or delete the thread by force", reason="THREAD_BUSY")
        goes_on = bool(places) or loaded.run.letters.first < loaded.run.letters.next
        runs: list[Run] = []
        if not attempt or not goes_on:
            query = RunQuery(tenant_id=tenant_id, labels={THREAD_LABEL: thread_id})
            runs = [run async for run in every_row(store, query)]
        if not attempt:
            for run in runs:
                await check_has_no_forks(store, tenant_id, run.spec.run_id, thread_id)
        # The last first: a run whose turn has come would begin to work.
        for place in reversed(places):
            if is_steer(place):
                await executor.send(*key, RunLeft(run_id=place.prompt))
            else:
                await _cancel(executor, tenant_id, place.prompt)
        if goes_on:
            await executor.deliver_letters(*key)
            continue
        # The newest first: forks before the runs that they were made from.
        for run in runs:
            with suppress(RunNotFound):
                await delete_run(executor, tenant_id, run.spec.run_id)
        if await store.delete_run(*key, version=loaded.run.version):
            executor.forget(*key)
            return True
    raise StoreUnavailable("runs are being started in the thread; delete it again")


async def _cancel(executor: Executor, tenant_id: str, run_id: str) -> None:
    """Cancel a run of a thread, if it is there and goes on, and have the thread know of it."""
    with suppress(RunNotFound, FailedPrecondition):
        await carry_out(executor, tenant_id, run_id, Cancel(reason="its thread is deleted"))
    await executor.deliver_letters(tenant_id, run_id)

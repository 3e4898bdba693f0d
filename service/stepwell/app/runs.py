"""Reads and removes a single run."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from stepwell.core.loop.occurrences import ChangePlace
from stepwell.core.port import QuestionQuery, RunQuery, Store, every_row
from stepwell.core.records.errors import (
    FailedPrecondition,
    RunNotFound,
    StoreUnavailable,
    VersionChanged,
    version_changed,
)
from stepwell.core.records.family import ChildOf
from stepwell.core.records.model import Run
from stepwell.core.records.states import QuestionKind
from stepwell.engine.executor import Executor

_DELETE_ATTEMPTS_MAX = 10
_CHILDREN_AT_ONCE = 64
_FORKS_NAMED = 3
"""Forks in the message that refuses to delete their parent."""


async def read_run(store: Store, tenant_id: str, run_id: str) -> Run:
    """Return a run as of its last commit.

    Raises:
        RunNotFound: the tenant has no run with this id.
    """
    run = await store.get_run(tenant_id, run_id)
    if run is None:
        raise RunNotFound(run_id)
    return run


async def delete_run(
    executor: Executor,
    tenant_id: str,
    run_id: str,
    *,
    expected_version: int = 0,
    validate_only: bool = False,
) -> None:
    """Remove an ended run, at this version unless it is 0; with `validate_only` check that alone.

    Raises:
        FailedPrecondition: it has not ended (RUN_NOT_ENDED), or has forks (RUN_HAS_FORKS).
        RunNotFound: the tenant has no run with this id.
        StoreUnavailable: it was resumed and ended repeatedly meanwhile.
        VersionChanged: it is at another version than the expected one.
    """
    for _ in range(_DELETE_ATTEMPTS_MAX):
        run = await read_run(executor.store, tenant_id, run_id)
        if expected_version not in (0, run.version):
            raise VersionChanged(version_changed(expected_version, run.version))
        if not run.ended:
            raise FailedPrecondition(
                f"the run is {run.status.lower()}; cancel it first", reason="RUN_NOT_ENDED"
            )
        if run.letters.first < run.letters.next:
            if validate_only:
                return
            # Its children are to be cancelled, and its parent is to know of its end.
            await executor.deliver_letters(tenant_id, run_id)
            expected_version = 0  # It was at that version; the removal of its letters made another.
            continue
        if validate_only:
            await check_has_no_forks(executor.store, tenant_id, run_id)
            return
        if run.children:
            await check_has_no_forks(executor.store, tenant_id, run_id)
            await free_children(executor, run)
        if await executor.store.delete_run(tenant_id, run_id, version=run.version):
            executor.forget(tenant_id, run_id)
            return
        # It has forks; or it was resumed or deleted between the two.
        await check_has_no_forks(executor.store, tenant_id, run_id)
    raise StoreUnavailable("the run is being changed concurrently; try again")


async def free_children(executor: Executor, parent: Run, root_run_id: str = "") -> None:
    """Take its children from a run that is to be deleted: each is the root of its own tree then, with all runs below.

    With `root_run_id`, the run stays, and its children get that root. What is interrupted is completed by another call.

    Raises:
        StoreUnavailable: not all of it was done.
    """
    tenant_id, parent_id = parent.spec.tenant_id, parent.spec.run_id
    depth = parent.spec.child_of.depth + 1
    query = QuestionQuery(tenant_id=tenant_id, run_id=parent_id)

    async def move(run_id: str) -> None:
        child = await executor.store.get_run(tenant_id, run_id)
        # Without a parent, it was taken from this one by an earlier call.
        expected = (parent_id,) if root_run_id else (parent_id, "")
        if child is None or child.spec.child_of.run_id not in expected:
            return
        place = ChildOf()
        if root_run_id:
            place = replace(child.spec.child_of, root_run_id=root_run_id, depth=depth)
        await executor.send(tenant_id, run_id, ChangePlace(child_of=place))
        moved = await read_run(executor.store, tenant_id, run_id)
        if moved.letters.first < moved.letters.next:
            # What it starts from now on has the new root; what it has started before is to be there.
            await executor.deliver_letters(tenant_id, run_id)
            now = await read_run(executor.store, tenant_id, run_id)
            if now.letters.first < moved.letters.next:
                raise StoreUnavailable(
                    f"letters of the child run {run_id} aren't delivered; try again"
                )
        await free_children(executor, moved, root_run_id or run_id)

    if not parent.children:
        return
    asked = [one.question async for one in every_row(executor.store, query)]
    # A signal to a child has a question that names it, too.
    children = list({one.prompt: None for one in asked if one.kind is QuestionKind.CHILD})
    for begin in range(0, len(children), _CHILDREN_AT_ONCE):
        some = children[begin : begin + _CHILDREN_AT_ONCE]
        for moving in await asyncio.gather(*map(move, some), return_exceptions=True):
            if moving is not None and not isinstance(moving, RunNotFound):
                raise moving


async def check_has_no_forks(
    store: Store, tenant_id: str, run_id: str, thread_id: str = ""
) -> None:
    """Raise FailedPrecondition if a run has forks, which refer to its results, but for those in this thread."""
    query = RunQuery(tenant_id=tenant_id, parent_run_id=run_id)
    forks: list[str] = []
    async for run in every_row(store, query):
        if not thread_id or run.spec.thread_id != thread_id:
            forks.append(run.spec.run_id)
        if len(forks) > _FORKS_NAMED:
            break
    if forks:
        named = ", ".join(forks[:_FORKS_NAMED]) + (" and more" if forks[_FORKS_NAMED:] else "")
        raise FailedPrecondition(
            f"the run has forks, which refer to its results: {named}; delete them first, or all together with"
            f" `stepwell rm --family {run_id}`",
            reason="RUN_HAS_FORKS",
        )

"""Defects to be caught: each is a known bug of durable engines, put in from outside for a while.

Production code has no switch for any of them: names in its modules are replaced while `planted` lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from stepwell import watch
from stepwell.core import attempts, failures, outcomes
from stepwell.core.errors import OutcomeUnknown, StoreUnavailable
from stepwell.core.states import EventType, ExecutionStatus
from stepwell.executor import committer, runs

Swap = tuple[Any, str, Any]


@contextmanager
def planted(name: str | None) -> Generator[None]:
    """Have the defect of this name in the code until the end of the block; None: no defect."""
    swaps = BUGS[name]() if name is not None else []
    kept = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in swaps]
    for owner, attribute, value in swaps:
        setattr(owner, attribute, value)
    try:
        yield
    finally:
        for owner, attribute, value in kept:
            setattr(owner, attribute, value)


def _part(owner: object, name: str) -> Any:
    """Return a private part: defects sit where nobody else should reach."""
    return getattr(owner, name)


def _fence_dropped() -> list[Swap]:
    """An outcome is matched by its step and not by its lease: whoever reports is believed."""
    honest = attempts.holder

    def holder(draft: Any, execution_id: str, token: str) -> Any:
        execution = honest(draft, execution_id, token)
        if execution is not None:
            return execution
        step = execution_id.rpartition("#")[0]
        for one in draft.open_executions():
            leased = one.status is ExecutionStatus.LEASED
            if leased and one.execution_id.rpartition("#")[0] == step:
                return one
        return None

    return [(outcomes, "holder", holder), (attempts, "holder", holder)]


def _acknowledged_before_commit() -> list[Swap]:
    """The worker is told as soon as it is decided, before the store has it."""
    advance = runs.advance
    tell: Callable[..., None] = _part(runs, "_tell")
    turn: Callable[..., Any] = _part(runs.Runs, "_turn")

    async def hasty(self: Any, key: Any, hot: Any, batch: Any) -> None:
        if hot.state is not None:
            transition = advance(hot.state, [one.input for one in batch], self._context())
            if transition.changes_something:
                tell(batch, transition.replies)
        await turn(self, key, hot, batch)

    return [(runs.Runs, "_turn", hasty)]


def _attempt_counted_late() -> list[Swap]:
    """An attempt is counted when it is reported, so that one that is lost never is."""
    spend: Callable[..., Any] = _part(failures, "_spend")

    def late(draft: Any, execution: Any) -> Any:
        if _part(draft, "_events")[-1].fields["type"] is not EventType.LEASE_LOST:
            return spend(draft, execution)
        if execution.task_id:
            task = draft.task(execution.task_id)
            spent = task.spent if task.allowance == draft.run.allowance else 0
            return draft.spec(execution.task_id).retry, spent
        return draft.run.spec.step_retry, draft.run.step_spent

    return [(failures, "_spend", late)]


def _cursor_skips() -> list[Swap]:
    """A watcher that is woken reads what is newest, and not what comes after its cursor."""
    page: Callable[..., Any] = _part(watch, "_page")

    async def newest(store: Any, tenant_id: str, run_id: str, after: int) -> Any:
        found = await page(store, tenant_id, run_id, after)
        if not after or not found.events:
            return found
        last = found.events[-1].version
        return replace(found, events=tuple(e for e in found.events if e.version == last))

    return [(watch, "_page", newest)]


def _another_commit_id() -> list[Swap]:
    """A commit whose outcome is unknown is sent again as a new one."""

    async def ask(self: Any, commits: Any) -> Any:
        asked = 0
        while True:
            try:
                return await self._store.commit(commits)
            except OutcomeUnknown:
                asked += 1
            except StoreUnavailable:
                if not asked:
                    raise
            await self._runtime.sleep(0.02 + self._runtime.random() * 0.1)
            commits = [replace(one, commit_id=self._runtime.new_id()) for one in commits]

    return [(committer.Committer, "_ask", ask)]


def _answers_without_looking() -> list[Swap]:
    """A replica that another one has left behind answers by what it remembers.

    Not one of the classics: the simulator found it here, in its first seed.
    """

    async def never(_self: Any, _key: Any, _hot: Any) -> bool:
        return False

    return [(runs.Runs, "_moved_on", never)]


BUGS: dict[str, Callable[[], list[Swap]]] = {
    "fence-dropped": _fence_dropped,
    "acknowledged-before-commit": _acknowledged_before_commit,
    "attempt-counted-late": _attempt_counted_late,
    "cursor-skips": _cursor_skips,
    "another-commit-id": _another_commit_id,
    "answers-without-looking": _answers_without_looking,
}
"""By name; what each is caught by stands in the tests."""

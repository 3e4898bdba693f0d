"""Bugs of the shell around the loop: when something is told, sent again, looked at, given out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stepwell.core.records.errors import OutcomeUnknown, StoreUnavailable
from stepwell.engine import committer, dispatcher, payloads, runs
from tests.mutants.planting import Swap, hidden
from tests.mutants.shelf import Shelf
from tests.mutants.simulated import Simulated
from tests.mutants.starving import Starving

BUGS = Shelf()


@BUGS.put("acknowledged-before-commit", Simulated(), "S3")
def _acknowledged_before_commit() -> list[Swap]:
    """The worker is told as soon as it is decided, before the store has it."""
    advance = runs.advance
    tell: Callable[..., None] = hidden(runs, "_tell")
    turn: Callable[..., Any] = hidden(runs.Runs, "_turn")

    async def hasty(self: Any, key: Any, hot: Any, batch: Any) -> None:
        if hot.state is not None:
            transition = advance(hot.state, [one.input for one in batch], self._context())
            if transition.changes_something:
                tell(batch, transition.replies)
        await turn(self, key, hot, batch)

    return [(runs.Runs, "_turn", hasty)]


@BUGS.put("another-commit-id", Simulated(), "S4")
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


@BUGS.put("answers-without-looking", Simulated(), "S8", "L2", "L3", "S16")
def _answers_without_looking() -> list[Swap]:
    """A replica that another one has left behind answers by what it remembers."""

    async def never(_self: Any, _key: Any, _hot: Any) -> bool:
        return False

    return [(runs.Runs, "_moved_on", never)]


@BUGS.put("token-counter-restarts", Simulated(), "S9")
def _token_counter_restarts() -> list[Swap]:
    """Lease tokens are a name and a counter, and the counter starts over with the process."""
    honest: Callable[..., Any] = hidden(dispatcher.Dispatcher, "_take")

    def take(self: Any, session: Any, execution_id: str) -> Any:
        given = honest(self, session, execution_id)
        self.tokens = getattr(self, "tokens", 0) + 1
        token = f"{session.port.presence.worker_id} {self.tokens}"
        self._granted[token] = self._granted.pop(given.token)
        return replace(given, token=token)

    return [(dispatcher.Dispatcher, "_take", take)]


@BUGS.put("looks-only-when-woken", Simulated(), "L3", "L2")
def _looks_only_when_woken() -> list[Swap]:
    """A dispatcher trusts its notifications: what one that was lost would have told of is never looked for."""

    async def rest(self: Any, wait_ms: float) -> None:
        await self._woken(wait_ms)

    return [(dispatcher.Dispatcher, "_rest", rest)]


@BUGS.put("orphans-of-others-left", Simulated(), "L2", "L1")
def _orphans_of_others_left() -> list[Swap]:
    """A replica ends the leases of its own workers alone, so those of one that died are never ended."""
    honest: Callable[..., Any] = hidden(dispatcher.Dispatcher, "_expire")

    async def expire(self: Any, key: Any, leases: Any) -> None:
        held = {token for session in self.sessions for token in session.holds.values()}
        own = [one for one in leases if one.token in held]
        if own:
            await honest(self, key, own)

    return [(dispatcher.Dispatcher, "_expire", expire)]


@BUGS.put("busy-run-keeps-its-worker", Starving(), "L4")
def _busy_run_keeps_its_worker() -> list[Swap]:
    """A worker that is free is given the next step of the run it just worked for, always."""
    return [(dispatcher.Dispatcher, "_overtakes_too_long", lambda _self, _queue: False)]


@BUGS.put("cache-goes-by-the-step", Simulated(), "S7")
def _cache_goes_by_the_step() -> list[Swap]:
    """A cache of results goes by the step, so a task that another plan defines anew has its old result."""
    honest = payloads.PayloadCache.__init__

    def init(self: Any, *rest: Any, **named: Any) -> None:
        honest(self, *rest, **named)
        self._kept = _FirstOfAStep()

    return [(payloads.PayloadCache, "__init__", init)]


class _FirstOfAStep(OrderedDict[Any, Any]):
    """Entries by step and not by attempt; the first one stays."""

    @staticmethod
    def _step(key: Any) -> Any:
        return (*key[:2], key[2].partition("#")[0])

    def __contains__(self, key: object) -> bool:
        return super().__contains__(self._step(key))

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._step(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        if key not in self:
            super().__setitem__(self._step(key), value)

    def pop(self, key: Any, default: Any = None) -> Any:
        return self[key]

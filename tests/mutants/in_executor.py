"""Bugs of the shell around the loop: when something is told, sent again, looked at, given out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stepwell.core.records.errors import OutcomeUnknown, StoreUnavailable
from stepwell.engine import batches, claims, committer, demand, payloads, runs, workers
from tests.mutants.planting import Swap, hidden
from tests.mutants.shelf import Shelf
from tests.mutants.simulated import Simulated
from tests.mutants.starving import Starving

BUGS = Shelf()


@BUGS.put("acknowledged-before-commit", Simulated(), "S3")
def _acknowledged_before_commit() -> list[Swap]:
    """The worker is told as soon as it is decided, before the store has it."""
    turn: Callable[..., Any] = hidden(runs.Runs, "_turn")

    async def hasty(self: Any, key: Any, hot: Any, batch: Any) -> None:
        if hot.state is not None:
            transition = await self._decide(hot.state, [one.signal for one in batch])
            if transition.commit is not None:
                batches.resolve(batch, transition.replies)
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

    return [(committer.Committer, "_send_until_answered", ask)]


@BUGS.put("answers-without-looking", Simulated(), "S8", "L2", "L3", "S16")
def _answers_without_looking() -> list[Swap]:
    """A replica that another one has left behind answers by what it remembers."""

    async def never(_self: Any, _key: Any, _hot: Any) -> bool:
        return False

    return [(runs.Runs, "_refresh", never)]


@BUGS.put("token-counter-restarts", Simulated(), "S9")
def _token_counter_restarts() -> list[Swap]:
    """Lease tokens are a name and a counter, and the counter starts over with the process."""
    honest = workers.Workers.__init__

    def init(self: Any, runtime: Any, *rest: Any) -> None:
        counting: Any = _Counting(runtime)
        honest(self, counting, *rest)

    return [(workers.Workers, "__init__", init)]


class _Counting:
    """A runtime whose lease tokens are numbers."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._count = 0

    def new_token(self) -> str:
        self._count += 1
        return f"token {self._count}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)


@BUGS.put("looks-only-when-woken", Simulated(), "L3", "L2")
def _looks_only_when_woken() -> list[Swap]:
    """A dispatcher trusts its notifications: what one that was lost would have told of is never looked for."""

    async def rest(self: Any, wait_ms: float) -> None:
        await self._demand.wait(wait_ms)

    return [(claims.Claims, "_rest", rest)]


@BUGS.put("orphans-of-others-left", Simulated(), "L2", "L1")
def _orphans_of_others_left() -> list[Swap]:
    """A replica ends the leases of its own workers alone, so those of one that died are never ended."""
    honest: Callable[..., Any] = hidden(claims.Claims, "_expire")

    async def expire(self: Any, key: Any, leases: Any) -> None:
        connected = self._workers.connections
        held = {token for worker in connected for token in worker.leases.values()}
        own = [one for one in leases if one.token in held]
        if own:
            await honest(self, key, own)

    return [(claims.Claims, "_expire", expire)]


@BUGS.put("busy-run-keeps-its-worker", Starving(), "L4")
def _busy_run_keeps_its_worker() -> list[Swap]:
    """A worker that is free is given the next step of the run it just worked for, always."""
    return [(demand.Demand, "overtaken_too_long", lambda _self, _queue: False)]


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

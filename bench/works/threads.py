"""Idle threads: a claim beside many threads in which no run works, against an empty store.

Their commits come from the real loop and go to the store directly: a run joins each thread, the letter that starts it
is delivered, and the run leaves. The empty store and the full one are measured in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import NamedTuple

from bench.stage import Stage
from bench.works.parked import GROUP, claiming, in_turn
from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import LettersDelivered, Occurrence, RunLeft, StartInThread
from stepwell.core.loop.state import RunState
from stepwell.core.port import Commit, Store
from stepwell.core.records.model import RunSpec
from stepwell.core.records.states import Verdict
from stepwell.core.records.threads import key_of
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store

TENANT = "default"


class ThreadCosts(NamedTuple):
    """Costs beside idle threads, and by those on an empty store."""

    claim: float
    claim_ms: float


@dataclass(frozen=True)
class Threads:
    """So many idle threads; in each round so many claims on either store."""

    threads: int = 10_000
    calls: int = 30
    rounds: int = 5
    name: str = "threads"
    stores: Sequence[str] = ("sqlite", "postgres", "redis")
    once: bool = True

    async def measure(self, stage: Stage) -> Sequence[ThreadCosts]:
        if stage.backend.name == "memory":
            raise SystemExit("idle threads need a store that outlives its server; try grpc:memory")
        await stage.close()
        with stage.backend.fresh() as empty, stage.backend.fresh() as full:
            async with AsyncExitStack() as stack:
                opened: list[Store] = []
                for place in (empty, full):
                    opened.append(await open_store(place.url, runtime=SystemRuntime()))
                    stack.push_async_callback(opened[-1].close)
                await _fill(opened[1], self.threads)
                claims = await in_turn(
                    [claiming(store) for store in opened], self.calls, self.rounds
                )
        return [ThreadCosts(claim=full / empty, claim_ms=full) for empty, full in claims]


async def _fill(store: Store, count: int) -> None:
    runtime = SystemRuntime()
    for first in range(0, count, GROUP):
        group = [_commits(runtime, f"t{n}") for n in range(first, min(first + GROUP, count))]
        for commits in zip(*group, strict=True):
            results = await store.commit(commits)
            assert all(result.verdict is Verdict.COMMITTED for result in results)


def _commits(runtime: SystemRuntime, thread_id: str) -> Iterator[Commit]:
    """Yield the commits of a thread that a run has joined and left."""
    spec = RunSpec(
        tenant_id=TENANT,
        run_id=runtime.new_id(),
        pipeline_id="idle",
        thread_id=thread_id,
        request_fingerprint="idle",
    )
    state = RunState.empty(*key_of(TENANT, thread_id))
    turns: Sequence[Occurrence] = (
        StartInThread(spec=spec),
        LettersDelivered(last=1),
        RunLeft(run_id=spec.run_id),
    )
    for one in turns:
        context = Context(commit_id=runtime.new_id(), now_us=runtime.now_us())
        commit = advance(state, [one], context).commit
        assert commit is not None, "each changes the thread"
        state.apply(commit)
        yield commit

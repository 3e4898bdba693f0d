"""C2, C3: a store whose clock is set, forth or back, tells of nothing before its time, and of everything in its order.

The clock that counts is the store's own, as it says it in its answers. A lease, a timer and a delayed step
are given while it jumps. None is due before that clock has come so far; all of them are due soon after the
clock is right again. The feed has the commits in the order in which they were made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from stepwell.core.port import ClaimRequest, FeedQuery, Store
from stepwell.core.records.states import DueKind, RunStatus, Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.conformance import builders as b
from tests.chaos.world.clocked import PLACES, reachable
from tests.chaos.world.faked import HOUR_S, Clock
from tests.support.patience import PATIENCE_S
from tests.support.proofs import record
from tests.support.proofs.sizes import Scale, scale

KINDS = ("memory", "file", "redis") if scale() is Scale.TEST else ("memory", "file", *PLACES)
SERVERS = ("postgres", "redis")
"""Stores that live by their server's wall clock; the others read theirs once."""
DELAY_MS = 250
TURNS = 3 if scale() is Scale.TEST else 8
SEED = 20261122


class SteppedRuntime(SystemRuntime):
    """This machine's clocks, of which the wall clock is as far off as it was last set."""

    off_s = 0.0

    def now_us(self) -> int:
        return super().now_us() + int(self.off_s * 1_000_000)


class Stepped(NamedTuple):
    """A store, and how its clock is set."""

    store: Store
    set_off: Callable[[float], None]


@asynccontextmanager
async def stepped(kind: str, folder: Path) -> AsyncIterator[Stepped]:
    runtime = SteppedRuntime()

    def set_runtime(off_s: float) -> None:
        runtime.off_s = off_s

    if kind in ("memory", "file"):
        url = "memory://" if kind == "memory" else f"sqlite:///{folder / 'stepped.db'}"
        store = await open_store(url, runtime=runtime)
        try:
            yield Stepped(store, set_runtime)
        finally:
            await store.close()
        return
    with reachable() as place, PLACES[kind](folder, clock := Clock(place, "store")) as shared:
        token = folder / "state/stepwell/token"
        url = f"{shared.url}?token_file={token}" if kind == "sqlite" else shared.url
        store = await open_store(url, runtime=SystemRuntime())
        try:
            yield Stepped(store, clock.set)
        finally:
            await store.close()


async def give(store: Store, run_id: str) -> int:
    """Commit a run with a delayed step, a timer and a lease; returns when they are due, by the store."""
    commit = b.created(
        run_id,
        executions=[b.ready("task:d#1", delay_ms=DELAY_MS, task_id="d"), b.leased()],
        leases=[b.lease(token=f"of {run_id}", lease_ms=DELAY_MS)],
        timers=[b.timer(DELAY_MS)],
        status=RunStatus.RUNNING,
    )
    (result,) = await store.commit([commit])
    assert result.verdict is Verdict.COMMITTED
    return result.now_us + DELAY_MS * 1_000


async def check_due(store: Store, due_us: dict[str, int], found: set[tuple[str, str]]) -> None:
    """Ask once what is due; nothing of it may be early."""
    request = ClaimRequest(wants=(b.want(),), hold_ms=600_000)
    claimed = await store.claim(request)
    steps = [(one.run_id, "step") for one in claimed.ready[0]]
    others = [(one.run_id, one.kind) for one in claimed.due]
    for run_id, what in (*steps, *others):
        early_us = due_us[run_id] - claimed.now_us
        assert early_us <= 0, f"C2: {what} of {run_id} came {early_us} us early"
        found.add((run_id, what))


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
async def test_C2_nothing_is_due_before_its_time_by_the_stores_clock(
    kind: str, tmp_path: Path
) -> None:
    rnd = Random(f"{SEED}/{kind}")
    due_us: dict[str, int] = {}
    found: set[tuple[str, str]] = set()
    async with stepped(kind, tmp_path) as (store, set_off):
        for turn in range(TURNS):
            run_id = f"run-{turn}"
            due_us[run_id] = await give(store, run_id)
            await check_due(store, due_us, found)
            set_off(rnd.choice((-HOUR_S, HOUR_S, 0.0, -1.0, 0.1)))
            for _ in range(rnd.randint(0, 3)):
                await check_due(store, due_us, found)
                await asyncio.sleep(rnd.uniform(0.0, 0.1))
        # The last one is given while the clock is an hour ahead, and then that is over.
        set_off(HOUR_S)
        due_us["run-ahead"] = await give(store, "run-ahead")
        ahead_s = due_us["run-ahead"] / 1e6 - time.time()
        assert kind not in SERVERS or ahead_s > HOUR_S / 2, "its clock was not set"
        set_off(0.0)
        wanted = {
            (run_id, what)
            for run_id in due_us
            for what in ("step", DueKind.TIMER, DueKind.LEASE_EXPIRED)
        }
        end = time.monotonic() + PATIENCE_S
        while found != wanted:
            left = sorted(f"{run_id} {what}" for run_id, what in wanted - found)
            assert time.monotonic() < end, (
                f"L2: the clock is right again, and nobody hears of {left}"
            )
            await asyncio.sleep(0.05)
            await check_due(store, due_us, found)
        entries = (await store.page(FeedQuery())).items
        order = [one.run_id for one in entries]
        if kind != "redis":
            # There the commits of one run alone have an order, and each run here has one commit.
            assert order == list(due_us), f"C3: {order}"
        assert sorted(order) == sorted(due_us), "C3"
    figures = {"clocks set": TURNS, "moments awaited": len(wanted), "early": 0}
    record.note(f"store clocks set, {kind}", figures, seed=SEED)

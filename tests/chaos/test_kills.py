"""S3: SIGKILL and SIGSTOP of servers, workers, the store's service and databases, at random moments.

Several are away at a time, and the others go on. What was acknowledged is kept outside of all that is
killed: which runs were started, each commit in its replica's diary, each outcome that was acknowledged to
its worker. After it the whole history is laid over the store (`history.py`): nothing acknowledged is lost,
each task has one result, which is its accepted worker's, attempts go up, and all runs end. A step that lost three
workers may be taken for poison, if all three were killed. Watchers follow all the while, eight of a run. Most
runs share idempotency keys with those that are started around the same time: one task of a key is under way at
a time, its good result is taken by all, and one that fails leaves the key to the next (K1). Some runs make calls
within their steps: forget one, sleep, ask (J1 to J5, `journals.py`).

The seed is printed; `STEPWELL_KILL_SEED=… make proof ARGS='-k test_kills'` draws the same blows again (as
far as processes on one machine can).
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from stepwell.core.records.states import ExecutionStatus
from stepwell_client import Client, Plan, Run, Unavailable
from stepwell_client.enums import QuestionStatus
from tests.chaos.faults.storm import Storm
from tests.chaos.load.follower import Follower
from tests.chaos.load.manual_worker import MANUAL, ManualWorker
from tests.chaos.load.runs import checked, ended, graph, met, started, waited, wide, with_keys
from tests.chaos.oracle import journals
from tests.chaos.oracle.history import Findings, check_condemned
from tests.chaos.world.agent import CALLS
from tests.chaos.world.cluster import APART, Cluster, cluster_on
from tests.chaos.world.observed import DEAF
from tests.chaos.world.stores import STORES
from tests.simulation.simulator import keys
from tests.support.proofs import record, sizes

SEED = int(os.environ.get("STEPWELL_KILL_SEED", "20261122"))
CHUNK = 60
STORM_S_MAX = 150.0
"""A start may have to wait for as long as it blows."""
WATCHED_EVERY = 10
"""One run of so many has watchers, and has more tasks than the others."""
CALLING_EVERY = 6
"""One run of so many makes calls within its steps."""
WATCHERS = 8
SHARING = 6
"""So many runs, one after the other, share idempotency keys, as far as they are of one pipeline."""
PIPELINES = ("", "", "other")


@pytest.mark.proof
@pytest.mark.timeout(240, method="thread")
@pytest.mark.parametrize("part", sizes.chunks("kills", CHUNK), ids=lambda part: f"{part.start}")
@pytest.mark.parametrize("kind", sorted(STORES))
async def test_S3_nothing_acknowledged_is_lost_whatever_is_killed(
    tmp_path: Path, kind: str, part: range
) -> None:
    print(f"again with STEPWELL_KILL_SEED={SEED}")
    rnd = Random(f"{SEED} {kind} {part.start}")
    with cluster_on(kind, tmp_path) as cluster:
        await _start(cluster, rnd)
        storm = Storm(cluster, Random(rnd.random()))
        manual = ManualWorker(cluster, Random(rnd.random()))
        story = _Story(cluster, rnd)
        try:
            async with cluster.client() as client, manual:
                await story.live(client, storm, len(part))
            findings = await checked(cluster, story.followers, manual.acknowledged)
        except BaseException:
            print(cluster.logs())
            raise
        finally:
            story.close()
    _agree(findings, story)
    findings.seen.update(journals.check_notes(cluster.notes(CALLS)))
    check_condemned(findings, storm.deaths)
    findings.seen.update(storm.count_lost(findings.lost))
    print(f"{dict(storm.struck)}")
    assert storm.struck.total() == len(part)
    if sizes.scale() is not sizes.Scale.TEST:
        # A few blows may all miss it.
        met(findings.seen, "acknowledged outcome checked", "cut off", *keys.SEEN, *journals.SEEN)
    _keep(kind, storm, story, findings)


async def _start(cluster: Cluster, rnd: Random) -> None:
    await cluster.start(**{DEAF: "0.25"})
    names = cluster.names
    for number, home in enumerate(names if len(names) > 1 else (*names, *names), start=1):
        others = [name for name in names if name != home]
        await cluster.work(f"w{number}", home, *rnd.sample(others, len(others)))


class _Story:
    """The load while the storm blows: runs that are started, and their watchers."""

    def __init__(self, cluster: Cluster, rnd: Random) -> None:
        self._cluster = cluster
        self._rnd = rnd
        self.acknowledged: list[str] = []
        """The runs whose start was."""
        self.followers: list[Follower] = []

    async def live(self, client: Client, storm: Storm, blows: int) -> None:
        """Let it all happen, and wait for the end of every run."""
        rnd = self._rnd
        # Where there are several the others go on meanwhile.
        pause_s = 0.6 / len(self._cluster.names)
        # One run lasts from the first blow to the last.
        await self._run(client, wide(1, "gated"), queue=APART, watched=True)
        async with asyncio.TaskGroup() as all_of_it:
            for number in range(blows):
                watched = number % WATCHED_EVERY == 0
                plan = graph(rnd, rnd.randint(8, 12) if watched else rnd.randint(2, 5))
                if not watched:
                    # Nobody holds or waits for such a key any more but these runs.
                    plan = with_keys(rnd, plan, [f"{number // SHARING}.{key}" for key in range(2)])
                run = self._run(client, plan, pipeline=rnd.choice(PIPELINES), watched=watched)
                all_of_it.create_task(run)
                if number % CALLING_EVERY == 2:
                    all_of_it.create_task(self._calling(client, wide(2, CALLS)))
                if watched:
                    # Of the others the hand may get none while it blows.
                    manual = self._run(client, wide(3), queue=MANUAL, watched=False)
                    all_of_it.create_task(manual)
                await asyncio.sleep(rnd.uniform(0.0, pause_s))
                all_of_it.create_task(storm.strike(await storm.draw()))
        self._cluster.open_gate()
        async with asyncio.timeout(90):
            await self._pardon(client)
            await ended(client, self.acknowledged, 90)

    async def _pardon(self, client: Client) -> None:
        """Resume the runs that failed because the storm killed three workers of one step, in a row.

        Whether these were killed is looked at in the end (`check_condemned`).
        """
        for run_id in self.acknowledged:
            run = await self._answered(client, run_id)
            while run.failure is not None and run.failure.kind == "POISON":
                await client.run(run_id).resume()
                run = await self._answered(client, run_id)

    async def _calling(self, client: Client, plan: Plan) -> None:
        await self._answered(client, await self._run(client, plan, watched=False))

    async def _answered(self, client: Client, run_id: str) -> Run:
        """Answer what a run asks until it ends; return it then."""
        end = asyncio.create_task(waited(client, run_id))
        while not end.done():
            with suppress(Unavailable):
                async for one in client.run(run_id).questions():
                    if one.status == QuestionStatus.OPEN:
                        await client.run(run_id).answer(one.id, "Ada")
            await asyncio.wait([end], timeout=0.3)
        return end.result()

    async def _run(
        self,
        client: Client,
        plan: Plan,
        *,
        queue: str = "default",
        pipeline: str = "",
        watched: bool,
    ) -> str:
        run_id = await started(client, plan, queue=queue, pipeline=pipeline, seconds=STORM_S_MAX)
        # From here on it may not be lost.
        self.acknowledged.append(run_id)
        if watched:
            for _ in range(WATCHERS):
                rnd = Random(self._rnd.random())
                self.followers.append(Follower(self._cluster, run_id, rnd, moves=0.1).start())
        return run_id

    def close(self) -> None:
        for one in self.followers:
            one.leave()


def _agree(findings: Findings, story: _Story) -> None:
    """The runs that were acknowledged are all there, and each counts the attempts that its rows tell."""
    assert set(story.acknowledged) <= set(findings.books), "S3"
    for book in findings.books.values():
        assert book.run is not None
        ends = Counter(one.status for one in book.executions.values())
        counted = {status: getattr(book.run.attempts, status.lower(), 0) for status in ends}
        assert counted == dict(ends), "S12"
        accepted = Counter(
            one.task_id
            for one in book.executions.values()
            if one.task_id and one.status is ExecutionStatus.COMPLETED
        )
        assert set(accepted.values()) == {1}, "S7"


def _keep(kind: str, storm: Storm, story: _Story, findings: Findings) -> None:
    name, seen = kind.replace("_", " "), findings.seen
    kills = {
        **storm.struck,
        "runs": len(story.acknowledged),
        "acknowledged outcomes": seen["acknowledged outcome checked"],
        "acknowledged commits": seen["acknowledged commit checked"],
        "keys waited for": seen[keys.WAITED],
        "keys taken over": seen[keys.TAKEN_OVER],
        "results shared": seen[keys.REUSED],
        "calls kept": seen[journals.KEPT],
        "calls taken from journals": seen[journals.REPLAYED],
        "calls forgotten": seen[journals.FORGOTTEN],
        "journal entries": seen[journals.ENTRY],
        "lost": 0,
    }
    watched = {
        "watchers": len(story.followers),
        "events": sum(len(one.events) for one in story.followers),
        "streams cut off": seen["cut off"],
        "moves": seen["replica changed"],
        "old cursors": seen["came back with an old cursor"],
        "future cursors refused": seen["cursor from the future refused"],
        "gaps and repeats": 0,
    }
    record.note(f"kills, {name}", kills, seen, SEED)
    record.note(f"watchers under kills, {name}", watched, seed=SEED)

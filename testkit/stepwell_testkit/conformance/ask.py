"""Short ways to call a store and check the answer."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.port import (
    Claim,
    Claimed,
    Commit,
    CommitResult,
    Due,
    Loaded,
    ReadyStep,
    RunQuery,
    Store,
    StoredPayload,
    Want,
)
from stepwell.core.records.model import Outcome
from stepwell.core.records.states import Verdict
from stepwell_testkit.conformance.builders import RUN, TENANT, want


async def verdicts(store: Store, *commits: Commit) -> list[Verdict]:
    """Send these commits in one call and return the verdict on each."""
    results: Sequence[CommitResult] = await store.commit(commits)
    assert len(results) == len(commits)
    return [result.verdict for result in results]


async def must(store: Store, *commits: Commit) -> Commit:
    """Send these commits, check that each is applied, and return the last."""
    assert await verdicts(store, *commits) == [Verdict.COMMITTED] * len(commits)
    return commits[-1]


async def claimed(
    store: Store, *wants: Want, due_limit: int = 256, hold_ms: int = 2_000
) -> Claimed:
    """Claim the wanted steps, and due items."""
    return await store.claim(Claim(wants=wants, due_limit=due_limit, hold_ms=hold_ms))


async def ready_steps(store: Store, one: Want | None = None) -> list[ReadyStep]:
    """Claim for one want and return the ready steps."""
    answer = await claimed(store, one or want(), due_limit=0)
    assert len(answer.ready) == 1
    return list(answer.ready[0])


async def ready_ids(store: Store, one: Want | None = None) -> list[str]:
    """Claim for one want and return the ids of the ready executions."""
    return [found.execution_id for found in await ready_steps(store, one)]


async def due_now(store: Store, *, limit: int = 256, hold_ms: int = 2_000) -> list[Due]:
    """Claim only due items."""
    return list((await claimed(store, due_limit=limit, hold_ms=hold_ms)).due)


async def due_names(store: Store) -> list[str]:
    """Claim due items and return their names."""
    return [due.name for due in await due_now(store)]


async def loaded(
    store: Store, run_id: str = RUN, *, tenant: str = TENANT, since: int = 0
) -> Loaded:
    """Load a run that must exist."""
    found = await store.load(tenant, run_id, since=since)
    assert found is not None
    return found


async def version_of(store: Store, run_id: str = RUN, *, tenant: str = TENANT) -> int:
    """Return a run's stored version, or 0 if it doesn't exist."""
    run = await store.get_run(tenant, run_id)
    return run.version if run is not None else 0


def data_of(stored: StoredPayload) -> bytes:
    """Return the bytes of a payload that must exist."""
    assert stored.payload is not None
    return stored.payload.data


async def outcomes(
    store: Store, execution_ids: Sequence[str], run_id: str = RUN, *, tenant: str = TENANT
) -> list[Outcome]:
    """Read executions' outcomes, with bytes and texts."""
    stored = await store.read_payloads(tenant, run_id, execution_ids, texts=True)
    return [
        Outcome(
            execution_id=one.key,
            result=one.payload,
            prompt=one.prompt,
            response=one.response,
            receipt=one.receipt,
        )
        for one in stored
    ]


async def now_us(store: Store) -> int:
    """Return the store's time."""
    return (await claimed(store, due_limit=0)).now_us


async def run_ids(store: Store, query: RunQuery | None = None) -> list[str]:
    """List one page of runs and return their ids."""
    page = await store.page(query or RunQuery(tenant_id=TENANT))
    return [run.spec.run_id for run in page.items]

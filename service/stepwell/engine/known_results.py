"""Searches the results of other runs under the idempotency keys of tasks that are about to be offered.

The search is best effort: an unavailable store delays nothing, and two runs that search at the same
moment both find nothing. A run whose tasks have no keys causes no search.
"""

from __future__ import annotations

from collections.abc import Callable

from stepwell.core.loop.context import KnownResult
from stepwell.core.loop.transition import Transition
from stepwell.core.port import FoundResult, Store
from stepwell.core.records.errors import StoreError
from stepwell.logger import get_logger

log = get_logger(__name__)

_SEARCHES_MAX = 8
"""Searches for one transition; each result may let further tasks be offered, with further keys."""


async def decide(
    store: Store, advanced: Callable[[dict[str, KnownResult | None]], Transition]
) -> Transition:
    """Return the transition once all that is known under its tasks' keys is known to it.

    `advanced` makes the transition from the known results. It is called last without a wait after it, so
    that the free workers it saw are free still.
    """
    known: dict[str, KnownResult | None] = {}
    transition = advanced(known)
    for _ in range(_SEARCHES_MAX):
        if not transition.unknown_keys:
            break
        known |= await _search(store, transition)
        transition = advanced(dict(known))
    return transition


async def _search(store: Store, transition: Transition) -> dict[str, KnownResult | None]:
    spec, keys = transition.run.spec, transition.unknown_keys
    known: dict[str, KnownResult | None] = dict.fromkeys(keys)
    try:
        for one in await store.find_keyed(spec.tenant_id, spec.pipeline_id, keys):
            if one.run_id != spec.run_id:
                known[one.key] = await _read(store, spec.tenant_id, one)
    except StoreError as error:
        log.warning("other runs' results were not searched", error=error.message)
    return known


async def _read(store: Store, tenant_id: str, result: FoundResult) -> KnownResult | None:
    payloads = await store.read_payloads(tenant_id, result.run_id, [result.execution_id])
    if payloads:
        return KnownResult(
            run_id=result.run_id, execution_id=result.execution_id, result=payloads[0].payload
        )
    # The result has no bytes, or the run was deleted a moment ago.
    if await store.get_run(tenant_id, result.run_id) is None:
        return None
    return KnownResult(run_id=result.run_id, execution_id=result.execution_id)

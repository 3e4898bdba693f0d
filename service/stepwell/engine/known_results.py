"""Idempotency keys of other runs: looked for in the store before a task of such a key is offered.

It is a courtesy, best effort across runs: a store that can't be asked holds nothing up, and two runs that
ask at the same moment both find nothing. A run whose tasks have no keys never comes here.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from msgspec.structs import replace

from stepwell.core.loop.advance import advance
from stepwell.core.loop.signals import Context, KnownResult, Signal, Transition
from stepwell.core.loop.state import RunState
from stepwell.core.port import FoundResult, Store
from stepwell.core.records.errors import StoreError

log = structlog.get_logger(__name__)

_LOOKS_MAX = 8
"""For one transition; each may let further tasks be offered, whose keys nobody has looked for."""


async def decide(
    store: Store, state: RunState, inputs: Sequence[Signal], context: Context
) -> Transition:
    """Return what these inputs make of the run, with what other runs came to known to it."""
    transition = advance(state, inputs, context)
    for _ in range(_LOOKS_MAX):
        if not transition.unknown_keys:
            break
        found = await _look(store, transition)
        if not any(found.values()):
            break
        context = replace(context, known={**context.known, **found})
        transition = advance(state, inputs, context)
    return transition


async def _look(store: Store, transition: Transition) -> dict[str, KnownResult | None]:
    spec, keys = transition.run.spec, transition.unknown_keys
    known: dict[str, KnownResult | None] = dict.fromkeys(keys)
    try:
        for one in await store.find_keyed(spec.tenant_id, spec.pipeline_id, keys):
            if one.run_id != spec.run_id:
                known[one.key] = await _read(store, spec.tenant_id, one)
    except StoreError as error:
        log.warning("other runs' results were not looked for", error=error.message)
    return known


async def _read(store: Store, tenant_id: str, found: FoundResult) -> KnownResult | None:
    payloads = await store.read_payloads(tenant_id, found.run_id, [found.execution_id])
    if payloads:
        return KnownResult(
            run_id=found.run_id, execution_id=found.execution_id, result=payloads[0].payload
        )
    # It had no bytes, or it was deleted a moment ago.
    if await store.get_run(tenant_id, found.run_id) is None:
        return None
    return KnownResult(run_id=found.run_id, execution_id=found.execution_id)

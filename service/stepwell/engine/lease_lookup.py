"""Finds the run of a lease by its token, for reads and writes of running steps."""

from __future__ import annotations

import hmac

from stepwell.core.loop.state import RunState
from stepwell.core.port import OpenExecution, Store
from stepwell.engine.key_types import RunKey
from stepwell.engine.runs import Runs


def holds_lease(row: OpenExecution, token: str) -> bool:
    """Return whether the token is the execution's lease's."""
    return bool(row.token) and hmac.compare_digest(row.token.encode(), token.encode())


def is_leased(state: RunState | None, execution_id: str, token: str) -> bool:
    """Return whether the token is the execution's lease's, as far as this state knows."""
    row = state.open.get(execution_id) if state is not None else None
    return row is not None and holds_lease(row, token)


async def leased_state(
    store: Store, runs: Runs, key: RunKey, execution_id: str, token: str
) -> RunState | None:
    """Return a state of the run in which the token is the execution's lease's, or None."""
    state = await runs.state(key)
    if state is None or is_leased(state, execution_id, token):
        return state
    # Another replica may have leased it without a hint so far.
    loaded = await store.load(*key)
    state = RunState.of(loaded) if loaded is not None else None
    return state if is_leased(state, execution_id, token) else None

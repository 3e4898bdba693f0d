"""Answers repeated outcomes: their leases have ended, and the store has the receipts of the first ones.

Only outcomes that the loop answered with LEASE_LOST are looked up, so no other outcome costs a
read.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.loop.occurrences import Delivery
from stepwell.core.loop.receipts import first_answer
from stepwell.core.loop.transition import LEASE_LOST, Reply
from stepwell.core.port import Store
from stepwell.engine.batches import Posted
from stepwell.engine.key_types import RunKey


async def answers(store: Store, key: RunKey, lost: Sequence[Posted]) -> list[Reply]:
    """Return the answers to one batch's outcomes whose leases are lost: the first answer if they came before.

    Raises:
        StoreUnavailable: nothing is known about them; the worker must send them again.
    """
    deliveries = [one.occurrence for one in lost if isinstance(one.occurrence, Delivery)]
    names = list(dict.fromkeys(one.execution_id for one in deliveries))
    stored = await store.read_payloads(*key, names, texts=True)
    receipts = {one.key: one.receipt for one in stored}
    return [
        first_answer(one, receipts.get(one.execution_id, "")) or LEASE_LOST for one in deliveries
    ]

"""Answers outcomes that are sent again: their leases are over, and the store has the receipts of the first.

Only outcomes that the loop answered with LEASE_LOST are looked up, so no other outcome costs a read.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.loop.receipts import first_answer
from stepwell.core.loop.signals import Delivery
from stepwell.core.loop.transition import LEASE_LOST, Reply
from stepwell.core.port import Store
from stepwell.engine.batches import Posted
from stepwell.engine.names import RunKey


async def answers(store: Store, key: RunKey, lost: Sequence[Posted]) -> list[Reply]:
    """Return the answers to outcomes of one batch whose leases are lost: the first one if they came before.

    Raises:
        StoreUnavailable: nothing is known of them; the worker is to send them again.
    """
    deliveries = [one.signal for one in lost if isinstance(one.signal, Delivery)]
    names = list(dict.fromkeys(one.execution_id for one in deliveries))
    stored = await store.read_payloads(*key, names, texts=True)
    receipts = {one.key: one.receipt for one in stored}
    return [
        first_answer(one, receipts.get(one.execution_id, "")) or LEASE_LOST for one in deliveries
    ]

"""The bytes that assignments carry: kept for a moment after their commit, else read from the store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from stepwell.core.loop.signals import Transition
from stepwell.core.port import INPUT_KEY, Store
from stepwell.core.records import limits
from stepwell.core.records.model import Payload

Place = tuple[str, str]
"""A run, and the key of one of its payloads; results that a fork kept are another run's."""
Key = tuple[str, str, str]


class PayloadCache:
    """A bounded cache over the store's payloads. They are immutable, so it is never stale."""

    def __init__(self, store: Store, *, bytes_max: int = 64 * 1024 * 1024) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Key, Payload | None] = OrderedDict()

    def keep(self, tenant_id: str, run_id: str, transition: Transition) -> None:
        """Remember what was just committed; of a run's birth, also that it has no input."""
        for outcome in transition.outcomes:
            if outcome.result is not None:
                self._put((tenant_id, run_id, outcome.execution_id), outcome.result)
        if transition.run.version == 1:
            self._put((tenant_id, run_id, INPUT_KEY), transition.input)

    def at_hand(self, tenant_id: str, places: Sequence[Place]) -> dict[Place, Payload] | None:
        """Return what is kept at these places; None: the store must be asked for some of it."""
        found: dict[Place, Payload] = {}
        for place in places:
            key = (tenant_id, *place)
            if key not in self._kept:
                return None
            if (payload := self._kept[key]) is not None:
                found[place] = payload
        return found

    async def get(self, tenant_id: str, places: Sequence[Place]) -> dict[Place, Payload]:
        """Return what is kept at these places; one without bytes is left out."""
        found: dict[Place, Payload] = {}
        missing: dict[str, list[str]] = {}
        for place in places:
            key = (tenant_id, *place)
            if key not in self._kept:
                missing.setdefault(place[0], []).append(place[1])
            elif (payload := self._kept[key]) is not None:
                found[place] = payload
        for run_id, keys in missing.items():
            for start in range(0, len(keys), limits.PAYLOAD_KEYS_MAX):
                page = keys[start : start + limits.PAYLOAD_KEYS_MAX]
                for stored in await self._store.read_payloads(tenant_id, run_id, page):
                    found[run_id, stored.key] = stored.payload
                    self._put((tenant_id, run_id, stored.key), stored.payload)
            if INPUT_KEY in keys and (run_id, INPUT_KEY) not in found:
                self._put((tenant_id, run_id, INPUT_KEY), None)
        return found

    def _put(self, key: Key, payload: Payload | None) -> None:
        if key in self._kept:
            self._bytes -= _size(self._kept.pop(key))
        self._kept[key] = payload
        self._bytes += _size(payload)
        while self._bytes > self._bytes_max:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(payload: Payload | None) -> int:
    """Count an entry with what holding it costs."""
    return 256 + (len(payload.data) if payload is not None else 0)

"""Payloads that assignments carry: cached when they are committed, else read from the store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from stepwell.core.port import INPUT_KEY, Commit, Store
from stepwell.core.records import limits
from stepwell.core.records.model import Payload

Place = tuple[str, str]
"""(run_id, key of a payload); a fork's results may lie in another run of its family."""
Key = tuple[str, str, str]


class PayloadCache:
    """A bounded cache over the store's payloads. They are immutable, so it is never stale."""

    def __init__(self, store: Store, *, bytes_max: int = 64 * 1024 * 1024) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Key, Payload | None] = OrderedDict()

    def keep(self, commit: Commit) -> None:
        """Cache the results of a commit; of a run's first one, also its input or that it has none."""
        for outcome in commit.outcomes:
            if outcome.result is not None:
                self._put((commit.tenant_id, commit.run_id, outcome.execution_id), outcome.result)
        if commit.version == 1:
            self._put((commit.tenant_id, commit.run_id, INPUT_KEY), commit.input)

    def cached(self, tenant_id: str, places: Sequence[Place]) -> dict[Place, Payload] | None:
        """Return the payloads at these places; None: some of them must be read from the store."""
        payloads: dict[Place, Payload] = {}
        for place in places:
            key = (tenant_id, *place)
            if key not in self._kept:
                return None
            if (payload := self._kept[key]) is not None:
                payloads[place] = payload
        return payloads

    async def get(self, tenant_id: str, places: Sequence[Place]) -> dict[Place, Payload]:
        """Return the payloads at these places; places without bytes are left out."""
        payloads: dict[Place, Payload] = {}
        missing: dict[str, list[str]] = {}
        for place in places:
            key = (tenant_id, *place)
            if key not in self._kept:
                missing.setdefault(place[0], []).append(place[1])
            elif (payload := self._kept[key]) is not None:
                payloads[place] = payload
        for run_id, keys in missing.items():
            for start in range(0, len(keys), limits.PAYLOAD_KEYS_MAX):
                page = keys[start : start + limits.PAYLOAD_KEYS_MAX]
                for stored in await self._store.read_payloads(tenant_id, run_id, page):
                    if stored.payload is not None:
                        payloads[run_id, stored.key] = stored.payload
                        self._put((tenant_id, run_id, stored.key), stored.payload)
            if INPUT_KEY in keys and (run_id, INPUT_KEY) not in payloads:
                self._put((tenant_id, run_id, INPUT_KEY), None)
        return payloads

    def _put(self, key: Key, payload: Payload | None) -> None:
        if key in self._kept:
            self._bytes -= _size(self._kept.pop(key))
        self._kept[key] = payload
        self._bytes += _size(payload)
        while self._bytes > self._bytes_max:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(payload: Payload | None) -> int:
    """Return the bytes of an entry, with an estimate of its overhead."""
    return 256 + (len(payload.data) if payload is not None else 0)

"""The bytes that assignments carry: kept for a moment after their commit, else read from the store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from stepwell.core import limits
from stepwell.core.inputs import Transition
from stepwell.core.model import Payload
from stepwell.core.ports import INPUT_KEY, Store

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

    def at_hand(
        self, tenant_id: str, run_id: str, keys: Sequence[str]
    ) -> dict[str, Payload] | None:
        """Return what is kept under these keys; None: the store must be asked for some of it."""
        found: dict[str, Payload] = {}
        for key in keys:
            whole_key = (tenant_id, run_id, key)
            if whole_key not in self._kept:
                return None
            if (payload := self._kept[whole_key]) is not None:
                found[key] = payload
        return found

    async def get(self, tenant_id: str, run_id: str, keys: Sequence[str]) -> dict[str, Payload]:
        """Return what is kept under these keys; a key without bytes is left out."""
        found: dict[str, Payload] = {}
        missing: list[str] = []
        for key in keys:
            whole_key = (tenant_id, run_id, key)
            if whole_key not in self._kept:
                missing.append(key)
            elif (payload := self._kept[whole_key]) is not None:
                found[key] = payload
        for start in range(0, len(missing), limits.PAYLOAD_KEYS_MAX):
            page = missing[start : start + limits.PAYLOAD_KEYS_MAX]
            for stored in await self._store.read_payloads(tenant_id, run_id, page):
                found[stored.key] = stored.payload
                self._put((tenant_id, run_id, stored.key), stored.payload)
        if INPUT_KEY in missing and INPUT_KEY not in found:
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

"""The bytes that assignments carry: kept for a moment after their commit, else read from the store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from stepwell.core import limits
from stepwell.core.model import Outcome, Payload
from stepwell.core.ports import INPUT_KEY, Store

Key = tuple[str, str, str]


class PayloadCache:
    """A bounded cache over the store's payloads. They are immutable, so it is never stale."""

    def __init__(self, store: Store, *, bytes_max: int = 64 * 1024 * 1024) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Key, Payload] = OrderedDict()

    def keep(
        self, tenant_id: str, run_id: str, outcomes: Iterable[Outcome], run_input: Payload | None
    ) -> None:
        """Remember what was just committed."""
        for outcome in outcomes:
            if outcome.result is not None:
                self._put((tenant_id, run_id, outcome.execution_id), outcome.result)
        if run_input is not None:
            self._put((tenant_id, run_id, INPUT_KEY), run_input)

    async def get(self, tenant_id: str, run_id: str, keys: Sequence[str]) -> dict[str, Payload]:
        """Return what is kept under these keys; a key without bytes is left out."""
        found: dict[str, Payload] = {}
        missing: list[str] = []
        for key in keys:
            payload = self._kept.get((tenant_id, run_id, key))
            if payload is None:
                missing.append(key)
            else:
                found[key] = payload
        for start in range(0, len(missing), limits.PAYLOAD_KEYS_MAX):
            page = missing[start : start + limits.PAYLOAD_KEYS_MAX]
            for stored in await self._store.read_payloads(tenant_id, run_id, page):
                found[stored.key] = stored.payload
                self._put((tenant_id, run_id, stored.key), stored.payload)
        return found

    def _put(self, key: Key, payload: Payload) -> None:
        before = self._kept.pop(key, None)
        if before is not None:
            self._bytes -= len(before.data)
        self._kept[key] = payload
        self._bytes += len(payload.data)
        while self._bytes > self._bytes_max:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped.data)

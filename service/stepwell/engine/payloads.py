"""Payloads for assignments: cached when they are committed, otherwise read from the store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from stepwell.core.port import INPUT_KEY, Commit, Store
from stepwell.core.records.model import Payload
from stepwell.core.records.states import ExecutionStatus

Place = tuple[str, str]
"""(run_id, key of a payload); a fork's results may lie in another run of its family."""
Key = tuple[str, str, str]
READ_AT_ONCE_MIN = 16
READ_AT_ONCE_MAX = 128
"""Payloads per read, for the first and the last read: each may have a mebibyte."""


class PayloadCache:
    """A bounded cache of the store's payloads, which are immutable, so it is never stale."""

    def __init__(self, store: Store, *, bytes_max: int = 64 * 1024 * 1024) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Key, Payload | None] = OrderedDict()

    def keep(self, commit: Commit) -> None:
        """Cache a commit's results, or that a step has none; for a run's first commit also its input."""
        for outcome in commit.outcomes:
            if outcome.result is not None:
                self._put((commit.tenant_id, commit.run_id, outcome.execution_id), outcome.result)
        completed = ExecutionStatus.COMPLETED
        for execution in commit.executions:
            if execution.status is completed and not execution.has_result:
                self._put((commit.tenant_id, commit.run_id, execution.execution_id), None)
        if commit.version == 1:
            self._put((commit.tenant_id, commit.run_id, INPUT_KEY), commit.input)

    def cached(
        self, tenant_id: str, places: Sequence[Place], room: int
    ) -> dict[Place, Payload | None] | None:
        """Return what `get` would, or None if some of it must be read from the store."""
        found: dict[Place, Payload | None] = {}
        for place in places:
            key = (tenant_id, *place)
            if key not in self._kept:
                return None
            if (room := self._take(found, place, self._kept[key], room)) < 0:
                break
        return found

    async def get(
        self, tenant_id: str, places: Sequence[Place], room: int
    ) -> dict[Place, Payload | None]:
        """Return the payloads at the first of these places, as many as fit into `room` bytes.

        None means no bytes. A run's input takes no room. Few more payloads are read than returned,
        whatever their sizes.
        """
        found: dict[Place, Payload | None] = {}
        read: dict[Place, Payload | None] = {}
        page = READ_AT_ONCE_MIN
        for index, place in enumerate(places):
            key = (tenant_id, *place)
            if place not in read and key not in self._kept:
                read |= await self._read(tenant_id, places[index : index + page])
                page = min(2 * page, READ_AT_ONCE_MAX)
            payload = read[place] if place in read else self._kept[key]
            if (room := self._take(found, place, payload, room)) < 0:
                break
        return found

    @staticmethod
    def _take(
        found: dict[Place, Payload | None], place: Place, payload: Payload | None, room: int
    ) -> int:
        """Add a payload if it fits; return the remaining room, below 0 if it didn't fit."""
        if payload is not None and place[1] != INPUT_KEY:
            room -= len(payload.data)
        if room >= 0:
            found[place] = payload
        return room

    async def _read(self, tenant_id: str, places: Sequence[Place]) -> dict[Place, Payload | None]:
        """Read and cache those of these payloads that are not cached."""
        missing: dict[str, list[str]] = {}
        for place in places:
            if (tenant_id, *place) not in self._kept:
                missing.setdefault(place[0], []).append(place[1])
        read: dict[Place, Payload | None] = {}
        for run_id, keys in missing.items():
            stored = await self._store.read_payloads(tenant_id, run_id, keys)
            payloads = {one.key: one.payload for one in stored}
            for key in keys:
                read[run_id, key] = payloads.get(key)
                self._put((tenant_id, run_id, key), payloads.get(key))
        return read

    def _put(self, key: Key, payload: Payload | None) -> None:
        if key in self._kept:
            self._bytes -= _size(self._kept.pop(key))
        self._kept[key] = payload
        self._bytes += _size(payload)
        while self._bytes > self._bytes_max:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(payload: Payload | None) -> int:
    """Return the bytes of an entry, including an estimated overhead."""
    return 256 + (len(payload.data) if payload is not None else 0)

"""The Store port over a Store service: each method is one call, or a few where one would be too
large.

The methods come from the same table as the service's (`wire.store`). Four have code of their own:
commit, record and delete interpret errors, and describe names the service.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from google.protobuf.message import Message
from grpc.aio import UnaryUnaryMultiCallable
from msgspec.structs import replace

from stepwell.core.port import (
    Commit,
    CommitResult,
    Hint,
    JournalAck,
    JournalWrite,
    Runtime,
    StoreInfo,
)
from stepwell.core.records.errors import OutcomeUnknown
from stepwell.wire.records import to_record
from stepwell.wire.store import METHODS, Method, RoutedStore
from stepwell_drivers.remote.errors import Fault
from stepwell_drivers.remote.hints import RemoteHints
from stepwell_drivers.remote.link import Link
from stepwell_drivers.remote.packing import Packed, bounded, packed, smaller

SENT_ONCE = frozenset({"append_logs"})
"""Methods that are sent once: after StoreUnavailable they may have been executed all the same."""


class RemoteStore(RoutedStore):
    """One open store behind a Store service."""

    def __init__(self, link: Link, runtime: Runtime) -> None:
        self._link = link
        self._hints = RemoteHints(link, runtime)

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method, once or with retries (see `SENT_ONCE`)."""
        table = METHODS[method]
        results: list[Any] = []
        with self._link.call():
            # All requests are made before one is sent, so that nothing is sent if one can't be
            # made.
            for one in tuple(packed(table, bounded(table.request_of(args, kwargs)))):
                results += await self._results(table, one)
        if len(results) == 1 or not table.result:
            return results[0]
        return [one for several in results for one in several]

    async def _results(self, method: Method, one: Packed) -> list[Any]:
        """Return a request's results, or those of smaller requests that add up to it."""
        send = self._link.ask_once if method.name in SENT_ONCE else self._link.ask
        answer = await send(self._rpc(method), one.message)
        if not isinstance(answer, Fault):
            return [method.result_of(one.request, to_record(answer))]
        parts = smaller(method, one.request) if answer.too_large else []
        if not parts:
            raise answer.error
        return [
            result
            for part in parts
            for each in packed(method, part)
            for result in await self._results(method, each)
        ]

    def _rpc(self, method: Method) -> UnaryUnaryMultiCallable[Message, Message]:
        return cast(
            "UnaryUnaryMultiCallable[Message, Message]", getattr(self._link.stub, method.rpc)
        )

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self._write("commit", commits)

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        return await self._write("write_journal", writes)

    async def _write(self, name: str, items: Sequence[Any]) -> list[Any]:
        """Send writes that must not be repeated, in as many messages as needed; return a result for
        each item.

        Raises:
            StoreUnavailable: nothing was written.
            OutcomeUnknown: any item may have been written.
        """
        method, results = METHODS[name], list[Any]()
        with self._link.call():
            for one in tuple(packed(method, method.request_of((items,), {}))):
                answer = await self._link.ask_once(self._rpc(method), one.message)
                if isinstance(answer, Fault):
                    # Earlier messages of this call may have been written, so "nothing was written"
                    # would be wrong.
                    raise OutcomeUnknown(answer.error.message) if results else answer.for_write()
                results += method.result_of(one.request, to_record(answer))
        if len(results) != len(items):
            raise OutcomeUnknown(f"{len(results)} answers came for {len(items)} items of `{name}`")
        return results

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        method = METHODS["delete_run"]
        asked = bounded(method.request_of((tenant_id, run_id), {"version": version}))
        with self._link.call():
            (one,) = packed(method, asked)
            answer = await self._link.ask_once(self._rpc(method), one.message)
            if not isinstance(answer, Fault):
                return method.result_of(one.request, to_record(answer))
            if not answer.certain and await self.get_run(tenant_id, run_id) is None:
                return True  # The answer was lost, but a read shows that the run is gone.
        raise answer.error

    async def describe(self) -> StoreInfo:
        info: StoreInfo = await self.call("describe")
        return replace(info, detail=f"{info.detail}; by the Store service at {self._link.name}")

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self._hints.subscribe(hint)

    async def close(self) -> None:
        await self._hints.close()
        await self._link.close()

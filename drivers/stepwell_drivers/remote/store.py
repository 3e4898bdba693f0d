"""The Store port over a Store service: each method is one call, or a few where one would be too large.

The methods come from the table that the service goes by too (`wire.store`). Four of them have more to say
here: what an error means after a commit, a recording or a deletion, and which service described itself.
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
    Recorded,
    Recording,
    Runtime,
    StoreInfo,
)
from stepwell.core.records.errors import OutcomeUnknown
from stepwell.wire import to_record
from stepwell.wire.store import METHODS, Method, RoutedStore
from stepwell_drivers.remote.errors import Fault
from stepwell_drivers.remote.hints import RemoteHints
from stepwell_drivers.remote.link import Link
from stepwell_drivers.remote.packing import Packed, bounded, packed, smaller

SENT_ONCE = frozenset({"append_logs"})
"""A repetition would be done twice: after StoreUnavailable it may have been done all the same."""


class RemoteStore(RoutedStore):
    """One open store behind a Store service."""

    def __init__(self, link: Link, runtime: Runtime) -> None:
        self._link = link
        self._hints = RemoteHints(link, runtime)

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method that may be repeated without harm, or that is sent once."""
        table = METHODS[method]
        results: list[Any] = []
        with self._link.call():
            # All are made before one is sent: what can't be sent is known in time.
            for one in tuple(packed(table, bounded(table.request_of(args, kwargs)))):
                results += await self._results(table, one)
        if len(results) == 1 or not table.result:
            return results[0]
        return [one for several in results for one in several]

    async def _results(self, method: Method, one: Packed) -> list[Any]:
        """Return a request's result, or those of smaller requests that come to the same."""
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

    async def write_journal(self, recordings: Sequence[Recording]) -> Sequence[Recorded]:
        return await self._write("write_journal", recordings)

    async def _write(self, name: str, items: Sequence[Any]) -> list[Any]:
        """Send what is written once, however many messages that takes; return a result for each item.

        Raises:
            StoreUnavailable: nothing was written.
            OutcomeUnknown: each may or may not have been written.
        """
        method, results = METHODS[name], list[Any]()
        with self._link.call():
            for one in tuple(packed(method, method.request_of((items,), {}))):
                answer = await self._link.ask_once(self._rpc(method), one.message)
                if isinstance(answer, Fault):
                    # What went before in this call may be written: "nothing was" is not so then.
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
                return True  # The answer was lost, and what it would have said can be seen.
        raise answer.error

    async def describe(self) -> StoreInfo:
        info: StoreInfo = await self.call("describe")
        return replace(info, detail=f"{info.detail}; by the Store service at {self._link.name}")

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self._hints.subscribe(hint)

    async def close(self) -> None:
        await self._hints.close()
        await self._link.close()

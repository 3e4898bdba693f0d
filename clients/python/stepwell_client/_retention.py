"""Removing runs that are over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict, Unpack

from stepwell_client._enums import RunStatus, wire
from stepwell_client._parts import AsyncPart, SyncPart
from stepwell_client._plans import Span, duration
from stepwell_client._procedures import Procedure, Procedures
from stepwell_client.v1 import orchestrator_pb2


class PurgeOptions(TypedDict, total=False):
    """Which ended runs; what is left out matches all."""

    statuses: Iterable[RunStatus]
    """Ends."""
    older_than: Span
    """They ended at least so long ago."""
    pipeline: str
    max_runs: int
    """At most so many, those that ended first before the others; else 100."""
    validate_only: bool
    """Remove nothing: say which it would be."""


def purge(
    procedures: Procedures, options: PurgeOptions
) -> Procedure[orchestrator_pb2.PurgeRunsResponse]:
    """Remove them."""
    request = orchestrator_pb2.PurgeRunsRequest(
        statuses=[wire(status) for status in options.get("statuses", ())],
        pipeline_id=options.get("pipeline", ""),
        max_runs=options.get("max_runs", 0),
        validate_only=options.get("validate_only", False),
    )
    age = duration(options.get("older_than"))
    if age is not None:
        request.older_than.CopyFrom(age)
    return (yield from procedures.call("PurgeRuns", request))


class AsyncRetention(AsyncPart):
    """Of `Client`."""

    async def purge(self, **options: Unpack[PurgeOptions]) -> orchestrator_pb2.PurgeRunsResponse:
        """Remove ended runs; `complete` says whether there may be more of them."""
        return await self._do(purge(self._procedures, options))


class SyncRetention(SyncPart):
    """Of `SyncClient`."""

    def purge(self, **options: Unpack[PurgeOptions]) -> orchestrator_pb2.PurgeRunsResponse:
        """Remove ended runs; `complete` says whether there may be more of them."""
        return self._do(purge(self._procedures, options))

"""Admission of a call: size of metadata, credential, scope, limits of the request, a place. gRPC's
gate and the console's port both call these functions, so that a caller gets the same answer from
either.

They need the method's name, the metadata and the request's bytes, and are independent of the
transport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, cast

from google.protobuf.message import DecodeError, Message

from stepwell.core.port import Authenticator
from stepwell.core.records import limits
from stepwell.core.records.aggregates import is_kept_apart
from stepwell.core.records.errors import (
    PermissionDenied,
    ResourceExhausted,
    StepwellError,
    StoreUnavailable,
)
from stepwell.rpc import scopes, status
from stepwell.rpc.auth import texts_of
from stepwell.rpc.caller import set_caller
from stepwell.rpc.metrics import RpcMetrics
from stepwell.wire.undecodable import read_rest
from stepwell.wire.validate import check

_METADATA_OVERHEAD_BYTES = 32
"""The bytes that HTTP/2 counts for each entry in addition to its key and value."""
_REPORTS = frozenset(
    {
        "/stepwell.v1.Worker/ReportOutcomes",
        "/stepwell.v1.Worker/Heartbeat",
        "/stepwell.v1.Worker/AppendOutput",
        "/stepwell.v1.Worker/ReadResults",
        "/stepwell.v1.Worker/WriteJournal",
        "/stepwell.v1.Worker/ReadJournal",
        "/stepwell.v1.Worker/ReadThread",
    }
)
"""Reports of finished or running work, and its reads: always admitted, also while draining."""
_WAITS = frozenset({"/stepwell.v1.Orchestrator/WaitRun"})
"""Methods with one answer that count as streams, because they may take minutes."""
_UNCHECKED = ("grpc.", "stepwell.v1.WorkRequest")
"""Prefixes of the names of requests that are not ours, or whose items are checked singly."""


class GateLimits(NamedTuple):
    """The limits of the gate."""

    stall_ms: int = 60_000
    """The longest that a write may be blocked."""
    receive_bytes_max: int = limits.RECEIVE_BYTES_MAX
    """The largest request."""
    calls_max: int = 2_000
    """Short calls at once."""
    streams_max: int = 4_000
    """Open streams, and calls of WaitRun."""


class Room:
    """Places for calls: `with room:` takes one and returns it, or raises TooManyCalls."""

    def __init__(self, places: int, kind: str) -> None:
        self.places = places
        self._kind = kind
        self._taken = 0

    def __enter__(self) -> None:
        if self._taken >= self.places:
            raise status.TooManyCalls(
                f"this replica serves {self.places:,} {self._kind} at once; call again"
            )
        self._taken += 1

    def __exit__(self, *_error: object) -> None:
        self._taken -= 1


class Admission:
    """Admits calls by one set of limits, whichever port they use."""

    def __init__(self, metrics: RpcMetrics, gate_limits: GateLimits) -> None:
        self._metrics = metrics
        self._receive_bytes_max = gate_limits.receive_bytes_max
        self._calls = Room(gate_limits.calls_max, "calls")
        self._streams = Room(gate_limits.streams_max, "streams and waits")
        self.draining = False

    def admit(
        self, method: str, metadata: Iterable[tuple[str, str | bytes]], who: Authenticator
    ) -> None:
        """Set the caller, or raise and count the refusal. Call it in the task of the call's
        handler, or before that starts.
        """
        try:
            self._admit(method, metadata, who)
        except StepwellError as error:
            self._metrics.refused(method if method in scopes.SCOPES else "unknown", error)
            raise

    def _admit(
        self, method: str, metadata: Iterable[tuple[str, str | bytes]], who: Authenticator
    ) -> None:
        pairs = list(metadata)
        size = sum(len(key) + len(value) + _METADATA_OVERHEAD_BYTES for key, value in pairs)
        if size > limits.METADATA_BYTES_MAX:
            raise ResourceExhausted(
                f"the metadata has {size:,} bytes; limit: {limits.METADATA_BYTES_MAX:,}",
                reason="METADATA_TOO_LARGE",
            )
        scope = scopes.SCOPES.get(method)
        if scope == scopes.NONE:
            return
        if scope == scopes.QUESTION:
            if self.draining:
                raise draining()
            return
        principal = who.authenticate(texts_of(pairs))
        if is_kept_apart(principal.tenant_id):
            raise PermissionDenied(f"no caller is of the tenant {principal.tenant_id!r}")
        if scope is None:
            raise status.MethodUnknown("there is no such method")
        if scope != scopes.ANY and scope not in principal.scopes:
            raise PermissionDenied(f"this needs a token with the scope {scope}")
        if self.draining and method not in _REPORTS:
            raise draining()
        set_caller(principal)

    def room(self, method: str, *, stream: bool = False) -> AbstractContextManager[None]:
        """Return the places for the calls of a method; reports and health need none."""
        if method in _REPORTS or scopes.SCOPES.get(method) == scopes.NONE:
            return nullcontext()
        return self._streams if stream or method in _WAITS else self._calls

    def reader(self, parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """Return a function that parses and checks a request's bytes; `parse` is its class's FromString."""
        bytes_max = self._receive_bytes_max

        def read(raw: bytes) -> Any:
            if len(raw) > bytes_max:
                raise too_large(f"{len(raw):,} bytes", bytes_max)
            try:
                request: Message = parse(raw)
            except DecodeError:
                request = read_rest(cast("Any", parse).__self__, raw)
            if not request.DESCRIPTOR.full_name.startswith(_UNCHECKED):
                check(request)
            return request

        return read


def too_large(size: str, bytes_max: int) -> ResourceExhausted:
    """Return the error for a request that is too large."""
    return ResourceExhausted(
        f"the message has {size}; limit: {bytes_max:,}", reason="MESSAGE_TOO_LARGE"
    )


def draining() -> StoreUnavailable:
    """Return the error of a replica that is shutting down: nothing was done, try another one."""
    return StoreUnavailable("this replica is going down; call again", reason="DRAINING")

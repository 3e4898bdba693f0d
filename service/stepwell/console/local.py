"""Calls to the server of this process: through its gate, to the same methods that gRPC's callers reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from stepwell.console.calls import METHODS, Metadata, Method, Served
from stepwell.core.port import Authenticator
from stepwell.core.records.errors import StepwellError
from stepwell.rpc.gate import Gate, Handler
from stepwell.rpc.metrics import RpcMetrics


class LocalBackend:
    """The methods of a server, behind its gate."""

    def __init__(
        self,
        gate: Gate,
        handlers: Mapping[str, Handler],
        metrics: RpcMetrics,
        authenticator: Authenticator,
    ) -> None:
        """`authenticator` is that of this port, which accepts sessions' keys and the server's tokens."""
        self._admission = gate.admission
        self._metrics = metrics
        self._authenticator = authenticator
        behind = {path: gate.behind(path, handlers[path]) for path in METHODS}
        self._served = {
            path: cast("Served", one.unary_stream or one.unary_unary)
            for path, one in behind.items()
        }

    def admit(self, path: str, metadata: Metadata) -> None:
        """Admit a call by its credential and scope, unless the server drains."""
        self._admission.admit(path, metadata, self._authenticator)

    def refused(self, path: str, error: StepwellError) -> None:
        """Count it."""
        self._metrics.refused(path, error)

    def served(self, method: Method) -> Served:
        """Return the method."""
        return self._served[method.path]

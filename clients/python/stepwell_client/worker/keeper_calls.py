"""The keeper's calls to the server, apart from its loop, which needs gRPC only once a heartbeat may be due."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from stepwell_client.link.connect import Connection, CurrentChannel
from stepwell_client.v1 import worker_pb2
from stepwell_client.worker.lease_table import KeptLease

CALL_SECONDS_MAX = 10.0


class KeeperCalls:
    """Renews leases over a channel of its own."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """`arguments` are those of `Connection`."""
        connection = Connection(**arguments)
        self._access = connection.access
        self._channels = CurrentChannel(connection, connection.sync_channel)

    def renew(self, due: Sequence[KeptLease], now: float) -> list[bool] | None:
        """Send one heartbeat for each lease; return which are lost, or None if the server didn't answer.

        `now` is in seconds on the system's monotonic clock.
        """
        request = worker_pb2.HeartbeatRequest()
        for one in due:
            beat = request.heartbeats.add()
            beat.lease.ParseFromString(one.lease)
            if one.idle_timeout:
                beat.idle.FromMilliseconds(math.ceil((now - one.active_at) * 1_000))
        seconds = min(CALL_SECONDS_MAX, max(1.0, min(one.interval for one in due)))
        call: Any = self._channels.get().unary_unary(
            "/stepwell.v1.Worker/Heartbeat",
            request_serializer=worker_pb2.HeartbeatRequest.SerializeToString,
            response_deserializer=worker_pb2.HeartbeatResponse.FromString,
        )
        try:
            response = call(request, timeout=seconds, metadata=self._access.metadata)
        except grpc.RpcError as error:
            if getattr(error, "code", int)() is grpc.StatusCode.UNAUTHENTICATED:
                self._access.reload()
            return None
        return [one.status == worker_pb2.LEASE_STATUS_LOST for one in response.leases]

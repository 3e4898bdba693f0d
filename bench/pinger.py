"""A client that calls a server's health again and again: how long a call waits for the event loop.

Once it is stopped it writes each call's begin, of the system's monotonic clock, and its milliseconds.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2

PAUSE_S = 0.001


def main(target: str, out: Path) -> None:
    """Call until SIGTERM."""
    calls: list[tuple[float, float]] = []
    ended = threading.Event()

    def end(*_: object) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    with grpc.insecure_channel(target) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        request = health_pb2.HealthCheckRequest(service="liveness")
        check(request)
        (out.parent / "pinging").touch()
        while not ended.is_set():
            begun = time.monotonic()
            check(request)
            calls.append((begun, (time.monotonic() - begun) * 1e3))
            time.sleep(PAUSE_S)
    out.write_text(json.dumps(calls))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

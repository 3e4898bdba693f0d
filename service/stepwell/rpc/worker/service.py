"""The Worker service of a server."""

from __future__ import annotations

from functools import partial

from stepwell.rpc.parts import Parts, Service
from stepwell.rpc.worker.parts import WorkerParts
from stepwell.rpc.worker.servicer import Servicer
from stepwell_client.v1.worker_pb2_grpc import add_WorkerServicer_to_server

NAME = "stepwell.v1.Worker"


def make_service(parts: Parts) -> Service:
    """Return the service, to be added to a server."""
    servicer = Servicer(
        WorkerParts(parts.executor, parts.runtime), parts.settings.watch.message_bytes_max
    )
    add_to = partial(add_WorkerServicer_to_server, servicer)
    return Service(NAME, add_to, servicer.end_streams)

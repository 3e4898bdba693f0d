"""The Worker service of a server."""

from __future__ import annotations

from functools import partial

from stepwell.rpc.dependencies import Dependencies, Service
from stepwell.rpc.worker.servicer import Servicer
from stepwell.rpc.worker.worker_dependencies import WorkerDependencies
from stepwell_client.v1.worker_pb2_grpc import add_WorkerServicer_to_server

NAME = "stepwell.v1.Worker"


def make_service(deps: Dependencies) -> Service:
    """Return the service, to be added to a server."""
    watch = deps.settings.watch
    servicer = Servicer(
        WorkerDependencies(deps.executor, deps.runtime),
        watch.message_bytes_max,
        watch.progress_ms,
    )
    add_to = partial(add_WorkerServicer_to_server, servicer)
    return Service(NAME, add_to, servicer.end_streams)

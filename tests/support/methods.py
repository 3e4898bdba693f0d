"""The methods of the protocol, read from its descriptors."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor

from stepwell_client.store.v1 import store_pb2
from stepwell_client.v1 import orchestrator_pb2, worker_pb2


def methods(*modules: Any) -> dict[str, MethodDescriptor]:
    """Return the methods of all services in these modules, by `Service/Method`."""
    found: dict[str, MethodDescriptor] = {}
    for module in modules:
        file: FileDescriptor = module.DESCRIPTOR
        for service in file.services_by_name.values():
            found |= {f"{service.name}/{one.name}": one for one in service.methods}
    return found


SERVED = methods(orchestrator_pb2, worker_pb2)
STORE = methods(store_pb2)


def path_of(name: str) -> str:
    """Return the path of a call of `Service/Method`."""
    method = (SERVED | STORE)[name]
    return f"/{method.containing_service.full_name}/{method.name}"

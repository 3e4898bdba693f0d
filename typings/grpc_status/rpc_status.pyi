"""Types of grpcio-status, whose published stubs leave the status message out."""

import google.rpc.status_pb2 as status_pb2
import grpc
from grpc_status import _async as aio

__all__ = ["aio", "from_call", "to_status"]

def from_call(call: grpc.Call) -> status_pb2.Status | None: ...
def to_status(status: status_pb2.Status) -> grpc.Status: ...

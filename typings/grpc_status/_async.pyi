import google.rpc.status_pb2 as status_pb2
from grpc.aio import Call

async def from_call(call: Call) -> status_pb2.Status | None: ...

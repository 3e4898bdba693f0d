"""AppendOutput: log entries and messages of running steps."""

from __future__ import annotations

from stepwell.core.records.model import LogEntry
from stepwell.core.records.states import LogKind
from stepwell.engine.appender import AppendBatch
from stepwell.rpc.caller import tenant
from stepwell.rpc.worker.worker_dependencies import WorkerDependencies
from stepwell.wire.records import to_record
from stepwell.wire.values import get_ms
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as pb

_KINDS = {
    types_pb2.LOG_KIND_UNSPECIFIED: LogKind.LINE,
    types_pb2.LOG_KIND_LINE: LogKind.LINE,
    types_pb2.LOG_KIND_CHUNK: LogKind.CHUNK,
    types_pb2.LOG_KIND_CUT: LogKind.CUT,
}


async def append(deps: WorkerDependencies, request: pb.AppendOutputRequest) -> list[bool]:
    """Store them; return False for each execution whose lease is lost."""
    now_us = deps.executor.now_us()
    return list(
        await deps.executor.append(
            tenant(), [_written(appended, now_us) for appended in request.appended]
        )
    )


def _written(appended: pb.Appended, now_us: int) -> AppendBatch:
    return AppendBatch(
        run_id=appended.lease.run_id,
        execution_id=appended.lease.execution_id,
        token=appended.lease.token,
        entries=tuple(
            LogEntry(
                execution_id=appended.lease.execution_id,
                text=line.text,
                level=line.level or "INFO",
                kind=_KINDS.get(line.kind, LogKind.LINE),
                written_us=max(0, now_us - get_ms(line.age) * 1_000),
            )
            for line in appended.logs
        ),
        messages=tuple(to_record(message) for message in appended.messages),
        after=appended.after,
    )

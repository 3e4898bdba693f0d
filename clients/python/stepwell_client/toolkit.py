"""Parts of the client for programs that build on it: an in-process orchestrator, a command line, a test kit.

Agents and their callers need none of them. They are public because no other distribution may import a private
module of this one; they change together with the server.
"""

from __future__ import annotations

from stepwell_client._backoff import CALLS, LOGS, SAVES, STREAMS, Backoff
from stepwell_client._connect import Connection, CurrentChannel, is_local
from stepwell_client._cursors import RunCursor
from stepwell_client._enums import to_wire
from stepwell_client._log_buffer import ExecutionKey, LogBuffer
from stepwell_client._plans import plan_draft
from stepwell_client._runtime import Runtime
from stepwell_client._status import from_rpc_error

BACKOFFS = (CALLS, SAVES, STREAMS, LOGS)
"""All back-offs of this process's clients and workers; changed, they make it more or less patient."""

__all__ = [
    "BACKOFFS",
    "Backoff",
    "Connection",
    "CurrentChannel",
    "ExecutionKey",
    "LogBuffer",
    "RunCursor",
    "Runtime",
    "from_rpc_error",
    "is_local",
    "plan_draft",
    "to_wire",
]

"""Parts of the client for programs that build on it: an in-process orchestrator, a command line, a test kit.

Agents and their callers need none of them. They are public because no other distribution may import a private
module of this one; they change together with the server.
"""

from __future__ import annotations

from stepwell_client.agent.execution import AgentRunner, StepServices
from stepwell_client.calls.cursors import RunCursor
from stepwell_client.calls.message_client import MessageClient
from stepwell_client.calls.reads import ResultMessages
from stepwell_client.calls.requests import ForkOptions, StartOptions
from stepwell_client.calls.sync_messages import SyncMessageClient
from stepwell_client.enums import to_wire
from stepwell_client.link.backoff import CALLS, LOGS, SAVES, STREAMS, Backoff
from stepwell_client.link.connect import Connection, CurrentChannel, is_local
from stepwell_client.link.runtime import Runtime
from stepwell_client.link.status import from_rpc_error
from stepwell_client.records.message_view import MessageView
from stepwell_client.records.plans import plan_draft
from stepwell_client.records.reading import RECORDS, read_event, read_question, read_task
from stepwell_client.records.reading import read as read_record
from stepwell_client.records.reading import readers as field_readers
from stepwell_client.worker.log_buffer import ExecutionKey, LogBuffer

BACKOFFS = (CALLS, SAVES, STREAMS, LOGS)
"""All back-offs of this process's clients and workers; changed, they make it more or less patient."""

__all__ = [
    "BACKOFFS",
    "RECORDS",
    "AgentRunner",
    "Backoff",
    "Connection",
    "CurrentChannel",
    "ExecutionKey",
    "ForkOptions",
    "LogBuffer",
    "MessageClient",
    "MessageView",
    "ResultMessages",
    "RunCursor",
    "Runtime",
    "StartOptions",
    "StepServices",
    "SyncMessageClient",
    "field_readers",
    "from_rpc_error",
    "is_local",
    "plan_draft",
    "read_event",
    "read_question",
    "read_record",
    "read_task",
    "to_wire",
]

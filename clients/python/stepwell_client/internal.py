"""Parts of the client for programs that build on it: an in-process orchestrator, a command line, a
test kit, adapters.

Agents and their callers need none of them. They are public because other distributions may not
import this one's private modules. They change together with the server.
"""

from __future__ import annotations

from stepwell_client.agent.contexts import journaled_step
from stepwell_client.agent.execution import AgentRunner, StepServices
from stepwell_client.agent.journal.call_run import INVALID_RESULT, Reconcile
from stepwell_client.agent.journal.context import in_thread, on_loop, opened_calls
from stepwell_client.agent.journal.keys import NAME_CHARS_MAX, digest_of, in_order
from stepwell_client.agent.scopes import code_run, current_key
from stepwell_client.agent.step_thread import StepThread
from stepwell_client.calls.base import Calls
from stepwell_client.calls.cursors import RunCursor
from stepwell_client.calls.requests import CommandOptions, ForkOptions, OnBusy, StartOptions
from stepwell_client.calls.thread_handle import ThreadHandle, list_threads
from stepwell_client.enums import to_wire
from stepwell_client.link.backoff import CALLS, LOGS, SAVES, STREAMS, Backoff
from stepwell_client.link.connect import Connection, CurrentChannel, is_local
from stepwell_client.link.runtime import Runtime
from stepwell_client.link.status import Details, error_of, from_rpc_error
from stepwell_client.records.limits import (
    CONCURRENCY_MAX,
    PAYLOAD_BYTES_MAX,
    PROMPT_BYTES_MAX,
    RESULT_TOO_LARGE,
    clip,
)
from stepwell_client.records.payloads import answer_payload
from stepwell_client.records.plans import plan_draft
from stepwell_client.records.reading import RECORDS, read_event, read_question, read_task
from stepwell_client.records.reading import read as read_record
from stepwell_client.records.reading import readers as field_readers
from stepwell_client.worker.transport import Receiver

BACKOFFS = (CALLS, SAVES, STREAMS, LOGS)
"""All back-offs of this process's clients and workers. Programs may change them to be more or less patient."""

__all__ = [
    "BACKOFFS",
    "CONCURRENCY_MAX",
    "INVALID_RESULT",
    "NAME_CHARS_MAX",
    "PAYLOAD_BYTES_MAX",
    "PROMPT_BYTES_MAX",
    "RECORDS",
    "RESULT_TOO_LARGE",
    "AgentRunner",
    "Backoff",
    "Calls",
    "CommandOptions",
    "Connection",
    "CurrentChannel",
    "Details",
    "ForkOptions",
    "OnBusy",
    "Receiver",
    "Reconcile",
    "RunCursor",
    "Runtime",
    "StartOptions",
    "StepServices",
    "StepThread",
    "ThreadHandle",
    "answer_payload",
    "clip",
    "code_run",
    "current_key",
    "digest_of",
    "error_of",
    "field_readers",
    "from_rpc_error",
    "in_order",
    "in_thread",
    "is_local",
    "journaled_step",
    "list_threads",
    "on_loop",
    "opened_calls",
    "plan_draft",
    "read_event",
    "read_question",
    "read_record",
    "read_task",
    "to_wire",
]

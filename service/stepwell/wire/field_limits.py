"""The table of limits: what every field of every request may hold.

A field of a request without an entry stops the server from starting. The Store's callers are
executors, which hold the `store` scope: of its requests the frame is checked, and of the rows in it, which are
records that the loop made, only what every store relies on: that names are names, and no text holds NUL.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.core.records import limits
from stepwell.wire.constraints import (
    Limit,
    blob,
    chars,
    data,
    given,
    many,
    mapping,
    message,
    messages,
    name,
    number,
    one_of,
    span,
    text,
    unbounded,
)
from stepwell_client.v1 import types_pb2

_NAME = name(limits.NAME_CHARS_MAX)
_NAME_REQUIRED = name(limits.NAME_CHARS_MAX, required=True)
_TASK_ID = name(limits.TASK_ID_CHARS_MAX, required=True)
_RUN_ID = name(limits.RUN_ID_CHARS_MAX, required=True)
_ANY_RUN_ID = name(limits.RUN_ID_CHARS_MAX)
_EXECUTION_ID = chars(limits.EXECUTION_ID_CHARS_MAX, required=True)
_LABELS = mapping(limits.LABELS_MAX, _NAME_REQUIRED, chars(limits.LABEL_VALUE_CHARS_MAX))
_REQUEST_ID = chars(limits.REQUEST_ID_CHARS_MAX)
_REASON = text(limits.REASON_BYTES_MAX)
_PROMPT = text(limits.PROMPT_BYTES_MAX, written=True)
_WHY = text(limits.REASON_BYTES_MAX, written=True)
"""A worker's reason; `_REASON` is a person's."""
_VIOLATION = text(limits.VIOLATION_BYTES_MAX, written=True)
_PAGE_SIZE = number(0, limits.PAGE_SIZE_MAX)
_CURSOR = chars(limits.CURSOR_CHARS_MAX)
_FILTER = many(limits.FILTER_VALUES_MAX)
_SPAN = span(0, limits.DURATION_MS_MAX)
_PROGRESS_INTERVAL = span(limits.PROGRESS_INTERVAL_MS_MIN, limits.PROGRESS_INTERVAL_MS_MAX)
_TOKEN = chars(limits.TOKEN_CHARS_MAX, required=True)
_ITEMS = many(limits.ITEMS_PER_MESSAGE_MAX)
_AMOUNT = number(0, limits.AMOUNT_MAX)
_VERSION = number(0)
_GOAL = text(limits.GOAL_BYTES_MAX)
_MAX_ITERATIONS = number(1, limits.ITERATIONS_MAX)
_MAX_PARALLEL = number(1, limits.PARALLEL_MAX)
_PRIORITY = number(-limits.PRIORITY_MAX, limits.PRIORITY_MAX)
_PLAN = message(limits.PLAN_BYTES_MAX)._replace(reason="PLAN_INVALID")
_STAGES = many(
    2,
    one_of("REFLECT or SYNTHESIZE", types_pb2.STEP_KIND_REFLECT, types_pb2.STEP_KIND_SYNTHESIZE),
)
_STORE_TEXT = text(limits.STORE_TEXT_BYTES_MAX)
_STORE_ITEMS = many(limits.STORE_ITEMS_MAX)
_STORE_LIMIT = number(1, limits.STORE_LIMIT_MAX)
_AGE = span(0, limits.AGE_MS_MAX)
_STORE_RUN = {"tenant_id": _NAME, "run_id": _NAME}
_STORE_PAGE = {**_STORE_RUN, "cursor": _STORE_TEXT, "limit": _STORE_LIMIT}
_PAGE = {"page_size": _PAGE_SIZE, "page_token": _CURSOR}
_COMMAND = {
    "run_id": _RUN_ID,
    "reason": _REASON,
    "request_id": _REQUEST_ID,
    "expected_version": _VERSION,
}
_CALLED = {**_COMMAND, "on_behalf_of": _NAME}
_LEASE = {"lease": given()}
_CALL = chars(limits.CALL_KEY_CHARS_MAX, required=True)
_WAITS = many(limits.WAITS_MAX)._replace(required=True, wording=f"1 to {limits.WAITS_MAX:,} items")
_FILTERS = {"pipeline_id": _NAME, "statuses": _FILTER, "labels": _LABELS}

_RECORDS: dict[str, dict[str, Limit]] = {
    "Payload": {
        "data": blob(limits.PAYLOAD_BYTES_MAX),
        "media_type": chars(limits.MEDIA_TYPE_CHARS_MAX),
    },
    "Violation": {"field": _VIOLATION, "description": _VIOLATION},
    "Failure": {
        "kind": chars(limits.NAME_CHARS_MAX, written=True),
        "message": text(limits.FAILURE_BYTES_MAX, written=True),
        "details": text(limits.FAILURE_BYTES_MAX, written=True),
        "violations": many(limits.VIOLATIONS_MAX),
        "retry_after": _SPAN,
    },
    "Usage": {
        "input_tokens": _AMOUNT,
        "output_tokens": _AMOUNT,
        "cost_micros": _AMOUNT,
        "model": chars(limits.NAME_CHARS_MAX, written=True),
    },
    "Budget": {
        "input_tokens": _AMOUNT,
        "output_tokens": _AMOUNT,
        "cost_micros": _AMOUNT,
        "tasks": _AMOUNT,
        "wall": _SPAN,
        "iterations": _AMOUNT,
    },
    "RetryPolicy": {
        "max_attempts": number(1, limits.ATTEMPTS_MAX),
        "initial_backoff": _SPAN,
        "backoff_multiplier": number(1, limits.BACKOFF_MULTIPLIER_MAX),
        "max_backoff": _SPAN,
        "jitter": number(0, 1),
        "non_retryable_kinds": many(
            limits.RETRY_KINDS_MAX, chars(limits.NAME_CHARS_MAX, required=True)
        ),
        "max_losses": number(0, limits.ATTEMPTS_MAX),
    },
    "Session": {
        "backend": chars(limits.NAME_CHARS_MAX, written=True),
        "session_id": chars(limits.SESSION_ID_CHARS_MAX, written=True),
    },
    "TaskPattern": {
        "type": name(limits.NAME_CHARS_MAX, or_star=True),
        "role": name(limits.NAME_CHARS_MAX, or_star=True),
    },
    "WorkerVersion": {"version": _NAME},
    "TaskSpec": {
        "task_id": _TASK_ID,
        "type": _NAME,
        "title": text(limits.TITLE_BYTES_MAX, written=True),
        "prompt": _PROMPT,
        "role": _NAME,
        "depends_on": many(limits.DEPENDENCIES_PER_TASK_MAX, _TASK_ID),
        "attempt_timeout": _SPAN,
        "heartbeat_timeout": _SPAN,
        "idle_timeout": _SPAN,
        "total_timeout": _SPAN,
        "idempotency_key": chars(limits.IDEMPOTENCY_KEY_CHARS_MAX),
    },
    "PlanDraft": {"tasks": many(limits.PLAN_TASKS_MAX)._replace(reason="PLAN_INVALID")},
    "Message": {
        "role": chars(limits.NAME_CHARS_MAX, required=True, written=True),
        "content": text(limits.RESPONSE_BYTES_MAX, written=True),
        "task_id": chars(limits.TASK_ID_CHARS_MAX),
        "execution_id": chars(limits.EXECUTION_ID_CHARS_MAX),
        "number": number(0),
    },
    "JournalEntry": {
        "key": _CALL,
        "number": number(0, limits.CALL_TRIES_MAX),
        "name": chars(limits.NAME_CHARS_MAX, written=True),
        "arguments": chars(limits.DIGEST_CHARS_MAX),
        "attempt": number(0),
        "messages": messages(limits.MESSAGES_PER_OUTCOME_MAX, limits.ENTRY_MESSAGES_BYTES_MAX),
        "took": _SPAN,
        "sleep": _SPAN,
    },
}

_ORCHESTRATOR: dict[str, dict[str, Limit]] = {
    "StartRunRequest": {
        "pipeline_id": _NAME,
        "queue": _NAME,
        "goal": _GOAL,
        "labels": _LABELS,
        "on_behalf_of": _NAME,
        "max_iterations": _MAX_ITERATIONS,
        "max_parallel": _MAX_PARALLEL,
        "priority": _PRIORITY,
        "no_progress_limit": number(0, limits.ITERATIONS_MAX),
        "step_timeout": _SPAN,
        "start_delay": _SPAN,
        "plan": _PLAN,
        "stages": _STAGES,
        "request_id": _REQUEST_ID,
    },
    "GetRunRequest": {"run_id": _RUN_ID, "version": _VERSION},
    "ListRunsRequest": {
        **_FILTERS,
        **_PAGE,
        "queue": _NAME,
        "executor_id": _NAME,
        "blocked_on": _FILTER,
        "parent_run_id": _ANY_RUN_ID,
        "run_id_prefix": _ANY_RUN_ID,
    },
    "ListTasksRequest": {"run_id": _RUN_ID, "version": _VERSION, **_PAGE},
    "ListExecutionsRequest": {
        "run_id": _RUN_ID,
        "task_id": name(limits.TASK_ID_CHARS_MAX),
        **_PAGE,
    },
    "ListResultsRequest": {
        "run_id": _RUN_ID,
        "task_ids": many(limits.PAYLOAD_KEYS_MAX, _TASK_ID),
        "execution_ids": many(limits.PAYLOAD_KEYS_MAX, _EXECUTION_ID),
        **_PAGE,
    },
    "WaitRunRequest": {"run_id": _RUN_ID, "timeout": span(0, limits.WAIT_MS_MAX)},
    "WatchRunRequest": {
        "run_id": _RUN_ID,
        "resume_token": _CURSOR,
        "types": _FILTER,
        "task_ids": many(limits.PAYLOAD_KEYS_MAX, _TASK_ID),
        "progress_interval": _PROGRESS_INTERVAL,
    },
    "WatchRunsRequest": {
        **_FILTERS,
        "resume_token": _CURSOR,
        "progress_interval": _PROGRESS_INTERVAL,
    },
    "ResumeRunRequest": _CALLED,
    "PauseRunRequest": _CALLED,
    "CancelRunRequest": _CALLED,
    "DeleteRunRequest": {"run_id": _RUN_ID, "on_behalf_of": _NAME},
    "ForkRunRequest": {
        "run_id": _RUN_ID,
        "version": _VERSION,
        "plan": _PLAN,
        "goal": _GOAL,
        "max_iterations": _MAX_ITERATIONS,
        "max_parallel": _MAX_PARALLEL,
        "priority": _PRIORITY,
        "labels": _LABELS,
        "queue": _NAME,
        "on_behalf_of": _NAME,
        "request_id": _REQUEST_ID,
    },
    "ListPlansRequest": {"run_id": _RUN_ID, **_PAGE},
    "ListCheckpointsRequest": {"run_id": _RUN_ID, **_PAGE},
    "ListQuestionsRequest": {"run_id": _ANY_RUN_ID, **_PAGE},
    "ListWorkersRequest": {"queue": _NAME, "run_id": _ANY_RUN_ID, **_PAGE},
    "ListQueuesRequest": _PAGE,
    "AnswerQuestionRequest": {
        **_COMMAND,
        "question_id": chars(limits.QUESTION_ID_CHARS_MAX, required=True),
        "answer": given(),
        "on_behalf_of": _NAME,
    },
    "RaiseBudgetRequest": {**_CALLED, "budget": given()},
    "ResolveExecutionRequest": {
        **_CALLED,
        "execution_id": _EXECUTION_ID,
        "finding": given(),
        "call": chars(limits.CALL_KEY_CHARS_MAX),
    },
    "RetryTaskRequest": {**_CALLED, "task_id": _TASK_ID},
    "SkipTaskRequest": {**_CALLED, "task_id": _TASK_ID},
    "StopRunRequest": _CALLED,
    "WatchLogsRequest": {
        "run_id": _RUN_ID,
        "execution_id": chars(limits.EXECUTION_ID_CHARS_MAX),
        "task_id": name(limits.TASK_ID_CHARS_MAX),
        "resume_token": _CURSOR,
        "kinds": many(10),
        "progress_interval": _PROGRESS_INTERVAL,
    },
    "ListMessagesRequest": {"run_id": _RUN_ID, "task_id": name(limits.TASK_ID_CHARS_MAX), **_PAGE},
    "ListJournalRequest": {
        "run_id": _RUN_ID,
        "task_id": name(limits.TASK_ID_CHARS_MAX),
        "journal": chars(limits.JOURNAL_NAME_CHARS_MAX),
        "execution_id": chars(limits.EXECUTION_ID_CHARS_MAX),
        **_PAGE,
    },
    "ReadTranscriptRequest": {
        "run_id": _RUN_ID,
        "execution_id": _EXECUTION_ID,
        "page_size": number(0, limits.RECORD_PAGE_BYTES_MAX),
        "page_token": _CURSOR,
    },
    "PurgeRunsRequest": {
        "statuses": _FILTER,
        "older_than": _SPAN,
        "pipeline_id": _NAME,
        "max_runs": _PAGE_SIZE,
        "on_behalf_of": _NAME,
    },
}

_WORKER: dict[str, dict[str, Limit]] = {
    "WorkRequest": {
        "credits": number(0, limits.CREDITS_MAX),
        "outcomes": _ITEMS,
        "begins": _ITEMS,
        "recordings": _ITEMS,
    },
    "Hello": {
        "worker_id": _NAME_REQUIRED,
        "instance_id": _NAME_REQUIRED,
        "queues": many(limits.QUEUES_PER_WORKER_MAX, _NAME_REQUIRED),
        "tasks": _ITEMS,
        "kinds": many(5),
        "stages": _STAGES,
        "held": _ITEMS,
        "version": _NAME,
        "input_schema": text(limits.SCHEMA_BYTES_MAX, written=True),
        "protocol_revision": number(0),
        "features": many(limits.FEATURES_MAX, _NAME_REQUIRED),
    },
    "Lease": {"run_id": _RUN_ID, "execution_id": _EXECUTION_ID, "token": _TOKEN},
    "Outcome": {
        **_LEASE,
        "delivery_id": _TOKEN,
        "prompt": _PROMPT,
        "response": text(limits.RESPONSE_BYTES_MAX, written=True),
        "messages": many(limits.MESSAGES_PER_OUTCOME_MAX),
        "messages_after": number(0),
        "result": given(),
        "progress": data(limits.PROGRESS_BYTES_MAX),
    },
    "Outcome.Planned": {"plan": _PLAN, "reason": _WHY},
    "Outcome.Reflected": {"decision": given(), "plan": _PLAN, "reason": _WHY},
    "Outcome.Failed": {"failure": given()},
    "Outcome.NeedsAnswer": {
        "prompt": _PROMPT,
        "schema": text(limits.SCHEMA_BYTES_MAX, written=True),
        "choices": many(limits.CHOICES_MAX, chars(limits.LABEL_VALUE_CHARS_MAX, required=True)),
        "expires": _SPAN,
    },
    "Outcome.Released": {"reason": _WHY},
    "Outcome.Reconciled": {"finding": given(), "reason": _WHY},
    "Outcome.Suspended": {"waits": _WAITS},
    "Outcome.SuspendedCall": {
        "call": _CALL,
        "wait": given(),
        "arguments": chars(limits.DIGEST_CHARS_MAX),
    },
    "Outcome.Sleep": {"remaining": _SPAN},
    "Outcome.UnknownCall": {"call": _CALL, "reason": _WHY},
    "Begin": {**_LEASE, "delivery_id": _TOKEN},
    "ReportOutcomesRequest": {"outcomes": _ITEMS},
    "HeartbeatRequest": {"heartbeats": _ITEMS},
    "LeaseHeartbeat": {
        **_LEASE,
        "progress": data(limits.PROGRESS_BYTES_MAX),
        "idle": _SPAN,
    },
    "AppendOutputRequest": {"appended": _ITEMS},
    "WriteJournalRequest": {"recordings": _ITEMS},
    "Recording": {
        **_LEASE,
        "delivery_id": chars(limits.TOKEN_CHARS_MAX),
        "entries": _ITEMS,
        "forget": many(limits.FORGOTTEN_CALLS_MAX, _CALL),
        "forget_number": number(0),
    },
    "ReadJournalRequest": {**_LEASE, "page_token": _CURSOR},
    "ReadResultsRequest": {
        **_LEASE,
        "task_ids": many(limits.PAYLOAD_KEYS_MAX, _TASK_ID),
        "page_token": _CURSOR,
    },
    "Appended": {
        **_LEASE,
        "logs": _ITEMS,
        "messages": many(limits.MESSAGES_PER_OUTCOME_MAX),
        "after": number(0),
    },
    "LogLine": {
        "text": text(limits.RESPONSE_BYTES_MAX, written=True),
        "level": _NAME,
        "age": _SPAN,
    },
}

_STORE: dict[str, dict[str, Limit]] = {
    "CommitRequest": {"commits": _STORE_ITEMS},
    "RenewRequest": {"renewals": _STORE_ITEMS},
    "WriteJournalRequest": {"recordings": _STORE_ITEMS},
    "PutPresenceRequest": {"presences": _STORE_ITEMS, "ttl": _SPAN},
    "AppendLogsRequest": {**_STORE_RUN, "entries": _STORE_ITEMS},
    "DeleteRunRequest": {**_STORE_RUN, "version": number(0)},
    "GetRunRequest": _STORE_RUN,
    "LoadRequest": {**_STORE_RUN, "since": number(0)},
    "ReadPayloadsRequest": {**_STORE_RUN, "keys": many(limits.STORE_ITEMS_MAX, _STORE_TEXT)},
    "ReadPlanRequest": {**_STORE_RUN, "revision": number(0)},
    "ReadBaseRequest": {**_STORE_RUN, "version": number(0)},
    "ReadEventsRequest": {**_STORE_RUN, "after": number(0), "limit": _STORE_LIMIT},
    "ReadQuestionsRequest": {
        **_STORE_RUN,
        "question_ids": many(limits.STORE_ITEMS_MAX, _STORE_TEXT),
    },
    "SwapKeysRequest": {"tenant_id": _NAME, "pipeline_id": _NAME, "swaps": _STORE_ITEMS},
    "RemoveLogsRequest": {"which": given()},
    "LogsOfExecution": {**_STORE_RUN, "execution_id": _STORE_TEXT, "kind": given()},
    "OldLogs": {"older": _AGE, "limit": _STORE_LIMIT},
    "PageRequest": {"query": given()},
    "RunQuery": {
        "tenant_id": _NAME,
        "statuses": _STORE_ITEMS,
        "pipeline_id": _NAME,
        "queue": _NAME,
        "executor_id": _NAME,
        "labels": mapping(limits.STORE_ITEMS_MAX, _STORE_TEXT, _STORE_TEXT),
        "blocked_on": _STORE_ITEMS,
        "parent_run_id": _NAME,
        "run_id_prefix": _NAME,
        "cursor": _STORE_TEXT,
        "limit": _STORE_LIMIT,
    },
    "TaskQuery": _STORE_PAGE,
    "ExecutionQuery": {**_STORE_PAGE, "task_id": _STORE_TEXT},
    "MessageQuery": {**_STORE_PAGE, "task_id": _STORE_TEXT},
    "CheckpointQuery": _STORE_PAGE,
    "LogQuery": {**_STORE_PAGE, "execution_id": _STORE_TEXT},
    "JournalQuery": {
        **_STORE_PAGE,
        "journal": _STORE_TEXT,
        "generation": number(0),
        "execution_id": _STORE_TEXT,
        "version": number(0),
        "bytes_limit": number(0),
    },
    "QuestionQuery": _STORE_PAGE,
    "EndedQuery": {
        "tenant_id": _NAME,
        "statuses": _STORE_ITEMS,
        "older": _AGE,
        "pipeline_id": _NAME,
        "limit": _STORE_LIMIT,
    },
    "PresenceQuery": {"tenant_id": _NAME},
    "LeaseQuery": {"tenant_id": _NAME, "worker_id": _NAME, "run_id": _NAME},
    "FeedQuery": {"tenant_id": _NAME, "cursor": _STORE_TEXT, "limit": _STORE_LIMIT},
}

FIELD_LIMITS: Mapping[str, Limit] = {
    f"{package}.{kind}.{field}": limit
    for package, table in (
        ("stepwell.v1", {**_RECORDS, **_ORCHESTRATOR, **_WORKER}),
        ("stepwell.store.v1", _STORE),
    )
    for kind, fields in table.items()
    for field, limit in fields.items()
}
"""The limit of each field or oneof, by its full name."""

NOT_ENTERED: frozenset[str] = frozenset(
    f"stepwell.v1.{field}"
    for field in (
        # One bad item fails its own execution: the servicer checks each by itself.
        "WorkRequest.outcomes",
        "WorkRequest.begins",
        "ReportOutcomesRequest.outcomes",
        "WorkRequest.recordings",
        "WriteJournalRequest.recordings",
        "Recording.entries",
        # Tasks are checked while they are read (`wire.plans`).
        "PlanDraft.tasks",
    )
)
"""Fields whose messages are not walked into, by full name."""

RECORDS: frozenset[str] = frozenset(
    f"stepwell.store.v1.{field}"
    for field in (
        "CommitRequest.commits",
        "RenewRequest.renewals",
        "WriteJournalRequest.recordings",
        "PutPresenceRequest.presences",
        "AppendLogsRequest.entries",
        "SwapKeysRequest.swaps",
        "ClaimRequest.claim",
    )
)
"""Fields whose messages are records, by full name: `record_limit` stands for the table there."""

_RECORD_TEXT = unbounded()
_NAMES = {
    **dict.fromkeys(
        ("tenant_id", "run_id", "parent_run_id", "family_id", "result_run_id", "queue", "queues"),
        _NAME,
    ),
    **dict.fromkeys(("pipeline_id", "executor_id", "worker_id", "instance_id"), _NAME),
    "role": name(limits.NAME_CHARS_MAX, or_star=True),
}


def record_limit(full_name: str) -> Limit:
    """Return what a store relies on of a text in a record."""
    if full_name == "stepwell.v1.Message.role":  # Who speaks, and no worker's role.
        return _RECORD_TEXT
    return _NAMES.get(full_name.rpartition(".")[2], _RECORD_TEXT)

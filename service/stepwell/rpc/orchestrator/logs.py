"""WatchLogs, ListMessages and ReadTranscript: logs, conversations, and prompts with their responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from stepwell.app.runs import read_run
from stepwell.core.port import MessageQuery
from stepwell.core.records import limits
from stepwell.core.records.errors import InvalidArgument, RunNotFound, Violation
from stepwell.core.records.model import Message
from stepwell.core.records.states import LogKind
from stepwell.rpc.caller import tenant
from stepwell.rpc.dependencies import Context, Dependencies
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, rows_of, size_of, token_of
from stepwell.rpc.orchestrator.tokens import seal, unseal
from stepwell.rpc.orchestrator.watch import LastMessage, progress_ms
from stepwell.rpc.status import SlowConsumer
from stepwell.watch.logs import LogBatch, LogFilter, follow_log
from stepwell.wire.records import to_message
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

MESSAGES_AT_ONCE = 32
"""Messages that are read together; each may have a mebibyte."""


# --- logs --------------------------------------------------------------------------------------------


async def watch_logs(
    deps: Dependencies, request: pb.WatchLogsRequest, context: Context
) -> AsyncGenerator[pb.WatchLogsResponse]:
    """Yield entries of a run's log, and at the end the reason why there are no more."""
    cursor = _opened(request)
    await read_run(deps.store, tenant(), request.run_id)
    await context.send_initial_metadata(())
    sent = LastMessage(deps.runtime)
    batches = follow_log(
        deps.store,
        deps.notifier,
        deps.runtime,
        tenant_id=tenant(),
        run_id=request.run_id,
        selected=_wanted(request),
        cursor=cursor,
        follow=request.follow,
        progress_ms=progress_ms(deps, request),
    )
    finished = False
    try:
        async with aclosing(batches) as seen:
            async for batch in seen:
                cursor, finished = batch.cursor, batch.finished
                for message in _messages(request, batch, sent):
                    yield message
                    sent.now()
        reason = pb.WATCH_END_REASON_FINISHED if finished else pb.WATCH_END_REASON_DRAINING
    except RunNotFound:
        reason, cursor = pb.WATCH_END_REASON_PURGED, ""
    except SlowConsumer:
        reason = pb.WATCH_END_REASON_SLOW_CONSUMER
    except InvalidArgument:
        raise _invalid() from None
    # Outside of `try`, so that an end which isn't read in time is not followed by another.
    yield _end(request, reason, cursor)


def _wanted(request: pb.WatchLogsRequest) -> LogFilter:
    names = (types_pb2.LogKind.Name(kind) for kind in request.kinds)
    return LogFilter(
        execution_id=request.execution_id,
        task_id=request.task_id,
        kinds=frozenset(LogKind(name.removeprefix("LOG_KIND_")) for name in names),
    )


def _messages(
    request: pb.WatchLogsRequest, batch: LogBatch, sent: LastMessage
) -> Iterator[pb.WatchLogsResponse]:
    if batch.entries:
        cursor = _sealed(request, batch.cursor)
        entries = pb.LogBatch(entries=map(to_message, batch.entries), resume_token=cursor)
        yield pb.WatchLogsResponse(entries=entries)
    elif not batch.finished or sent.is_long_ago():
        cursor = _sealed(request, batch.cursor)
        yield pb.WatchLogsResponse(progress=pb.LogProgress(resume_token=cursor))


def _end(
    request: pb.WatchLogsRequest, reason: pb.WatchEndReason, cursor: str
) -> pb.WatchLogsResponse:
    return pb.WatchLogsResponse(end=pb.LogEnd(reason=reason, resume_token=_sealed(request, cursor)))


def _sealed(request: pb.WatchLogsRequest, cursor: str) -> str:
    """Return the token of the store's cursor."""
    return seal(cursor, *_log_of(request))


def _opened(request: pb.WatchLogsRequest) -> str:
    """Return the store's cursor from which the request continues.

    Raises:
        InvalidArgument: the token was not issued for this log.
    """
    cursor = unseal(request.resume_token, *_log_of(request))
    if cursor is None:
        raise _invalid()
    return cursor


def _log_of(request: pb.WatchLogsRequest) -> tuple[str, str, str]:
    return tenant(), request.run_id, request.execution_id


def _invalid() -> InvalidArgument:
    what = "is none of this log's; start with an empty one"
    return InvalidArgument(
        f"resume_token {what}", (Violation("resume_token", what),), reason="CURSOR_INVALID"
    )


# --- messages ----------------------------------------------------------------------------------------


async def list_messages(
    deps: Dependencies, request: pb.ListMessagesRequest
) -> pb.ListMessagesResponse:
    """Return a page of a run's messages, in the order of their commits."""
    tenant_id, run_id = tenant(), request.run_id
    await read_run(deps.store, tenant(), run_id)
    cursor = cursor_of(tenant_id, request)

    query = MessageQuery(tenant_id=tenant_id, run_id=run_id, task_id=request.task_id, cursor=cursor)

    async def show(message: Message) -> types_pb2.Message:
        return to_message(message)

    size = min(size_of(request), MESSAGES_AT_ONCE)
    messages, after = await read_page(rows_of(deps.store, query), show, size)
    token = token_of(tenant_id, request, after)
    return pb.ListMessagesResponse(messages=messages, next_page_token=token)


# --- transcripts ----------------------------------------------------------------------------------


async def read_transcript(
    deps: Dependencies, request: pb.ReadTranscriptRequest
) -> pb.ReadTranscriptResponse:
    """Return the next bytes of an execution's prompt and response."""
    tenant_id, run_id = tenant(), request.run_id
    await read_run(deps.store, tenant_id, run_id)
    cursor = cursor_of(tenant_id, request)
    start = int(cursor or 0)
    stop = start + (request.page_size or limits.RECORD_PAGE_BYTES_MAX)
    found = await deps.store.read_payloads(tenant_id, run_id, [request.execution_id], texts=True)
    prompt, response = (
        (found[0].prompt.encode(), found[0].response.encode()) if found else (b"", b"")
    )
    size = len(prompt)
    after = str(stop) if stop < size + len(response) else ""
    return pb.ReadTranscriptResponse(
        prompt=prompt[start:stop],
        response=response[max(0, start - size) : max(0, stop - size)],
        next_page_token=token_of(tenant_id, request, after),
    )

"""ListJournal: the entries that calls within steps recorded."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.app.runs import read_run
from stepwell.core.loop import letters, request_ids, signals
from stepwell.core.port import JournalQuery
from stepwell.core.records import limits
from stepwell.core.records.errors import InvalidArgument, NotFound, Violation
from stepwell.core.records.journal import StoredEntry
from stepwell.core.records.model import Payload
from stepwell.engine.step_journal import is_more
from stepwell.rpc.caller import tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, rows_of, size_of, token_of
from stepwell.wire.records import to_message
from stepwell_client.answer_tokens import SECRET_MEDIA_TYPE
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2


async def list_journal(
    deps: Dependencies, request: pb.ListJournalRequest
) -> pb.ListJournalResponse:
    """Return a page of entries, and a cursor from which to continue later.

    Raises:
        RunNotFound: there is no such run.
        NotFound: the run has no such task.
        InvalidArgument: the journal is not the task's.
    """
    tenant_id, run_id = tenant(), request.run_id
    run = await read_run(deps.store, tenant_id, run_id)
    journal = request.journal
    if request.task_id:
        name = await deps.executor.journals.name_of(run, request.task_id)
        if not name:
            raise NotFound(f"the run has no task {request.task_id!r}", reason="TASK_NOT_FOUND")
        if journal not in ("", name):
            what = f"is not that of task {request.task_id!r}, {name!r}; give one of the two"
            raise InvalidArgument(f"journal {what}", (Violation("journal", what),))
        journal = name
    query = JournalQuery(
        tenant_id=tenant_id,
        run_id=run_id,
        journal=journal,
        execution_id=request.execution_id,
        names_only=request.view != types_pb2.VIEW_FULL,
        cursor=cursor_of(tenant_id, request),
        limit=size_of(request),
        bytes_limit=limits.JOURNAL_PAGE_BYTES_MAX,
    )

    async def show(stored: StoredEntry) -> types_pb2.StoredEntry | None:
        own = stored.journal in (letters.JOURNAL, signals.JOURNAL)
        if own or stored.journal.startswith(request_ids.JOURNALS):
            return None  # No step's.
        # ListMessages returns the messages; those of one entry may fill a response.
        entry = replace(stored.entry, messages=())
        if entry.value is not None and entry.value.media_type == SECRET_MEDIA_TYPE:
            entry = replace(entry, value=Payload(data=b"", media_type=SECRET_MEDIA_TYPE))
        return to_message(replace(stored, entry=entry))

    entries, after = await read_page(rows_of(deps.store, query), show, query.limit)
    more = bool(entries) and await is_more(deps.store, query, after)
    cursor = token_of(tenant_id, request, after)
    token = cursor if more else ""
    return pb.ListJournalResponse(entries=entries, next_page_token=token, resume_token=cursor)

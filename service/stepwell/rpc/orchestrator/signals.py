"""ListSignals: the signals that a run keeps."""

from __future__ import annotations

from stepwell.app.runs import read_run
from stepwell.core.loop import signals
from stepwell.core.port import JournalQuery
from stepwell.core.records import limits
from stepwell.core.records.journal import StoredEntry
from stepwell.engine.step_journal import is_more
from stepwell.rpc.caller import tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, rows_of, size_of, token_of
from stepwell.wire.records import to_message
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2


async def list_signals(
    deps: Dependencies, request: pb.ListSignalsRequest
) -> pb.ListSignalsResponse:
    """Return a page of the signals that a run keeps, oldest first.

    Raises:
        RunNotFound: there is no such run.
    """
    tenant_id, run_id = tenant(), request.run_id
    query = JournalQuery(
        tenant_id=tenant_id,
        run_id=run_id,
        journal=signals.JOURNAL,
        names_only=request.view != types_pb2.VIEW_FULL,
        cursor=cursor_of(tenant_id, request),
        limit=size_of(request),
        bytes_limit=limits.JOURNAL_PAGE_BYTES_MAX,
    )
    if not (await read_run(deps.store, tenant_id, run_id)).signals.kept:
        return pb.ListSignalsResponse()

    async def show(stored: StoredEntry) -> types_pb2.KeptSignal:
        return to_message(signals.kept_signal(stored))

    kept, after = await read_page(rows_of(deps.store, query), show, query.limit)
    more = bool(kept) and await is_more(deps.store, query, after)
    token = token_of(tenant_id, request, after) if more else ""
    return pb.ListSignalsResponse(signals=kept, next_page_token=token)

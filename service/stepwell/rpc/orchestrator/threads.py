"""GetThread, ListThreads, ListThreadMessages, AppendToThread, SetThreadState, SetThreadLabels, ForkThread, DeleteThread."""

from __future__ import annotations

from stepwell.app import threads
from stepwell.app.start import check_labels
from stepwell.core.loop.thread_occurrences import ForkThread, WriteToThread
from stepwell.core.port import RunQuery, Store
from stepwell.core.records.model import Run
from stepwell.core.records.threads import ThreadWrite, key_of, threads_of
from stepwell.engine.executor import Executor
from stepwell.engine.thread_reader import read_messages, read_state
from stepwell.logger import get_logger
from stepwell.rpc.caller import caller, tenant
from stepwell.rpc.orchestrator.commands import as_called
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, rows_of, size_of, token_of
from stepwell.wire.records import fill, to_message, to_record
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

log = get_logger(__name__)


async def get_thread(executor: Executor, request: pb.GetThreadRequest) -> pb.GetThreadResponse:
    """Return a thread with its state."""
    key = key_of(tenant(), request.thread_id)
    message = await _message(
        executor.store, await threads.read_thread(executor.store, *key, request.thread_id)
    )
    message.state_version, state = await read_state(executor.store, key)
    if state is not None:
        fill(state, message.state)
    return pb.GetThreadResponse(thread=message)


async def list_threads(
    executor: Executor, request: pb.ListThreadsRequest
) -> pb.ListThreadsResponse:
    """Return a page of the tenant's threads, the newest first."""
    tenant_id = tenant()
    query = RunQuery(tenant_id=threads_of(tenant_id), cursor=cursor_of(tenant_id, request))

    labels = dict(request.labels)

    async def show(run: Run) -> types_pb2.Thread | None:
        wanted = labels.items() <= run.thread.labels.items()
        return await _message(executor.store, run) if wanted else None

    shown, after = await read_page(rows_of(executor.store, query), show, size_of(request))
    return pb.ListThreadsResponse(
        threads=shown, next_page_token=token_of(tenant_id, request, after)
    )


async def list_thread_messages(
    executor: Executor, request: pb.ListThreadMessagesRequest
) -> pb.ListThreadMessagesResponse:
    """Return a page of a thread's messages, oldest first."""
    tenant_id = tenant()
    key = key_of(tenant_id, request.thread_id)
    cursor = cursor_of(tenant_id, request)
    kept = (await threads.read_thread(executor.store, *key, request.thread_id)).thread.messages
    if cursor:
        first = int(cursor)
    else:
        first = max(request.after, kept - request.last if request.last else 0) + 1
    last = min(kept, first + size_of(request) - 1)
    found, cut = await read_messages(executor.store, key, first, last)
    after = cut or (last + 1 if last < kept else 0)
    return pb.ListThreadMessagesResponse(
        messages=[to_message(one) for one in found],
        next_page_token=token_of(tenant_id, request, str(after) if after else ""),
    )


async def append_to_thread(
    executor: Executor, request: pb.AppendToThreadRequest
) -> pb.AppendToThreadResponse:
    """Append messages to a thread."""
    messages = tuple(to_record(one) for one in request.messages)
    command = WriteToThread(
        thread_id=request.thread_id,
        write=ThreadWrite(messages=messages),
        on_behalf_of=request.on_behalf_of,
    )
    thread, changed = await _write(executor, command, request.request_id)
    return pb.AppendToThreadResponse(thread=thread, changed=changed)


async def set_thread_state(
    executor: Executor, request: pb.SetThreadStateRequest
) -> pb.SetThreadStateResponse:
    """Set the state of a thread, if it is at the version that the caller expects."""
    command = WriteToThread(
        thread_id=request.thread_id,
        write=ThreadWrite(state=to_record(request.state)),
        expected_state=request.expected_version if request.HasField("expected_version") else -1,
        on_behalf_of=request.on_behalf_of,
    )
    thread, changed = await _write(executor, command, request.request_id)
    return pb.SetThreadStateResponse(thread=thread, changed=changed)


async def set_thread_labels(
    executor: Executor, request: pb.SetThreadLabelsRequest
) -> pb.SetThreadLabelsResponse:
    """Set all labels of a thread."""
    labels = dict(request.labels)
    check_labels(labels)
    command = WriteToThread(
        thread_id=request.thread_id,
        labels=labels,
        on_behalf_of=request.on_behalf_of,
    )
    thread, changed = await _write(executor, command, request.request_id)
    return pb.SetThreadLabelsResponse(thread=thread, changed=changed)


async def fork_thread(executor: Executor, request: pb.ForkThreadRequest) -> pb.ForkThreadResponse:
    """Make a thread with the messages of another one up to a number."""
    command = ForkThread(
        thread_id=request.new_thread_id,
        forked_from=request.thread_id,
        at=request.at if request.HasField("at") else None,
        on_behalf_of=request.on_behalf_of,
    )
    called = as_called(command, request.request_id)
    run, changed = await threads.fork_thread(executor, tenant(), called)
    return pb.ForkThreadResponse(thread=await _message(executor.store, run), changed=changed)


async def delete_thread(
    executor: Executor, request: pb.DeleteThreadRequest
) -> pb.DeleteThreadResponse:
    """Remove a thread with its runs."""
    who = caller()
    deleted = await threads.delete_thread(
        executor, who.tenant_id, request.thread_id, force=request.force
    )
    if deleted:
        log.info(
            "a thread was removed with its runs",
            actor=who.subject,
            on_behalf_of=request.on_behalf_of,
            tenant_id=who.tenant_id,
            thread_id=request.thread_id,
        )
    return pb.DeleteThreadResponse(deleted=deleted)


async def _write(
    executor: Executor, command: WriteToThread, request_id: str
) -> tuple[types_pb2.Thread, bool]:
    called = as_called(command, request_id)
    run, changed = await threads.write_to_thread(executor, tenant(), called)
    return await _message(executor.store, run), changed


async def _message(store: Store, run: Run) -> types_pb2.Thread:
    thread = run.thread
    message = types_pb2.Thread(
        thread_id=run.spec.thread_id,
        working_run_id=thread.working,
        waiting=await threads.waiting_in(store, run),
        messages=thread.messages,
        messages_bytes=thread.bytes,
        state_version=thread.state,
        starts=thread.joined,
        forked_from=thread.forked_from,
        forked_at=thread.forked_at,
        labels=thread.labels,
    )
    message.created_time.FromMicroseconds(run.created_us)
    return message

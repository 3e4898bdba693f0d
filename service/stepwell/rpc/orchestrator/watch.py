"""WatchRun and WatchRuns: events and runs from a position on, each once, at the reader's own pace.

Nothing is queued for a watcher. A yielded message is written before the next page is read, so that
all events that come meanwhile go into one message. The gate ends the stream of a client that
doesn't read, by raising `SlowConsumer` at the yield.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec

from stepwell.app.runs import read_run
from stepwell.app.thread_watch import MessageReader
from stepwell.core.port import FeedEntry, FeedQuery, Runtime
from stepwell.core.records.errors import InvalidArgument, RunNotFound, Violation
from stepwell.core.records.model import Run
from stepwell.rpc.caller import tenant
from stepwell.rpc.dependencies import Context, Dependencies
from stepwell.rpc.orchestrator.lists import run_statuses
from stepwell.rpc.orchestrator.presenter import RunPresenter
from stepwell.rpc.status import SlowConsumer
from stepwell.watch.rings import EncodedEvent
from stepwell.watch.runs import Batch, FeedBatch, MessagePlace, watch_feed, watch_run
from stepwell.watch.trees import Tree, cursor_after
from stepwell.wire.event_bytes import batch_bytes
from stepwell.wire.records import fill, to_message
from stepwell.wire.values import get_ms
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

NOW = "now"
_DIGITS_MAX = 18
"""The most digits of an event's number."""
FILTERED_PROGRESS_MS = 1_000
"""The minimum interval of progress messages for filtered events."""


class LastMessage:
    """The time of the last message on a stream."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._at = runtime.monotonic()

    def now(self) -> None:
        """Note that a message was sent."""
        self._at = self._runtime.monotonic()

    def is_long_ago(self) -> bool:
        """Return whether a progress message for filtered events is due."""
        return (self._runtime.monotonic() - self._at) * 1_000 >= FILTERED_PROGRESS_MS


def progress_ms(deps: Dependencies, request: Any) -> int:
    """Return the interval of progress messages on an idle stream."""
    if request.HasField("progress_interval"):
        return get_ms(request.progress_interval)
    return deps.settings.watch.progress_ms


def _invalid(what: str) -> InvalidArgument:
    violation = Violation("resume_token", what)
    return InvalidArgument(f"resume_token {what}", (violation,), reason="CURSOR_INVALID")


# --- one run -----------------------------------------------------------------------------------------


class EventFilter(NamedTuple):
    """Selects the events of a run to send; an empty field selects all."""

    types: frozenset[str]
    task_ids: frozenset[str]

    def selects(self, event: EncodedEvent) -> bool:
        """Return whether the event is sent."""
        return (not self.types or event.type in self.types) and (
            not self.task_ids or event.task_id in self.task_ids
        )


async def watch_one(
    deps: Dependencies, presenter: RunPresenter, request: pb.WatchRunRequest, context: Context
) -> AsyncGenerator[pb.WatchRunResponse | bytes]:
    """Yield a run's events, as serialized messages, and at the end the reason why there are no more."""
    tenant_id, run_id = tenant(), request.run_id
    await read_run(deps.store, tenant_id, run_id)
    # Sent at once, so that a client knows that its watch works before anything happens.
    await context.send_initial_metadata(())
    wanted = EventFilter(
        frozenset(types_pb2.EventType.Name(t).removeprefix("EVENT_TYPE_") for t in request.types),
        frozenset(request.task_ids),
    )
    sent, after = LastMessage(deps.runtime), _event_number(request.resume_token)
    try:
        while True:
            batches = watch_run(
                deps.store,
                deps.notifier,
                deps.runtime,
                tenant_id=tenant_id,
                run_id=run_id,
                after=after,
                progress_ms=progress_ms(deps, request),
            )
            batch = Batch()
            async with aclosing(batches) as seen:
                async for batch in seen:
                    after = batch.after
                    for message in _event_messages(deps, batch, wanted, sent):
                        yield message
                        sent.now()
            if not batch.ended:
                end = _end(pb.WATCH_END_REASON_DRAINING, after)
                break
            run = batch.run or await read_run(deps.store, tenant_id, run_id)
            # A failed run may have been resumed in between, and then isn't over.
            if run.ended and run.last_event == after:
                end = _end(pb.WATCH_END_REASON_FINISHED, after, await presenter.message(run))
                break
    except RunNotFound:
        end = _end(pb.WATCH_END_REASON_PURGED, after)
    except SlowConsumer:
        end = _end(pb.WATCH_END_REASON_SLOW_CONSUMER, after)
    # Outside of `try`, so that an end which isn't read in time is not followed by another.
    yield end


def _event_number(token: str) -> int:
    """Return the number of the event after which a token continues.

    Raises:
        InvalidArgument: the token is not from this stream.
    """
    if not token:
        return 0
    if not (token.isascii() and token.isdigit() and len(token) <= _DIGITS_MAX):
        raise _invalid("is none of this stream's: it gives out numbers of events")
    return int(token)


def _end(
    reason: pb.WatchEndReason, after: int, run: types_pb2.Run | None = None
) -> pb.WatchRunResponse:
    return pb.WatchRunResponse(end=pb.WatchEnd(reason=reason, run=run, resume_token=str(after)))


def _event_messages(
    deps: Dependencies, batch: Batch, wanted: EventFilter, sent: LastMessage
) -> Iterator[pb.WatchRunResponse | bytes]:
    """Yield the messages of a batch: few, not too large, and each with whole commits."""
    batched: list[bytes] = []
    room = deps.settings.watch.message_bytes_max
    covered = 0
    for commit in _by_commit(batch.events):
        events = [event.data for event in commit if wanted.selects(event)]
        size = sum(map(len, events))
        if batched and size > room:
            yield batch_bytes(batched, covered)
            batched, room = [], deps.settings.watch.message_bytes_max
        batched += events
        room -= size
        covered = commit[-1].number
    if batched:
        yield batch_bytes(batched, batch.after)
    elif (not batch.events and not batch.ended) or sent.is_long_ago():
        yield pb.WatchRunResponse(progress=pb.WatchProgress(resume_token=str(batch.after)))


def _by_commit(events: Sequence[EncodedEvent]) -> Iterator[Sequence[EncodedEvent]]:
    start = 0
    for index in range(1, len(events) + 1):
        if index == len(events) or events[index].version != events[start].version:
            yield events[start:index]
            start = index


# --- all runs ----------------------------------------------------------------------------------------


class RunFilter(NamedTuple):
    """Selects the snapshots to send; an empty field selects all."""

    pipeline_id: str
    statuses: tuple[str, ...]
    labels: dict[str, str]

    def selects(self, run: Run) -> bool:
        """Return whether the snapshot is sent."""
        spec = run.spec
        return (
            (not self.pipeline_id or spec.pipeline_id == self.pipeline_id)
            and (not self.statuses or run.status in self.statuses)
            and all(spec.labels.get(key) == value for key, value in self.labels.items())
        )


class Position(NamedTuple):
    """A position of a watch of all runs; in that of a thread, which has messages, too, it is encoded."""

    cursor: str
    """The feed's."""
    messages: MessagePlace | None = None

    def token(self) -> str:
        """Return the token that stands for it."""
        return self.cursor if self.messages is None else msgspec.json.encode(self).decode()


def position_of(token: str) -> Position:
    """Return the position that a token stands for.

    Raises:
        InvalidArgument: the token is not from this stream.
    """
    if not token.startswith("["):
        return Position(token)
    try:
        found = msgspec.json.decode(token, type=Position)
    except msgspec.MsgspecError:
        found = Position("")
    place = found.messages
    if place is None or place.number < 0 or "\0" in place.run_id + place.log:
        raise _invalid("is none that this store gave out; start with an empty one")
    return found


async def watch_all(
    deps: Dependencies, presenter: RunPresenter, request: pb.WatchRunsRequest, context: Context
) -> AsyncGenerator[pb.WatchRunsResponse]:
    """Yield each deletion, and a snapshot for each commit, or several commits, to a run of the tenant.

    For a thread also its messages.
    """
    tenant_id = tenant()
    begin = position_of(request.resume_token)
    cursor = await _first_cursor(deps, tenant_id, begin.cursor)
    tree = await _tree(deps, request)
    async with _message_reader(deps, request) as reader:
        at = Position(cursor, await _first_place(reader, request, begin.messages))
        await context.send_initial_metadata(())
        wanted = RunFilter(
            request.pipeline_id, run_statuses(request.statuses), dict(request.labels)
        )
        sent = LastMessage(deps.runtime)
        room = deps.settings.watch.message_bytes_max
        try:
            if request.resume_token == NOW:
                # From here on a reconnect misses nothing, even if nothing has happened yet.
                yield _progress(at)
            batches = watch_feed(
                deps.store,
                deps.notifier,
                deps.runtime,
                tenant_id=tenant_id,
                cursor=cursor,
                progress_ms=progress_ms(deps, request),
                read_messages=None if reader is None else partial(reader.read, room),
            )
            async with aclosing(batches) as seen:
                async for batch in seen:
                    is_silent = True
                    found = _updates_of(deps, presenter, wanted, tree, batch, at)
                    async with aclosing(found) as updates:
                        async for one, at in updates:
                            one.resume_token = at.token()
                            yield pb.WatchRunsResponse(updates=one)
                            is_silent = False
                    at = at._replace(cursor=batch.cursor)
                    if is_silent and (not batch.entries or sent.is_long_ago()):
                        yield _progress(at)
                    elif is_silent:
                        continue
                    sent.now()
            reason = pb.WATCH_END_REASON_DRAINING
        except SlowConsumer:
            reason = pb.WATCH_END_REASON_SLOW_CONSUMER
    yield pb.WatchRunsResponse(end=pb.WatchEnd(reason=reason, resume_token=at.token()))


async def _updates_of(
    deps: Dependencies,
    presenter: RunPresenter,
    wanted: RunFilter,
    tree: Tree | None,
    batch: FeedBatch,
    at: Position,
) -> AsyncGenerator[tuple[pb.RunUpdateBatch, Position]]:
    """Yield what a batch has to say, each message with the position after it."""
    updates = (
        _updates(deps, presenter, wanted, batch.entries, at.cursor)
        if tree is None
        else _tree_updates(deps, presenter, wanted, tree, batch.entries, at.cursor)
    )
    async with aclosing(updates) as found:
        last: pb.RunUpdateBatch | None = None
        async for one in found:
            if last is not None:
                yield last, at._replace(cursor=last.resume_token)
            last = one
    at = at._replace(cursor=batch.cursor)
    if last is not None:
        yield last, at
    if (page := batch.messages) is not None:
        updates = list[pb.RunUpdate]()
        if page.chunks:
            chunks = [to_message(one) for one in page.chunks]
            updates.append(pb.RunUpdate(run_id=page.run_id, chunks=chunks))
        if page.messages or page.deleted:
            messages = [to_message(one) for one in page.messages]
            updates.append(pb.RunUpdate(deleted=page.deleted, messages=messages))
        yield pb.RunUpdateBatch(updates=updates), at._replace(messages=page.place)


def _progress(position: Position) -> pb.WatchRunsResponse:
    return pb.WatchRunsResponse(progress=pb.RunsProgress(resume_token=position.token()))


@asynccontextmanager
async def _message_reader(
    deps: Dependencies, request: pb.WatchRunsRequest
) -> AsyncGenerator[MessageReader | None]:
    """Have a reader of the messages of the thread that is watched, or None."""
    if not request.thread_id:
        after = request.HasField("after_message")
        for name, is_given in (("after_message", after), ("chunks", request.chunks)):
            if is_given:
                what = "needs thread_id"
                raise InvalidArgument(f"{name} {what}", (Violation(name, what),))
        yield None
        return
    reader = MessageReader(
        deps.store,
        deps.notifier,
        deps.runtime,
        tenant_id=tenant(),
        thread_id=request.thread_id,
        chunks=request.chunks,
    )
    try:
        yield reader
    finally:
        reader.close()


async def _first_place(
    reader: MessageReader | None, request: pb.WatchRunsRequest, known: MessagePlace | None
) -> MessagePlace | None:
    """Return the place among a thread's messages at which a stream begins."""
    if reader is None:
        return None
    after = request.after_message if request.HasField("after_message") else None
    if known is None and after is None and request.resume_token != NOW:
        known = MessagePlace()
    return await reader.begin(known, after)


async def _first_cursor(deps: Dependencies, tenant_id: str, cursor: str) -> str:
    """Return the cursor to start at, which the store checks before anything else."""
    try:
        page = await deps.store.page(FeedQuery(tenant_id=tenant_id, cursor=cursor, limit=1))
    except InvalidArgument:
        raise _invalid("is none that this store gave out; start with an empty one") from None
    return page.cursor if cursor == NOW else cursor


async def _updates(
    deps: Dependencies,
    presenter: RunPresenter,
    wanted: RunFilter,
    entries: Sequence[FeedEntry],
    cursor: str,
) -> AsyncGenerator[pb.RunUpdateBatch]:
    """Yield the deletions and snapshots of a page of the feed, in messages that are not too large.

    Each has the cursor before the page, because it doesn't cover what follows in the page.
    """
    newest: dict[tuple[str, bool], FeedEntry] = {}
    for entry in entries:
        if entry.deleted:
            # A commit under this id after the deletion belongs to another run, whose snapshot comes
            # later.
            newest.pop((entry.run_id, False), None)
        newest[entry.run_id, entry.deleted] = entry
    message = pb.RunUpdateBatch(resume_token=cursor)
    room = deps.settings.watch.message_bytes_max
    for entry in newest.values():
        update = pb.RunUpdate(run_id=entry.run_id, version=entry.version, deleted=entry.deleted)
        if not entry.deleted:
            run = await _newest_run(deps, entry)
            if run is None or not wanted.selects(run):
                continue
            update.run.CopyFrom(await presenter.message(run))
        size = update.ByteSize()
        if message.updates and size > room:
            yield message
            message = pb.RunUpdateBatch(resume_token=cursor)
            room = deps.settings.watch.message_bytes_max
        message.updates.append(update)
        room -= size
    if message.updates:
        yield message


async def _tree(deps: Dependencies, request: pb.WatchRunsRequest) -> Tree | None:
    """Return the tree, or the thread, whose runs are watched, or None for all runs.

    Raises:
        RunNotFound: there is no such root, and the stream doesn't go on from another one.
        InvalidArgument: the run is a child, or both are given.
    """
    root_run_id, thread_id = request.root_run_id, request.thread_id
    if not (root_run_id or thread_id):
        return None
    if root_run_id and thread_id:
        what = "doesn't go with root_run_id"
        raise InvalidArgument(f"thread_id {what}", (Violation("thread_id", what),))
    if root_run_id and request.resume_token in ("", NOW):
        root = (await read_run(deps.store, tenant(), root_run_id)).spec.child_of.root_run_id
        if root:
            what = f"is a child run; the root of its tree is {root}"
            raise InvalidArgument(f"root_run_id {what}", (Violation("root_run_id", what),))
    newest = partial(_newest_run, deps)
    return Tree(
        deps.store, newest, tenant_id=tenant(), root_run_id=root_run_id, thread_id=thread_id
    )


async def _tree_updates(
    deps: Dependencies,
    presenter: RunPresenter,
    wanted: RunFilter,
    tree: Tree,
    entries: Sequence[FeedEntry],
    cursor: str,
) -> AsyncGenerator[pb.RunUpdateBatch]:
    """Yield the commits of a tree in a page of the feed, in messages that are not too large.

    Each has the cursor after its last commit, but for the last message, which covers the rest of the page.
    """
    message, room, begin = pb.RunUpdateBatch(), deps.settings.watch.message_bytes_max, 0
    shown = set[str]()
    async with aclosing(tree.read(entries)) as commits:
        async for one in commits:
            entry, run = one.entry, one.run
            if run is not None and not wanted.selects(run):
                continue
            update = pb.RunUpdate(run_id=entry.run_id, version=entry.version, deleted=run is None)
            for event in one.events:
                fill(event, update.events.add())
            snapshot = None if run is None else await presenter.message(run)
            if snapshot is not None and entry.run_id not in shown:
                update.run.CopyFrom(snapshot)
            size = update.ByteSize()
            if message.updates and size > room:
                before = entries[begin : one.place]
                cursor = await cursor_after(deps.store, tenant(), cursor, before)
                message.resume_token = cursor
                yield message
                message, room = pb.RunUpdateBatch(), deps.settings.watch.message_bytes_max
                begin, shown = one.place, set[str]()
                if snapshot is not None:
                    update.run.CopyFrom(snapshot)
                    size = update.ByteSize()
            shown.add(entry.run_id)
            message.updates.append(update)
            room -= size
    if message.updates:
        yield message


async def _newest_run(deps: Dependencies, entry: FeedEntry) -> Run | None:
    """Return the run of a feed entry, at its version or a later one, or None if it was deleted.

    A run that this replica works on comes from memory.
    """
    held = deps.executor.held(tenant(), entry.run_id)
    if held is not None and held.run.version >= entry.version:
        return held.run
    return await deps.store.get_run(tenant(), entry.run_id)

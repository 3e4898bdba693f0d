"""Every event that any test sees is looked at: a checker round each watch, and each stream by hand.

Two places see all of them. `OrchestratorStub.WatchRun` is where streams of messages come in, those of the
Python clients and those that tests read by hand; `RunCursor.accept` is where the Python clients, asynchronous
or not, hand events on, over however many streams. What is wrong is noted, so that the test goes its way,
and reported at its end (the fixture in conftest.py), with the invariant's name.

A test whose server is a script that breaks the rules on purpose asks for the fixture `scripted_server`:
then what the clients make of it is looked at all the same, and the streams are not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from stepwell_client.internal import RunCursor
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import orchestrator_pb2_grpc, types_pb2

LAST = frozenset({types_pb2.EVENT_TYPE_RUN_SUCCEEDED, types_pb2.EVENT_TYPE_RUN_CANCELLED})
"""After these a run has no more events (S15), but of the delivery of its last letters."""


class Log:
    """The events that one test has seen, and what was wrong with them."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.streams = True
        """Streams themselves are looked at, not only what the clients make of them."""
        self.events = 0
        self._seen: dict[tuple[object, str, int], bytes] = {}

    def holds(self, condition: object, name: str, message: str) -> None:
        """Note the violation of `name` unless `condition` is true."""
        if not condition:
            self.wrong.append(f"{name}: {message}")

    def same(self, whose: object, run_id: str, event: types_pb2.Event) -> None:
        """An event is the same one for everybody who sees it, at whatever time (E2)."""
        key = (whose, run_id, event.number)
        content = event.SerializeToString(deterministic=True)
        before = self._seen.setdefault(key, content)
        self.holds(before == content, "E2", f"{run_id}: event {event.number} has changed")


log = Log()
"""The log of the test that runs."""


def begin() -> Log:
    """Forget what was before; return the log of what comes."""
    global log  # noqa: PLW0603 - one test at a time, and what is patched has no other way to it
    log = Log()
    return log


class Story:
    """The events of one watch, in the order in which they come."""

    def __init__(self, run_id: str, after: int, *, complete: bool) -> None:
        self.run_id = run_id
        self.after = after
        """The last number that was seen, in an event or in a sign of life."""
        self.version = 0
        self._complete = complete
        """Nothing is filtered out."""
        self._last: types_pb2.Event | None = None

    def take(self, event: types_pb2.Event) -> None:
        """Look at the next one."""
        name = f"{self.run_id}: {event.number} came after {self.after}"
        log.events += 1
        log.holds(event.number > self.after, "E1", name)
        log.holds(not self._complete or event.number == self.after + 1, "E3", name)
        versions = (
            f"{self.run_id}: event {event.number} is of v{event.version}, after {self.version}"
        )
        log.holds(event.version >= self.version, "E1", versions)
        if self._last is not None and event.type != types_pb2.EVENT_TYPE_LETTERS_DELIVERED:
            over = self._last.type in LAST
            log.holds(not over, "S15", f"{self.run_id}: {event.number} came after its end")
        self.after, self.version = event.number, event.version
        if self._last is None or self._last.type not in LAST:
            self._last = event

    def end(self, run: types_pb2.Run) -> None:
        """The run has ended, says the stream: as its last event says (S15)."""
        if self._complete and run.last_event:
            message = f"{self.run_id} ended with event {run.last_event}, and {self.after} were seen"
            log.holds(run.last_event == self.after, "S15", message)


def check_events(events: Sequence[types_pb2.Event]) -> None:
    """Check a run's whole log: no gap, and nothing leased after it was completed."""
    assert [event.number for event in events] == list(range(1, len(events) + 1)), "E1"
    completed: set[str] = set()
    for event in events:
        if event.type == types_pb2.EVENT_TYPE_TASK_COMPLETED:
            assert event.task_id not in completed, "S7"
            completed.add(event.task_id)
        elif event.type == types_pb2.EVENT_TYPE_EXECUTION_LEASED:
            assert event.task_id not in completed, "S6"


class Stream:
    """One stream of messages, looked at as it is read."""

    def __init__(self, request: pb.WatchRunRequest, whose: object) -> None:
        complete = not request.types and not request.task_ids
        self._story = Story(request.run_id, int(request.resume_token or 0), complete=complete)
        self._whose = whose
        self._over = False

    def take(self, message: object) -> None:
        """Look at a message, or at the end of the stream."""
        if not isinstance(message, pb.WatchRunResponse) or not log.streams:
            return
        story = self._story
        log.holds(not self._over, "E1", f"{story.run_id}: a message came after the end")
        kind = message.WhichOneof("message")
        if kind == "events":
            self._take_events(message.events)
        elif kind == "progress":
            after = int(message.progress.resume_token)
            message = f"{story.run_id}: progress {after} came after {story.after}"
            log.holds(after >= story.after, "E7", message)
            log.holds(after == story.after or not story._complete, "E7", message)
            story.after = max(story.after, after)
        elif kind == "end":
            self._over = True
            if message.end.reason == pb.WATCH_END_REASON_FINISHED:
                story.end(message.end.run)

    def _take_events(self, batch: pb.EventBatch) -> None:
        story, events = self._story, batch.events
        log.holds(events, "E1", f"{story.run_id}: a batch without an event")
        if events:
            version = events[0].version
            log.holds(version > story.version, "E8", f"{story.run_id}: v{version} came in parts")
        for event in events:
            log.same(self._whose, story.run_id, event)
            story.take(event)
        message = (
            f"{story.run_id}: go on after {int(batch.resume_token)}, and {story.after} were sent"
        )
        log.holds(int(batch.resume_token) >= story.after, "E7", message)
        log.holds(int(batch.resume_token) == story.after or not story._complete, "E7", message)
        story.after = max(story.after, int(batch.resume_token))


class _Call:
    """A call that is looked at as it is read, in any of the three ways in which that is done."""

    def __init__(self, call: Any, stream: Stream) -> None:
        self._call = call
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    async def read(self) -> Any:
        message = await self._call.read()
        self._stream.take(message)
        return message

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for message in self._call:
            self._stream.take(message)
            yield message

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        message = next(self._call)
        self._stream.take(message)
        return message


class _Method:
    """`WatchRun`, each call of which is looked at."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __call__(self, request: pb.WatchRunRequest, **options: Any) -> _Call:
        whose = tuple(sorted(options.get("metadata") or ()))
        stream = Stream(request, whose)
        return _Call(self._method(request, **options), stream)


_make_stub: Callable[..., None] = orchestrator_pb2_grpc.OrchestratorStub.__init__
_take_message = RunCursor.accept
_stories: WeakKeyDictionary[RunCursor, Story] = WeakKeyDictionary()


def _made(self: Any, channel: Any) -> None:
    _make_stub(self, channel)
    self.WatchRun = _Method(self.WatchRun)


def _taken(self: RunCursor, message: pb.WatchRunResponse) -> Iterator[types_pb2.Event]:
    """Look at what a client hands on, over all of its cursor's streams."""
    story = _stories.get(self)
    if story is None:
        story = Story(self._request.run_id, self.after, complete=self._complete)
        _stories[self] = story
    return _passed(self, story, _take_message(self, message))


def _passed(
    cursor: RunCursor, story: Story, events: Iterable[types_pb2.Event]
) -> Iterator[types_pb2.Event]:
    for event in events:
        story.take(event)
        yield event
    story.after = max(story.after, cursor.after)
    if cursor.run is not None:
        story.end(cursor.run)


def patch() -> None:
    """Look at all watches of this process from now on."""
    stubs: Any = orchestrator_pb2_grpc.OrchestratorStub
    stubs.__init__ = _made
    RunCursor.accept = _taken

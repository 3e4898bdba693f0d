"""The calls that concern one thread, a conversation over runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypedDict, Unpack

from stepwell_client.calls.base import Calls
from stepwell_client.options import takes
from stepwell_client.records.messages_pb2 import Thread, ThreadMessage
from stepwell_client.records.payloads import answer_payload, encode
from stepwell_client.records.reading import read_thread, read_thread_message
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2


class WriteOptions(TypedDict, total=False):
    """Options of what changes a thread."""

    on_behalf_of: str
    """A name, for people, besides the caller's own, which comes from the credential."""
    request_id: str
    """Identifies the request: repeated, it finds what the first has done. Generated if left out."""


class ThreadHandle:
    """A thread, by its id: reads, appends, sets its state, forks it, deletes it. `client.start(…, thread=id)` starts its runs."""

    def __init__(self, caller: Calls, thread_id: str) -> None:
        self.caller = caller
        """The object that makes the calls."""
        self.id = thread_id
        """The thread's id."""

    def __repr__(self) -> str:
        return f"ThreadHandle({self.id!r})"

    async def get(self) -> Thread:
        """Return the thread as of its last commit, with its state.

        Raises NotFound if nothing was started, appended or set in it.
        """
        request = pb.GetThreadRequest(thread_id=self.id)
        return read_thread((await self.caller.call("GetThread", request)).thread)

    def messages(
        self, *, last: int = 0, after: int = 0, page_size: int = 0
    ) -> AsyncIterator[ThreadMessage]:
        """Yield the thread's messages, oldest first, page by page.

        Args:
            last: Only so many, the newest; 0: all.
            after: Only those with a greater number.
            page_size: The number that is read at once; 0: 100.
        """
        request = pb.ListThreadMessagesRequest(
            thread_id=self.id, last=last, after=after, page_size=page_size
        )
        return self.caller.pages("ListThreadMessages", request, "messages", read_thread_message)

    @takes(WriteOptions)
    async def append(self, role: str, content: object, **options: Unpack[WriteOptions]) -> Thread:
        """Append a message from outside the thread's runs; return the thread, without its state.

        `content` is a JSON value of at most 1 MiB. A thread that is missing is made.
        """
        message = types_pb2.ThreadMessageDraft(role=role, content=encode(content))
        request = pb.AppendToThreadRequest(messages=[message], **options)
        return await self._write("AppendToThread", request)

    @takes(WriteOptions)
    async def set_state(
        self, value: object, *, expected_version: int | None = None, **options: Unpack[WriteOptions]
    ) -> Thread:
        """Set the thread's state, a JSON value of at most 64 KiB; return the thread, without the state.

        With `expected_version`, only if the state is at this version, 0: if it was never set; else VersionChanged is raised.
        A thread that is missing is made.
        """
        request = pb.SetThreadStateRequest(
            state=answer_payload(value), expected_version=expected_version, **options
        )
        return await self._write("SetThreadState", request)

    @takes(WriteOptions)
    async def set_labels(
        self, labels: Mapping[str, str], **options: Unpack[WriteOptions]
    ) -> Thread:
        """Set the thread's labels, by which `client.threads(labels=…)` finds it; return the thread, without its state.

        They replace the former ones. A thread that is missing is made.
        """
        request = pb.SetThreadLabelsRequest(labels=labels, **options)
        return await self._write("SetThreadLabels", request)

    @takes(WriteOptions)
    async def fork(
        self, new_thread_id: str, *, at: int | None = None, **options: Unpack[WriteOptions]
    ) -> Thread:
        """Make a new thread with this one's messages up to number `at` (0: with none; None: with all); return it, without its state.

        It has this thread's labels, and its present state if it has all of its messages, else none; and no runs. What is written to either
        thread later isn't in the other. Repeat a call that failed: it copies the rest.

        Raises NotFound if there is no such thread (THREAD_NOT_FOUND), or no such message in it (MESSAGE_NOT_FOUND), and
        FailedPrecondition if there is a thread `new_thread_id` already (THREAD_EXISTS).
        """
        request = pb.ForkThreadRequest(new_thread_id=new_thread_id, at=at, **options)
        return await self._write("ForkThread", request)

    async def delete(self, *, force: bool = False, on_behalf_of: str = "") -> bool:
        """Delete the thread with its messages and all of its runs; return False if there is none.

        A thread of which a run works or waits is refused with the reason THREAD_BUSY; with `force` these are cancelled.
        Repeat a call that failed: it deletes the rest. The id can't be used again for two hours.
        """
        request = pb.DeleteThreadRequest(thread_id=self.id, force=force, on_behalf_of=on_behalf_of)
        return (await self.caller.call("DeleteThread", request)).deleted

    async def _write(self, method: str, request: Any) -> Thread:
        request.thread_id = self.id
        return read_thread((await self.caller.change(method, request)).thread)


def list_threads(
    caller: Calls, labels: Mapping[str, str] | None, page_size: int
) -> AsyncIterator[Thread]:
    """Yield the threads with all of these labels, the newest first, without their states."""
    request = pb.ListThreadsRequest(labels=labels, page_size=page_size)
    return caller.pages("ListThreads", request, "threads", read_thread)

"""Results of tasks: those of a run, which are all loaded, and those of a step, which are read when needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from stepwell_client.enums import StepKind
from stepwell_client.errors import NotLoaded
from stepwell_client.records.limits import ITEMS_PER_MESSAGE_MAX
from stepwell_client.records.payloads import decode
from stepwell_client.v1 import types_pb2, worker_pb2

T = TypeVar("T")

ReadCall = Callable[[Sequence[str], str], Awaitable[worker_pb2.ReadResultsResponse]]
"""Reads a page of results, by the tasks' ids (none: the list of all) and the page token."""


class Results(Mapping[str, Any]):
    """Results by task id, decoded when they are read. Failed and skipped tasks are missing."""

    def __init__(self, payloads: Mapping[str, types_pb2.Payload | None]) -> None:
        self._payloads = payloads
        self._decoded: dict[str, Any] = {}

    def __getitem__(self, task_id: str) -> Any:
        if task_id not in self._decoded:
            self._decoded[task_id] = decode(self._payloads[task_id])
        return self._decoded[task_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._payloads)

    def __len__(self) -> int:
        return len(self._payloads)

    def __repr__(self) -> str:
        # Shows ids only, because results may be large or private.
        return f"Results({sorted(self._payloads)})"


class StepResults(Mapping[str, Any]):
    """The results that a step is shown, by task id. Failed and skipped tasks are missing.

    Small results come with the step. Others are read when needed: in a synchronous function `[]`
    waits for them; in an async function `await ctx.load(...)` must read them first, or else `[]`
    raises NotLoaded. Results stay loaded as long as the step runs.
    """

    def __init__(
        self, assignment: worker_pb2.Assignment, read: ReadCall, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._read = read
        self._loop = loop
        self._entries = {item.task_id: item for item in assignment.results}
        self._before = assignment.results_before
        """The number of tasks that precede the entries and are not listed yet."""
        shown_some = assignment.execution.kind in (StepKind.PLAN, StepKind.REFLECT)
        self._has_earlier = shown_some and assignment.run.plan_revision > 1
        """True if tasks of earlier plans may be loaded by their ids."""
        self._whole: set[str] = set()
        """Tasks that were loaded by id, so their failures are complete."""
        self._decoded: dict[str, Any] = {}

    def __getitem__(self, task_id: str) -> Any:
        if task_id not in self._decoded:
            self._decoded[task_id] = decode(self.payload(task_id))
        return self._decoded[task_id]

    def __iter__(self) -> Iterator[str]:
        return (item.task_id for item in self._listed() if _has_result(item))

    def __len__(self) -> int:
        return sum(_has_result(item) for item in self._listed())

    def __contains__(self, task_id: object) -> bool:
        item = self._entries.get(task_id) if isinstance(task_id, str) else None
        if item is None and self._before:
            item = next((one for one in self._listed() if one.task_id == task_id), None)
        return item is not None and _has_result(item)

    def __repr__(self) -> str:
        # Shows ids only, because results may be large or private.
        return f"StepResults({sorted(self._entries)})"

    def payload(self, task_id: str) -> types_pb2.Payload | None:
        """Return a result's payload.

        Raises:
            KeyError: the step is not shown this task, or the task failed or was skipped.
            NotLoaded: the result must be loaded first.
        """
        item = self._entries.get(task_id)
        if item is None and not (self._before or self._has_earlier):
            raise KeyError(task_id)
        if item is None or item.by_reference:
            self._wait(
                lambda: self._load([task_id]),
                f"the result of task {task_id!r} isn't loaded: `await ctx.load({task_id!r})` first",
            )
            item = self._entries[task_id]
        if not _has_result(item):
            raise KeyError(task_id)
        return item.payload if item.HasField("payload") else None

    def failures(self) -> dict[str, types_pb2.Failure]:
        """Return the failures of failed tasks, by task id."""
        return {item.task_id: item.failure for item in self._listed() if item.HasField("failure")}

    def skipped(self) -> frozenset[str]:
        """Return the ids of skipped tasks."""
        return frozenset(item.task_id for item in self._listed() if item.skipped)

    async def load(self, task_ids: Sequence[str]) -> None:
        """Read the results of these tasks, or of all that the step is shown."""
        await self._on_loop(lambda: self._load(task_ids) if task_ids else self._load_all())

    async def list(self) -> None:
        """Read the ids and failures that didn't fit into the assignment."""
        await self._on_loop(self._list)

    async def _load_all(self) -> None:
        await self._list()
        await self._load([one.task_id for one in self._entries.values() if one.by_reference])

    async def _load(self, task_ids: Sequence[str]) -> None:
        wanted = [one for one in dict.fromkeys(task_ids) if not self._is_loaded(one)]
        for start in range(0, len(wanted), ITEMS_PER_MESSAGE_MAX):
            ids = wanted[start : start + ITEMS_PER_MESSAGE_MAX]
            token = ""
            while True:
                page = await self._read(ids, token)
                for item in page.results:
                    self._entries[item.task_id] = item
                    self._whole.add(item.task_id)
                if not (token := page.next_page_token):
                    break
        for task_id in wanted:
            if task_id not in self._whole:
                raise KeyError(f"this step may use no result of task {task_id!r}")

    def _is_loaded(self, task_id: str) -> bool:
        item = self._entries.get(task_id)
        if item is None or task_id in self._whole:
            return item is not None
        return not (item.by_reference or item.HasField("failure"))

    async def _list(self) -> None:
        entries: dict[str, worker_pb2.DependencyResult] = {}
        token = ""
        while self._before:
            page = await self._read((), token)
            entries |= {item.task_id: item for item in page.results}
            token = page.next_page_token
            if not token or len(entries) >= self._before:
                # Results sent with the step may lack bytes; loaded results have them.
                self._entries = {**entries, **self._entries}
                self._before = 0

    def _listed(self) -> Sequence[worker_pb2.DependencyResult]:
        """Return the entries of all tasks that the step is shown or has loaded."""
        if self._before:
            self._wait(
                self._list,
                f"{self._before:,} tasks have no room in the step: `await ctx.list_results()` "
                "reads their ids, `await ctx.load()` all results",
            )
        return tuple(self._entries.values())

    async def _on_loop(self, read: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Read on the worker's event loop, from any event loop."""
        if asyncio.get_running_loop() is self._loop:
            await read()
        else:
            future = asyncio.run_coroutine_threadsafe(read(), self._loop)
            await asyncio.wrap_future(future)

    def _wait(self, read: Callable[[], Coroutine[Any, Any, None]], instead: str) -> None:
        """Wait for a read, in a thread that may block.

        Raises:
            NotLoaded: an event loop runs in this thread.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run_coroutine_threadsafe(read(), self._loop).result()
        else:
            raise NotLoaded(instead)


def _has_result(item: worker_pb2.DependencyResult) -> bool:
    return not (item.HasField("failure") or item.skipped)

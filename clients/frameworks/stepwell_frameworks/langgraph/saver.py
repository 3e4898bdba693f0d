"""The checkpointer of graphs that run in a step."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from stepwell_client import JournalError, StepContext
from stepwell_client.internal import journaled_step
from stepwell_frameworks.langgraph.step_log import StepLog

_PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id")


class StepwellSaver(BaseCheckpointSaver[str]):
    """Keeps a graph's checkpoints only in the journal of the step that the graph runs in.

    Each entry has the changes; a deletion is also an entry. Values are stored as LangGraph's
    msgpack, never pickled. One saver serves any number of graphs and steps. Raises JournalError if
    no step runs.
    """

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(pickle_fallback=False))
        self._versions = InMemorySaver()
        self.step: StepContext | None = None
        """The step whose journal is used; None: the step that runs when the saver is used."""

    def get_next_version(self, current: str | None, channel: None) -> str:
        return self._versions.get_next_version(current, channel)

    def for_step(self, step: StepContext) -> StepwellSaver:
        """Return the same saver bound to one step, for threads that don't know which step they run.

        LangGraph stores the writes of concurrent nodes in such threads.
        """
        saver = copy.copy(self)
        saver.step = step
        return saver

    def _log(self) -> StepLog:
        step = self.step or journaled_step()
        if step is None:
            raise JournalError(
                "a StepwellSaver keeps checkpoints in a step's journal, and no step runs here: within a step, run "
                "the graph by run(), or by run_sync() where the step is in a thread"
            )
        return StepLog(step)

    # From threads.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._log().read(self.serde, lambda memory: memory.get_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name is the framework's
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        def scan(memory: InMemorySaver) -> Sequence[CheckpointTuple]:
            return tuple(memory.list(config, filter=filter, before=before, limit=limit))

        yield from self._log().read(self.serde, scan)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        def scan(memory: InMemorySaver) -> Mapping[str, DeltaChannelHistory]:
            return memory.get_delta_channel_history(config=config, channels=channels)

        return self._log().read(self.serde, scan)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        delta = _delta(config, checkpoint, metadata, new_versions)
        return self._log().do(self.serde, "put", *delta)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self._log().do(self.serde, "put_writes", _place(config), [*writes], task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        self._log().do(self.serde, "delete_thread", thread_id)

    # On an event loop.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._log().aread(self.serde, lambda memory: memory.get_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name is the framework's
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        def scan(memory: InMemorySaver) -> Sequence[CheckpointTuple]:
            return tuple(memory.list(config, filter=filter, before=before, limit=limit))

        for one in await self._log().aread(self.serde, scan):
            yield one

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        def scan(memory: InMemorySaver) -> Mapping[str, DeltaChannelHistory]:
            return memory.get_delta_channel_history(config=config, channels=channels)

        return await self._log().aread(self.serde, scan)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        delta = _delta(config, checkpoint, metadata, new_versions)
        return await self._log().ado(self.serde, "put", *delta)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._log().ado(
            self.serde, "put_writes", _place(config), [*writes], task_id, task_path
        )

    async def adelete_thread(self, thread_id: str) -> None:
        await self._log().ado(self.serde, "delete_thread", thread_id)


def _place(config: RunnableConfig) -> RunnableConfig:
    """Return the part of a config that identifies a checkpoint."""
    given = config.get("configurable", {})
    place = {name: given[name] for name in _PLACE if name in given}
    return {"configurable": {"checkpoint_ns": "", **place}}


def _delta(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> tuple[RunnableConfig, Checkpoint, CheckpointMetadata, ChannelVersions]:
    """Return a checkpoint without the channels that are unchanged."""
    changed = checkpoint.copy()
    values = checkpoint["channel_values"]
    changed["channel_values"] = {name: values[name] for name in new_versions if name in values}
    return _place(config), changed, get_checkpoint_metadata(config, metadata), dict(new_versions)

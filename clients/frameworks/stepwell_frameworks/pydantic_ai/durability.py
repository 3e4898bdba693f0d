"""The capability that makes an agent of pydantic-ai durable in a step."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.agent import AbstractAgent, EventStreamHandler
from pydantic_ai.capabilities import AbstractCapability, WrapRunHandler
from pydantic_ai.durable_exec import (
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationBackend,
    replay_scope,
)
from pydantic_ai.messages import (
    AgentStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import (
    AgentDepsT,
    DeferredToolRequests,
    DeferredToolResults,
    ToolApproved,
    ToolDenied,
)

from stepwell_client import Retry, StepContext
from stepwell_client.internal import journaled_step
from stepwell_frameworks.approvals import about, ask_approval
from stepwell_frameworks.pydantic_ai.operations import StepBackend, StepCodec, not_kept

NAME = "agent"
"""The journal's name for an agent without a name."""

_ALL_KINDS = frozenset[Any]({"function", "mcp", "dynamic"})


class StepwellDurability(BaseDurabilityCapability[AgentDepsT]):
    """Records an agent's model requests, tool calls and MCP calls in the running step's journal.

    Tools that wait for a person's approval, or for an external result, become questions
    (`ctx.ask`). A tool's metadata may have the options `effect`, `retry` and `reconcile` of
    `ctx.call`: `{"stepwell": {"effect": Effect.AT_MOST_ONCE}}`. With `{"stepwell": False}` calls
    aren't recorded, and the tool runs in each attempt.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Stepwell",
        durable_unit_noun="call",
        durable_container_noun="step",
        codec=StepCodec(),
        serialization_failure=not_kept,
        wrapped_toolset_kinds=_ALL_KINDS,
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",
            "dynamic": "enter-never",
        },
        # For the result that a person gave for a call with an unknown outcome.
        tool_call_result_upgrade_lenient=True,
        # A toolset passed to a run would make calls that aren't recorded.
        unsupported_runtime_toolset_kinds=_ALL_KINDS,
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        models: Mapping[str, Model] | None = None,
        retry: Retry | None = None,
        stream: bool = False,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
    ) -> None:
        """Make a capability for the `capabilities` of an agent.

        `name`: the agent's name in the journal; default: its own. `models`: further models that its
        runs may use. `retry`: of each model request. `stream`: in a step, models stream in each
        run; otherwise only in runs that ask for it. Streamed text also goes to the run's followers.
        An `event_stream_handler` makes each run stream.
        """
        self._model_retry = retry
        self._streams = stream
        self._given_handler = event_stream_handler
        super().__init__(models=models, name=name, event_stream_handler=self._on_events)

    def for_agent(self, agent: AbstractAgent[AgentDepsT, Any]) -> AbstractCapability[AgentDepsT]:
        named = copy.copy(self)
        named.name = self.name or agent.name or NAME
        return super(StepwellDurability, named).for_agent(agent)

    @property
    def in_durable_context(self) -> bool:
        return journaled_step() is not None

    def get_durable_operation_backend(self) -> DurableOperationBackend[Any]:
        return StepBackend(self.name, self._model_retry)

    async def wrap_run(
        self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        if not self.in_durable_context:
            return await handler()
        with replay_scope():
            return await super().wrap_run(ctx, handler=handler)

    # Streaming.

    @property
    def has_wrap_run_event_stream(self) -> bool:
        return self._given_handler is not None or (self._streams and self.in_durable_context)

    def wrap_run_event_stream(
        self, ctx: RunContext[AgentDepsT], *, stream: AsyncIterable[AgentStreamEvent]
    ) -> AsyncIterable[AgentStreamEvent]:
        if self._given_handler is None:
            return stream
        return super().wrap_run_event_stream(ctx, stream=stream)

    async def _on_events(
        self, ctx: RunContext[AgentDepsT], events: AsyncIterable[AgentStreamEvent]
    ) -> None:
        """Stream events to the run's followers, and pass them on."""
        shown = _shown(journaled_step(), events)
        if self._given_handler is not None:
            await self._given_handler(ctx, shown)
        async for _ in shown:
            pass

    # Deferred tools.

    async def handle_deferred_tool_calls(
        self,
        ctx: RunContext[AgentDepsT],  # noqa: ARG002 - the name is the framework's
        *,
        requests: DeferredToolRequests,
    ) -> DeferredToolResults | None:
        step = journaled_step()
        if step is None:
            return None
        with step.scope(f"{self.name}.ask"):
            approvals, results = await asyncio.gather(
                asyncio.gather(*(_approval(step, call) for call in requests.approvals)),
                asyncio.gather(*(_result(step, call, requests) for call in requests.calls)),
            )
        return requests.build_results(
            approvals=_by_id(requests.approvals, approvals), calls=_by_id(requests.calls, results)
        )


async def _approval(step: StepContext, call: ToolCallPart) -> ToolApproved | ToolDenied:
    """Ask a person whether a tool may be called."""
    answer = await ask_approval(step, call.tool_name, call.args_as_dict())
    if not answer.approved:
        return ToolDenied(answer.message) if answer.message else ToolDenied()
    if answer.arguments is not None:
        call.args = answer.arguments  # The model reads it with the call's output.
    return ToolApproved(override_args=answer.arguments)


async def _result(step: StepContext, call: ToolCallPart, requests: DeferredToolRequests) -> Any:
    """Ask a person for the result of an external call, or for the answer to a question."""
    metadata = requests.metadata.get(call.tool_call_id, {})
    what = metadata.get("prompt") or f"The result of {call.tool_name} is wanted."
    return await step.ask(about(str(what), call.tool_name, call.args_as_dict()))


def _by_id(calls: list[ToolCallPart], results: list[Any]) -> dict[str, Any]:
    return {call.tool_call_id: one for call, one in zip(calls, results, strict=True)}


async def _shown(
    step: StepContext | None, events: AsyncIterable[AgentStreamEvent]
) -> AsyncIterator[AgentStreamEvent]:
    async for event in events:
        text = _text_of(event)
        if text and step is not None:
            step.stream(text)
        yield event


def _text_of(event: AgentStreamEvent) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""

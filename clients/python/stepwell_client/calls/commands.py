"""Calls that change something, with the protocol's messages: start, fork, steer and remove runs, answer questions.

Each but the removals carries a request id, so it may be repeated: the second request finds what the first has
done. So it goes on for the client's `reconnect_seconds` while no server answers. A read, which its caller can
make again at no cost, and a purge, whose second answer doesn't name what the first removed, end after a few
attempts. The events of a run, and of a removed run the server's log, name the caller of each command by its
credential; `on_behalf_of` is a name that stands beside it.
"""

from __future__ import annotations

import math
from typing import Any, Unpack

from google.protobuf.message import Message

from stepwell_client.calls.base import CallsBase
from stepwell_client.calls.requests import (
    ForkOptions,
    PurgeOptions,
    Resolution,
    StartOptions,
    fork_request,
    purge_request,
    resolve_request,
    start_request,
)
from stepwell_client.records.payloads import encode
from stepwell_client.records.plans import Budget
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

_NULL = types_pb2.Payload(data=b"null", media_type="application/json")


class CommandCalls(CallsBase):
    """The changing calls of the Orchestrator service."""

    async def _command(self, method: str, request: Message) -> Any:
        """Make a call that carries a request id: again while no server answers, as long as the client has patience."""
        return await self._call(method, request, patience_seconds=self._retries.reconnect_seconds)

    async def start(self, goal: str = "", **options: Unpack[StartOptions]) -> pb.StartRunResponse:
        """Start a run; return when its first commit is durable. Waits for a server that is coming up."""
        request = start_request(goal, options, self.runtime.new_id())
        wanted = options.get("server_seconds")
        patience = self._retries.reconnect_seconds if wanted is None else wanted
        if patience == math.inf:
            patience = None
        return await self._call("StartRun", request, patience_seconds=patience)

    async def fork(self, run_id: str, **options: Unpack[ForkOptions]) -> pb.ForkRunResponse:
        """Start a run from a version of another one; completed tasks are kept."""
        request = fork_request(run_id, options, self.runtime.new_id())
        return await self._command("ForkRun", request)

    async def check_fork(self, run_id: str, **options: Unpack[ForkOptions]) -> pb.ForkRunResponse:
        """Return what a fork would keep and run again, or why it doesn't fit; start nothing."""
        request = fork_request(run_id, options, "", validate_only=True)
        return await self._call("ForkRun", request)

    async def resume(
        self,
        run_id: str,
        *,
        retry_failed: bool = True,
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
        validate_only: bool = False,
    ) -> pb.ResumeRunResponse:
        """Make a PAUSED or FAILED run go on from its last checkpoint.

        Without `retry_failed` failed tasks stay as they are. Of a run that a task failed, what depends on it
        is skipped, the rest runs, and then the run fails with that failure.
        """
        request = pb.ResumeRunRequest(
            run_id=run_id,
            leave_failed=not retry_failed,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=self._request_id(request_id),
            validate_only=validate_only,
        )
        return await self._command("ResumeRun", request)

    async def pause(
        self, run_id: str, *, reason: str = "", on_behalf_of: str = "", request_id: str = ""
    ) -> pb.PauseRunResponse:
        """Pause a run: it accepts outcomes of work in flight and dispatches nothing."""
        request = pb.PauseRunRequest(
            run_id=run_id,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=self._request_id(request_id),
        )
        return await self._command("PauseRun", request)

    async def cancel(
        self, run_id: str, *, reason: str = "", on_behalf_of: str = "", request_id: str = ""
    ) -> pb.CancelRunResponse:
        """Cancel a run for good."""
        request = pb.CancelRunRequest(
            run_id=run_id,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=self._request_id(request_id),
        )
        return await self._command("CancelRun", request)

    async def stop(
        self, run_id: str, *, reason: str = "", on_behalf_of: str = "", request_id: str = ""
    ) -> pb.StopRunResponse:
        """End a run after the iteration in progress, as though it were the last."""
        request = pb.StopRunRequest(
            run_id=run_id,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=self._request_id(request_id),
        )
        return await self._command("StopRun", request)

    async def retry_task(
        self,
        run_id: str,
        task_id: str,
        *,
        fresh: bool = False,
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
    ) -> pb.RetryTaskResponse:
        """Run a FAILED or SKIPPED task again, or one that waits for its back-off now.

        `fresh`: it makes the calls of its journal again, except AT_MOST_ONCE ones.
        """
        request = pb.RetryTaskRequest(
            run_id=run_id,
            task_id=task_id,
            fresh=fresh,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=self._request_id(request_id),
        )
        return await self._command("RetryTask", request)

    async def skip_task(
        self,
        run_id: str,
        task_id: str,
        *,
        skip_dependents: bool = False,
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
    ) -> pb.SkipTaskResponse:
        """Settle a task as SKIPPED, whatever it is doing; tasks that depend on it go on without."""
        request = pb.SkipTaskRequest(
            run_id=run_id,
            task_id=task_id,
            skip_dependents=skip_dependents,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=self._request_id(request_id),
        )
        return await self._command("SkipTask", request)

    async def raise_budget(
        self,
        run_id: str,
        budget: Budget,
        *,
        resume: bool = True,
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
    ) -> pb.RaiseBudgetResponse:
        """Set new, higher limits; a limit of 0 stays as it was. A run that is PAUSED for them goes on."""
        request = pb.RaiseBudgetRequest(
            run_id=run_id,
            budget=budget.message(),
            stay_paused=not resume,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=self._request_id(request_id),
        )
        return await self._command("RaiseBudget", request)

    async def resolve(
        self,
        run_id: str,
        execution_id: str,
        resolution: Resolution,
        *,
        call: str = "",
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
    ) -> pb.ResolveExecutionResponse:
        """Settle an execution whose outcome is unknown.

        Done: the task is completed, with that value. NotDone: it is run again. A Failure: its effect
        took place and it failed for good. With the `call` within a step of which nobody knows what became: Done is
        the call's value, and with NotDone it may run again; either way the step goes on.
        """
        request = resolve_request(
            run_id,
            execution_id,
            resolution,
            call=call,
            reason=reason,
            on_behalf_of=on_behalf_of,
            request_id=self._request_id(request_id),
        )
        return await self._command("ResolveExecution", request)

    async def answer(
        self,
        run_id: str,
        question_id: str,
        value: object,
        *,
        replan: bool = False,
        reason: str = "",
        on_behalf_of: str = "",
        request_id: str = "",
    ) -> pb.AnswerQuestionResponse:
        """Answer a run's question, once; its task goes on with the answer.

        `replan`: have the run make another plan before anything else is dispatched; its planner is
        shown the `reason`.
        """
        payload = encode(value)
        request = pb.AnswerQuestionRequest(
            run_id=run_id,
            question_id=question_id,
            answer=_NULL if payload is None else payload,
            on_behalf_of=on_behalf_of,
            replan=replan,
            reason=reason,
            request_id=self._request_id(request_id),
        )
        return await self._command("AnswerQuestion", request)

    async def delete(self, run_id: str, *, on_behalf_of: str = "") -> None:
        """Remove a run that has ended, with all that belongs to it."""
        # Not repeated: the second answer would be NOT_FOUND, whoever removed the run.
        request = pb.DeleteRunRequest(run_id=run_id, on_behalf_of=on_behalf_of)
        await self._call("DeleteRun", request, repeat=False)

    async def purge(self, **options: Unpack[PurgeOptions]) -> pb.PurgeRunsResponse:
        """Remove ended runs; `complete` is false if there may be more of them."""
        return await self._call("PurgeRuns", purge_request(options))

"""Plans, checkpoints and forks: what the clients do with a run's past."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TypedDict, Unpack

from stepwell_client._enums import ForkMode, wire
from stepwell_client._parts import AsyncPart, SyncPart
from stepwell_client._payloads import encode
from stepwell_client._plans import Budget, Planned, draft
from stepwell_client._procedures import Procedure, Procedures
from stepwell_client.v1 import orchestrator_pb2, types_pb2


class ForkOptions(TypedDict, total=False):
    """What a fork does otherwise than the run that it is made of. What is left out stays."""

    version: int
    """As the run stood then; left out: its last version."""
    mode: ForkMode
    """STRICT, where it is left out: the plan is the one in force. PATCH: it may be another."""
    plan: Planned
    """In the place of the one in force."""
    replan: bool
    """Make another plan before anything else is done."""
    goal: str
    input: object
    labels: Mapping[str, str]
    """Put over those that there are."""
    queue: str
    executor_id: str
    """Who forks it, as people should see it."""
    max_iterations: int
    max_parallel: int
    priority: int
    budget: Budget
    """What the fork may use up, by itself."""
    request_id: str
    """Names the request: sent again, it finds the same fork. Else one is made."""


def fork_request(
    run_id: str, options: ForkOptions, request_id: str, *, validate_only: bool = False
) -> orchestrator_pb2.ForkRunRequest:
    """Shape a request from what the caller gave."""
    plan, budget = options.get("plan"), options.get("budget")
    return orchestrator_pb2.ForkRunRequest(
        run_id=run_id,
        version=options.get("version", 0),
        mode=wire(options.get("mode", ForkMode.UNSPECIFIED)),
        plan=draft(plan) if plan is not None else None,
        replan=options.get("replan", False),
        goal=options.get("goal"),
        input=encode(options["input"]) if "input" in options else None,
        labels=options.get("labels"),
        queue=options.get("queue", ""),
        executor_id=options.get("executor_id", ""),
        max_iterations=options.get("max_iterations"),
        max_parallel=options.get("max_parallel"),
        priority=options.get("priority"),
        budget=budget.message() if budget else None,
        request_id=options.get("request_id") or request_id,
        validate_only=validate_only,
    )


def fork_procedure(
    procedures: Procedures, run_id: str, options: ForkOptions, *, validate_only: bool = False
) -> Procedure[orchestrator_pb2.ForkRunResponse]:
    # The id is made once, so that a repetition finds what the first call may have started.
    request_id = "" if validate_only else procedures.runtime.new_id()
    request = fork_request(run_id, options, request_id, validate_only=validate_only)
    return procedures.call("ForkRun", request)


def _plans(
    procedures: Procedures, run_id: str, with_tasks: bool, token: str
) -> Procedure[orchestrator_pb2.ListPlansResponse]:
    request = orchestrator_pb2.ListPlansRequest(
        run_id=run_id, with_tasks=with_tasks, page_token=token
    )
    return procedures.call("ListPlans", request)


def _checkpoints(
    procedures: Procedures, run_id: str, token: str
) -> Procedure[orchestrator_pb2.ListCheckpointsResponse]:
    request = orchestrator_pb2.ListCheckpointsRequest(run_id=run_id, page_token=token)
    return procedures.call("ListCheckpoints", request)


class AsyncForks(AsyncPart):
    """A run's past, for `Client`."""

    async def check_fork(
        self, run_id: str, **options: Unpack[ForkOptions]
    ) -> orchestrator_pb2.ForkRunResponse:
        """Say what a fork would keep and run again, or why it doesn't fit; start nothing."""
        return await self._do(fork_procedure(self._procedures, run_id, options, validate_only=True))

    async def plans(
        self, run_id: str, *, with_tasks: bool = False
    ) -> AsyncIterator[types_pb2.Plan]:
        """Yield the revisions of a run's plan, oldest first."""
        token = ""
        while True:
            page = await self._do(_plans(self._procedures, run_id, with_tasks, token))
            for plan in page.plans:
                yield plan
            token = page.next_page_token
            if not token:
                return

    async def checkpoints(self, run_id: str) -> AsyncIterator[orchestrator_pb2.Checkpoint]:
        """Yield a run's named checkpoints, oldest first, each with the run as it was then."""
        token = ""
        while True:
            page = await self._do(_checkpoints(self._procedures, run_id, token))
            for checkpoint in page.checkpoints:
                yield checkpoint
            token = page.next_page_token
            if not token:
                return


class SyncForks(SyncPart):
    """A run's past, for `SyncClient`."""

    def fork(self, run_id: str, **options: Unpack[ForkOptions]) -> orchestrator_pb2.ForkRunResponse:
        """Start a run from a version of another one; what was completed there is kept."""
        return self._do(fork_procedure(self._procedures, run_id, options))

    def check_fork(
        self, run_id: str, **options: Unpack[ForkOptions]
    ) -> orchestrator_pb2.ForkRunResponse:
        """Say what a fork would keep and run again, or why it doesn't fit; start nothing."""
        return self._do(fork_procedure(self._procedures, run_id, options, validate_only=True))

    def plans(self, run_id: str, *, with_tasks: bool = False) -> Iterator[types_pb2.Plan]:
        """Yield the revisions of a run's plan, oldest first."""
        token = ""
        while True:
            page = self._do(_plans(self._procedures, run_id, with_tasks, token))
            yield from page.plans
            token = page.next_page_token
            if not token:
                return

    def checkpoints(self, run_id: str) -> Iterator[orchestrator_pb2.Checkpoint]:
        """Yield a run's named checkpoints, oldest first, each with the run as it was then."""
        token = ""
        while True:
            page = self._do(_checkpoints(self._procedures, run_id, token))
            yield from page.checkpoints
            token = page.next_page_token
            if not token:
                return

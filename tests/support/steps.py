"""Assignments made by hand, and one step through an agent without a transport."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pydantic
from google.protobuf import duration_pb2

from stepwell_client import Agent, encode
from stepwell_client.internal import AgentRunner
from stepwell_client.v1 import types_pb2, worker_pb2

RUN_ID = "0b5f6a3e-7f0a-4d5e-9d4e-2f0c6f1f7a11"


def span(seconds: float) -> duration_pb2.Duration:
    made = duration_pb2.Duration()
    made.FromMilliseconds(round(seconds * 1000))
    return made


def assignment(
    execution_id: str = "e1",
    *,
    kind: types_pb2.StepKind = types_pb2.STEP_KIND_TASK,
    type_: str = "",
    role: str = "",
    given: Any = None,
    run_input: Any = None,
    results: Any = (),
    effect: types_pb2.Effect = types_pb2.EFFECT_IDEMPOTENT,
    lease: float = 30,
    idle: float = 0,
    thread_id: str = "",
    **fields: Any,
) -> worker_pb2.Assignment:
    """An assignment as a server makes it."""
    run = worker_pb2.AssignedRun(
        run_id=RUN_ID, goal="a goal", max_iterations=10, iteration=1, thread_id=thread_id
    )
    task = None
    if kind == types_pb2.STEP_KIND_TASK:
        task = types_pb2.TaskSpec(
            task_id="t1", type=type_, role=role, input=encode(given), effect=effect
        )
        task.idle_timeout.CopyFrom(span(idle))
    return worker_pb2.Assignment(
        run=run,
        execution=worker_pb2.AssignedExecution(execution_id=execution_id, kind=kind, attempt=1),
        lease=worker_pb2.Lease(
            run_id=run.run_id, execution_id=execution_id, token=f"token-{execution_id}"
        ),
        task=task,
        run_input=encode(run_input),
        results=results,
        lease_duration=span(lease),
        idempotency_key=f"{RUN_ID}/t1",
        **fields,
    )


def shown(*task_ids: str, by_reference: bool = False) -> list[worker_pb2.DependencyResult]:
    """Return the results of tasks whose result is their id."""
    return [
        worker_pb2.DependencyResult(
            task_id=each,
            payload=None if by_reference else encode(each),
            by_reference=by_reference,
        )
        for each in task_ids
    ]


@dataclass
class FakeServices:
    """StepServices without a transport."""

    results: list[worker_pb2.DependencyResult] = field(default_factory=list)
    """Results that a step may read by their tasks' ids."""
    listed: list[worker_pb2.DependencyResult] = field(default_factory=list)
    """All that the step is shown, without bytes."""
    reads: list[tuple[list[str], int]] = field(default_factory=list)
    page_size: int = 2
    begun: list[str] = field(default_factory=list)
    beats: list[Any] = field(default_factory=list)
    written: list[tuple[str, str, bool]] = field(default_factory=list)
    flushes: int = 0
    saved: list[tuple[int, list[str]]] = field(default_factory=list)
    refuse_save: BaseException | None = None
    conversation: list[types_pb2.Message] = field(default_factory=list)
    refuse_begin: BaseException | None = None
    follower: Any = None
    """Takes the ends of waiting calls."""
    ended_calls: list[types_pb2.JournalEntry] = field(default_factory=list)
    """Ends that came before."""

    async def begin(self, assignment: worker_pb2.Assignment) -> None:
        if self.refuse_begin is not None:
            raise self.refuse_begin
        self.begun.append(assignment.execution.execution_id)

    def heartbeat(self, assignment: Any, progress: Any, session: Any) -> None:
        self.beats.append((progress, session))

    async def read_results(self, assignment: Any, task_ids: Any, page_token: str) -> Any:
        first = int(page_token or 0)
        self.reads.append((list(task_ids), first))
        known = {one.task_id: one for one in self.results}
        named = [known[each] for each in task_ids if each in known]
        found = named if task_ids else self.listed
        page = found[first : first + self.page_size]
        end = first + len(page)
        more = end < len(found)
        token = str(end) if more else ""
        return worker_pb2.ReadResultsResponse(results=page, next_page_token=token)

    async def read_thread(
        self, assignment: Any, *, last: int, to: int | None, state: bool
    ) -> worker_pb2.ReadThreadResponse:
        raise NotImplementedError

    def follow(self, assignment: Any, ended: Any) -> None:
        self.follower = ended
        for entry in self.ended_calls:
            ended(entry)

    def write_journal(self, assignment: Any, write: Any) -> Any:
        raise NotImplementedError  # See `tests.support.journal`.

    async def read_journal(self, assignment: Any, page_token: str) -> worker_pb2.JournalPage:
        raise NotImplementedError

    def write(self, assignment: Any, text: str, level: str, *, chunk: bool) -> None:
        self.written.append((text, level, chunk))

    async def flush(self, assignment: Any) -> None:
        self.flushes += 1

    async def save_messages(self, assignment: Any, messages: Any, after: int) -> None:
        if self.refuse_save is not None:
            raise self.refuse_save
        self.saved.append((after, [one.content for one in messages]))

    async def fetch_messages(self, assignment: Any) -> Any:
        return self.conversation


class Order(pydantic.BaseModel):
    item: str
    count: int


async def run(
    agent: Agent, step: worker_pb2.Assignment | None = None, services: FakeServices | None = None
) -> worker_pb2.Outcome:
    runner = AgentRunner(agent)
    try:
        return await runner.run(step or assignment(), services or FakeServices())
    finally:
        runner.close()


async def outcome_of(function: Any, **step: Any) -> worker_pb2.Outcome:
    agent = Agent()
    agent.task(function)
    return await run(agent, assignment(**step))

"""No answer of any method is over 4 MiB, whatever a run holds: most gRPC clients would not receive it (M1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import message_factory
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from stepwell.config import ExecutorSettings, WatchSettings
from stepwell.core.records import limits
from stepwell.rpc.server import Server
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2 as tpb
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import ME, Client, RawWorker, World, completed, lease_of, outcome
from tests.service.tenants.rows import SERVED_ROWS, Names
from tests.support.methods import SERVED, path_of
from tests.support.patience import PATIENCE_S

SILENCE_S = 0.5
"""A stream that has nothing more to say for so long has said all."""
WIDE = "\U0001f9ea"
"""One character of four bytes."""
ONCE = tpb.RetryPolicy(max_attempts=1)
CARRIES_ON = {"retry": ONCE, "on_failure": tpb.ON_FAILURE_CONTINUE}
LARGE_SPEC = {
    "goal": WIDE * (limits.GOAL_BYTES_MAX // 4),
    "labels": {f"{n:0128}": WIDE * 256 for n in range(32)},
}
WHOLE_MIB = b'"' + b"r" * (limits.PAYLOAD_BYTES_MAX - 2) + b'"'


def failure() -> tpb.Failure:
    """Return the largest failure that a worker may report."""
    text = WIDE * (limits.FAILURE_BYTES_MAX // 4)
    fault = tpb.Violation(field=WIDE * 256, description=WIDE * 256)
    faults = [fault] * limits.VIOLATIONS_MAX
    return tpb.Failure(kind="Large", message=text, details=text, violations=faults)


def question() -> wpb.Outcome.NeedsAnswer:
    return wpb.Outcome.NeedsAnswer(
        prompt=WIDE * (limits.PROMPT_BYTES_MAX // 4),
        schema=json.dumps({"description": "s" * 65_000}),
        kind=tpb.QUESTION_KIND_VALUE,
    )


class Listener:
    """Calls methods as a client does that receives 4 MiB at most, and notes how large the answers are."""

    def __init__(self, target: str) -> None:
        self.channel = grpc.aio.insecure_channel(target)
        self.sizes: dict[str, list[int]] = {}

    async def ask(self, name: str, request: Message, *more: Message) -> list[Any]:
        """Return all answers to these requests; none of them may be refused for its size."""
        sizes = self.sizes.setdefault(name, [])
        kind: Any = message_factory.GetMessageClass(SERVED[name].output_type)

        def read(raw: bytes) -> Any:
            sizes.append(len(raw))
            return kind.FromString(raw)

        call: Any = self.channel.stream_stream(
            path_of(name),
            request_serializer=_serialize,
            response_deserializer=read,
        )(iter([request, *more]), metadata=ME)
        answers: list[Any] = []
        try:
            # Work ends when the requests do.
            watches = SERVED[name].server_streaming and name != "Worker/Work"
            patience_s = SILENCE_S if watches else PATIENCE_S
            while (answer := await _next(call, patience_s)) not in (None, grpc.aio.EOF):
                answers.append(answer)
        except grpc.aio.AioRpcError as error:
            refused = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert not refused, error.details()  # noqa: PT017 - most requests here are refused for a reason
        finally:
            call.cancel()
        return answers

    async def ask_all(self, names: Names) -> None:
        """Call every method about one run, lists by the longest pages."""
        for name, row in SERVED_ROWS.items():
            request: Any = row(names)
            while True:
                if "page_size" in request.DESCRIPTOR.fields_by_name:
                    request.page_size = limits.PAGE_SIZE_MAX
                answers = await self.ask(name, request)
                token = getattr(answers[0], "next_page_token", "") if answers else ""
                if not token:
                    break
                request.page_token = token


def _serialize(message: Any) -> bytes:
    return message.SerializeToString()


async def _next(call: Any, patience_s: float) -> Any:
    """Return the next answer, or None if there is none for a while."""
    reading = asyncio.ensure_future(call.read())
    done, _ = await asyncio.wait((reading,), timeout=patience_s)
    if done:
        return reading.result()
    reading.cancel()
    return None


@pytest.fixture
async def server(world: World) -> Server:
    return await world.server(
        executor=ExecutorSettings(lease_ms=600_000),
        watch=WatchSettings(stall_ms=30_000, message_bytes_max=2 * 1024 * 1024),
    )


async def take(worker: RawWorker, count: int) -> dict[str, wpb.Assignment]:
    got = [await worker.assignment() for _ in range(count)]
    return {one.execution.task_id: one for one in got}


async def send(worker: RawWorker, outcomes: Sequence[wpb.Outcome]) -> None:
    """Send outcomes in messages that the server takes, and wait until all are committed."""
    for start in range(0, len(outcomes), 3):
        await worker.send(*outcomes[start : start + 3])
    for _ in outcomes:
        assert (await worker.ack()).status == wpb.ACK_STATUS_ACCEPTED


def names_of(got: wpb.Assignment, question_id: str = "none") -> Names:
    return Names(
        tenant_id="tenant-a",
        question_id=question_id,
        request_id="r",
        worker_id="w1",
        task_id=got.execution.task_id,
        run_id=got.lease.run_id,
        execution_id=got.lease.execution_id,
        lease_token=got.lease.token,
    )


def check(listener: Listener) -> None:
    """Every method was called; the largest answer of each is within the limit."""
    assert listener.sizes.keys() == SERVED.keys()
    largest = {name: max(sizes, default=0) for name, sizes in listener.sizes.items()}
    assert max(largest.values()) <= limits.SEND_BYTES_MAX, largest


async def test_answers_about_a_run_of_largest_values_find_room(
    server: Server, client: Client
) -> None:
    listener = Listener(server.addresses[0])
    failing = [tpb.TaskSpec(task_id=f"f{n}", **CARRIES_ON) for n in range(60)]
    large = [tpb.TaskSpec(task_id=f"r{n}") for n in range(8)]
    asking = tpb.TaskSpec(task_id="asking")
    before = [*failing, *large]
    gather = tpb.TaskSpec(
        task_id="gather",
        title="t" * 1024,
        prompt=WIDE * (limits.PROMPT_BYTES_MAX // 4),
        depends_on=[one.task_id for one in before],
        input=tpb.Payload(data=WHOLE_MIB),
    )
    await client.start(
        **LARGE_SPEC,
        input=tpb.Payload(data=WHOLE_MIB),
        plan=tpb.PlanDraft(tasks=[*before, asking, gather]),
        max_parallel=256,
        queue="q",
    )
    async with client.worker(queues=["q"], grant=200) as worker:
        got = await take(worker, len(before) + 1)
        await send(
            worker, [outcome(got[one.task_id], failed={"failure": failure()}) for one in failing]
        )
        await send(worker, [outcome(got["asking"], needs_answer=question())])
        await send(worker, [completed(got[one.task_id], WHOLE_MIB) for one in large])
        gathering = (await take(worker, 1))["gather"]
        await fill_log(client, gathering)
        run_id = gathering.run.run_id
        questions = (await client.ask("ListQuestions", run_id=run_id)).questions
        await worker.report(outcome(gathering, failed={"failure": failure()}))
        again = (await take(worker, 1))["gather"]
        assert again.previous_failure.kind == "Large"
        assert 0 < again.ByteSize() <= limits.SEND_BYTES_MAX
        names = names_of(again, questions[0].question.question_id)
        every = [one.task_id for one in before]
        read = wpb.ReadResultsRequest(**lease_of(again), task_ids=every)
        while (page := (await listener.ask("Worker/ReadResults", read))[0]).next_page_token:
            read.page_token = page.next_page_token
        await refused(listener, names)
        await start_others(client)
        await listener.ask("Orchestrator/ListRuns", opb.ListRunsRequest(page_size=1_000))
        await listener.ask("Orchestrator/WatchLogs", opb.WatchLogsRequest(run_id=names.run_id))
        await listener.ask_all(names)
    check(listener)
    print({k: max(v, default=0) for k, v in listener.sizes.items()})
    await listener.channel.close()


async def start_others(client: Client) -> None:
    """Start as many runs as no page holds."""
    for _ in range(45):
        await client.start(**LARGE_SPEC, queue="other")


async def fill_log(client: Client, got: wpb.Assignment) -> None:
    """Write a log and a conversation as large as may be written."""
    line = wpb.LogLine(text=WIDE * 4_000, level="l" * 128)
    said = tpb.Message(role="r" * 128, content=WIDE * (limits.RESPONSE_BYTES_MAX // 4))
    for _ in range(2):
        await client.ask(
            "AppendOutput", appended=[wpb.Appended(**lease_of(got), logs=[line] * 120)]
        )
    for after in range(5):
        item = wpb.Appended(**lease_of(got), messages=[said], after=after)
        await client.ask("AppendOutput", appended=[item])


async def refused(listener: Listener, names: Names) -> None:
    """Report a thousand outcomes with more than a hundred faults each, by both ways."""
    fault = tpb.Message(role="")
    bad = wpb.Outcome(
        delivery_id=WIDE * 128,
        lease=wpb.Lease(run_id=names.run_id, execution_id="e" * 256),
        messages=[fault] * 256,
        completed={},
    )
    request = wpb.ReportOutcomesRequest(outcomes=[bad] * 1_000)
    (answer,) = await listener.ask("Worker/ReportOutcomes", request)
    assert len(answer.acks) == 1_000
    hello = wpb.Hello(worker_id="w2", instance_id="i")
    outcomes = wpb.WorkRequest(outcomes=[bad] * 1_000)
    answers = await listener.ask("Worker/Work", wpb.WorkRequest(hello=hello), outcomes)
    assert sum(len(one.acks) for one in answers) == 1_000


async def test_answers_about_the_largest_plan_find_room(server: Server, client: Client) -> None:
    listener = Listener(server.addresses[0])
    ids = [f"{n:064}" for n in range(limits.PLAN_TASKS_MAX - 1)]
    tasks = [tpb.TaskSpec(task_id=one) for one in ids]
    tasks.append(tpb.TaskSpec(task_id="last", depends_on=ids))
    room = limits.PLAN_BYTES_MAX - tpb.PlanDraft(tasks=tasks).ByteSize()
    for one in tasks[:-1]:
        one.title = "t" * (room // len(tasks) - 60)
    plan = tpb.PlanDraft(tasks=tasks)
    run = await client.start(plan=plan, queue="q", max_parallel=256)
    async with client.worker(queues=["q"], grant=1) as worker:
        got = await worker.assignment()
        for task in ids[1:40]:
            await client.ask("SkipTask", run_id=run.spec.run_id, task_id=task)
        await listener.ask_all(names_of(got))
    check(listener)
    await listener.channel.close()


async def test_plan_that_gains_the_most_by_being_kept_finds_room(
    server: Server, client: Client
) -> None:
    # Its tasks' defaults are written out, parts of a millisecond become whole ones, and the second revision
    # names each of them as one that the run had before.
    shortest = Duration(nanos=1)
    times = ("attempt_timeout", "heartbeat_timeout", "total_timeout", "idle_timeout")
    ids = [f"{n:064}" for n in range(limits.PLAN_TASKS_MAX)]
    waiting = {
        "depends_on": ids[:1],
        "retry": tpb.RetryPolicy(max_attempts=2),
        **dict.fromkeys(times, shortest),
    }
    tasks = [tpb.TaskSpec(task_id=one, **(waiting if one != ids[0] else {})) for one in ids]
    room = limits.PLAN_BYTES_MAX - tpb.PlanDraft(tasks=tasks).ByteSize()
    for one in tasks:
        one.title = "t" * (room // len(tasks) - 3)
    plan = tpb.PlanDraft(tasks=tasks)
    assert limits.PLAN_BYTES_MAX - len(tasks) < plan.ByteSize() <= limits.PLAN_BYTES_MAX
    listener = Listener(server.addresses[0])
    run_id = (await client.start(plan=plan, queue="q", max_parallel=1)).spec.run_id
    async with client.worker(queues=["q"]) as worker:
        await send(worker, [outcome(await worker.assignment(), needs_answer=question())])
        asked = (await client.ask("ListQuestions", run_id=run_id)).questions[0].question.question_id
        answer = {"answer": tpb.Payload(data=b'"no"'), "replan": True, "reason": "r" * 4_096}
        await client.ask("AnswerQuestion", run_id=run_id, question_id=asked, **answer)
        planned = {"plan": plan, "reason": "r" * 4_096}
        await send(worker, [outcome(await worker.assignment(), planned=planned)])
    request = opb.ListPlansRequest(run_id=run_id, view=tpb.VIEW_FULL, page_size=1)
    (first,) = await listener.ask("Orchestrator/ListPlans", request)
    request.page_token = first.next_page_token
    ((second,),) = [one.plans for one in await listener.ask("Orchestrator/ListPlans", request)]
    assert len(second.tasks) == len(second.carried) == len(ids)
    assert max(listener.sizes["Orchestrator/ListPlans"]) <= limits.SEND_BYTES_MAX
    await listener.channel.close()

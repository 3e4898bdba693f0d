"""Texts that no store can hold: refused where a person chose them, escaped where a machine wrote them."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import ME, NO_RUN, Client, outcome, refusal
from tests.service.test_append import LIVE, append, appended, lines, messages

ODD, KEPT = "a\x00\n", "a\\x00\n"
KEPT_IN_A_LINE = "a\\x00\\x0a"
SESSION = types_pb2.Session(backend=ODD, session_id=ODD)

REFUSED: dict[str, tuple[str, Any, str]] = {
    "a run's queue": ("StartRun", opb.StartRunRequest(queue="{q}"), "queue"),
    "a label's key": ("StartRun", opb.StartRunRequest(labels={"a b": ""}), "labels['a b']"),
    "a label's value": ("StartRun", opb.StartRunRequest(labels={"a": ODD}), "labels['a']"),
    "a goal": ("StartRun", opb.StartRunRequest(goal=ODD), "goal"),
    "a fork's goal": ("ForkRun", opb.ForkRunRequest(run_id=NO_RUN, goal=ODD), "goal"),
    "a filter": ("ListRuns", opb.ListRunsRequest(pipeline_id=ODD), "pipeline_id"),
    "a reason": ("CancelRun", opb.CancelRunRequest(run_id=NO_RUN, reason=ODD), "reason"),
    "a request's id": (
        "PauseRun",
        opb.PauseRunRequest(run_id=NO_RUN, request_id=ODD),
        "request_id",
    ),
}


@pytest.mark.parametrize(("method", "request_", "field"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_a_person_chose_is_refused_by_its_field(
    client: Client, method: str, request_: Any, field: str
) -> None:
    error = await refusal(getattr(client.runs, method)(request_, metadata=ME))

    assert (error.code, error.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [field])


@pytest.mark.parametrize("field", ["worker_id", "instance_id", "queues[0]", "roles[0]"])
async def test_a_worker_s_names_are_refused_by_their_field(client: Client, field: str) -> None:
    name, _, is_list = field.partition("[")
    hello = wpb.Hello(**{"worker_id": "w", "instance_id": "i", name: [ODD] if is_list else ODD})
    call = client.work.Work(metadata=ME)
    await call.write(wpb.WorkRequest(hello=hello))

    error = await refusal(call.read())

    assert (error.code, error.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [f"hello.{field}"])


def failed(got: wpb.Assignment) -> wpb.Outcome:
    return outcome(
        got,
        prompt=ODD,
        response=ODD,
        session=SESSION,
        messages=[types_pb2.Message(role=ODD, content=ODD)],
        failed={"failure": {"kind": ODD, "message": ODD, "details": ODD, "retryable": False}},
    )


@pytest.mark.parametrize("by", ["Work", "Complete"])
async def test_what_an_outcome_says_is_kept_with_escapes(client: Client, by: str) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        said = failed(await worker.assignment())
        if by == "Work":
            ack = await worker.report(said)
        else:
            request = wpb.CompleteRequest(outcomes=[said])
            (ack,) = (await client.work.Complete(request, metadata=ME)).acks
    assert ack.status == wpb.ACK_STATUS_ACCEPTED
    asked = opb.ListExecutionsRequest(run_id=run.spec.run_id)
    (row,) = (await client.runs.ListExecutions(asked, metadata=ME)).executions
    assert (row.failure.kind, row.failure.message) == (KEPT_IN_A_LINE, KEPT)
    assert row.failure.details == KEPT
    assert (row.session.backend, row.session.session_id) == (KEPT_IN_A_LINE, KEPT_IN_A_LINE)
    (message,) = (await messages(client, run.spec.run_id)).messages
    assert (message.role, message.content) == (KEPT_IN_A_LINE, KEPT)


async def test_what_a_step_writes_meanwhile_is_kept_with_escapes(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        beat = wpb.LeaseHeartbeat(
            run_id=got.run.spec.run_id,
            execution_id=got.execution.execution_id,
            lease_token=got.lease_token,
            session=SESSION,
        )
        request = wpb.HeartbeatRequest(heartbeats=[beat])
        assert (await client.work.Heartbeat(request, metadata=ME)).leases[0].status == LIVE
        item = appended(got, ODD, messages=[types_pb2.Message(role=ODD, content=ODD)])
        assert await append(client, item) == [LIVE]
        await worker.complete(got)
    assert [line.text for line in await lines(client, run.spec.run_id)] == [KEPT]
    (message,) = (await messages(client, run.spec.run_id)).messages
    assert (message.role, message.content) == (KEPT_IN_A_LINE, KEPT)

"""Runs that wait for the answer to a question that has a token."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import uuid4

from stepwell.runtime import SystemRuntime
from stepwell_client.answer_tokens import new_answer_token, sha256_of
from stepwell_client.v1 import types_pb2 as tpb
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import Client, outcome

TENANT = "tenant-a"


class Linked(NamedTuple):
    """A run, and the token of its question."""

    run_id: str
    token: str
    assignment: wpb.Assignment
    """The attempt that asked."""


def asks(token: str, call: str = "link", **question: Any) -> wpb.Outcome.SuspendedCall:
    """Return a call that asks with a token."""
    ask = wpb.Outcome.NeedsAnswer(prompt="paid?", token_sha256=sha256_of(token), **question)
    return wpb.Outcome.SuspendedCall(call=call, ask=ask, arguments="digest")


async def ask_by_token(client: Client, tenant_id: str = TENANT, **question: Any) -> Linked:
    """Start a run whose one task waits for the answer to a question with a token."""
    queue = f"linked-{uuid4()}"
    async with client.worker("w-linked", queues=[queue]) as worker:
        plan = tpb.PlanDraft(tasks=[tpb.TaskSpec(task_id="linked")])
        run = await client.start(goal="linked", queue=queue, plan=plan)
        got = await worker.assignment()
        token = new_answer_token(tenant_id, run.spec.run_id, SystemRuntime().new_id)
        suspended = wpb.Outcome.Suspended(waits=[asks(token, **question)])
        ack = await worker.report(outcome(got, suspended=suspended))
        assert ack.status == wpb.ACK_STATUS_ACCEPTED, ack
    return Linked(run.spec.run_id, token, got)

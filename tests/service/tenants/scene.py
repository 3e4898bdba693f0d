"""Two tenants on one server: the owner has a run with something in every corner, the other knows its names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from stepwell.core.port import Store
from stepwell.runtime import SystemRuntime
from stepwell_client.answer_tokens import new_answer_token
from stepwell_client.v1 import types_pb2 as tpb
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import NO_RUN, Client, lease_of, outcome
from tests.service.tenants.rows import Names
from tests.service.token_questions import asks

OWNER, STRANGER = "tenant-a", "tenant-b"
SECRET = "what-only-its-owner-may-read"
"""In the goal, the labels, a result, a log line, a message and a prompt."""
REQUEST_ID = "a-start-of-both"


class Scene(NamedTuple):
    """The names of what the owner has."""

    names: Names
    missing: Names
    """Names of the same shapes, and nobody's."""


def _plan() -> tpb.PlanDraft:
    done = tpb.TaskSpec(task_id="done", prompt=SECRET, idempotency_key="key-of-a")
    done.input.data = b'"in"'
    return tpb.PlanDraft(
        tasks=[
            done,
            tpb.TaskSpec(task_id="leased"),
            tpb.TaskSpec(task_id="asking"),
            tpb.TaskSpec(task_id="linked"),
            tpb.TaskSpec(task_id="later", depends_on=["leased"]),
        ]
    )


def _asks(got: wpb.Assignment) -> wpb.Outcome:
    asking = wpb.Outcome.NeedsAnswer(kind=tpb.QUESTION_KIND_APPROVAL, prompt=SECRET)
    return outcome(got, needs_answer=asking)


@asynccontextmanager
async def scene(client: Client, store: Store, owner: str = OWNER) -> AsyncIterator[Scene]:
    """Play an owner's part up to a task that its worker has, and an input that is asked for."""
    async with client.worker("w1", queues=["q"]) as worker:
        run = await client.start(
            goal=SECRET,
            labels={"secret": SECRET},
            queue="q",
            plan=_plan(),
            request_id=REQUEST_ID,
        )
        run_id = run.spec.run_id
        got = {one.task.task_id: one for one in [await worker.assignment() for _ in range(4)]}
        await worker.complete(got["done"], f'"{SECRET}"'.encode())
        await worker.report(_asks(got["asking"]))
        token = new_answer_token(owner, run_id, SystemRuntime().new_id)
        linked = wpb.Outcome.Suspended(waits=[asks(token)])
        await worker.report(outcome(got["linked"], suspended=linked))
        leased = got["leased"]
        said = [tpb.Message(role="user", content=SECRET)]
        lines = [wpb.LogLine(text=SECRET)]
        item = wpb.Appended(**lease_of(leased), logs=lines, messages=said)
        await client.ask("AppendOutput", appended=[item])

        secret = tpb.Payload(data=f'"{SECRET}"'.encode())
        message = tpb.ThreadMessageDraft(role="user", content=secret)
        await client.ask("AppendToThread", thread_id="thread-of-a", messages=[message])
        await client.ask("SetThreadState", thread_id="thread-of-a", state=secret)
        await client.ask("SetThreadLabels", thread_id="thread-of-a", labels={"a": SECRET})

        loaded = await store.load(owner, run_id)
        assert loaded is not None
        names = Names(
            tenant_id=owner,
            run_id=run_id,
            question_id="question:task:asking#1",
            execution_id=leased.execution.execution_id,
            lease_token=leased.lease.token,
            request_id=REQUEST_ID,
            worker_id="w1",
            answer_token=token,
        )
        nobodys = names._replace(
            run_id=NO_RUN,
            question_id="none",
            lease_token="f" * 32,
            worker_id="w9",
            thread_id="thread-of-b",
            answer_token=new_answer_token(owner, NO_RUN, SystemRuntime().new_id),
        )
        yield Scene(names, nobodys)

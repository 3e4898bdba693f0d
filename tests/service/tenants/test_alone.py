"""A tenant is answered the same whether it is alone on the server or not (T1)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from stepwell.config import ExecutorSettings
from stepwell_client.v1 import types_pb2 as tpb
from tests.service.capabilities.conftest import STORES, Served
from tests.service.conftest import Client, RawWorker, bearer, completed
from tests.support.proofs import record

pytestmark = [pytest.mark.proof, pytest.mark.timeout(110)]
COMMAND = "make proof ARGS='tests/service/tenants'"
ROUNDS = 3
CALLERS = 4
"""Concurrent callers of the other tenant."""


def _tasks() -> tpb.PlanDraft:
    return tpb.PlanDraft(
        tasks=[
            tpb.TaskSpec(task_id="first"),
            tpb.TaskSpec(task_id="second", depends_on=["first"]),
        ]
    )


def shown(message: Message) -> str:
    """Return a message without times and what is drawn at random."""
    copy = type(message)()
    copy.CopyFrom(message)
    _forget(copy)
    return json_format.MessageToJson(copy, indent=None)


def _forget(message: Message) -> None:
    for field, value in message.ListFields():
        if field.name.endswith(("time", "_token", "cursor")):
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in value if field.is_repeated else [value]:
                _forget(one)


async def started(client: Client, name: str, number: int, who: str = "all") -> Any:
    """Start a run, or find the one that this tenant has started by this id."""
    return await client.ask(
        "StartRun",
        goal="g",
        request_id=f"{name} {number}",
        queue="q",
        plan=_tasks(),
        metadata=bearer(who),
    )


async def script(client: Client, name: str) -> list[str]:
    """Start runs, do their tasks, read all of it, and return what was answered, in order.

    The runs of two plays are named apart, and made alike in what is returned.
    """
    answers: list[str] = []
    runs: list[str] = []
    async with client.worker("w", "i", queues=["q"]) as worker:
        for number in range(ROUNDS):
            reply = await started(client, name, number)
            run_id = reply.run.spec.run_id
            runs.append(run_id)
            answers += [shown(reply), *await _done(worker), *await _read(client, run_id, "all")]
            # How the events are put into messages is a matter of time.
            watch = client.watch(run_id)
            answers += [shown(event) async for one in watch for event in one.events.events]
    for number, run_id in enumerate(runs):
        answers = [text.replace(run_id, f"run {number}") for text in answers]
    return answers


async def _done(worker: RawWorker) -> list[str]:
    """Do both tasks of a run; returns what the worker was answered."""
    answers: list[str] = []
    for _ in range(2):
        got = await worker.assignment()
        answers.append(f"{got.execution.execution_id} of {got.run.spec.run_id}")
        answers.append(shown(await worker.report(completed(got, b'"done"'))))
    return answers


async def _read(client: Client, run_id: str, who: str) -> list[str]:
    of_one = ("GetRun", "ListTasks", "GetResults")
    calls = [client.ask(name, run_id=run_id, metadata=bearer(who)) for name in of_one]
    calls.append(client.ask("ListRuns", metadata=bearer(who)))
    return [shown(await call) for call in calls]


async def noise(client: Client, name: str, stop: asyncio.Event) -> int:
    """Play the other tenant, with the same ids, until it is enough; returns how often."""
    count = 0
    while not stop.is_set():
        reply = await started(client, name, count % ROUNDS, "foreign")
        await _read(client, reply.run.spec.run_id, "foreign")
        count += 1
    return count


async def played(kind: str, folder: Path, callers: int) -> tuple[list[str], int]:
    """Play the script on an empty store beside so many callers; returns what was answered, and their rounds."""
    with STORES[kind](folder) as url:
        async with AsyncExitStack() as stack:
            served = Served(stack, folder, kind, url)
            await served.start(executor=ExecutorSettings(lease_ms=60_000, poll_ms=100))
            clients = [Client(served.target) for _ in range(callers + 1)]
            for one in clients:
                stack.push_async_callback(one.channel.close)
            stop = asyncio.Event()
            noises = [asyncio.create_task(noise(one, folder.name, stop)) for one in clients[1:]]
            answers = await script(clients[0], folder.name)
            stop.set()
            return answers, sum(await asyncio.gather(*noises))


@pytest.mark.parametrize("kind", STORES)
async def test_T1_answers_are_the_same_with_and_without_anothers_traffic(
    kind: str, tmp_path: Path
) -> None:
    folders = [tmp_path / "alone", tmp_path / "together"]
    for folder in folders:
        folder.mkdir()
    alone, _ = await played(kind, folders[0], 0)
    together, rounds = await played(kind, folders[1], CALLERS)

    assert rounds
    assert together == alone
    figures = {"answers compared": len(alone)}
    record.keep(record.Record(f"tenants, {kind}", COMMAND, figures))

"""Records: the prompt and the response of an execution, read back by pages of bytes."""

from __future__ import annotations

import grpc.aio
import pytest

from stepwell_client import Agent, Task, TaskContext, Transcript
from stepwell_client.errors import RunNotFound
from stepwell_client.v1 import orchestrator_pb2 as pb
from tests.service.capabilities.conftest import Served
from tests.service.conftest import NO_RUN


async def test_a_record_is_read_by_pages_of_bytes_with_nothing_else(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    prompt, response = "why é?" * 7, "because €" * 90_000
    agent = Agent("writer")

    @agent.task("ask")
    async def ask(ctx: TaskContext) -> bytes:
        ctx.transcript(prompt=prompt, response=response)
        return bytes(1_000)

    run = await served.client.start("ask", plan=[Task("a", "ask")])
    async with served.worker(agent):
        await run.wait()
    assert await served.client.run(run.id).transcript("task:a#1") == Transcript(
        prompt=prompt, response=response
    )
    assert await served.client.run(run.id).transcript("task:b#1") == Transcript()
    with pytest.raises(RunNotFound):
        await served.client.run(NO_RUN).transcript("task:a#1")

    read = served.client.caller.method("ReadTranscript")
    metadata = served.client.connection.access.metadata
    request = pb.ReadTranscriptRequest(run_id=run.id, execution_id="task:a#1", page_size=400_000)
    pages: list[pb.ReadTranscriptResponse] = []
    while not pages or pages[-1].next_page_token:
        request.page_token = pages[-1].next_page_token if pages else ""
        pages.append(await read(request, metadata=metadata))
    size = len(prompt.encode()) + len(response.encode())
    assert [len(one.prompt + one.response) for one in pages] == [400_000, 400_000, size - 800_000]
    assert b"".join(one.response for one in pages).decode() == response
    request.page_token = "odd"
    with pytest.raises(grpc.aio.AioRpcError, match="page_token"):
        await read(request, metadata=metadata)

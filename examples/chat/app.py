"""The chat's web server: a message starts a run in the chat's thread, and what runs do comes to the page as it happens.

uvicorn examples.chat.app:app
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Header
from fastapi.responses import FileResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel

from stepwell_client import Client, FailedPrecondition, LogKind, Run, Task, Unavailable
from stepwell_client.enums import QuestionStatus
from stepwell_client.records import ThreadMessage

client = Client()


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with client:
        yield


app = FastAPI(lifespan=lifespan)
LastEvent = Annotated[str, Header(alias="Last-Event-ID")]


class Said(BaseModel):
    """A message of the page. One that is sent again has the same `request_id`, and starts no second run."""

    goal: str
    on_busy: Literal["enqueue", "steer", "interrupt"]
    request_id: str


@app.get("/")
def page() -> FileResponse:
    return FileResponse(Path(__file__).with_name("page.html"))


@app.post("/chats/{chat}")
async def send(chat: str, said: Said) -> None:
    plan = [Task("reply", "reply")]
    await client.start(**said.model_dump(), pipeline="chat", plan=plan, thread=chat)


@app.get("/chats/{chat}/turns", response_class=EventSourceResponse)
async def turns(chat: str, last_event_id: LastEvent = "") -> AsyncIterator[ServerSentEvent]:
    """Send the messages of the thread, and each run of it as it is, and whenever it has changed."""
    with suppress(Unavailable):  # The page connects again, and goes on after the last id.
        async with client.watch(last_event_id, thread=chat) as updates:
            async for update in updates:
                data = {"messages": [message_of(one) for one in update.messages]}
                if update.run is not None:
                    data = await turn_of(update.run)
                yield ServerSentEvent(data=data, id=updates.position, retry=500)


def message_of(one: ThreadMessage) -> dict[str, Any]:
    shown = {"number": one.number, "role": one.role, "text": one.content}
    return shown | {"run": one.run_id, "time": one.time}


async def turn_of(run: Run) -> dict[str, Any]:
    handle = client.run(run.id)
    turn: dict[str, Any] = {"run": run.id, "time": run.created_time, "said": run.goal}
    turn |= {"status": run.status.name, "over": run.has_ended}
    if run.has_ended:  # Its messages are in the thread, or will be there in a moment.
        return turn
    asked = [one async for one in handle.questions() if one.status == QuestionStatus.OPEN]
    turn["questions"] = [{"id": one.id, "prompt": one.prompt} for one in asked]
    kept = [one.value async for one in handle.signals() if one.name == "steer"]
    return turn | {"added": [value.decode()["goal"] for value in kept if value is not None]}


@app.get("/runs/{run}/tokens", response_class=EventSourceResponse)
async def tokens(run: str, last_event_id: LastEvent = "") -> AsyncIterator[ServerSentEvent]:
    """Send the tokens of an answer, those that are there already and those to come: a line each."""
    with suppress(Unavailable):
        log = client.run(run).logs(last_event_id, follow=True, kinds=[LogKind.CHUNK])
        async with log as chunks:
            async for chunk in chunks:
                yield ServerSentEvent(raw_data=chunk.text.rstrip(), id=chunks.position, retry=500)


@app.post("/runs/{run}/answers")
async def answer(
    run: str, question: Annotated[str, Body()], agreed: Annotated[bool, Body()]
) -> None:
    with suppress(FailedPrecondition):  # The first answer counts.
        await client.run(run).answer(question, agreed)

"""A call of any method of the protocol, made from its descriptor, and its answer as one value."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, NamedTuple

import google.rpc.error_details_pb2  # noqa: F401 - so that error details can be shown by their types
import grpc
import grpc.aio
from google.protobuf import message_factory, text_format
from google.protobuf.message import Message

from tests.service.conftest import Refusal
from tests.service.console.http import Http, HttpRefusal
from tests.support.methods import SERVED, STORE, path_of
from tests.support.patience import PATIENCE_S

SILENCE_S = 0.25
"""A stream that has nothing more to say for so long has said all."""
TICK_S = 0.01
FIRST_S = 4 * SILENCE_S
"""For the first that it says: there may be nothing."""
STANDS = frozenset({"Orchestrator/WatchRun", "Orchestrator/WatchRuns", "Orchestrator/WatchLogs"})
"""These tell that they are let in before they say anything: until then they may be refused yet."""
Metadata = tuple[tuple[str, str], ...]


class Answer(NamedTuple):
    """The answer that a caller got."""

    code: grpc.StatusCode
    reason: str = ""
    """The error's reason."""
    text: str = ""
    """The error's message and details, or all messages of the answer."""


async def ask(channel: grpc.aio.Channel, name: str, request: Message, metadata: Metadata) -> Answer:
    """Call a method by its `Service/Method` and return what came.

    A stream of requests gets one message and then its end.
    """
    method = {**SERVED, **STORE}[name]
    reply: Any = message_factory.GetMessageClass(method.output_type)
    call: Any = channel.unary_stream(
        path_of(name),
        request_serializer=type(request).SerializeToString,
        response_deserializer=reply.FromString,
    )(request, metadata=metadata)
    answers: list[Message] = []
    try:
        if name in STANDS:
            async with asyncio.timeout(PATIENCE_S):
                await call.initial_metadata()
        if method.server_streaming and name != "Worker/Work":
            with suppress(TimeoutError):
                await _read_on(call, answers, FIRST_S, SILENCE_S)
        else:
            # It ends by itself, Work because its requests do: what is cut off would be half an answer.
            await _read_on(call, answers, PATIENCE_S, PATIENCE_S)
    except grpc.aio.AioRpcError as error:
        refusal = Refusal(error)
        said = f"{refusal.message} {sorted(refusal.metadata.items())} {refusal.fields}"
        return Answer(refusal.code, refusal.reason, said)
    finally:
        call.cancel()
    lines = [text_format.MessageToString(one, as_one_line=True) for one in answers]
    return Answer(grpc.StatusCode.OK, "", "\n".join(lines))


async def ask_by_http(
    http: Http, name: str, request: Message, metadata: Metadata, form: str = "json"
) -> Answer:
    """Call a method of the Orchestrator by the console's port, and return what came."""
    method = SERVED[name]
    # HTTP knows no space at the end of a value.
    given = [(key, value.strip()) for key, value in metadata]
    reading = _Reading(http.stream(name, request, form, metadata=given))
    answers: list[Message] = []
    try:
        # The first is None: the answer's headers are there.
        assert await reading.read() is None
        if method.server_streaming:
            with suppress(TimeoutError):
                await _read_on(reading, answers, FIRST_S, SILENCE_S)
        else:
            await _read_on(reading, answers, PATIENCE_S, PATIENCE_S)
    except HttpRefusal as refusal:
        details = [text_format.MessageToString(one) for one in refusal.status.details]
        return Answer(refusal.code, refusal.reason, f"{refusal.message} {details}")
    finally:
        await reading.close()
    lines = [text_format.MessageToString(one, as_one_line=True) for one in answers]
    return Answer(grpc.StatusCode.OK, "", "\n".join(lines))


class _Reading:
    """An answer by HTTP, read as gRPC's calls are: a read may be given up and another one begun."""

    def __init__(self, stream: AsyncGenerator[Message | None]) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._pump = asyncio.ensure_future(self._fill(stream))

    async def _fill(self, stream: AsyncGenerator[Message | None]) -> None:
        try:
            async with aclosing(stream) as answers:
                async for one in answers:
                    self._queue.put_nowait(one)
            self._queue.put_nowait(grpc.aio.EOF)
        except Exception as error:
            self._queue.put_nowait(error)

    async def read(self) -> Any:
        one = await self._queue.get()
        if isinstance(one, Exception):
            raise one
        return one

    async def close(self) -> None:
        self._pump.cancel()
        await asyncio.wait((self._pump,))


async def _read_on(call: Any, answers: list[Message], first_s: float, later_s: float) -> None:
    """Read to the end; raises TimeoutError once there is nothing for so long."""
    while True:
        message = await _next(call, later_s if answers else first_s)
        if message is grpc.aio.EOF:
            return
        answers.append(message)


async def _next(call: Any, within_s: float) -> Any:
    """Return the next message; raises TimeoutError if there is none for so long.

    What counts is how long this process was awake: while it stood still, it could neither say nor hear.
    """
    reading = asyncio.ensure_future(call.read())
    try:
        for _ in range(math.ceil(within_s / TICK_S)):
            if (await asyncio.wait((reading,), timeout=TICK_S))[0]:
                return reading.result()
    finally:
        reading.cancel()
    raise TimeoutError

"""A client of the console's port: calls in each of its forms, written from the protocols' own descriptions."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import google.rpc.error_details_pb2 as error_details_pb2
import google.rpc.status_pb2 as status_pb2
import grpc
import httpx
from google.protobuf import json_format, message_factory
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from tests.support.methods import SERVED

FORMS = {
    "proto": ("application/proto", "application/connect+proto"),
    "json": ("application/json", "application/connect+json"),
}
"""The content types of a unary call and of a stream, by the form's short name."""
Metadata = Sequence[tuple[str, str]]


class HttpRefusal(Exception):
    """A call ended with an error."""

    def __init__(self, code: grpc.StatusCode, message: str, details: Sequence[bytes]) -> None:
        """`details`: serialized `google.protobuf.Any`."""
        super().__init__(f"{code} {message}")
        self.code = code
        self.message = message
        self.status = status_pb2.Status(code=code.value[0], message=message)
        for one in details:
            self.status.details.add().MergeFromString(one)

    @property
    def reason(self) -> str:
        info = error_details_pb2.ErrorInfo()
        assert self.status.details[0].Unpack(info), "the first detail is no ErrorInfo"
        assert info.domain == "stepwell"
        return info.reason


class Http:
    """Calls the port at this URL with a token."""

    def __init__(self, url: str, metadata: Metadata = (), **options: Any) -> None:
        self.url = url
        self.metadata = dict(metadata)
        self.client = httpx.AsyncClient(base_url=url, trust_env=False, timeout=60, **options)

    async def call(
        self,
        name: str,
        request: Message,
        form: str = "proto",
        *,
        metadata: Metadata | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> list[Message]:
        """Call a method by its `Service/Method`, and return all that it answers with."""
        calling = self.stream(name, request, form, metadata=metadata, headers=headers)
        async with aclosing(calling) as answers:
            return [one async for one in answers if one is not None]

    async def stream(
        self,
        name: str,
        request: Message,
        form: str = "proto",
        *,
        metadata: Metadata | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Message | None]:
        """Yield None once the answer's headers are there, then the messages."""
        method = SERVED[name]
        kind = message_factory.GetMessageClass(method.output_type)
        content_type = FORMS[form][method.server_streaming]
        is_framed = method.server_streaming
        given = self.metadata.items() if metadata is None else metadata
        # Pairs, because a test may send one key twice.
        sent = [*given, ("content-type", content_type), *(headers or {}).items()]
        body = encoded(request, form)
        content = envelope(body) if is_framed else body
        path = f"/stepwell.v1.{name}"
        async with self.client.stream("POST", path, content=content, headers=sent) as response:
            yield None
            if not is_framed:
                data = await response.aread()
                if response.status_code != 200:
                    raise refusal_of(json.loads(data))
                assert response.headers["content-type"] == content_type
                yield decoded(data, form, kind)
                return
            assert response.status_code == 200, response.status_code
            assert response.headers["content-type"] == content_type
            async with aclosing(_envelopes(response)) as envelopes:
                async for flags, data in envelopes:
                    if flags:
                        _raise_if_failed(flags, data)
                        return
                    yield decoded(data, form, kind)
            raise AssertionError("the stream ended without a word")


def encoded(message: Message, form: str) -> bytes:
    if form == "json":
        return json_format.MessageToJson(message).encode()
    return message.SerializeToString()


def decoded(data: bytes, form: str, kind: type[Message]) -> Message:
    return json_format.Parse(data, kind()) if form == "json" else kind.FromString(data)


def envelope(data: bytes, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(data)) + data


async def _envelopes(response: httpx.Response) -> AsyncGenerator[tuple[int, bytes]]:
    buffer = b""
    async for part in response.aiter_raw():
        buffer += part
        while len(buffer) >= 5 and len(buffer) - 5 >= (size := int.from_bytes(buffer[1:5])):
            yield buffer[0], buffer[5 : 5 + size]
            buffer = buffer[5 + size :]
    assert not buffer, "the stream ended within an envelope"


def _raise_if_failed(flags: int, data: bytes) -> None:
    assert flags == 2
    end = json.loads(data)
    if "error" in end:
        raise refusal_of(end["error"])


def refusal_of(error: dict[str, Any]) -> HttpRefusal:
    """Return the error that Connect's JSON describes."""
    name = "CANCELLED" if error["code"] == "canceled" else error["code"].upper()
    details = [
        AnyMessage(
            type_url=f"type.googleapis.com/{one['type']}",
            value=base64.b64decode(one["value"] + "=="),
        ).SerializeToString()
        for one in error.get("details", ())
    ]
    return HttpRefusal(grpc.StatusCode[name], error["message"], details)

"""The Connect protocol: content types, messages in JSON, envelopes, and ends of calls.

See https://connectrpc.com/docs/protocol. Browsers and `curl` send one request message; the answer
is one message or a stream. This module neither waits nor sends.
"""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from typing import Any, NamedTuple

import google.rpc.status_pb2 as status_pb2
import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.message import Message

from stepwell.core.records.errors import InvalidArgument
from stepwell.rpc import status
from stepwell.rpc.admission import too_large

ENVELOPE_BYTES = 5
"""The bytes before a message of a stream: flags, and the message's size."""
_COMPRESSED = 0b1
_END = 0b10
_GZIP = 16 + zlib.MAX_WBITS

HTTP_STATUSES = {
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
    "UNAUTHENTICATED": 401,
}
"""Connect's HTTP status of a unary call that ended with an error, by gRPC's code."""


class CompressionUnknown(status.MethodUnknown):
    """A request has an unsupported compression."""

    reason = "COMPRESSION_UNKNOWN"


class Form(NamedTuple):
    """The encoding of a call's messages, by its content type."""

    content_type: str
    is_json: bool = False
    is_stream: bool = False
    """True if messages come in envelopes; the call's end is then also an envelope."""

    @property
    def encoding_header(self) -> str:
        """The header that names the compression of the request."""
        return "connect-content-encoding" if self.is_stream else "content-encoding"


FORMS = {
    form.content_type: form
    for form in (
        Form("application/proto"),
        Form("application/json", is_json=True),
        Form("application/connect+proto", is_stream=True),
        Form("application/connect+json", is_stream=True, is_json=True),
    )
}


def form_of(content_type: str, *, streams: bool) -> Form | None:
    """Return the form of a call to a method that streams or not, or None if the content type doesn't fit."""
    form = FORMS.get(content_type.partition(";")[0].strip().lower())
    return form if form is not None and form.is_stream == streams else None


# --- requests ----------------------------------------------------------------------------------------


def request_bytes(
    form: Form, body: bytes, encoding: str, kind: type[Message], bytes_max: int
) -> bytes:
    """Return a request's message in protobuf's binary form, from the body of the HTTP request.

    Raises:
        InvalidArgument: the body has no envelope, or no such message.
        ResourceExhausted: it is too large, possibly only after decompression.
        CompressionUnknown: only gzip is supported.
    """
    compressed = encoding not in ("", "identity")
    if form.is_stream:
        flags, body = _envelope(body)
        if flags and not compressed:
            raise InvalidArgument(
                f"the message is compressed, by its flags, and {form.encoding_header} doesn't say how",
                reason="BODY_INVALID",
            )
        compressed = bool(flags)
    if compressed:
        if encoding != "gzip":
            raise CompressionUnknown(f"{form.encoding_header} is gzip or identity")
        body = _inflated(body, bytes_max)
    if len(body) > bytes_max:
        raise too_large(f"{len(body):,} bytes", bytes_max)
    return _binary(body, kind) if form.is_json else body


def _envelope(body: bytes) -> tuple[int, bytes]:
    """Return flags and content of the one envelope of a body."""
    if len(body) >= ENVELOPE_BYTES:
        flags, size = struct.unpack_from(">BI", body)
        if size == len(body) - ENVELOPE_BYTES and not flags & ~_COMPRESSED:
            return flags, body[ENVELOPE_BYTES:]
    raise InvalidArgument(
        "the body is no envelope with one message: send a byte of flags, four bytes of the message's size,"
        " and the message",
        reason="BODY_INVALID",
    )


def _inflated(body: bytes, bytes_max: int) -> bytes:
    inflater = zlib.decompressobj(wbits=_GZIP)
    try:
        plain = inflater.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise InvalidArgument(f"the body is no gzip: {error}", reason="BODY_INVALID") from None
    if len(plain) > bytes_max:
        raise too_large(f"more than {bytes_max:,} bytes once it is inflated", bytes_max)
    if not inflater.eof or inflater.unused_data:
        raise InvalidArgument("the body is no single whole gzip", reason="BODY_INVALID")
    return plain


def _binary(text: bytes, kind: type[Message]) -> bytes:
    name = kind.DESCRIPTOR.name
    # The library also accepts an empty list as a message.
    if not text.lstrip().startswith(b"{"):
        raise InvalidArgument(f"the body is no JSON object of {name}", reason="BODY_INVALID")
    try:
        return json_format.Parse(text, kind()).SerializeToString()
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        # The library's message ends with the place of the error, sometimes with a whole value.
        why = str(error).partition("\n")[0][:300] or "it is nested too deep"
        # It may quote half of a character, which no message can hold.
        why = why.encode("utf-8", "replace").decode()
        raise InvalidArgument(f"the JSON is no {name}: {why}", reason="BODY_INVALID") from None


# --- answers -----------------------------------------------------------------------------------------


def encoded(form: Form, message: Message | bytes, kind: type[Message]) -> bytes:
    """Return an answer in its sent form; `message` may be a serialized message of this kind."""
    if not form.is_json:
        return message if isinstance(message, bytes) else message.SerializeToString()
    shown = kind.FromString(message) if isinstance(message, bytes) else message
    return json_format.MessageToJson(shown, indent=None).encode()


def enveloped(data: bytes, flags: int = 0) -> bytes:
    """Return a message of a stream."""
    return struct.pack(">BI", flags, len(data)) + data


def end_of(answer: status.Answer | None) -> bytes:
    """Return the envelope that ends a stream; `answer` is the error, if there is one."""
    end = {} if answer is None else {"error": error_of(answer)}
    return enveloped(json.dumps(end).encode(), _END)


def error_of(answer: status.Answer) -> dict[str, Any]:
    """Return an error in Connect's form, with the details also in JSON, for people."""
    raw = dict(answer.metadata).get(status.DETAILS_KEY, b"")
    details = [_detail(one) for one in status_pb2.Status.FromString(raw).details]
    return {"code": code_name(answer.code), "message": answer.message, "details": details}


def code_name(code: grpc.StatusCode) -> str:
    """Return a code by its name in Connect."""
    return "canceled" if code is grpc.StatusCode.CANCELLED else code.name.lower()


def _detail(packed: Any) -> dict[str, Any]:
    name = packed.TypeName()
    detail = {"type": name, "value": _base64(packed.value)}
    try:
        kind = message_factory.GetMessageClass(
            descriptor_pool.Default().FindMessageTypeByName(name)
        )
    except KeyError:
        return detail
    return {**detail, "debug": json_format.MessageToDict(kind.FromString(packed.value))}


def _base64(data: bytes) -> str:
    return b64encode(data).decode().rstrip("=")

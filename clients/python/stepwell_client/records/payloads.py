"""Converts Python values to payloads and back.

The service never reads payloads. Encoding: `bytes` become application/octet-stream, other values
JSON, and None no payload. Decoding: the annotation decides (`decode(payload, Report)`); without
one, JSON is loaded, text decoded and anything else left as bytes. What a function returns is read
again as it is annotated before it is kept, and refused unless that is equal to it.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, cast, overload

from stepwell_client.errors import DecodeError
from stepwell_client.records.json_forms import (
    Check,
    difference,
    is_plain,
    json_bytes,
    json_form,
    kind_of,
    pydantic_json,
)
from stepwell_client.records.pydantic_types import is_pydantic, validate
from stepwell_client.records.typed_values import (
    convert,
    exact_fit,
    field_types,
    flaw,
    name_of,
    plain_annotation,
    plain_first,
    reader_of,
)
from stepwell_client.v1 import types_pb2

T = TypeVar("T")

JSON = "application/json"
BYTES = "application/octet-stream"


@dataclasses.dataclass(frozen=True, slots=True)
class Payload:
    """The bytes of an input, a result or an answer. Passed as a value, they are sent unchanged."""

    data: bytes = b""
    media_type: str = JSON

    def __repr__(self) -> str:
        return f"Payload({len(self.data):,} bytes, {self.media_type!r})"

    @property
    def value(self) -> Any:
        """The value: JSON loaded, text decoded, anything else as bytes."""
        return self.decode()

    @overload
    def decode(self, kind: type[T]) -> T: ...
    @overload
    def decode(self, kind: Any = Any) -> Any: ...
    def decode(self, kind: Any = Any) -> Any:
        """Return the value decoded as a type, such as a dataclass or a pydantic model.

        Raises DecodeError, with the paths of the fields at fault, if the value doesn't fit.
        """
        return decode(self.message(), kind)

    def message(self) -> types_pb2.Payload:
        """Return the protocol's message."""
        return types_pb2.Payload(data=self.data, media_type=self.media_type)


def answer_payload(value: object) -> types_pb2.Payload:
    """Return an answer as a message; None is also an answer: JSON's null."""
    return encode(value) or types_pb2.Payload(data=b"null", media_type="application/json")


def encode(value: object) -> types_pb2.Payload | None:
    """Return a value as the protocol's payload (None for None). Payloads are returned unchanged.

    Raises TypeError or ValueError, with a path, if the value has no JSON form, or one by which its
    own type can't be read again.
    """
    if value is None or isinstance(value, types_pb2.Payload):
        return value
    payload = types_pb2.Payload()
    _write(value, payload, _check)
    return payload


def encode_as(value: object, annotation: Any) -> tuple[types_pb2.Payload | None, Any]:
    """Return a value as a payload, and as it is read from there by its annotation; raises as `encode_into`."""
    if value is None:
        return None, decode(None, annotation)
    payload = types_pb2.Payload()
    back = encode_into(value, annotation, payload)
    # The next attempt gets other lists and dicts than the function has, and so does this one.
    return payload, json.loads(payload.data) if back is value and type(value) in (
        list,
        dict,
    ) else back


def encode_into(value: object, annotation: Any, payload: types_pb2.Payload) -> Any:
    """Write a value into an empty payload, which stays as it is for None; return it as its annotation reads it there.

    Without an annotation (Any) JSON must have the value as it is. JSON that comes back as it is is
    returned as the same object. Payloads are not checked. Raises TypeError or ValueError, with a
    path, unless the value comes back equal and of the same type.
    """
    if value is None:
        return decode(None, annotation)
    back = _write(value, payload, None)
    if back is value:
        if _fits(value, annotation):
            return value
    elif isinstance(value, Payload | types_pb2.Payload):
        return decode(payload, annotation)
    elif back is not None and type(value) is annotation:
        return back
    back = decode(payload, annotation)
    lost = difference(value, back, "$")
    if lost is not None and not _is_annotated(value, payload, annotation):
        raise ValueError(lost)
    return back


def _is_annotated(value: Any, payload: types_pb2.Payload, annotation: Any) -> bool:
    """Return whether a value comes back as something else because its annotation wants that.

    JSON itself is read as annotated, unless it may also stay as it is, as text in `UUID | str` may.
    Otherwise a container may be of the annotated class instead of another one with equal contents, if there is only one.
    """
    if payload.media_type != JSON or annotation is Any or annotation is object:
        return False
    if is_plain(value):
        return difference(value, convert(value, plain_first(annotation), "$"), "$") is not None
    if _has_choice(annotation):
        # As of a tuple in `list[int] | tuple[int, ...]`, which may be annotated as it is. In `list[int | str]` it may not.
        return False
    raw = json.loads(payload.data)
    return difference(value, convert(raw, annotation, "$"), "$", set(_containers(raw))) is None


def _has_choice(annotation: Any) -> bool:
    """Return whether an annotation has a union in which a list or a dict may be read as one of several types."""
    annotation = plain_annotation(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType) and sum(map(_may_have_parts, arguments)) > 1:
        return True
    return origin is not Literal and any(map(_has_choice, arguments))


def _may_have_parts(annotation: Any) -> bool:
    annotation = plain_annotation(annotation)
    kind = typing.get_origin(annotation) or annotation
    if kind is Any or kind is object:
        return True
    return kind is not Literal and not (isinstance(kind, type) and reader_of(kind) is None)


def _containers(raw: Any) -> Iterator[int]:
    """Yield the ids of the lists and dicts of a JSON value."""
    if isinstance(raw, list | dict):
        yield id(cast(object, raw))
        parts = cast("Iterable[Any]", raw.values() if isinstance(raw, dict) else raw)
        for part in parts:
            yield from _containers(part)


class _Adapter:
    """The parts of an annotation's meaning that are found once."""

    def __init__(self, annotation: Any) -> None:
        self.fits = exact_fit(annotation)
        is_payload = annotation in (Payload, types_pb2.Payload)
        self.flaw = None if is_payload else flaw(annotation)


_cached_adapter = lru_cache(1024)(_Adapter)


def _adapter(annotation: Any) -> _Adapter:
    try:
        return _cached_adapter(annotation)
    except TypeError:  # An annotation without a hash.
        return _Adapter(annotation)


def _fits(value: Any, annotation: Any) -> bool:
    """Return whether JSON is surely of the annotated type as it is."""
    return annotation is Any or ((fits := _adapter(annotation).fits) is not None and fits(value))


def flaw_of(annotation: Any) -> str | None:
    """Return the path and the reason why no value of an annotated type can be kept, or None."""
    return _adapter(annotation).flaw


def _write(value: Any, payload: types_pb2.Payload, check: Check | None) -> Any:
    """Write a value into an empty payload; return it as its own class reads it there, or None if that isn't known.

    JSON is returned as the same object.
    """
    if type(value) is bytes:
        payload.data, payload.media_type = value, BYTES
        return payload.data
    if is_plain(value):
        try:
            payload.data, payload.media_type = json_bytes(value), JSON
        except ValueError:
            pass  # The form has numbers that aren't finite by their names, or says where they are.
        else:
            return value
    if isinstance(value, Payload):
        value = value.message()
    if isinstance(value, types_pb2.Payload):
        payload.CopyFrom(value)
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        payload.data, payload.media_type = bytes(cast("bytes", value)), BYTES
        return None
    payload.media_type = JSON
    if is_pydantic(kind_of(value)):
        payload.data, back = pydantic_json(value, "$")
        return back
    payload.data = json_bytes(json_form(value, "$", check))
    return None


def _check(value: Any, form: Any, path: str) -> None:
    """Raise ValueError if a value isn't read again from its form by its own class."""
    kind = kind_of(value)
    if getattr(kind, "__parameters__", ()):
        kind = getattr(value, "__orig_class__", None)
    try:
        if kind is None or not field_types(kind, path):
            return  # Only the reader knows the type arguments.
    except DecodeError:
        return  # Only the reader knows the types of the fields.
    lost = difference(value, convert(form, kind, path), path)
    if lost is not None:
        raise ValueError(lost)


def decode(payload: types_pb2.Payload | None, annotation: Any = Any) -> Any:
    """Return the value of a payload, decoded as the annotation.

    Raises DecodeError, with the paths of the fields at fault, if the value doesn't fit.
    """
    if annotation is types_pb2.Payload:
        return payload
    if payload is None:
        return convert(None, annotation, "$")
    if annotation is bytes:
        return payload.data
    media_type = payload.media_type if payload.HasField("media_type") else JSON
    if annotation is Payload:
        return Payload(payload.data, media_type)
    if media_type.startswith("text/"):
        return convert(_text(payload.data), annotation, "$")
    if media_type.partition(";")[0].strip() != JSON and not media_type.endswith("+json"):
        try:
            return convert(payload.data, annotation, "$")
        except DecodeError:
            raise DecodeError(
                f"{media_type} can't be read as {name_of(annotation)}: ask for bytes"
            ) from None
    if is_pydantic(annotation):
        return validate(annotation, payload.data, "$")
    try:
        value = json.loads(payload.data)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"the bytes are no JSON: {error}") from error
    return value if _fits(value, annotation) else convert(value, annotation, "$")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"the text is no UTF-8: {error}") from error

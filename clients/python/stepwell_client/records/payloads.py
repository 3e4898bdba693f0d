"""Converts Python values to payloads and back.

The service never reads payloads. Encoding: `bytes` become application/octet-stream, other values
JSON (everything that `json` knows, dataclasses, pydantic models, enums, dates, UUIDs, paths), and
None no payload. Decoding: the annotation decides (`decode(payload, Report)`); without one, JSON is
loaded, text decoded and anything else left as bytes. pydantic is never imported: a class that has
`model_validate` validates itself.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, TypeVar, Union, cast, overload

from stepwell_client.errors import DecodeError, Violation
from stepwell_client.v1 import types_pb2

T = TypeVar("T")

JSON = "application/json"
BYTES = "application/octet-stream"

_VIOLATIONS_MAX = 100


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


def default_form(value: Any) -> Any:
    """Return a JSON-like form of a value that the encoder doesn't know."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: getattr(cast(object, value), field.name) for field in fields}
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | PurePath):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    raise TypeError(
        f"a {_name(type(cast(object, value)))} has no JSON form: return bytes, a dict, list, str or number, "
        "a dataclass or a pydantic model"
    )


_encoder = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default_form
)


def encode(value: object) -> types_pb2.Payload | None:
    """Return a value as the protocol's payload (None for None). Payloads are returned unchanged.

    Raises TypeError or ValueError if the value has no JSON form.
    """
    if value is None or isinstance(value, types_pb2.Payload):
        return value
    payload = types_pb2.Payload()
    encode_into(value, payload)
    return payload


def encode_into(value: object, payload: types_pb2.Payload) -> None:
    """Write a value that isn't None into an empty payload; raises as `encode` does."""
    if isinstance(value, Payload):
        value = value.message()
    if isinstance(value, types_pb2.Payload):
        payload.CopyFrom(value)
        return
    if isinstance(value, bytes | bytearray | memoryview):
        payload.data, payload.media_type = bytes(cast(bytes, value)), BYTES
        return
    payload.data, payload.media_type = _json_of(value), JSON


def _json_of(value: object) -> bytes:
    dump = getattr(value, "model_dump_json", None)
    if callable(dump) and not isinstance(value, type):
        return str(dump()).encode()
    text = _encoder.encode(value)
    try:
        return text.encode()
    # Half a surrogate pair, as in file names, which escapes can represent.
    except UnicodeEncodeError:
        return json.dumps(value, default=default_form, allow_nan=False).encode()


def decode(payload: types_pb2.Payload | None, annotation: Any = Any) -> Any:
    """Return the value of a payload, decoded as the annotation.

    Raises DecodeError, with the paths of the fields at fault, if the value doesn't fit.
    """
    if annotation is types_pb2.Payload:
        return payload
    if payload is None:
        return _convert(None, annotation, "$")
    if annotation is bytes:
        return payload.data
    media_type = payload.media_type if payload.HasField("media_type") else JSON
    if media_type.startswith("text/"):
        return _convert(_text(payload.data), annotation, "$")
    if media_type.partition(";")[0].strip() != JSON and not media_type.endswith("+json"):
        if annotation is Any or annotation is object:
            return payload.data
        raise DecodeError(f"{media_type} can't be read as {_name(annotation)}: ask for bytes")
    validate = getattr(annotation, "model_validate_json", None)
    if validate is not None:
        return _validated(validate, payload.data, "$")
    try:
        value = json.loads(payload.data)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"the bytes are no JSON: {error}") from error
    return value if annotation is Any else _convert(value, annotation, "$")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"the text is no UTF-8: {error}") from error


def _name(annotation: Any) -> str:
    return getattr(annotation, "__qualname__", None) or str(annotation)


def _validated(validate: Callable[[Any], Any], value: object, path: str) -> Any:
    """Convert with a pydantic model, whose error is replaced by one with paths and without values."""
    try:
        return validate(value)
    except ValueError as error:
        listing = getattr(error, "errors", None)
        if listing is None:
            raise
        errors = cast(
            "Sequence[Mapping[str, Any]]",
            listing(include_url=False, include_input=False, include_context=False),
        )
        violations = [
            Violation(path + "".join(_step(part) for part in item["loc"]), str(item["msg"]))
            for item in errors[:_VIOLATIONS_MAX]
        ]
        raise _failure(violations) from None


def _step(part: object) -> str:
    return f"[{part}]" if isinstance(part, int) else f".{part}"


def _failure(violations: list[Violation]) -> DecodeError:
    return DecodeError("; ".join(f"{v.field}: {v.description}" for v in violations), violations)


def _misfit(value: Any, annotation: Any, path: str) -> DecodeError:
    what = "null" if value is None else type(value).__name__
    return _failure([Violation(path, f"{_name(annotation)} is wanted, {what} came")])


def _convert(value: Any, annotation: Any, path: str) -> Any:
    """Convert a JSON value to the annotated type, including nested values."""
    if annotation is Any or annotation is object:
        return value
    if annotation is None or annotation is type(None):
        if value is not None:
            raise _misfit(value, annotation, path)
        return None
    origin = typing.get_origin(annotation)
    if origin is not None:
        return _convert_generic(value, annotation, origin, path)
    validate = getattr(annotation, "model_validate", None)
    if validate is not None:
        return _validated(validate, value, path)
    if dataclasses.is_dataclass(annotation):
        return _convert_dataclass(value, annotation, path)
    if not isinstance(annotation, type) or typing.is_typeddict(annotation):
        return value  # A NewType, a TypedDict or a type variable can't be checked here.
    return _convert_plain(value, annotation, path)


def _convert_plain(value: Any, annotation: type[Any], path: str) -> Any:
    try:
        if issubclass(annotation, enum.Enum | uuid.UUID | PurePath):
            return annotation(value)
        if issubclass(annotation, datetime.datetime | datetime.date | datetime.time):
            return annotation.fromisoformat(value)
    except (ValueError, TypeError, AttributeError):
        raise _misfit(value, annotation, path) from None
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if annotation is int and isinstance(value, bool):
        raise _misfit(value, annotation, path)
    if not isinstance(value, annotation):
        raise _misfit(value, annotation, path)
    return value


def _convert_generic(value: Any, annotation: Any, origin: Any, path: str) -> Any:
    arguments = typing.get_args(annotation)
    if origin is Union or origin is types.UnionType:
        problems: list[Violation] = []
        for choice in arguments:
            try:
                return _convert(value, choice, path)
            except DecodeError as error:
                problems += error.violations
        raise _failure(problems[:_VIOLATIONS_MAX])
    if origin is Literal:
        if value not in arguments:
            raise _misfit(value, annotation, path)
        return value
    if origin is typing.Annotated:
        return _convert(value, arguments[0], path)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise _misfit(value, annotation, path)
        entries = cast("dict[str, Any]", value)
        return {key: _convert(item, arguments[1], f"{path}.{key}") for key, item in entries.items()}
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is ...):
        if not isinstance(value, list) or len(cast("list[Any]", value)) != len(arguments):
            raise _misfit(cast(object, value), annotation, path)
        pairs = zip(cast("list[Any]", value), arguments, strict=True)
        return tuple(_convert(item, kind, f"{path}[{n}]") for n, (item, kind) in enumerate(pairs))
    if isinstance(origin, type) and issubclass(origin, Sequence | set | frozenset):
        if not isinstance(value, list):
            raise _misfit(value, annotation, path)
        listed = enumerate(cast("list[Any]", value))
        items = [_convert(item, arguments[0], f"{path}[{n}]") for n, item in listed]
        concrete = issubclass(origin, tuple | set | frozenset)
        return cast("Callable[[list[Any]], Any]", origin if concrete else list)(items)
    return value


def _convert_dataclass(value: Any, annotation: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise _misfit(value, annotation, path)
    given = cast("dict[str, Any]", value)
    hints = typing.get_type_hints(annotation)
    problems: list[Violation] = []
    made: dict[str, Any] = {}
    for field in dataclasses.fields(annotation):
        where = f"{path}.{field.name}"
        if field.name in given and field.init:
            try:
                made[field.name] = _convert(given[field.name], hints[field.name], where)
            except DecodeError as error:
                problems += error.violations or [Violation(where, error.message)]
        elif field.init and (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        ):
            problems.append(Violation(where, "it is missing"))
    problems += [
        Violation(f"{path}.{name}", f"{_name(annotation)} has no such field")
        for name in given.keys() - {field.name for field in dataclasses.fields(annotation)}
    ]
    if problems:
        raise _failure(problems[:_VIOLATIONS_MAX])
    return annotation(**made)

"""Makes the JSON-like form of Python values, and finds what another value has lost of it.

Paths begin with `$`, as in `$.items[0].price`. No message has a value in it, because that may be a
secret.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping, Set
from pathlib import PurePath
from typing import Any, cast

from stepwell_client.records.pydantic_types import dump, is_pydantic, validate

Check = Callable[[Any, Any, str], None]
"""Raises if a value is not read again from its form; the last argument is the path."""

_PLAIN = frozenset({str, int, float, bool, type(None)})
_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}
_SIMILAR = ((dict,), (list, tuple), (set, frozenset))
_MISSING = object()

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def is_plain(value: Any) -> bool:
    """Return whether JSON has each part of a value as it is; numbers that are not finite have no JSON."""
    kind = kind_of(value)
    if kind is dict:
        for key, part in value.items():
            if type(key) is not str or not (type(part) in _PLAIN or is_plain(part)):
                return False
        return True
    if kind is list:
        return _PLAIN.issuperset(map(type, value)) or all(map(is_plain, value))
    return kind in _PLAIN


def json_bytes(form: Any) -> bytes:
    """Return a JSON-like value as JSON. Raises ValueError if it has none."""
    text = _encoder.encode(form)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair, as in file names, which escapes can represent; two halves in a row they join.
        data = json.dumps(form, allow_nan=False).encode()
        if (lost := difference(form, json.loads(data), "$")) is not None:
            raise ValueError(lost) from None
        return data


def json_form(value: Any, path: str = "$", check: Check | None = None) -> Any:
    """Return the JSON-like form of a value.

    `check` is called for the outermost values whose class names the types of its fields. Outside of
    them it lets no bytes and no infinite numbers pass, because a reader may take the form for the
    value. Without it all is allowed.

    Raises TypeError or ValueError, with a path, if a part has no form.
    """
    kind = kind_of(value)
    if kind in _PLAIN and kind is not float:
        return value
    if isinstance(value, enum.Enum):
        return json_form(value.value, path, None)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        if check not in (None, _as_text):
            raise ValueError(f"{path}: a number that isn't finite has no JSON form")
        return _NAMES.get(value, "NaN")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if is_pydantic(kind):
        return json.loads(pydantic_json(value, path)[0])
    if isinstance(value, Mapping):
        return _mapping_form(cast("Mapping[Any, Any]", value), path, check)
    names: Any = getattr(cast(Any, kind), "_fields", None)
    if names is not None and issubclass(kind, tuple):
        form: Any = [json_form(getattr(value, name), f"{path}.{name}") for name in names]
        return _checked(value, form, path, check)
    if isinstance(value, list | tuple | deque):
        items = enumerate(cast("list[Any]", value))
        return [json_form(one, f"{path}[{n}]", check) for n, one in items]
    if isinstance(value, Set):
        parts = [json_form(one, f"{path}[]", check) for one in cast("Set[Any]", value)]
        return sorted(parts, key=canonical)
    if dataclasses.is_dataclass(kind):
        form = {
            field.name: json_form(part, f"{path}.{field.name}")
            for field in dataclasses.fields(value)
            if (part := getattr(value, field.name, _MISSING)) is not _MISSING
        }
        return _checked(value, form, path, check)
    return _leaf_form(value, path, check)


def shallow_form(value: Any) -> Any:
    """Return a form of a value whose parts are as they were. Raises TypeError if it has none."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value.value if isinstance(value, enum.Enum) else _leaf_form(value, "$", None)


def canonical(form: Any) -> str:
    """Return a JSON-like value as text that doesn't depend on the order of keys."""
    return json.dumps(form, sort_keys=True)


def _as_text(*_: object) -> None:
    """Check nothing, as pydantic does that itself; bytes are written as the text that it reads."""


def _checked(value: Any, form: Any, path: str, check: Check | None) -> Any:
    if check is not None:
        check(value, form, path)
    return form


def _mapping_form(value: Mapping[Any, Any], path: str, check: Check | None) -> dict[str, Any]:
    form: dict[str, Any] = {}
    for key, item in value.items():
        name = json_form(key, f"{path}.(key)", check)
        if not isinstance(name, str):
            name = json.dumps(name, separators=(",", ":"))
        if name in form:
            raise ValueError(f"{path}: two keys have the same JSON form, {name!r}")
        form[name] = json_form(item, f"{path}.{name}", check)
    return form


def _leaf_form(value: Any, path: str, check: Check | None) -> Any:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | PurePath | decimal.Decimal):
        return str(value)
    if isinstance(value, datetime.timedelta):
        micros = value // datetime.timedelta(microseconds=1)
        days, rest = divmod(abs(micros), 86_400_000_000)
        return f"{'-' if micros < 0 else ''}P{days}DT{rest // 1_000_000}.{rest % 1_000_000:06}S"
    if isinstance(value, bytes) and check is _as_text:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(
                f"{path}: bytes that are no UTF-8; give the model ser_json_bytes and val_json_bytes 'base64'"
            ) from None
    if isinstance(value, bytes | bytearray) and check is None:
        return base64.b64encode(value).decode()
    item = getattr(value, "item", None)
    if getattr(value, "shape", None) == () and callable(item):
        return json_form(item(), path, check)  # A number of numpy, or of a library like it.
    raise TypeError(
        f"{path}: a {type_name(value)} has no JSON form: return bytes, a dict, list, str or number, "
        "a dataclass or a pydantic model"
    )


def kind_of(value: Any) -> Any:
    """Return the class of a value of an unknown type."""
    return cast(Any, type(value))


def type_name(value: object) -> str:
    """Return the name of a value's type."""
    return type(value).__qualname__


# Values of pydantic's classes.


def pydantic_json(value: Any, path: str) -> tuple[bytes, Any]:
    """Return the JSON of a value of a pydantic class, and the value read from that.

    pydantic's own JSON comes first. Where it loses something, such as a secret or a NaN, the fields
    are written here. Both are tried by aliases and by names. Raises ValueError if all of that loses
    something.
    """
    lost: str | None = None
    for json_mode in (True, False):
        for by_alias in (True, False):
            try:
                data = _json_of(value, path, json_mode=json_mode, by_alias=by_alias)
                back = validate(type(value), data, path)
            except (TypeError, ValueError, RecursionError) as error:
                text = str(error)
                lost = text if text.startswith(path) else f"{path}: {text}"
                continue
            lost = difference(value, back, path)
            if lost is None:
                return data, back
    raise ValueError(lost)


def _json_of(value: Any, path: str, *, json_mode: bool, by_alias: bool) -> bytes:
    if json_mode:
        data = cast(bytes, dump(value, json=True, by_alias=by_alias))
        if b"NaN" in data or b"Infinity" in data:
            json.loads(data, parse_constant=_refuse)
        return data
    secret = getattr(value, "get_secret_value", None)
    fields = secret() if callable(secret) else dump(value, json=False, by_alias=by_alias)
    if fields is value:
        raise ValueError(f"{path}: pydantic gives a {type_name(value)} no form")
    return json_bytes(json_form(fields, path, _as_text))


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


# Comparison.


def difference(
    value: Any, back: Any, path: str, untyped: Collection[int] | None = None
) -> str | None:
    """Return the path of the first part of a value that came back as something else, with the reason, or None.

    With `untyped`, the ids of the containers that came back without an annotation, a part may be of
    another class where it is equal: a container that has an annotation, a number, a text.
    """
    kind, other = kind_of(value), kind_of(back)
    if other is not kind and (
        untyped is None or id(back) in untyped or not _is_similar(value, back)
    ):
        return f"{path}: {type_name(value)} comes back as {type_name(back)}; name its type in the annotation"
    parts, others = _parts(value, path), _parts(back, path)
    if parts is not None and others is not None:
        if len(parts) != len(others):
            return f"{path}: {len(value)} items come back as {len(back)}"
        for (where, one), (_, another) in zip(parts, others, strict=True):
            if (lost := difference(one, another, where, untyped)) is not None:
                return lost
    elif not (_written(value) == _written(back) if other is kind else value == back):
        return f"{path}: {type_name(value)} comes back with another value"
    for setting in ("default_factory", "maxlen"):
        if other is kind and getattr(value, setting, None) != getattr(back, setting, None):
            return f"{path}: its {setting} doesn't come back, or is not annotated"
    return None


def _is_similar(value: Any, back: Any) -> bool:
    """Return whether values are of classes of which equal ones stand for each other."""
    if type(back) in _PLAIN and not isinstance(value, enum.Enum | bool):
        is_derived = isinstance(value, type(back)) or getattr(value, "shape", None) == ()
        return is_derived or (type(value) is int and type(back) is float)
    return any(isinstance(value, kinds) and type(back) in kinds for kinds in _SIMILAR)


def _parts(value: Any, path: str) -> list[tuple[str, Any]] | None:
    """Return the parts of a value with their paths, or None for a value without parts."""
    kind = kind_of(value)
    names: Any = getattr(kind, "model_fields", None)
    if names is not None:
        names = list(names)
        for others in ("__pydantic_extra__", "__pydantic_private__"):
            names += getattr(value, others, None) or ()
    elif dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.compare]
    elif issubclass(kind, Mapping):
        given = cast("Mapping[Any, Any]", value).items()
        return [(f"{path}.{key}", one) for key, item in given for one in (key, item)]
    elif issubclass(kind, list | tuple | deque):
        names = getattr(cast(Any, kind), "_fields", range(len(value)))
        steps = [f".{name}" if isinstance(name, str) else f"[{name}]" for name in names]
        return [(path + step, one) for step, one in zip(steps, value, strict=True)]
    return names and [(f"{path}.{name}", getattr(value, name, _MISSING)) for name in names]


def _written(value: Any) -> Any:
    """Return what is equal for equal values of one type, also where `==` sees no difference, or one that is none."""
    if isinstance(value, float | decimal.Decimal):
        return repr(value)
    if isinstance(value, datetime.datetime | datetime.time):
        # Without a zone, `fold` stands in no text.
        return value.isoformat(), value.fold and not value.tzinfo
    if isinstance(value, Set):
        return {(kind_of(one), one) for one in cast("Set[Any]", value)}
    return value

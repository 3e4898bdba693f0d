"""Converts JSON-like values to annotated types: the reading half of `json_forms`."""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import math
import re
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Literal, TypeVar, Union, cast

from stepwell_client.errors import DecodeError, Violation
from stepwell_client.records.json_forms import canonical, json_bytes, json_form
from stepwell_client.records.pydantic_types import (
    VIOLATIONS_MAX,
    failure,
    is_pydantic,
    validate,
)

_WRAPPERS = (typing.Annotated, typing.Required, typing.NotRequired)
_SPAN = re.compile(
    r"([+-]?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?"
)
_CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque, types.MappingProxyType)
_LEAVES = (
    *(str, bytes, bytearray, int, float, decimal.Decimal, type(None), enum.Enum),
    *(datetime.timedelta, datetime.date, datetime.time, uuid.UUID, PurePath),
)
_JSON_LEAVES = frozenset({str, int, float, bool, type(None)})
_PLAIN = (str, int, float, bool, dict, list)
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_MISSING = object()


def name_of(annotation: Any) -> str:
    """Return an annotation as a person writes it."""
    return getattr(annotation, "__qualname__", None) or str(annotation)


def misfit(value: Any, annotation: Any, path: str) -> DecodeError:
    """Return the error for a value that is of another type than is wanted."""
    what = "null" if value is None else type(value).__name__
    return failure([Violation(path, f"{name_of(annotation)} is wanted, {what} came")])


def plain_annotation(annotation: Any) -> Any:
    """Return an annotation without what only names or describes a type; a type variable is Any."""
    while True:
        origin = typing.get_origin(annotation)
        if origin in _WRAPPERS:
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif hasattr(origin or annotation, "__value__"):  # A `type` statement, of Python 3.12.
            arguments = typing.get_args(annotation)
            alias = (origin or annotation).__value__
            annotation = alias[arguments] if arguments else alias
        elif isinstance(annotation, TypeVar):
            return Any
        else:
            return annotation


def exact_fit(annotation: Any) -> Callable[[Any], bool] | None:
    """Return a quick check that a JSON value is of an annotated type and comes back as it is.

    None if the annotation has a type that JSON lacks, or needs another check.
    """
    annotation = plain_annotation(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any or annotation is object:
        return lambda _: True
    if kinds := _leaves(annotation):
        return lambda value: type(value) in kinds
    kind = origin or annotation
    if kind is not list and not (kind is dict and arguments[:1] in ((), (str,), (Any,))):
        return None
    if arguments[-1:] in ((), (Any,)):
        return lambda value: type(value) is kind
    fits = exact_fit(arguments[-1])
    return fits and (lambda value: type(value) is kind and all(map(fits, _parts(value))))


def _leaves(annotation: Any) -> frozenset[Any]:
    """Return the types of an annotation that is one of JSON's own without parts, or a choice of those; else none."""
    is_union = typing.get_origin(annotation) in (Union, types.UnionType)
    kinds = frozenset(typing.get_args(annotation) if is_union else (annotation,))
    # A float may be text where it isn't finite.
    return kinds if kinds <= _JSON_LEAVES and not kinds >= {float, str} else frozenset()


def _parts(value: Any) -> Any:
    return cast(Any, value).values() if isinstance(value, dict) else value


def plain_first(annotation: Any) -> Any:
    """Return an annotation with the types that JSON has itself before the other choices of each union."""
    annotation = plain_annotation(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Union or origin is types.UnionType:
        return Union[tuple(sorted(arguments, key=_plainness))]  # noqa: UP007 - of any number
    if not arguments or not (isinstance(origin, type) and issubclass(origin, _CONTAINERS)):
        return annotation
    return cast(Any, origin)[tuple(map(plain_first, arguments))]


def _plainness(annotation: Any) -> int:
    kind = typing.get_origin(annotation) or annotation
    return _PLAIN.index(kind) if kind in _PLAIN else len(_PLAIN) + (kind is not Literal)


def convert(value: Any, annotation: Any, path: str) -> Any:
    """Return a JSON-like value as the annotated type. Raises DecodeError, with paths, if it doesn't fit."""
    annotation = plain_annotation(annotation)
    if annotation is Any or annotation is object:
        return value
    if annotation is None or annotation is type(None):
        if value is not None:
            raise misfit(value, annotation, path)
        return None
    origin = typing.get_origin(annotation)
    if origin is Union or origin is types.UnionType:
        return _convert_union(value, typing.get_args(annotation), path)
    if origin is Literal:
        found = _choice(value, typing.get_args(annotation))
        if found is _MISSING:
            raise misfit(value, annotation, path)
        return found
    kind = origin or annotation
    if not isinstance(kind, type):
        return value
    reader = reader_of(kind)
    if reader is not None:
        return reader(value, annotation, kind, path)
    try:
        return _convert_leaf(value, kind)
    except (ValueError, TypeError, AttributeError, ArithmeticError):
        raise misfit(value, annotation, path) from None


def reader_of(kind: Any) -> Callable[[Any, Any, Any, str], Any] | None:
    """Return the function that reads values of a class with parts, or None for a class without."""
    if kind in _LEAVES:
        return None
    if is_pydantic(kind):
        return _convert_pydantic
    if dataclasses.is_dataclass(kind):
        return _convert_dataclass
    if typing.is_typeddict(kind):
        return _convert_typed_dict
    if issubclass(kind, Mapping):
        return _convert_mapping
    if issubclass(kind, tuple):
        return _convert_tuple
    if issubclass(kind, Iterable) and not issubclass(kind, _LEAVES):
        return _convert_items
    return None


def _convert_pydantic(value: Any, annotation: Any, _: Any, path: str) -> Any:
    try:
        data = json_bytes(value)
    except (TypeError, ValueError):  # Bytes, or a number that JSON doesn't have.
        raise misfit(value, annotation, path) from None
    return validate(annotation, data, path)


def _convert_leaf(value: Any, kind: type[Any]) -> Any:
    """Convert to a type without parts. Raises ValueError or TypeError if the value doesn't fit."""
    if issubclass(kind, enum.Enum):
        with suppress(ValueError, TypeError):
            return kind(value)
        found = _choice(value, kind)
        return _refuse() if found is _MISSING else found
    if kind is bool or kind is str:
        if type(value) is kind:
            return value
        raise TypeError
    if issubclass(kind, float):
        if isinstance(value, str):
            return kind(_FLOATS[value]) if value in _FLOATS else _refuse()
        # An int that no float is equal to doesn't fit.
        same = type(value) is float or (type(value) is int and float(value) == value)
        return kind(value) if same else _refuse()
    if issubclass(kind, int | str):
        base = int if issubclass(kind, int) else str
        return kind(value) if type(value) is base else _refuse()
    if issubclass(kind, bytes | bytearray):
        return kind(value if isinstance(value, bytes) else base64.b64decode(value, validate=True))
    if issubclass(kind, datetime.timedelta):
        return _span(value)
    if issubclass(kind, datetime.datetime | datetime.date | datetime.time):
        return kind.fromisoformat(value)
    if issubclass(kind, decimal.Decimal):
        return kind(str(value)) if type(value) in (str, int, float) else _refuse()
    if issubclass(kind, uuid.UUID | PurePath):
        return kind(value)
    return value if isinstance(value, kind) else _refuse()


def _refuse() -> Any:
    raise TypeError


def _choice(value: Any, choices: Iterable[Any]) -> Any:
    """Return the first choice that a JSON-like value is the form of, or `_MISSING`."""
    return next((one for one in choices if _has_form(one, value)), _MISSING)


def _span(value: Any) -> datetime.timedelta:
    if type(value) in (int, float):
        return datetime.timedelta(seconds=value)
    found = _SPAN.fullmatch(value)
    if found is None:
        raise ValueError
    sign, *parts, fraction = found.groups()
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in parts)
    micros = int((fraction or "").ljust(6, "0"))
    # Counted from the smallest unit, because the least timedelta has no opposite.
    total = ((weeks * 7 + days) * 86_400 + hours * 3_600 + minutes * 60 + seconds) * 10**6 + micros
    return datetime.timedelta(microseconds=-total if sign == "-" else total)


def _has_form(value: Any, form: Any) -> bool:
    """Return whether a JSON-like value is the form of a value, and not of a similar one."""
    if value is form:
        return True
    try:
        return canonical(json_form(value)) == canonical(form)
    except (TypeError, ValueError):
        return False


def _convert_union(value: Any, choices: Any, path: str) -> Any:
    """Return the value as the first choice that it is the form of, else as the first that it fits."""
    if value is None and type(None) in choices:
        return None
    fitting: Any = _MISSING
    problems: list[Violation] = []
    wanted = [choice for choice in choices if choice is not type(None)]
    for choice in wanted:
        try:
            found = convert(value, choice, path)
        except DecodeError as error:
            problems += error.violations
            continue
        if len(wanted) == 1 or _has_form(found, value):
            return found
        if fitting is _MISSING:
            fitting = found
    if fitting is _MISSING:
        raise failure(problems[:VIOLATIONS_MAX])
    return fitting


def _convert_key(key: str, annotation: Any, path: str) -> Any:
    """Return a key as its type: of text itself, or of the JSON in it."""
    try:
        return convert(key, annotation, path)
    except DecodeError:
        try:
            return convert(json.loads(key), annotation, path)
        except (ValueError, RecursionError):
            raise misfit(key, annotation, path) from None


def _convert_mapping(value: Any, annotation: Any, kind: type[Any], path: str) -> Any:
    if not isinstance(value, dict):
        raise misfit(value, annotation, path)
    arguments = typing.get_args(annotation)
    keys, items = arguments if len(arguments) == 2 else (*arguments, Any, Any)[:2]
    if issubclass(kind, collections.Counter):
        items = int
    entries = cast("dict[str, Any]", value).items()
    if keys is str or keys is Any:
        made = {key: convert(item, items, f"{path}.{key}") for key, item in entries}
    else:
        made = {
            _convert_key(key, keys, f"{path}.{key}"): convert(item, items, f"{path}.{key}")
            for key, item in entries
        }
    if issubclass(kind, collections.defaultdict):
        factory = typing.get_origin(items) or items
        is_class = isinstance(factory, type) and factory is not Any
        return cast(Any, kind)(factory if is_class else None, made)
    return made if kind is dict else _made(kind, dict, made, path)


def _convert_tuple(value: Any, annotation: Any, kind: type[Any], path: str) -> Any:
    if not isinstance(value, list):
        raise misfit(value, annotation, path)
    given = cast("list[Any]", value)
    names: Any = getattr(kind, "_fields", None)
    arguments: Any = typing.get_args(annotation)
    if names is not None:
        hints = field_types(annotation, path)
        arguments = [hints.get(name, Any) for name in names[: len(given)]]
    elif not arguments or arguments[-1] is ...:
        arguments = [arguments[0] if arguments else Any] * len(given)
    if len(arguments) != len(given):
        raise misfit(given, annotation, path)
    items = [
        convert(item, hint, f"{path}[{n}]" if names is None else f"{path}.{names[n]}")
        for n, (item, hint) in enumerate(zip(given, arguments, strict=True))
    ]
    return kind(items) if names is None else _made(kind, None, items, path)


def _convert_items(value: Any, annotation: Any, kind: type[Any], path: str) -> Any:
    if not isinstance(value, list):
        raise misfit(value, annotation, path)
    hint = (*typing.get_args(annotation), Any)[0]
    listed = enumerate(cast("list[Any]", value))
    items = [convert(item, hint, f"{path}[{n}]") for n, item in listed]
    return (
        items if kind is list else _made(kind, set if issubclass(kind, Set) else list, items, path)
    )


def _made(kind: Any, instead: Any, parts: Any, path: str) -> Any:
    """Return an object made of its parts; a class without instances is replaced, and None stands for arguments."""
    try:
        if instead is None:
            return kind(**parts) if isinstance(parts, dict) else kind(*parts)
        return (instead if inspect.isabstract(kind) else kind)(parts)
    except Exception as error:  # A class may check its fields, and raise what it wants
        text = f"{name_of(kind)} refuses it: {type(error).__name__}: {error}"
        raise failure([Violation(path, text)]) from error


def _convert_typed_dict(value: Any, annotation: Any, kind: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise misfit(value, annotation, path)
    given = cast("dict[str, Any]", value)
    hints = field_types(annotation, path)
    missing = [
        Violation(f"{path}.{name}", "it is missing")
        for name in sorted(_required(kind) - given.keys())
    ]
    if missing:
        raise failure(missing[:VIOLATIONS_MAX])
    return {
        name: convert(one, hints.get(name, Any), f"{path}.{name}") for name, one in given.items()
    }


def _convert_dataclass(value: Any, annotation: Any, kind: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise misfit(value, annotation, path)
    given = cast("dict[str, Any]", value)
    hints = field_types(annotation, path)
    problems: list[Violation] = []
    made: dict[str, Any] = {}
    later: dict[str, Any] = {}
    fields = dataclasses.fields(kind)
    for field in fields:
        where = f"{path}.{field.name}"
        if field.name in given:
            try:
                found = convert(given[field.name], hints[field.name], where)
                (made if field.init else later)[field.name] = found
            except DecodeError as error:
                problems += error.violations or [Violation(where, error.message)]
        elif field.init and (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        ):
            problems.append(Violation(where, "it is missing"))
    problems += [
        Violation(f"{path}.{name}", f"{name_of(kind)} has no such field")
        for name in given.keys() - {field.name for field in fields}
    ]
    if problems:
        raise failure(problems[:VIOLATIONS_MAX])
    found = _made(kind, None, made, path)
    for name, one in later.items():
        object.__setattr__(found, name, one)  # A frozen class is no obstacle.
    return found


# The types of fields.


def field_types(annotation: Any, path: str = "$") -> Mapping[str, Any]:
    """Return the types of a class' fields, with the type arguments of a generic class in their places.

    Raises DecodeError if one names something that its module doesn't define at the top level.
    """
    try:
        return _field_types(annotation)
    except TypeError:  # A type argument without a hash.
        return _field_types.__wrapped__(annotation)
    except NameError as error:
        text = f"the types of its fields are not known here: {error}. Define them at the top of its module"
        raise failure([Violation(path, f"{name_of(annotation)}: {text}")]) from None


@lru_cache(1024)
def _field_types(annotation: Any) -> Mapping[str, Any]:
    bound = _bindings(annotation)
    hints = typing.get_type_hints(typing.get_origin(annotation) or annotation)
    return {name: _bind(hint, bound) for name, hint in hints.items()} if bound else hints


@lru_cache(1024)
def _required(kind: Any) -> frozenset[str]:
    """Return the keys that a TypedDict needs; `__required_keys__` has too many where annotations are text."""
    hints = typing.get_type_hints(kind, include_extras=True)
    optional = {n for n, hint in hints.items() if typing.get_origin(hint) is typing.NotRequired}
    return kind.__required_keys__ - optional


def _bindings(annotation: Any) -> dict[Any, Any]:
    """Return the type arguments of a generic class and of its bases, by type variable."""
    kind = typing.get_origin(annotation) or annotation
    bound = dict(
        zip(getattr(kind, "__parameters__", ()), typing.get_args(annotation), strict=False)
    )
    for base in getattr(kind, "__orig_bases__", ()):
        if dataclasses.is_dataclass(typing.get_origin(base)):
            bound |= {name: _bind(one, bound) for name, one in _bindings(base).items()}
    return bound


def _bind(hint: Any, bound: Mapping[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return bound.get(hint, hint)
    names = getattr(hint, "__parameters__", ())
    return hint[tuple(bound.get(name, name) for name in names)] if names else hint


# Annotations that no value comes back by.


def flaw(annotation: Any, path: str = "$", within: tuple[Any, ...] = ()) -> str | None:
    """Return the path and the reason why no value of an annotated type can come back, or None.

    None doesn't say that each value comes back; that is seen when there is one.
    """
    annotation = plain_annotation(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Union or origin is types.UnionType:
        found = [flaw(one, path, within) for one in arguments]
        return None if None in found else found[0]
    kind: Any = origin or annotation
    if not inspect.isclass(kind) or kind in (Any, object) or annotation in within:
        return None
    within = (*within, annotation)
    if is_pydantic(kind):
        for name, one in getattr(kind, "model_fields", {}).items():
            if one.exclude and one.is_required():
                return f"{path}.{name}: it has exclude=True, and is required"
        return None
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "_fields"):
        return _flaw_of_fields(annotation, kind, path, within)
    is_abstract = inspect.isabstract(kind) and not issubclass(kind, Iterator)
    if issubclass(kind, _CONTAINERS) or (is_abstract and issubclass(kind, Iterable)):
        return next(filter(None, (flaw(one, f"{path}[]", within) for one in arguments)), None)
    if is_abstract or issubclass(kind, _LEAVES) or getattr(cast(Any, kind), "_is_protocol", False):
        return None
    return f"{path}: a {name_of(annotation)} has no JSON form"


def _flaw_of_fields(annotation: Any, kind: Any, path: str, within: tuple[Any, ...]) -> str | None:
    try:
        hints = field_types(annotation, path)
    except DecodeError as error:
        return error.message
    names: Any = _required(kind) if typing.is_typeddict(kind) else hints
    if dataclasses.is_dataclass(kind):
        names = {field.name: field.init for field in dataclasses.fields(kind)}
        for one in inspect.signature(cast("type[Any]", kind)).parameters.values():
            is_needed = one.default is one.empty and "VAR" not in one.kind.name
            if is_needed and not names.get(one.name):
                return f"{path}.{one.name}: {name_of(kind)} needs it, and no field keeps it"
    found = (flaw(hint, f"{path}.{name}", within) for name, hint in hints.items() if name in names)
    return next(filter(None, found), None)

"""JSON schemas of agents: read without a network, and checked in a bounded number of steps.

The rules are jsonschema's. The steps of each keyword are counted, so that a schema whose references
double at every level ends as "too long". Keywords with patterns, and `uniqueItems`, are our own,
because jsonschema's have no bound.
"""

# ruff: noqa: ARG001 - the signature of a keyword is jsonschema's

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, cast

import jsonschema
import jsonschema.validators
import referencing
import referencing.exceptions
import referencing.jsonschema
from jsonschema.exceptions import ValidationError

from stepwell.schemas.effort import Effort
from stepwell.schemas.json_text import children
from stepwell.schemas.patterns import PatternError, check_pattern, matches

NODES_MAX = 2_000
"""The most values in a schema, each of which takes up to 0.3 ms to check against the rules of schemas."""
_MESSAGE_CHARS_MAX = 300
_LOCAL = ("$ref", "$dynamicRef", "$recursiveRef")

Keyword = Callable[[Any, Any, Any, Any], Any]

_EMPTY: Any = cast("Any", referencing).Registry()
"""Fetches nothing, so a reference to another document can't be resolved."""

_effort: ContextVar[Effort] = ContextVar("effort")


class SchemaError(ValueError):
    """The value is no schema, or not a supported one; the message says why."""


class Schema:
    """A valid and supported schema."""

    def __init__(self, value: Any, effort: Effort) -> None:
        """Check the schema itself.

        Raises:
            SchemaError: it is invalid or not supported.
            TooLong: the check takes more steps than are left.
        """
        if not isinstance(value, dict | bool):
            raise SchemaError("a schema is an object, true or false")
        plain = _RULES[_DEFAULT]
        if isinstance(value, dict):
            given = cast("dict[str, Any]", value)
            # Without `$schema`, nothing within can bring in rules whose steps aren't counted.
            value = {key: one for key, one in given.items() if key != "$schema"}
            plain = _rules_of(given.get("$schema", _DEFAULT))
        self._names: set[str] = set()
        self._targets: set[str] = set()
        self._survey(value, effort)
        for error in _own_rules(plain).iter_errors(value):
            raise SchemaError(_message_of(error, path_of("", error.absolute_path)))
        self._rules: Any = _counted_rules(plain)(value, registry=_EMPTY)
        self._check_targets(value, plain)
        self.faults(None, effort, 1)  # Any value reveals circular references.

    def _survey(self, schema: Any, effort: Effort) -> None:
        """Refuse schemas that can't be checked in bounded time."""
        names = self._names
        level, count = [schema], 0
        while level:
            count += len(level)
            effort.spend(10 * len(level))
            if count > NODES_MAX:
                raise SchemaError(f"a schema holds at most {NODES_MAX:,} values")
            for one in level:
                if isinstance(one, dict):
                    self._survey_object(cast("dict[str, Any]", one), effort)
            level = [inner for one in level for inner in children(one)]
        if "patternProperties" in names and "unevaluatedProperties" in names:
            raise SchemaError("patternProperties and unevaluatedProperties are not taken together")

    def _survey_object(self, one: dict[str, Any], effort: Effort) -> None:
        self._names.update(one)
        for name in _LOCAL:
            target = one.get(name)
            if isinstance(target, str) and not target.startswith("#"):
                raise SchemaError(
                    f"{name} {target[:80]!r} leads elsewhere; only references within the schema"
                    " (#/$defs/…) are followed"
                )
            if isinstance(target, str) and name == "$ref":
                self._targets.add(target)
        if isinstance(one.get("$schema"), str):
            raise SchemaError("$schema stands at the top of a schema and nowhere within")
        patterns = one.get("patternProperties")
        sources = list(cast("dict[str, Any]", patterns)) if isinstance(patterns, dict) else []
        if isinstance(one.get("pattern"), str):
            sources.append(one["pattern"])
        for source in sources:
            try:
                check_pattern(source, effort)
            except PatternError as error:
                raise SchemaError(str(error)) from None

    def _check_targets(self, schema: Any, plain: Any) -> None:
        """Refuse references without a target, as far as they can be resolved without a value."""
        if not self._targets or "$id" in self._names or "id" in self._names:
            return
        dialect: Any = referencing.jsonschema.specification_with(_uri_of(plain))
        resolver: Any = _EMPTY.resolver_with_root(dialect.create_resource(schema))
        for target in sorted(self._targets):
            try:
                resolver.lookup(target)
            except (referencing.exceptions.Unresolvable, ValueError, TypeError):
                raise SchemaError(f"$ref {target[:80]!r} leads to nothing in it") from None

    def faults(self, value: Any, effort: Effort, most: int) -> list[tuple[Sequence[Any], str]]:
        """Return at most `most` faults of a value, each as a path and a message.

        Raises:
            TooLong: the check takes more steps than are left.
            SchemaError: a reference of the schema has no target, or is circular.
        """
        token = _effort.set(effort)
        faults: list[tuple[Sequence[Any], str]] = []
        try:
            for error in self._rules.iter_errors(value):
                faults.append((tuple(error.absolute_path), _message_of(error)))
                if len(faults) >= most:
                    break
        except RecursionError:
            raise SchemaError("its references go in circles") from None
        except referencing.exceptions.Unresolvable as error:
            raise SchemaError(f"it refers to {error.ref!r}, which is not in it") from None
        finally:
            _effort.reset(token)
        return faults


def path_of(start: str, parts: Sequence[Any]) -> str:
    """Return a path as text: `items[0].name`."""
    path = start
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier():
            path += f".{part}" if path else part
        else:
            path += f"[{part[:80]!r}]"
    return path


def _message_of(error: Any, path: str = "") -> str:
    message: str = error.message
    if len(message) > _MESSAGE_CHARS_MAX:
        message = message[: _MESSAGE_CHARS_MAX - 1] + "…"
    return f"at {path}: {message}" if path else message


# --- the rules ---------------------------------------------------------------------------------------


def _rules_of(uri: Any) -> Any:
    plain = _RULES.get(uri.rstrip("#")) if isinstance(uri, str) else None
    if plain is None:
        raise SchemaError(f"$schema {str(uri)[:80]!r} is none of {', '.join(_RULES)}")
    return plain


def _uri_of(plain: Any) -> str:
    return next(uri for uri, rules in _RULES.items() if rules is plain)


def _own_rules(plain: Any) -> Any:
    """Return the rules that a schema itself must obey."""
    return plain(plain.META_SCHEMA, registry=_EMPTY)


def _counted_rules(plain: Any) -> Any:
    """Return the rules with their steps counted."""
    counted = _made.get(plain)
    if counted is None:
        keywords: dict[str, Keyword] = {**plain.VALIDATORS}
        keywords.update({name: own for name, own in _OWN.items() if name in keywords})
        extend: Any = cast("Any", jsonschema.validators).extend
        counted = _made[plain] = extend(
            plain, {name: _counted(keyword) for name, keyword in keywords.items()}
        )
    return counted


def _counted(keyword: Keyword) -> Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        effort = _effort.get()
        effort.spend(1 + _size(value) + _size(instance) // 8)
        for error in keyword(validator, value, instance, schema) or ():
            effort.spend(1 + len(error.message) // 200)
            yield error

    return check


def _size(value: Any) -> int:
    return len(cast("list[Any]", value)) if isinstance(value, list | dict) else 0


def _pattern(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not matches(value, instance, _effort.get()):
        yield ValidationError(f"it does not match {value!r}")


def _pattern_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for source, inner in value.items():
        for name, one in instance.items():
            if matches(source, name, _effort.get()):
                yield from validator.descend(one, inner, path=name, schema_path=source)


def _additional_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    named = schema.get("properties", {})
    sources = schema.get("patternProperties", {})
    for name, one in instance.items():
        if name in named or any(matches(source, name, _effort.get()) for source in sources):
            continue
        if validator.is_type(value, "object"):
            yield from validator.descend(one, value, path=name)
        elif not value:
            yield ValidationError("there is no such property", path=(name,))


def _unique_items(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not value or not validator.is_type(instance, "array"):
        return
    seen: set[Any] = set()
    for index, one in enumerate(instance):
        frozen = _frozen(one)
        if frozen in seen:
            yield ValidationError("it is there before; all are to differ", path=(index,))
            return
        seen.add(frozen)


def _frozen(value: Any) -> Any:
    """Return a hashable value, equal for values that JSON considers equal."""
    _effort.get().spend()
    if isinstance(value, bool) or value is None:
        return ("constant", value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return ("object", frozenset((key, _frozen(one)) for key, one in items))
    if isinstance(value, list):
        return ("array", tuple(_frozen(one) for one in cast("list[Any]", value)))
    return value


_OWN: dict[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
_DEFAULT = "https://json-schema.org/draft/2020-12/schema"
_RULES: dict[str, Any] = {
    _DEFAULT: jsonschema.Draft202012Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "http://json-schema.org/draft-07/schema": jsonschema.Draft7Validator,
    "http://json-schema.org/draft-06/schema": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-04/schema": jsonschema.Draft4Validator,
}
_made: dict[Any, Any] = {}

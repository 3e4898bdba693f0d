"""JSON schemas of strangers: read without a network, and checked in a bounded number of steps.

The rules are jsonschema's. Around each keyword the steps are counted, so that a schema whose references
double at every level ends as "too long". Keywords with patterns, and `uniqueItems`, are our own: theirs
can take any time.
"""

# ruff: noqa: ARG001 - the shape of a keyword is jsonschema's

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
from stepwell.schemas.patterns import Pattern, PatternError

NODES_MAX = 2_000
"""Values in a schema. To check one against its own rules takes up to 0.3 ms for each."""
_MESSAGE_CHARS_MAX = 300
_LOCAL = ("$ref", "$dynamicRef", "$recursiveRef")

Keyword = Callable[[Any, Any, Any, Any], Any]

_EMPTY: Any = cast("Any", referencing).Registry()
"""Fetches nothing: a reference to elsewhere can't be resolved."""

_effort: ContextVar[Effort] = ContextVar("effort")


class SchemaError(ValueError):
    """It is no schema, or none that is taken here; the message says why."""


class Schema:
    """A schema that was looked at."""

    def __init__(self, value: Any, effort: Effort) -> None:
        """Look at it.

        Raises:
            SchemaError: it is none that is taken here.
            TooLong: that takes more steps than are left.
        """
        if not isinstance(value, dict | bool):
            raise SchemaError("a schema is an object, true or false")
        plain = _RULES[_DEFAULT]
        if isinstance(value, dict):
            given = cast("dict[str, Any]", value)
            # Without it, nothing within can bring in rules that aren't guarded.
            value = {key: one for key, one in given.items() if key != "$schema"}
            plain = _rules_of(given.get("$schema", _DEFAULT))
        self._words: set[str] = set()
        self._targets: set[str] = set()
        self._survey(value, effort)
        for error in _own_rules(plain).iter_errors(value):
            raise SchemaError(_words(error, _path("", error.absolute_path)))
        self._rules: Any = _guarded(plain)(value, registry=_EMPTY)
        self._follow(value, plain)
        self.faults(None, effort, 1)  # References in circles are seen with any value.

    def _survey(self, schema: Any, effort: Effort) -> None:
        """Refuse what can't be followed, or not in bounded time."""
        words = self._words
        level, count = [schema], 0
        while level:
            count += len(level)
            effort.spend(10 * len(level))
            if count > NODES_MAX:
                raise SchemaError(f"a schema holds at most {NODES_MAX:,} values")
            for one in level:
                if isinstance(one, dict):
                    self._survey_object(cast("dict[str, Any]", one))
            level = [inner for one in level for inner in children(one)]
        if "patternProperties" in words and "unevaluatedProperties" in words:
            raise SchemaError("patternProperties and unevaluatedProperties are not taken together")

    def _survey_object(self, one: dict[str, Any]) -> None:
        self._words.update(one)
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
        names = list(cast("dict[str, Any]", patterns)) if isinstance(patterns, dict) else []
        if isinstance(one.get("pattern"), str):
            names.append(one["pattern"])
        for name in names:
            try:
                _pattern(name)
            except PatternError as error:
                raise SchemaError(str(error)) from None

    def _follow(self, schema: Any, plain: Any) -> None:
        """Refuse references to what isn't there, as far as that can be told without a value."""
        if not self._targets or "$id" in self._words or "id" in self._words:
            return
        dialect: Any = referencing.jsonschema.specification_with(_uri_of(plain))
        resolver: Any = _EMPTY.resolver_with_root(dialect.create_resource(schema))
        for target in sorted(self._targets):
            try:
                resolver.lookup(target)
            except (referencing.exceptions.Unresolvable, ValueError, TypeError):
                raise SchemaError(f"$ref {target[:80]!r} leads to nothing in it") from None

    def faults(self, value: Any, effort: Effort, most: int) -> list[tuple[Sequence[Any], str]]:
        """Return what is wrong with a value, at most so much of it: path and words.

        Raises:
            TooLong: that takes more steps than are left.
            SchemaError: a reference of the schema leads nowhere, or in circles.
        """
        token = _effort.set(effort)
        found: list[tuple[Sequence[Any], str]] = []
        try:
            for error in self._rules.iter_errors(value):
                found.append((tuple(error.absolute_path), _words(error)))
                if len(found) >= most:
                    break
        except RecursionError:
            raise SchemaError("its references go in circles") from None
        except referencing.exceptions.Unresolvable as error:
            raise SchemaError(f"it refers to {error.ref!r}, which is not in it") from None
        finally:
            _effort.reset(token)
        return found


def _words(error: Any, where: str = "") -> str:
    said: str = error.message
    said = said if len(said) <= _MESSAGE_CHARS_MAX else said[: _MESSAGE_CHARS_MAX - 1] + "…"
    return f"at {where}: {said}" if where else said


def _path(start: str, parts: Sequence[Any]) -> str:
    """Return a path in words: `items[0].name`."""
    path = start
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier():
            path += f".{part}" if path else part
        else:
            path += f"[{part[:80]!r}]"
    return path


path_of = _path


# --- the rules ---------------------------------------------------------------------------------------


def _rules_of(uri: Any) -> Any:
    plain = _RULES.get(uri.rstrip("#")) if isinstance(uri, str) else None
    if plain is None:
        raise SchemaError(f"$schema {str(uri)[:80]!r} is none of {', '.join(_RULES)}")
    return plain


def _uri_of(plain: Any) -> str:
    return next(uri for uri, rules in _RULES.items() if rules is plain)


def _own_rules(plain: Any) -> Any:
    """Return what a schema of these rules is checked against."""
    return plain(plain.META_SCHEMA, registry=_EMPTY)


def _guarded(plain: Any) -> Any:
    """Return the rules with their steps counted."""
    found = _made.get(plain)
    if found is None:
        keywords: dict[str, Keyword] = {**plain.VALIDATORS}
        keywords.update({name: own for name, own in _OWN.items() if name in keywords})
        counted = {name: _counted(keyword) for name, keyword in keywords.items()}
        extend: Any = cast("Any", jsonschema.validators).extend
        found = _made[plain] = extend(plain, counted)
    return found


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


def _pattern(source: str) -> Pattern:
    found = _patterns.get(source)
    if found is None:
        if len(_patterns) >= _PATTERNS_KEPT_MAX:
            _patterns.clear()
        found = _patterns[source] = Pattern(source)
    return found


def _matches(source: str, text: str) -> bool:
    return _pattern(source).is_in(text, _effort.get())


def _pattern_keyword(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _matches(value, instance):
        yield ValidationError(f"it does not match {value!r}")


def _pattern_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for source, inner in value.items():
        for name, one in instance.items():
            if _matches(source, name):
                yield from validator.descend(one, inner, path=name, schema_path=source)


def _additional_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    named = schema.get("properties", {})
    sources = schema.get("patternProperties", {})
    for name, one in instance.items():
        if name in named or any(_matches(source, name) for source in sources):
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
    """Return the value as one that equals what JSON calls equal, and can be hashed."""
    _effort.get().spend()
    if isinstance(value, bool) or value is None:
        return ("word", value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return ("object", frozenset((key, _frozen(one)) for key, one in items))
    if isinstance(value, list):
        return ("array", tuple(_frozen(one) for one in cast("list[Any]", value)))
    return value


_OWN: dict[str, Keyword] = {
    "pattern": _pattern_keyword,
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
_patterns: dict[str, Pattern] = {}
_PATTERNS_KEPT_MAX = 256

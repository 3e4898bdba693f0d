"""Keys of the calls within a step: the same in each of its attempts, and different for different calls.

    search/9f3c5ab27d0e1f46#2        the second call `search` with these arguments
    charge-17                        a call with a key of its own
    reader/search/…                  a call in the scope `reader`
    search/9f3c5ab27d0e1f46#2/…      a call made by the function of another call
    charge-17#/…                     the same, where that call has a key of its own

Names and keys of users are escaped, so that none of them can be taken for another form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any, cast

from stepwell_client.errors import JournalError
from stepwell_client.records.clean_text import storable
from stepwell_client.records.json_forms import shallow_form
from stepwell_client.records.pydantic_types import dump, is_pydantic

KEY_CHARS_MAX = 512
NAME_CHARS_MAX = 128
_DIGEST_DIGITS = 16


def _stable_form(value: Any) -> Any:
    """Return a JSON-like form of a value that the encoder doesn't know, with secrets as they are."""
    secret = getattr(value, "get_secret_value", None)
    if callable(secret):
        return secret()
    if is_pydantic(type(value)):
        fields = dump(value, json=False, by_alias=True)
        return json.loads(dump(value, json=True, by_alias=True)) if fields is value else fields
    if isinstance(value, Set):
        return sorted(
            json.loads(_encoder.encode(list(cast("Set[Any]", value)))), key=_encoder.encode
        )
    return shallow_form(value)


def in_order(value: Any, form: Any) -> Any:
    """Return the JSON-like form of a value with its sets sorted, because their order differs in each process."""
    if getattr(type(cast(object, value)), "__pydantic_root_model__", False):
        value = value.root
    if isinstance(form, list):
        items = cast("list[Any]", form)
        if isinstance(value, list | tuple | set | frozenset):
            given = cast("Collection[Any]", value)
            if len(given) == len(items):
                items = list(map(in_order, given, items))
        return sorted(items, key=_encoder.encode) if isinstance(value, set | frozenset) else items
    if isinstance(form, dict):
        fields = cast("dict[str, Any]", form)
        values = _values_of(value, fields)
        return {name: in_order(values.get(name), one) for name, one in fields.items()}
    return form


def _values_of(value: Any, form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values that a form's names stand for, of a mapping, a model or a dataclass."""
    if isinstance(value, Mapping):
        given = cast("Mapping[object, Any]", value)
        return dict(zip(form, given.values(), strict=True)) if len(given) == len(form) else {}
    aliases: dict[str, str] = {}
    for name, field in getattr(type(cast(object, value)), "model_fields", {}).items():
        aliases[field.serialization_alias or name] = name
    return {name: getattr(value, aliases.get(name, name), None) for name in form}


_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_stable_form)


def digest_of(*parts: object) -> str:
    """Return a digest of JSON-like values that doesn't depend on the order of keys or sets.

    Raises TypeError or ValueError if one has no JSON form.
    """
    data = _encoder.encode(parts).encode()
    return hashlib.sha256(data).hexdigest()[:_DIGEST_DIGITS]


def arguments_digest(arguments: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Return the digest of a call's arguments; empty if they have no JSON form."""
    try:
        return digest_of(arguments, named)
    except (TypeError, ValueError, RecursionError):
        return ""


def escaped(text: str) -> str:
    """Return a user's name or key as a part of a key, with the special characters escaped."""
    if not text.isprintable():
        text = storable(text)
    if "/" in text or "#" in text or "%" in text:
        return text.replace("%", "%25").replace("/", "%2F").replace("#", "%23")
    return text


def scope_prefix(prefix: str, name: str) -> str:
    """Return the prefix of the keys within a scope."""
    return f"{prefix}{_named('scope', name)}/"


def inner_prefix(key: str, *, own_key: bool) -> str:
    """Return the prefix of the keys of calls that a call's function makes; `own_key`: the call was given its key."""
    return f"{key}#/" if own_key else f"{key}/"


def counted_key(
    prefix: str, name: str, digest: str, counts: dict[str, int], free: list[str]
) -> str:
    """Return the key of the next call of this name and these arguments: a free key, or the next number."""
    base = _counted_base(prefix, name, digest)
    for key in free:
        if key.rpartition("#")[0] + "#" == base:
            free.remove(key)
            return key
    number = counts[base] = counts.get(base, 0) + 1
    return _fitting(f"{base}{number}")


def newest_key(prefix: str, name: str, digest: str, counts: dict[str, int]) -> str:
    """Return the key of the newest call of this name and these arguments; empty if there was none."""
    base = _counted_base(prefix, name, digest)
    return f"{base}{counts[base]}" if base in counts else ""


def _counted_base(prefix: str, name: str, digest: str) -> str:
    return f"{prefix}{_named('call', name)}/{digest}#"


def own_key(prefix: str, key: str) -> str:
    """Return the key of a call that was given one."""
    if not key:
        raise JournalError("key= is empty")
    return _fitting(f"{prefix}{escaped(key)}")


def _named(what: str, name: str) -> str:
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        raise JournalError(
            f"the name of a {what} has 1 to {NAME_CHARS_MAX} characters, not {len(name)}"
        )
    return escaped(name)


def _fitting(key: str) -> str:
    if len(key) > KEY_CHARS_MAX:
        raise JournalError(
            f"the call's key has {len(key):,} characters; {KEY_CHARS_MAX} is the most: "
            f"use shorter names, or fewer calls within calls: {key[:100]}…"
        )
    return key

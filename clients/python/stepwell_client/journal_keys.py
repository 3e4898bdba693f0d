"""Keys of the calls within a step: the same in each of its attempts, and different for different calls.

    search/9f3c5ab27d0e1f46#2        the second call `search` with these arguments
    charge-17                        a call with a key of its own
    reader/search/…                  a call in the scope `reader`
    search/9f3c5ab27d0e1f46#2/…      a call made by the function of another call
    charge-17#/…                     the same, where that call has a key of its own

Names and keys of users are escaped, so that none of them can look like a part of another form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from stepwell_client._errors import JournalError
from stepwell_client._payloads import default_form
from stepwell_client._texts import storable

KEY_CHARS_MAX = 512
NAME_CHARS_MAX = 128
_DIGEST_DIGITS = 16

_encoder = json.JSONEncoder(
    sort_keys=True, allow_nan=False, separators=(",", ":"), default=default_form
)


def digest_of(*parts: object) -> str:
    """Return a digest of JSON-like values, which doesn't depend on the order of their keys.

    Raises TypeError or ValueError where one has no JSON form.
    """
    data = _encoder.encode(parts).encode()
    return hashlib.sha256(data).hexdigest()[:_DIGEST_DIGITS]


def arguments_digest(arguments: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Return the digest of a call's arguments; empty: they have no JSON form."""
    try:
        return digest_of(arguments, named)
    except (TypeError, ValueError, RecursionError):
        return ""


def escaped(text: str) -> str:
    """Return a user's name or key as a part of a key: without the characters that have a meaning there."""
    if not text.isprintable():
        text = storable(text)
    if "/" in text or "#" in text or "%" in text:
        return text.replace("%", "%25").replace("/", "%2F").replace("#", "%23")
    return text


def scope_prefix(prefix: str, name: str) -> str:
    """Return the beginning of the keys within a scope."""
    return f"{prefix}{_named('scope', name)}/"


def inner_prefix(key: str, *, own_key: bool) -> str:
    """Return the beginning of the keys of calls that a call's function makes. `own_key`: the call was given its key."""
    return f"{key}#/" if own_key else f"{key}/"


def counted_key(prefix: str, name: str, digest: str, counts: dict[str, int]) -> str:
    """Return the key of the next call of this name and these arguments, and count it."""
    base = f"{prefix}{_named('call', name)}/{digest}#"
    number = counts[base] = counts.get(base, 0) + 1
    return _fitting(f"{base}{number}")


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

"""Opaque tokens: a store's cursor, prefixed by a hash of the cursor and its query.

Tokens hold no secret; the hash proves that a token was issued for this query of this tenant.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

_HASH_BYTES = 12


def seal(cursor: str, *query: str | bytes) -> str:
    """Return the token of a cursor; "" for an empty cursor."""
    if not cursor:
        return ""
    digest = hashlib.sha256()
    for part in (*query, cursor):
        raw = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(raw) + raw)
    raw = digest.digest()[:_HASH_BYTES] + cursor.encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def unseal(token: str, *query: str | bytes) -> str | None:
    """Return the cursor of a token, or None if it was not issued for this query."""
    if not token:
        return ""
    try:
        raw = base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))
        cursor = raw[_HASH_BYTES:].decode()
    except (binascii.Error, UnicodeError, ValueError):
        return None
    # Sealed again, because another spelling of the same bytes was not issued either.
    return cursor if seal(cursor, *query) == token else None

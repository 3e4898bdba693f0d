"""Tokens of questions: whoever has one may answer its question, once, without a credential.

A token is `stwa_` and, in URL-safe base64, the tenant, the run, and 160 random bits. Tenant and run
are there because a store finds a run by these two alone. They are not sealed, because replicas
share no secret to seal them with: whoever gets a token can read the names of the tenant and the
run, and nothing else. The question's id is made from the token's hash, so a store finds the
question by it and holds no token among its questions.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from typing import NamedTuple

TOKEN_CHARS_MAX = 256
TOKEN_PREFIX = "stwa_"  # noqa: S105 - what tokens begin with, not a token
SECRET_MEDIA_TYPE = "application/x-stepwell-secret"  # noqa: S105 - a type, not a secret
"""The type of a journal's value that is for the step alone: ListJournal leaves its bytes out."""
_SECRET_BYTES = 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
_END = b"\0"
"""Ends a name; no name has it."""


class AnswerPlace(NamedTuple):
    """The place of a token's question."""

    tenant_id: str
    run_id: str
    token_sha256: str
    """The token's hash, as `NeedsAnswer.token_sha256` has it."""


def new_answer_token(tenant_id: str, run_id: str, new_id: Callable[[], str]) -> str:
    """Return a new token for a question of this run; `new_id` is the runtime's."""
    # A UUID has 122 random bits; two have more than the token keeps.
    drawn = hashlib.sha256(f"{new_id()}{new_id()}".encode()).digest()
    raw = _END.join((tenant_id.encode(), run_id.encode(), drawn[:_SECRET_BYTES]))
    return TOKEN_PREFIX + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def sha256_of(token: str) -> str:
    """Return a token's hash, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def answer_place(token: str) -> AnswerPlace | None:
    """Return the place of a token's question, or None if it can't be a token."""
    if not token.startswith(TOKEN_PREFIX) or len(token) > TOKEN_CHARS_MAX:
        return None
    text = token.removeprefix(TOKEN_PREFIX)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        tenant_id, run_id, secret = raw.split(_END, 2)
        place = AnswerPlace(tenant_id.decode("ascii"), run_id.decode("ascii"), sha256_of(token))
    except (binascii.Error, ValueError):
        return None
    is_named = _NAME.fullmatch(place.tenant_id) and _NAME.fullmatch(place.run_id)
    return place if is_named and len(secret) == _SECRET_BYTES else None
